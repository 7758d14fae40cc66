"""Numbers, settings and counts as tables, captions and axes have them."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from recurra.learners import LEARNERS
from recurra.studies.choices import Value

#: settings whose names in a file do not say enough at an axis
NAMES = {
    "learning_rate": "learning rate",
    "alpha": "inverse time constant α",
    "n": "units",
    "task.t1": "first lag t1",
    "task.t2": "second lag t2",
    "w_rec": "recurrent weights",
    "task.stretch": "steps that each input lasts",
    "window": "steps in a window",
}
NONE = "–"


def setting(name: str) -> str:
    """A setting's name at an axis or in a heading."""
    if name.startswith("learner.") and name.count(".") >= 2:
        _, learner, own = name.split(".", 2)
        return f"{own.replace('_', ' ')} of {shown('learner', learner)}"
    *outer, last = name.split(".")
    of = f" of the {outer[-1]}" if outer and not outer[-1].isdigit() else f" of layer {outer[-1]}" if outer else ""
    return NAMES.get(name, last.replace("_", " ") + of)


def sign(name: str) -> str:
    """A setting's name where there is little room."""
    return "α" if name == "alpha" else NAMES.get(name, short(name).replace("_", " "))


def heading(name: str) -> str:
    """A setting's name over a column."""
    text = setting(name)
    return text[:1].upper() + text[1:]


def short(name: str) -> str:
    """A setting's name beside its value, as the study's file has it: there the learner is known."""
    return name.split(".", 2)[2] if name.startswith("learner.") and name.count(".") >= 2 else name


def shown(name: str, value: Value) -> str:
    """A setting's value."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return number(value)
    if name == "learner":
        return LEARNERS[value].about.name if value in LEARNERS else value
    return value.capitalize() if name == "task" else value


def settings(values: Mapping[str, Value]) -> str:
    """Settings and their values in one line."""
    return ", ".join(f"{short(name)} = {shown(name, value)}" for name, value in values.items()) or NONE


def case(values: Mapping[str, Value]) -> str:
    """A case in words: `RFLO, Add, n = 32`. Names of settings are left out where the value says it all."""
    return ", ".join(named(name, value) for name, value in values.items())


def named(name: str, value: Value) -> str:
    """A setting and its value; the value alone where that says it all."""
    says_all = isinstance(value, str) and value not in ("true", "false")
    return shown(name, value) if says_all else f"{short(name)} = {shown(name, value)}"


def number(value: int | float | None, digits: int = 4) -> str:
    """A number with so many digits, whole numbers with all of theirs."""
    if value is None or math.isnan(value):
        return NONE
    if (float(value).is_integer() and abs(value) < 1e9) or 1e3 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def with_error(mean: float | None, error: float | None) -> str:
    """A mean and its standard error, both to the error's second digit."""
    if mean is None or math.isnan(mean) or error is None or math.isnan(error):
        return number(mean)
    if not 1e-4 <= abs(mean) < 1e6 or not 0 < error < 1e5:
        return f"{number(mean)} ± {number(error, 2)}"
    places = min(max(1 - math.floor(math.log10(error)), 0), 8)
    return f"{mean:,.{places}f} ± {error:,.{places}f}"


def alike_digits(value: float, error: float) -> str:
    """A number with the decimals that `with_error` gives to one of this error."""
    return with_error(value, error).split(" ± ")[0]


def count(how_many: int, of_what: str, plural: str | None = None) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{how_many:,} {of_what if how_many == 1 else plural or of_what + 's'}"


def listed(items: Sequence[str], most: int = 8) -> str:
    """`a, b and c`; beyond so many the rest is counted."""
    if len(items) > most:
        items = [*items[:most], f"{len(items) - most:,} more"]
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def numbers(values: Iterable[int], most: int = 10) -> str:
    """Whole numbers in one line; runs of them as `0–7`."""
    # Within a run the difference between a number and its place is the same.
    placed = itertools.groupby(enumerate(sorted(values)), lambda each: each[1] - each[0])
    runs = [[value for _, value in run] for _, run in placed]
    parts = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(parts[:most]) + (f" and {sum(map(len, runs[most:])):,} more" if len(parts) > most else "")

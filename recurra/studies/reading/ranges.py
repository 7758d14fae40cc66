"""One entry of [vary], checked: a list, spaced values or a random choice."""

from typing import Any

from recurra.studies.choices import Choices, Listed, Spaced, Uniform, Value, Varied
from recurra.studies.reading.names import Named
from recurra.studies.reading.problems import Problems
from recurra.studies.reading.toml_lines import Path
from recurra.studies.settings import options

#: what a table says how a setting varies with: what it must have, and what it may have
FORMS = {
    "from": ("from", "to", "count", "log"),
    "uniform": ("uniform",),
    "log_uniform": ("log_uniform",),
    "choices": ("choices",),
}
#: networks of one study, and so values of one setting
MOST = 10**7


def read_entry(setting: Named, value: Any, path: Path, problems: Problems) -> Varied | None:
    """How the setting varies; None where that is a problem."""
    if isinstance(value, list):
        values = read_list(setting, value, path, problems)
        return Listed(values) if values else None
    if isinstance(value, dict):
        return _read_table(setting, value, path, problems)
    kept = f"to keep it the same everywhere, write `{setting.name} = …` at the top of the file, above any [table]"
    if setting.name.startswith("learner."):
        kept = f"to keep it the same everywhere, write it under [{setting.name.rpartition('.')[0]}]"
    problems.add(path, f"`{setting.name}` is {value!r}, and does not vary: write a list of values, or {kept}.")
    return None


def read_list(setting: Named, values: list[Any], path: Path, problems: Problems) -> tuple[Value, ...]:
    """The values of a list, all different and each one that the setting may have; none where there is a problem."""
    if not values:
        problems.add(path, f"`{setting.name}` has an empty list: give at least one value.")
    found: dict[Value, int] = {}
    before = len(problems)
    for place, given in enumerate(values):
        where = (*path, place)
        try:
            value = setting.check(given)
        except ValueError as error:
            problems.add(where, str(error))
            continue
        if value in found:
            problems.add(where, f"`{setting.name}` has {given!r} twice: leave one of them out.")
        found[value] = place
    return tuple(found) if len(problems) == before else ()


def _read_table(setting: Named, table: dict[str, Any], path: Path, problems: Problems) -> Varied | None:
    name = setting.name
    known = dict.fromkeys(key for keys in FORMS.values() for key in keys)
    before = len(problems)
    for key in table:
        if key not in known:
            problems.add((*path, key), f"`{key}` says nothing of how `{name}` varies: {options(key, known)}")
    if len(problems) > before:
        return None
    forms = list(dict.fromkeys(form for form, keys in FORMS.items() for key in table if key in keys))
    if table.keys() == {"uniform", "log"}:
        problems.add(path, f"`{name}` has both `uniform` and `log`: write `log_uniform` for a logarithmic range.")
        return None
    if len(forms) != 1:
        seen = f"`{'` and `'.join(table)}` are several" if forms else "the table is empty"
        problems.add(
            path,
            f"`{name}` can vary in one way only, and {seen}: give a list, from, to and count, or one of uniform, "
            "log_uniform and choices.",
        )
        return None
    form = forms[0]
    if form == "choices":
        return _read_choices(setting, table["choices"], (*path, "choices"), problems)
    if setting.kind != "number":
        instead = "a list of values" if form == "from" else "{ choices = [...] }"
        problems.add(path, f"`{name}` is no number, so there is nothing between two values: write {instead}.")
        return None
    return (
        _read_spaced(setting, table, path, problems)
        if form == "from"
        else _read_random(setting, table[form], form == "log_uniform", (*path, form), problems)
    )


def _read_choices(setting: Named, values: Any, path: Path, problems: Problems) -> Choices | None:
    if not isinstance(values, list):
        problems.add(path, f"`choices` of `{setting.name}` must be a list of values, and is {values!r}.")
        return None
    found = read_list(setting, values, path, problems)
    return Choices(found) if found else None


def _read_random(setting: Named, ends: Any, log: bool, path: Path, problems: Problems) -> Uniform | None:
    if not isinstance(ends, list) or len(ends) != 2:
        problems.add(path, f"`{path[-1]}` of `{setting.name}` must be the two ends of a range, and is {ends!r}.")
        return None
    low, high = (_end(setting, end, (*path, place), problems) for place, end in enumerate(ends))
    if low is None or high is None or not _in_order(setting, low, high, log, path, problems):
        return None
    return Uniform(low, high, log, setting.whole)


def _read_spaced(setting: Named, table: dict[str, Any], path: Path, problems: Problems) -> Spaced | None:
    name, before = setting.name, len(problems)
    missing = [key for key in ("from", "to", "count") if key not in table]
    if missing:
        problems.add(path, f"`{name}` has no `{'` and no `'.join(missing)}`: a range has from, to and count.")
    count, log = table.get("count", 2), table.get("log", False)
    if type(count) is not int or not 1 <= count <= MOST:
        problems.add((*path, "count"), f"`count` of `{name}` must be a whole number in 1..{MOST:,}, and is {count!r}.")
    if type(log) is not bool:
        problems.add((*path, "log"), f"`log` of `{name}` must be true or false, and is {log!r}.")
    low, high = (_end(setting, table[key], (*path, key), problems) if key in table else None for key in ("from", "to"))
    if len(problems) > before or low is None or high is None:
        return None
    if count == 1 and low != high:
        problems.add(
            (*path, "count"),
            f"`count` of `{name}` is 1, and a range from {low} to {high} has at least its two ends: count from 2, or "
            f"give a list, [{low}].",
        )
        return None
    if not _in_order(setting, low, high, log, path, problems, single=count == 1):
        return None
    return Spaced(low, high, count, log, setting.whole)


def _end(setting: Named, value: Any, path: Path, problems: Problems) -> int | float | None:
    """One end of a range of numbers."""
    try:
        return setting.check(value)
    except ValueError as error:
        problems.add(path, str(error))
        return None


def _in_order(
    setting: Named,
    low: int | float,
    high: int | float,
    log: bool,
    path: Path,
    problems: Problems,
    single: bool = False,
) -> bool:
    """Whether there is something between the ends, and logarithms of all of it."""
    name = setting.name
    if low > high:
        problems.add(path, f"`{name}` has a range upside down, from {low} to {high}: write {high} first.")
    elif low == high and not single:
        problems.add(path, f"`{name}` has a range of no length, from {low} to {high}: give a list, [{low}].")
    elif log and low <= 0:
        problems.add(path, f"`{name}` has a logarithmic range from {low}: it must start above 0.")
    else:
        return True
    return False

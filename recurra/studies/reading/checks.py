"""Whether what a study's file says goes together, found before it runs.

Nothing may be set twice or in vain, and there must not be too many networks. What constructors refuse is found by
building some of the networks, which are thrown away: constructors refuse values that are out of a range, and pairs of
values that do not go together. So every text and flag and the ends of every range of numbers are built, alone and in
pairs, and nothing between.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from recurra.studies.choices import Choices, Combinations, ListedValues, Point, Spaced, Together, Uniform, Value, Varied
from recurra.studies.effects import decides, in_vain
from recurra.studies.reading.lines import Path
from recurra.studies.reading.problems import Problems, named_in
from recurra.studies.reading.tables import MOST
from recurra.studies.settings import SettingsError

if TYPE_CHECKING:
    from recurra.studies.study import Study

#: networks that are built, each in about a millisecond, and points of [[points]] that are tried in pairs
MOST_BUILT, MOST_ROWS = 2000, 8
#: combinations that are looked at for why a setting has no effect
MOST_TRIED = 1000
#: different complaints, after which no more are sought
ENOUGH = 5

#: what varies on its own: settings by name, and all of [[points]] together under this one
ROWS = "[[points]]"
Axes = dict[str, list[Any]]
Paths = dict[str, Path]


def check_effects(study: Combinations, paths: Paths, problems: Problems) -> None:
    """Every setting has an effect somewhere, and one in [[points]] in every point that has it."""
    found: set[str] = set()
    for row, given in enumerate(study.rows):
        heads = list(study.combined([given]))
        working = frozenset[str]().union(*map(study.working, heads))
        found |= working
        for name in given.keys() - working:
            path = ("points", row, *paths[name][2:])
            problems.add(path, in_vain(name, map(study.used, heads[:MOST_TRIED])))
    heads = list(itertools.islice(study.combined(study.rows), MOST_TRIED))
    for name, path in paths.items():
        if name not in found and path[0] != "points":
            problems.add(path, in_vain(name, map(study.used, heads)))


def check_size(study: "Study", paths: Paths, problems: Problems) -> None:
    """The study is not larger than anyone means it to be."""
    factors = {"combinations": study.count_cases(), "samples": study.samples or 1, "seeds": len(study.seeds)}
    networks = math.prod(factors.values())
    if networks <= MOST:
        return
    sizes = {**factors, **{name: len(how) for name, how in study.gone_through.items()}}
    del sizes["combinations"]
    largest = max(sizes, key=lambda name: sizes[name])
    product = " × ".join(f"{count:,} {what}" for what, count in factors.items() if count > 1)
    problems.add(
        paths.get(largest, (largest,)),
        f"The study has {networks:,} networks ({product}), and {MOST:,} are the most: vary less. `{largest}` has "
        f"the most values, {sizes[largest]:,}.",
    )


def check_samples(study: "Study", problems: Problems) -> None:
    """`samples` has something to draw."""
    if study.samples is not None and not study.random:
        problems.add(
            ("samples",),
            "`samples` has no effect, as nothing is drawn: leave it out, or make a random choice in [vary], such as "
            "learning_rate = { log_uniform = [1e-5, 1e-1] }.",
        )


def check_built(study: "Study", paths: Paths, problems: Problems) -> None:
    """Note what constructors refuse."""
    import jax

    from recurra.studies.parts import build

    def refusal(chosen: dict[str, Any]) -> str | None:
        """What constructors have against what is chosen, if anything."""
        try:
            build(study.settings(_point(study, chosen)))
        except SettingsError as error:
            return str(error)
        return None

    axes = _axes(study)
    said: set[str] = set()
    with jax.enable_x64(True), warnings.catch_warnings():  # float64 needs 64 bits
        warnings.simplefilter("ignore")  # they come again when the study runs
        for chosen in itertools.islice(_tried(study, axes), MOST_BUILT):
            error = refusal(chosen)
            if error is not None and error not in said:
                said.add(error)
                causes = _causes(axes, chosen, lambda other, error=error: refusal(other) != error)
                where = _where(error, _point(study, chosen), causes, paths, study)
                problems.add(where, f"{error}{_with(causes, chosen)}")
            if len(said) >= ENOUGH:
                return


def _axes(study: Combinations) -> Axes:
    """What varies on its own, with the values that are tried."""
    axes: Axes = {"learner": list(study.learners), ROWS: list(study.rows)}
    return axes | {name: _ends(how) for name, how in study.alone.items()}


def _ends(how: Varied) -> list[Any]:
    """The values that are tried of one setting: the ends of a range of numbers, and all of what is no number."""
    if isinstance(how, Spaced | Uniform):
        ends = how.low, how.high
    elif how.kind == "number":
        ends = min(how.values), max(how.values)  # pyright: ignore[reportArgumentType, reportCallIssue]
    else:
        ends = how.values
    return list(dict.fromkeys(ends))


def _tried(study: Combinations, axes: Axes) -> Iterator[dict[str, Any]]:
    """What is chosen of the axes: the first of each, then with one and with two of them changed, none twice."""
    few = {name: options[:MOST_ROWS] if name == ROWS else options for name, options in axes.items()}
    ones = (((name, option),) for name, options in axes.items() for option in options)
    pairs = (
        ((one, a), (other, b))
        for one, other in itertools.combinations(few, 2)
        for a, b in itertools.product(few[one], few[other])
    )
    seen: set[tuple[tuple[str, Value], ...]] = set()
    for changes in itertools.chain([()], ones, pairs):
        chosen = {name: options[0] for name, options in axes.items()} | dict(changes)
        for name, _ in changes:
            _make_way(study, axes, chosen, name, dict(changes))
        point = tuple(_point(study, chosen).items())
        if point not in seen:
            seen.add(point)
            yield chosen


def _make_way(study: Combinations, axes: Axes, chosen: dict[str, Any], name: str, kept: dict[str, Any]) -> None:
    """Choose others, but for those to be kept, such that a setting has an effect."""
    if name in axes and name not in _point(study, chosen):
        for other in (other for other in axes if other not in kept and (other == ROWS or decides(other))):
            for option in axes[other]:
                if name in _point(study, {**chosen, other: option}):
                    chosen[other] = option
                    return


def _point(study: Combinations, chosen: dict[str, Any]) -> Point:
    rest = {name: value for name, value in chosen.items() if name != ROWS}
    return study.relevant({**rest, **chosen.get(ROWS, {})})


def _causes(axes: Axes, chosen: dict[str, Any], helps: Callable[[dict[str, Any]], bool]) -> list[str]:
    """Of which axes another value alone would do."""
    found = [
        name
        for name, options in axes.items()
        if any(option != chosen[name] and helps({**chosen, name: option}) for option in options[:MOST_ROWS])
    ]
    # Another task or cell has none of its settings: that is no cause, unless there is no other.
    return [name for name in found if name == ROWS or not decides(name)] or found


def _with(causes: list[str], chosen: dict[str, Any]) -> str:
    """The combination that is refused, where it takes two."""
    if len(causes) < 2:
        return ""
    tables = (chosen[name] if name == ROWS else {name: chosen[name]} for name in causes)
    shown = [f"`{name}` is {value!r}" for table in tables for name, value in table.items()]
    return f" That is where {' and '.join(shown)}."


def _where(error: str, point: Point, causes: list[str], paths: Paths, study: Combinations) -> Path:
    """Where the setting is written that an error is about: the one that it names, or a cause."""
    for name in named_in(error, paths):
        if name in point or name in study.fixed:
            return _of_value(point.get(name), paths[name], study, name)
    return next((paths[name] for name in reversed(causes) if name in paths), ())


def _of_value(value: Value | None, path: Path, study: Combinations, name: str) -> Path:
    """Where a value of a setting is written, which may be one of many."""
    how = study.varied.get(name)
    if isinstance(how, Together):
        rows = (row for row, given in enumerate(study.rows) if name in given and given[name] == value)
        return ("points", next(rows, path[1]), *path[2:])
    if isinstance(how, ListedValues | Choices) and value in how.values:
        return (*path, *(("choices",) if isinstance(how, Choices) else ()), how.values.index(value))
    return path

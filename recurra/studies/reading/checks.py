"""Whether what a study's file says goes together, found before it runs.

Nothing may be set twice or in vain, and there must not be too many networks. What constructors refuse is found by
building some of the networks, which are thrown away: constructors refuse values that are out of a range, and pairs of
values that do not go together. So every text and flag and the ends of every range of numbers are built, alone and in
pairs, and nothing between.
"""

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from recurra.studies.choices import Choices, Combinations, Listed, Point, Spaced, Together, Uniform, Value, Varied
from recurra.studies.language import decides, in_vain, path_of
from recurra.studies.reading.problems import Path, Problems
from recurra.studies.reading.tables import MOST
from recurra.studies.settings import Settings, SettingsError

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


def check_once(fixed: Paths, varied: Paths, points: Paths, problems: Problems) -> None:
    """Nothing is in two tables."""
    for here, says, others, also in (
        (varied, "varies here", fixed, "is fixed"),
        (points, "differs in [[points]]", fixed, "is fixed"),
        (points, "is in [[points]]", varied, "varies"),
    ):
        for name in (name for name in here if name in others):
            told = problems.places.told(others[name])
            problems.add(here[name], f"`{name}` {says} and {also} {told}: leave one of them out.")


def check_effects(combined: Combinations, fixed: Paths, varied: Paths, problems: Problems) -> None:
    """Every setting has an effect somewhere, and one in [[points]] in every point that has it."""
    found: set[str] = set()
    for row, given in enumerate(combined.rows):
        heads = list(combined.combined([given]))
        working = frozenset[str]().union(*map(combined.working, heads))
        found |= working
        for name in given:
            if name not in working:
                path = ("points", row, *varied[name][2:])
                problems.add(path, in_vain(name, map(combined.used, heads[:MOST_TRIED])))
    heads = list(itertools.islice(combined.combined(combined.rows), MOST_TRIED))
    for name, path in {**fixed, **varied}.items():
        if name not in found and not isinstance(combined.varied.get(name), Together):
            problems.add(path, in_vain(name, map(combined.used, heads)))


def check_size(combined: Combinations, seeds: int, samples: int | None, paths: Paths, problems: Problems) -> None:
    """The study is not larger than anyone means it to be."""
    cases, draws = combined.count(), 1 if samples is None else samples
    networks = cases * draws * seeds
    if networks <= MOST:
        return
    sizes = {name: len(how) for name, how in combined.gone_through.items()} | {"seeds": seeds, "samples": draws}
    largest = max(sizes, key=lambda name: sizes[name])
    path = paths.get(largest, (largest,))
    product = " × ".join(
        f"{_large(count)} {what}"
        for count, what in ((cases, "combinations"), (draws, "samples"), (seeds, "seeds"))
        if count > 1
    )
    problems.add(
        path,
        f"The study has {_large(networks)} networks ({product}), and {MOST:,} are the most: vary less. `{largest}` has "
        f"the most values, {sizes[largest]:,}.",
    )


def _large(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"about 10^{len(str(count)) - 1}"


def check_samples(random: dict[str, Uniform | Choices], samples: int | None, problems: Problems) -> None:
    """`samples` has something to draw."""
    if samples is not None and not random:
        problems.add(
            ("samples",),
            "`samples` has no effect, as nothing is drawn: leave it out, or make a random choice in [vary], such as "
            "learning_rate = { log_uniform = [1e-5, 1e-1] }.",
        )


def check_built(
    combined: Combinations, settings: Callable[[Point], Settings], paths: Paths, problems: Problems
) -> None:
    """Note what constructors refuse. `paths` are where settings are written."""
    import jax

    axes = _axes(combined)
    refusal = lambda chosen: _refusal(settings(_point(combined, chosen)))
    said: set[str] = set()
    with jax.enable_x64(True):  # which networks of float64 need
        for chosen in itertools.islice(_tried(combined, axes), MOST_BUILT):
            error = refusal(chosen)
            if error is not None and error not in said:
                said.add(error)
                causes = _causes(axes, chosen, lambda other, error=error: refusal(other) != error)
                where = _where(error, _point(combined, chosen), causes, paths, combined)
                problems.add(where, f"{error}{_with(causes, chosen)}")
            if len(said) >= ENOUGH:
                return


def _refusal(settings: Settings) -> str | None:
    """What constructors have against the settings, if anything."""
    from recurra.studies.parts import build

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they come again when the study runs
            build(settings)
    except SettingsError as error:
        return str(error)
    return None


def _axes(combined: Combinations) -> Axes:
    """What varies on its own, with the values that are tried."""
    axes: Axes = {"learner": list(combined.learners)}
    if any(isinstance(how, Together) for how in combined.varied.values()):
        axes[ROWS] = combined.rows
    for name, how in combined.varied.items():
        if name != "learner" and not isinstance(how, Together):
            axes[name] = _ends(how)
    return axes


def _ends(how: Varied) -> list[Any]:
    """The values that are tried of one setting."""
    if isinstance(how, Spaced | Uniform):
        return list(dict.fromkeys([how.low, how.high]))
    if how.kind != "number":
        return list(how.values)
    numbers = [each for each in how.values if not isinstance(each, str)]
    return list(dict.fromkeys([min(numbers), max(numbers)]))


def _tried(combined: Combinations, axes: Axes) -> Iterator[dict[str, Any]]:
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
            _make_way(combined, axes, chosen, name, dict(changes))
        point = tuple(_point(combined, chosen).items())
        if point not in seen:
            seen.add(point)
            yield chosen


def _make_way(combined: Combinations, axes: Axes, chosen: dict[str, Any], name: str, kept: dict[str, Any]) -> None:
    """Choose others, but for those to be kept, such that a setting has an effect."""
    if name in axes and name not in _point(combined, chosen):
        for other in (other for other in axes if other not in kept and (other == ROWS or decides(other))):
            for option in axes[other]:
                if name in _point(combined, {**chosen, other: option}):
                    chosen[other] = option
                    return


def _point(combined: Combinations, chosen: dict[str, Any]) -> Point:
    rest = {name: value for name, value in chosen.items() if name != ROWS}
    return combined.relevant({**rest, **chosen.get(ROWS, {})})


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


def _where(error: str, point: Point, causes: list[str], paths: Paths, combined: Combinations) -> Path:
    """Where the setting is written that an error is about: the one that it names, or a cause."""
    ours = f"learner.{point['learner']}."
    for word in re.findall(r"`(\w+)`", error):
        named = [name for name in paths if path_of(name).rpartition(".")[2] == word]
        # A learner complains of its own settings, which may have the names of others.
        for name in sorted(named, key=lambda name: not name.startswith(ours)):
            if name in point or name in combined.fixed:
                return _of_value(point.get(name), paths[name], combined.varied.get(name))
    return next((paths[name] for name in reversed(causes) if name in paths), ())


def _of_value(value: Value | None, path: Path, how: Varied | None) -> Path:
    """Where a value of a setting is written, which may be one of many."""
    if isinstance(how, Together):
        rows = [row for row, each in enumerate(how.values) if how.given[row] and each == value]
        return ("points", rows[0], *path[2:]) if rows else path
    if isinstance(how, Listed | Choices) and value in how.values:
        return (*path, *(("choices",) if isinstance(how, Choices) else ()), how.values.index(value))
    return path

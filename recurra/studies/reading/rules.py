"""What a study's tables must be to each other: nothing set twice, nothing in vain, not too many networks."""

from recurra.studies.choices import Choices, Listed, Together, Uniform, Value
from recurra.studies.reading.names import needs
from recurra.studies.reading.points import Combinations
from recurra.studies.reading.problems import Problems
from recurra.studies.reading.ranges import MOST
from recurra.studies.reading.toml_lines import Path

Paths = dict[str, Path]


def check_once(fixed: Paths, varied: Paths, points: Paths, problems: Problems) -> None:
    """Nothing is in two tables."""
    for name, path in varied.items():
        if name in fixed:
            problems.add(path, f"`{name}` varies here and is fixed{_at(fixed[name], problems)}: leave one of them out.")
    for name, path in points.items():
        if name in fixed:
            problems.add(
                path, f"`{name}` differs in [[points]] and is fixed{_at(fixed[name], problems)}: leave one of them out."
            )
        if name in varied:
            problems.add(
                path, f"`{name}` is in [[points]] and varies{_at(varied[name], problems)}: leave one of them out."
            )


def _at(path: Path, problems: Problems) -> str:
    line = problems.places.line(path)
    return " elsewhere" if line is None else f" in line {line}"


def check_effects(combined: Combinations, fixed: Paths, varied: Paths, problems: Problems) -> None:
    """Every setting has an effect somewhere."""
    for name, path in {**fixed, **varied}.items():
        how = combined.varied.get(name)
        if isinstance(how, Together):
            _check_rows(combined, name, how, path, problems)
            continue
        need = needs(name)
        if need is not None and need[1] not in (values := _possible(combined, need[0])):
            problems.add(path, _in_vain(name, *need, values))


def _check_rows(combined: Combinations, name: str, how: Together, path: Path, problems: Problems) -> None:
    """A setting in [[points]] has an effect in every point that has it."""
    need = needs(name)
    if need is None:
        return
    inner = path[2:]  # beyond ("points", place)
    for place, given in enumerate(how.given):
        row = combined.rows[place]
        values = (row[need[0]],) if need[0] in row else _possible(combined, need[0])
        if given and need[1] not in values:
            problems.add(("points", place, *inner), _in_vain(name, *need, values))


def _possible(combined: Combinations, name: str) -> tuple[Value, ...]:
    """The values that a deciding setting has in a study."""
    if name == "learner":
        return combined.learners
    how = combined.varied.get(name)
    return how.values if isinstance(how, Listed | Together | Choices) else (combined.shared(name),)


def _in_vain(name: str, other: str, wanted: str, values: tuple[Value, ...]) -> str:
    if other == "learner":
        return f"`{name}` has no effect: {wanted} is not among the `learners`. Add it to them, or leave this out."
    seen = " and ".join(dict.fromkeys(map(repr, values)))
    return f"`{name}` has no effect where `{other}` is {seen}: leave it out, or make `{other}` {wanted!r}."


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

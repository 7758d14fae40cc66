"""The tables of a study's file, each checked by itself: what is fixed, what varies, [[points]], seeds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from recurra.studies.choices import Together, Value, Varied
from recurra.studies.reading.names import NOT_VARIED, OWN, Named, find
from recurra.studies.reading.problems import Problems
from recurra.studies.reading.ranges import MOST, read_entry
from recurra.studies.reading.toml_lines import Path

#: seeds are 32 bits of a key
LAST_SEED = 2**32 - 1


class Entry(NamedTuple):
    """A setting as it is written in a table."""

    setting: Named
    value: Any
    path: Path


def entries(table: dict[str, Any], path: Path, problems: Problems, varies: bool) -> Iterator[Entry]:
    """The settings in a table, and in its tables for single learners."""
    for key, value in table.items():
        if key == "learner":
            yield from _learners(value, (*path, key), problems)
            continue
        if varies and key in NOT_VARIED:
            problems.add((*path, key), NOT_VARIED[key])
            continue
        yield from _entry(key, value, (*path, key), problems, varies)


def _learners(tables: Any, path: Path, problems: Problems) -> Iterator[Entry]:
    prefix = ".".join(str(each) for each in path if isinstance(each, str))
    if not isinstance(tables, dict):
        problems.add(
            path,
            f"`{prefix}` must be tables of single learners, such as [{prefix}.kernl], and is {tables!r}: which "
            "learners to train is `learners`, at the top of the file.",
        )
        return
    if not tables:
        problems.add(path, f"`{prefix}` is empty: give it the table of a learner, or leave it out.")
    for learner, table in tables.items():
        if not isinstance(table, dict):
            problems.add((*path, learner), f"`{prefix}.{learner}` must be a table of settings, and is {table!r}.")
            continue
        if not table:
            problems.add((*path, learner), f"[{prefix}.{learner}] is empty: name a setting in it, or leave it out.")
        for key, value in table.items():
            name = f"learner.{learner}.{key}"
            yield from _entry(name, value, (*path, learner, key), problems)


def _entry(name: str, value: Any, path: Path, problems: Problems, varies: bool = False) -> Iterator[Entry]:
    if "." in str(path[-1]) or (name.startswith("learner.") and "." in str(path[-2])):
        problems.add(path, f"`{name}` is not a setting: write names with dots without quotation marks.")
        return
    try:
        yield Entry(find(name, varies), value, path)
    except ValueError as error:
        problems.add(path, str(error))


def read_fixed(table: dict[str, Any], problems: Problems) -> tuple[dict[str, Value], dict[str, Path]]:
    """What is the same for all networks, and where it is written."""
    fixed: dict[str, Value] = {}
    paths: dict[str, Path] = {}
    settings = {key: value for key, value in table.items() if key not in (*OWN, "learners", "seeds")}
    for setting, value, path in entries(settings, (), problems, varies=False):
        paths[setting.name] = path
        try:
            fixed[setting.name] = setting.check(value)
        except ValueError as error:
            several = f" To vary it, write it under [{'.'.join(['vary', *map(str, path[:-1])])}]."
            problems.add(path, f"{error}{several if isinstance(value, list | dict) else ''}")
    return fixed, paths


def read_vary(table: Any, problems: Problems) -> tuple[dict[str, Varied], dict[str, Path]]:
    """What [vary] says, and where."""
    varied: dict[str, Varied] = {}
    paths: dict[str, Path] = {}
    if not isinstance(table, dict):
        problems.add(("vary",), f"`vary` must be a table, [vary], and is {table!r}.")
        return {}, {}
    if not table:
        problems.add(("vary",), "[vary] is empty: say what varies, or leave it out.")
    for setting, value, path in entries(table, ("vary",), problems, varies=True):
        paths[setting.name] = path
        found = read_entry(setting, value, path, problems)
        if found is not None:
            varied[setting.name] = found
    return varied, paths


def read_points(tables: Any, problems: Problems) -> tuple[dict[str, Together], dict[str, Path]]:
    """The settings that [[points]] give, each with a value for every point, and where the first of each is."""
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        problems.add(("points",), "`points` must be tables, each under its own [[points]].")
        return {}, {}
    if not tables:
        problems.add(("points",), "`points` is an empty list: give at least one point, or leave it out.")
    settings: dict[str, Named] = {}
    paths: dict[str, Path] = {}
    rows: dict[tuple[tuple[str, Value], ...], Path] = {}
    before = len(problems)
    for place, table in enumerate(tables):
        where = ("points", place)
        row: dict[str, Value] = {}
        if not table:
            problems.add(where, "This point is empty: give it a setting, or leave it out.")
        for setting, value, path in entries(table, where, problems, varies=True):
            settings.setdefault(setting.name, setting)
            paths.setdefault(setting.name, path)
            try:
                row[setting.name] = setting.check(value)
            except ValueError as error:
                problems.add(path, str(error))
        same = rows.setdefault(tuple(sorted(row.items(), key=lambda item: item[0])), where)
        if row and same != where:
            problems.add(where, f"This point is the same as {_that_of(same, problems)}: leave one of them out.")
    if len(problems) > before:
        return {}, paths
    dicts: list[dict[str, Any]] = [dict(row) for row in rows]
    together = {
        name: Together(tuple(row.get(name, setting.default) for row in dicts), tuple(name in row for row in dicts))
        for name, setting in settings.items()
    }
    return together, paths


def _that_of(path: Path, problems: Problems) -> str:
    line = problems.places.line(path)
    return "another" if line is None else f"that of line {line}"


def read_learners(given: Any, problems: Problems) -> tuple[str, ...]:
    """The learners to compare."""
    if given is None:
        problems.add((), 'The file has no `learners`: write for example `learners = ["rflo", "uoro"]` at its top.')
        return ()
    try:
        found: Any = find("learners").check(given)
    except ValueError as error:
        problems.add(("learners",), str(error))
        return ()
    return found


def read_seeds(given: Any, problems: Problems) -> range | tuple[int, ...]:
    """The seeds, from how many or which."""
    if not isinstance(given, list):
        try:
            count: Any = find("seeds").check(given)
        except ValueError as error:
            problems.add(("seeds",), str(error).replace("a whole number", "a whole number or a list of them"))
            return ()
        if count > LAST_SEED + 1:
            problems.add(("seeds",), f"`seeds` is {count:,}, and there are only 2³².")
        return range(count)
    if not given:
        problems.add(("seeds",), "`seeds` is an empty list: give at least one.")
    seen: dict[int, None] = {}
    for place, seed in enumerate(given):
        where = ("seeds", place)
        if type(seed) is not int or not 0 <= seed <= LAST_SEED:
            problems.add(where, f"Each of `seeds` must be a whole number in 0..2³²-1, and one is {seed!r}.")
        elif seed in seen:
            problems.add(where, f"`seeds` has {seed} twice: leave one of them out.")
        else:
            seen[seed] = None
    return tuple(seen)


def read_samples(given: Any, problems: Problems) -> int | None:
    """How often the random choices are drawn, if the file says so."""
    if given is not None and (type(given) is not int or not 1 <= given <= MOST):
        problems.add(("samples",), f"`samples` must be a whole number in 1..{MOST:,}, and is {given!r}.")
        return None
    return given

"""The tables of a study's file, each checked by itself: what is fixed, what varies and how, [[points]], seeds."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from recurra.studies.choices import Choices, Listed, Spaced, Together, Uniform, Value, Varied
from recurra.studies.language import Setting, find, options, top_names
from recurra.studies.reading.problems import Path, Problems
from recurra.studies.settings import learners_of

#: what is in a study's file beside settings
OWN = ("learners", "seeds", "samples", "set", "vary", "points", "tune")
#: settings that a study sets for all of its networks, and why
NOT_VARIED = {
    "samples": "`samples` belongs at the top of the file, above any [table]: so often random choices are drawn.",
    "learners": "`learners` are compared anyway: list them at the top of the file, above any [table].",
    "seeds": "`seeds` belongs at the top of the file, above any [table]: every combination is run with all of them.",
    "window": "`window` is the same for all networks, so that their losses compare: set it at the top of the file.",
    "key": "`key` is the same for all networks: for other random numbers take other `seeds`.",
    "engine": "`engine` is the same for all networks: set it at the top of the file.",
}
#: seeds are 32 bits of a key
LAST_SEED = 2**32 - 1
#: what a table says how a setting varies with: what it must have, and what it may have
FORMS = {
    "from": ("from", "to", "count", "log"),
    "uniform": ("uniform",),
    "log_uniform": ("log_uniform",),
    "choices": ("choices",),
}
#: networks of one study, and so values of one setting
MOST = 10**7


class Entry(NamedTuple):
    """A setting as it is written in a table."""

    setting: Setting
    value: Any
    path: Path


def entries(table: dict[str, Any], path: Path, problems: Problems, varies: bool, prefix: str = "") -> Iterator[Entry]:
    """The settings in a table and in the tables within it, whose names begin with that of the table."""
    for key, value in table.items():
        name, here = f"{prefix}{'.' * bool(prefix)}{key}", (*path, key)
        if varies and name in NOT_VARIED:
            problems.add(here, NOT_VARIED[name])
        elif isinstance(value, dict) and not (varies and _says_how(name, value)):
            if not value:
                problems.add(here, f"[{'.'.join(map(str, here))}] is empty: name a setting in it, or leave it out.")
            yield from entries(value, here, problems, varies, name)
        else:
            try:
                yield Entry(find(name), value, here)
            except ValueError as error:
                problems.add(here, str(error))


def _says_how(name: str, table: dict[str, Any]) -> bool:
    """Whether a table says how a setting varies, and is not one of settings of a part."""
    try:
        find(name)
    except ValueError:
        return False
    return not table or any(key in keys for key in table for keys in FORMS.values())


def read_fixed(table: dict[str, Any], problems: Problems) -> tuple[dict[str, Value], dict[str, Path]]:
    """What is the same for all networks, and where it is written."""
    fixed: dict[str, Value] = {}
    paths: dict[str, Path] = {}
    both = [*entries({key: value for key, value in table.items() if key not in OWN}, (), problems, varies=False)]
    inner = table.get("set", {})
    if isinstance(inner, dict):
        both += entries(inner, ("set",), problems, varies=False)
    else:
        problems.add(("set",), f"`set` must be a table, [set], and is {inner!r}.")
    for setting, value, path in both:
        if not _is_new(setting, path, paths, problems):
            continue
        try:
            fixed[setting.name] = setting.check(value)
        except ValueError as error:
            several = " To vary it, write it under [vary]." if isinstance(value, list | dict) else ""
            problems.add(path, f"{error}{several}")
    return fixed, paths


def _is_new(setting: Setting, path: Path, paths: dict[str, Path], problems: Problems) -> bool:
    """Note where a setting is written, and whether it is there for the first time."""
    if setting.name in paths:
        problems.add(path, f"`{setting.name}` is there twice, also {problems.places.told(paths[setting.name])}.")
        return False
    paths[setting.name] = path
    return True


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
        found = read_entry(setting, value, path, problems) if _is_new(setting, path, paths, problems) else None
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
    settings: dict[str, Value] = {}
    paths: dict[str, Path] = {}
    rows: dict[tuple[tuple[str, Value], ...], Path] = {}
    before = len(problems)
    for place, table in enumerate(tables):
        where = ("points", place)
        row: dict[str, Value] = {}
        if not table:
            problems.add(where, "This point is empty: give it a setting, or leave it out.")
        own: dict[str, Path] = {}
        for setting, value, path in entries(table, where, problems, varies=True):
            paths.setdefault(setting.name, path)
            new = _is_new(setting, path, own, problems)
            if new and (checked := _checked(setting, value, path, problems)) is not None:
                settings.setdefault(setting.name, checked)
                row[setting.name] = checked
        same = rows.setdefault(tuple(sorted(row.items(), key=lambda item: item[0])), where)
        if row and same != where:
            told = problems.places.told(same)
            problems.add(where, f"This point is the same as that {told}: leave one of them out.")
    if len(problems) > before:
        return {}, paths
    dicts: list[dict[str, Any]] = [dict(row) for row in rows]
    together = {
        name: Together(tuple(row.get(name, first) for row in dicts), tuple(name in row for row in dicts))
        for name, first in settings.items()
    }
    return together, paths


def read_learners(given: Any, problems: Problems) -> tuple[str, ...]:
    """The learners to compare."""
    if given is None:
        problems.add((), 'The file has no `learners`: write for example `learners = ["rflo", "uoro"]` at its top.')
        return ()
    try:
        return learners_of(given)
    except ValueError as error:
        problems.add(("learners",), str(error))
        return ()


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


def read_entry(setting: Setting, value: Any, path: Path, problems: Problems) -> Varied | None:
    """How the setting varies; None where that is a problem."""
    if isinstance(value, list):
        values = read_list(setting, value, path, problems)
        return Listed(values) if values else None
    if isinstance(value, dict):
        return _read_table(setting, value, path, problems)
    where = "at the top of the file, above any [table]" if setting.name in top_names() else "under [set]"
    kept = f"to keep it the same everywhere, write it {where}"
    problems.add(path, f"`{setting.name}` is {value!r}, and does not vary: write a list of values, or {kept}.")
    return None


def read_list(setting: Setting, values: list[Any], path: Path, problems: Problems) -> tuple[Value, ...]:
    """The values of a list, all different and each one that the setting may have; none where there is a problem."""
    if not values:
        problems.add(path, f"`{setting.name}` has an empty list: give at least one value.")
    found: dict[Value, int] = {}
    before = len(problems)
    for place, given in enumerate(values):
        value = _checked(setting, given, (*path, place), problems)
        if value is not None and value in found:
            problems.add((*path, place), f"`{setting.name}` has {given!r} twice: leave one of them out.")
        elif value is not None:
            found[value] = place
    return tuple(found) if len(problems) == before else ()


def _read_table(setting: Setting, table: dict[str, Any], path: Path, problems: Problems) -> Varied | None:
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


def _read_choices(setting: Setting, values: Any, path: Path, problems: Problems) -> Choices | None:
    if not isinstance(values, list):
        problems.add(path, f"`choices` of `{setting.name}` must be a list of values, and is {values!r}.")
        return None
    found = read_list(setting, values, path, problems)
    return Choices(found) if found else None


def _read_random(setting: Setting, ends: Any, log: bool, path: Path, problems: Problems) -> Uniform | None:
    if not isinstance(ends, list) or len(ends) != 2:
        problems.add(path, f"`{path[-1]}` of `{setting.name}` must be the two ends of a range, and is {ends!r}.")
        return None
    low, high = (_checked(setting, end, (*path, place), problems) for place, end in enumerate(ends))
    if low is None or high is None or not _in_order(setting, low, high, log, path, problems):
        return None
    return Uniform(low, high, log, setting.whole)


def _read_spaced(setting: Setting, table: dict[str, Any], path: Path, problems: Problems) -> Spaced | None:
    name, before = setting.name, len(problems)
    missing = [key for key in ("from", "to", "count") if key not in table]
    if missing:
        problems.add(path, f"`{name}` has no `{'` and no `'.join(missing)}`: a range has from, to and count.")
    count, log = table.get("count", 2), table.get("log", False)
    if type(count) is not int or not 1 <= count <= MOST:
        problems.add((*path, "count"), f"`count` of `{name}` must be a whole number in 1..{MOST:,}, and is {count!r}.")
    if type(log) is not bool:
        problems.add((*path, "log"), f"`log` of `{name}` must be true or false, and is {log!r}.")
    low, high = (
        _checked(setting, table[key], (*path, key), problems) if key in table else None for key in ("from", "to")
    )
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


def _in_order(
    setting: Setting,
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


def _checked(setting: Setting, value: Any, path: Path, problems: Problems) -> Any:
    """The value as the setting takes it; None, which TOML has no word for, where that is a problem."""
    try:
        return setting.check(value)
    except ValueError as error:
        problems.add(path, str(error))
        return None

"""The tables of a study's file, each checked by itself: what is fixed, what varies and how, [[points]], seeds, [tune].

What is read where there is a problem does not matter: a study is made only if there are none.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from recurra.studies.choices import Choices, ListedValues, Point, Spaced, Together, Uniform, Value, Varied
from recurra.studies.language import RUN, Setting, counted, find, learners_of, options, top_names
from recurra.studies.reading.lines import Path
from recurra.studies.reading.problems import Problems

#: a setting, what is given for it, and where
Entry = tuple[Setting, Any, Path]
#: what is in a study's file beside settings
OWN = ("learners", "seeds", "samples", "set", "vary", "points", "tune")
#: settings that all networks of a study share, or that it goes through anyway
SHARED = ("samples", "learners", "seeds", "window", "key", "engine")
#: what a table says how a setting varies with: what it must have, and what it may have
FORMS = {"from": ("from", "to", "count", "log"), **{way: (way,) for way in ("uniform", "log_uniform", "choices")}}
WORDS = dict.fromkeys(word for words in FORMS.values() for word in words)
#: networks of one study, and so values of one setting
MOST = 10**7
#: what a file says beside settings of a run
SAMPLES, COUNT, LOG = counted("samples", most=MOST), counted("count", most=MOST), Setting("log", "flag")
#: how many seeds, or one of them, which are 32 bits of a key
SEEDS, SEED = counted("seeds", RUN["seeds"].default, most=MOST), counted("seeds", least=0, most=2**32 - 1)


@dataclass(frozen=True)
class TuneSettings:
    """How the random choices of a study are searched, for each of its cases."""

    #: settings that are tried
    trials: int = 40
    #: seeds of a trial; those of the study
    seeds: int | None = None
    #: how often trials are looked at, the last time at the end
    rungs: int = 3
    #: one trial in so many goes on after each look but the last
    eta: int = 2
    #: the best trials, which are confirmed on fresh seeds
    finalists: int = 3
    #: fresh seeds that confirm a finalist
    confirm_seeds: int = 20
    #: trials that are drawn before the search begins
    startup: int | None = None
    #: trials that are computed together
    batch: int | None = None


#: what [tune] says
TUNE = {each.name: counted(f"tune.{each.name}", most=10**6) for each in dataclasses.fields(TuneSettings)}
TUNE |= {"rungs": counted("tune.rungs", most=100), "eta": counted("tune.eta", least=2, most=1000)}


def inner(table: Mapping[str, Any], name: str, problems: Problems) -> dict[str, Any]:
    """A table of the file; an empty one if it is not there."""
    found = table.get(name, {})
    if isinstance(found, dict):
        return found
    problems.add((name,), f"`{name}` must be a table, [{name}], and is {found!r}.")
    return {}


def entries(table: Mapping[str, Any], path: Path, problems: Problems, prefix: str = "") -> Iterator[Entry]:
    """Each setting in a table and in tables within it, whose names begin with that of the table: what and where."""
    varies = path[:1] in (("vary",), ("points",))
    for key, value in table.items():
        name, here = f"{prefix}{key}", (*path, key)
        if varies and name in SHARED:
            told = f"`{name}` is said once for the whole study: write it at the top of the file, above any [table]."
            problems.add(here, told)
        elif isinstance(value, dict) and not (varies and value.keys() & WORDS.keys()):
            if not value:
                told = ".".join(map(str, here))
                problems.add(here, f"[{told}] is empty: write something in it, or leave it out.")
            yield from entries(value, here, problems, f"{name}.")
        elif (setting := problems.attempt(here, find, name)) is not None:
            yield setting, value, here


def fixed_entries(table: Mapping[str, Any], problems: Problems) -> list[Entry]:
    """Each setting that is given once and for all: those at the top of a file, and under [set], which is in no name."""
    top = {key: value for key, value in table.items() if key != "set"}
    return [*entries(top, (), problems), *entries(inner(table, "set", problems), ("set",), problems)]


def is_new(setting: Setting, path: Path, paths: dict[str, Path], problems: Problems) -> bool:
    """Note where a setting is written, and whether it is there for the first time. Each point may have it once."""
    before = paths.get(setting.name)
    if before is None or (before[0] == path[0] == "points" and before[1] != path[1]):
        paths[setting.name] = path
        return True
    line = problems.positions.line(before)
    told = "" if line is None else f", also in line {line}"
    problems.add(path, f"`{setting.name}` is given twice{told}: leave one of them out.")
    return False


class Tables:
    """What the tables of a file say, and where each setting is written. What is wrong with it is noted."""

    def __init__(self, table: dict[str, Any], problems: Problems) -> None:
        self._table, self._problems = table, problems
        #: where settings are written, by name; those of [[points]] where they are last
        self.paths: dict[str, Path] = {}
        self.learners = problems.attempt(("learners",), learners_of, table.get("learners")) or ()
        self.seeds, self.tune = self._read_seeds(), self._read_tune()
        self.samples = problems.attempt(("samples",), SAMPLES.check, table["samples"]) if "samples" in table else None
        self.fixed = self._read_fixed()
        self.varied: dict[str, Varied] = {}
        self.rows: tuple[Point, ...] = ({},)
        for key in table:  # in the order of the file
            if key == "vary":
                self.varied |= self._read_vary()
            elif key == "points":
                self.rows = self._read_points(table["points"])
                for name in dict.fromkeys(name for row in self.rows for name in row):
                    values = dict.fromkeys(row[name] for row in self.rows if name in row)
                    self.varied[name] = Together(tuple(values))

    def _read_seeds(self) -> tuple[int, ...]:
        given, path = self._table.get("seeds", SEEDS.default), ("seeds",)
        if isinstance(given, list):
            return self._problems.attempt(path, self._values, SEED, given, path) or ()
        if type(given) is not int:
            self._problems.add(path, f"`seeds` must be a whole number or a list of them, and is {given!r}.")
            return ()
        return tuple(range(self._problems.attempt(path, SEEDS.check, given) or 0))

    def _read_tune(self) -> TuneSettings:
        """[tune], with defaults for what it does not say."""
        found = {}
        for key, value in inner(self._table, "tune", self._problems).items():
            if key not in TUNE:
                self._problems.add(("tune", key), f"`tune.{key}` is not a setting: {options(key, TUNE)}")
            elif (count := self._problems.attempt(("tune", key), TUNE[key].check, value)) is not None:
                found[key] = count
        tune = TuneSettings(**found)
        if "finalists" in found and tune.finalists > tune.trials:
            told = f"`tune.finalists` is {tune.finalists}, and there are {tune.trials} `trials` to choose from."
            self._problems.add(("tune", "finalists"), told)
        return tune

    def _read_fixed(self) -> dict[str, Value]:
        """What is the same for all networks."""
        top = {key: value for key, value in self._table.items() if key == "set" or key not in OWN}
        fixed: dict[str, Value] = {}
        for setting, value, path in fixed_entries(top, self._problems):
            if is_new(setting, path, self.paths, self._problems):
                try:
                    fixed[setting.name] = setting.check(value)
                except ValueError as error:
                    several = " To vary it, write it under [vary]." if isinstance(value, list | dict) else ""
                    self._problems.add(path, f"{error}{several}")
        return fixed

    def _read_vary(self) -> dict[str, Any]:
        """How settings vary by themselves."""
        table, varied = inner(self._table, "vary", self._problems), {}
        if self._table["vary"] == {}:
            self._problems.add(("vary",), "[vary] is empty: say what varies, or leave it out.")
        for setting, value, path in entries(table, ("vary",), self._problems):
            if is_new(setting, path, self.paths, self._problems):
                varied[setting.name] = self._problems.attempt(path, self._way, setting, value, path)
        return varied

    def _read_points(self, tables: Any) -> tuple[Point, ...]:
        """Settings that vary along with others: those of each of [[points]]."""
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            self._problems.add(("points",), "`points` must be tables, each under its own [[points]].")
            return ()
        if not tables:
            self._problems.add(("points",), "`points` is an empty list: give at least one point, or leave it out.")
        rows: list[Point] = []
        seen: dict[frozenset[tuple[str, Value]], Path] = {}
        for place, table in enumerate(tables):
            here: Path = ("points", place)
            row: Point = {}
            for setting, given, path in entries(table, here, self._problems):
                value = self._problems.attempt(path, setting.check, given)
                if is_new(setting, path, self.paths, self._problems) and value is not None:
                    row[setting.name] = value
            if not table:
                self._problems.add(here, "This point is empty: give it a setting, or leave it out.")
            elif row and (same := seen.setdefault(frozenset(row.items()), here)) != here:
                told = self._problems.positions.told(same)
                self._problems.add(here, f"This point is the same as that {told}: leave one of them out.")
            rows.append(row)
        return tuple(rows)

    def _way(self, setting: Setting, given: Any, path: Path) -> Varied | None:
        """How a setting varies; a ValueError if it is said in none of the ways that there are."""
        name = setting.name
        if isinstance(given, list):
            return ListedValues(self._values(setting, given, path))
        if not isinstance(given, dict):
            where = "at the top of the file, above any [table]" if name in top_names() else "under [set]"
            kept = f"to keep it the same everywhere, write it {where}"
            raise ValueError(f"`{name}` is {given!r}, and does not vary: write a list of values, or {kept}.")
        if unknown := [key for key in given if key not in WORDS]:
            for key in unknown:
                told = f"`{key}` says nothing of how `{name}` varies: {options(key, WORDS)}"
                self._problems.add((*path, key), told)
            return None
        form, *others = [form for form, words in FORMS.items() if given.keys() & set(words)]
        if given.keys() == {"uniform", "log"}:
            raise ValueError(f"`{name}` has both `uniform` and `log`: write `log_uniform` for a logarithmic range.")
        if others:
            raise ValueError(
                f"`{name}` can vary in one way only, and `{'` and `'.join(given)}` are several: give a list, from, to "
                "and count, or one of uniform, log_uniform and choices."
            )
        if form == "choices":
            values = self._problems.attempt((*path, form), self._values, setting, given[form], (*path, form))
            return Choices(values or ())
        if setting.kind != "number":
            instead = "a list of values" if form == "from" else "{ choices = [...] }"
            raise ValueError(f"`{name}` is no number, so there is nothing between two values: write {instead}.")
        if form == "from":
            return self._spaced(setting, given, path)
        return self._problems.attempt((*path, form), self._uniform, setting, given[form], (*path, form))

    def _values(self, setting: Setting, given: Any, path: Path) -> tuple[Any, ...]:
        """The values of a list, all different and each one that the setting may have."""
        if not isinstance(given, list):
            raise ValueError(f"`{path[-1]}` of `{setting.name}` must be a list of values, and is {given!r}.")
        if not given:
            raise ValueError(f"`{setting.name}` has an empty list: give at least one value.")
        found: dict[Any, None] = {}
        for place, each in enumerate(given):
            value = self._problems.attempt((*path, place), setting.check, each)
            if value in found:
                self._problems.add((*path, place), f"`{setting.name}` has {each!r} twice: leave one of them out.")
            elif value is not None:
                found[value] = None
        return tuple(found)

    def _uniform(self, setting: Setting, ends: Any, path: Path) -> Uniform | None:
        if not isinstance(ends, list) or len(ends) != 2:
            raise ValueError(f"`{path[-1]}` of `{setting.name}` must be the two ends of a range, and is {ends!r}.")
        low, high = (self._problems.attempt((*path, i), setting.check, end) for i, end in enumerate(ends))
        if low is None or high is None:
            return None
        log = path[-1] == "log_uniform"
        _check_range(setting.name, low, high, log)
        return Uniform(low, high, log, setting.whole)

    def _spaced(self, setting: Setting, table: dict[str, Any], path: Path) -> Spaced | None:
        name = setting.name
        if missing := [key for key in ("from", "to", "count") if key not in table]:
            raise ValueError(f"`{name}` has no `{'` and no `'.join(missing)}`: a range has from, to and count.")
        attempt = lambda key, wanted, *of: self._problems.attempt((*path, key), wanted.check, table[key], *of)
        low, high, count = attempt("from", setting), attempt("to", setting), attempt("count", COUNT, f" of `{name}`")
        log = attempt("log", LOG, f" of `{name}`") if "log" in table else False
        if low is None or high is None or count is None or log is None:
            return None
        if count == 1 and low != high:
            told = f"and a range from {low} to {high} has at least its two ends: count from 2, or give a list, [{low}]"
            self._problems.add((*path, "count"), f"`count` of `{name}` is 1, {told}.")
            return None
        _check_range(name, low, high, log, count)
        return Spaced(low, high, count, log, setting.whole)


def _check_range(name: str, low: int | float, high: int | float, log: bool, count: int = 2) -> None:
    """Raise unless all of a range has logarithms, if they are wanted, and several values have room in it."""
    if low > high:
        raise ValueError(f"`{name}` has a range upside down, from {low} to {high}: write {high} first.")
    if low == high and count > 1:
        raise ValueError(f"`{name}` has a range of no length, from {low} to {high}: give a list, [{low}].")
    if log and low <= 0:
        raise ValueError(f"`{name}` has a logarithmic range from {low}: it must start above 0.")

"""The file of a study: thousands of networks in a few lines of TOML, checked before anything runs."""

import dataclasses
import functools
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.studies.choices import Choices, Combinations, Listed, Point, Uniform, Value, Varied
from recurra.studies.language import RUN, Setting, effective, options
from recurra.studies.reading.checks import check_built, check_effects, check_once, check_samples, check_size
from recurra.studies.reading.problems import Places, Problems, lines_of
from recurra.studies.reading.tables import (
    read_fixed,
    read_learners,
    read_points,
    read_samples,
    read_seeds,
    read_vary,
)
from recurra.studies.settings import Settings, SettingsError, read_bytes

#: the least and the most of what [tune] says
LIMITS = {"rungs": (1, 100), "eta": (2, 1000)}


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


@dataclass(frozen=True)
class Study:
    """What is compared: settings that are shared, settings that vary and how, and seeds.

    Names are those of `recurra.studies.language`, as in "alpha" or "learner.kernl.perturbation". A *case* is a
    combination of everything that is listed or spaced, and a *point* is a case with its random choices drawn. What has
    no effect in a combination is left out of it, and combinations that then coincide are taken once. Every point has a
    "learner".
    """

    #: the file as it is
    text: str
    #: settings that all networks share, as far as the file gives them
    fixed: dict[str, Value]
    seeds: tuple[int, ...]
    #: how settings vary, in the order of the file; "learner" is the first of them if there are several
    varied: dict[str, Varied]
    #: how often random choices are drawn
    samples: int | None
    tune: TuneSettings
    learners: tuple[str, ...]
    places: Places = field(repr=False, compare=False)

    @staticmethod
    def read(path: Path) -> "Study":
        """The study in a file. A `SettingsError` has a line for each problem, with the line of the file in it."""
        try:
            # Some editors begin a file with a mark, which is no part of it.
            text = read_bytes(path, "study").decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SettingsError(f"{path}: The file is not text in UTF-8: {error.reason}.") from None
        except ValueError as error:
            raise SettingsError(f"`study` is {str(path)!r}, which cannot be read: {error}.") from None
        return Study.of_text(text, str(path))

    @staticmethod
    def of_text(text: str, file: str = "study") -> "Study":
        """The study that a file has as its text. Problems are said to be in `file`."""
        try:
            table = tomllib.loads(text)
        except ValueError as error:
            raise SettingsError(_no_toml(file, str(error))) from None
        except RecursionError:
            raise SettingsError(f"{file}: Lists or tables are nested too deeply.") from None
        return Study.of_table(table, text, Places(file, lines_of(text, table)))

    @staticmethod
    def of_table(table: dict[str, Any], text: str = "", places: Places | None = None) -> "Study":
        """The study in a table, which is laid out as the file is."""
        problems = Problems(places or Places("study"))
        learners = read_learners(table.get("learners"), problems)
        seeds = read_seeds(table.get("seeds", RUN["seeds"][2]), problems)
        samples = read_samples(table.get("samples"), problems)
        tune = _read_tune(table.get("tune", {}), problems)
        fixed, fixed_at = read_fixed(table, problems)
        varied: dict[str, Varied] = {"learner": Listed(learners)} if len(learners) > 1 else {}
        varied_at, points_at = {}, {}
        for key in table:  # in the order of the file
            if key == "vary":
                found, varied_at = read_vary(table["vary"], problems)
                varied |= found
            if key == "points":
                found, points_at = read_points(table["points"], problems)
                varied |= found
        check_once(fixed_at, varied_at, points_at, problems)
        problems.stop()

        combined = Combinations(learners, fixed, varied)
        paths = {**varied_at, **points_at}
        check_effects(combined, fixed_at, paths, problems)
        check_samples(combined.random, samples, problems)
        check_size(combined, len(seeds), samples, paths, problems)
        problems.stop()
        study = Study(text, fixed, tuple(seeds), varied, samples, tune, learners, problems.places)
        check_built(combined, study.settings, fixed_at | paths, problems)
        problems.stop()
        return study

    def count(self) -> int:
        """How many points there are; more than there are where random choices coincide."""
        return self._combined.count() * (self.samples or 1)

    def cases(self) -> list[Point]:
        """The combinations of everything but random choices."""
        return self._combined.cases()

    def points(self) -> list[Point]:
        """The cases, each with the random choices drawn `samples` times; the same ones each time."""
        for name in self._combined.random if self.samples is None else ():
            raise SettingsError(
                self.places.say(
                    ("vary", *name.split(".")),
                    f"`{name}` is a random choice, and the file does not say how often it is drawn: write for example "
                    "`samples = 20` at the top of the file, above any [table].",
                )
            )
        return self._combined.points(self.samples or 1)

    def space(self, case: Point) -> dict[str, Uniform | Choices]:
        """The random choices that have an effect in a case, or may have one, depending on others of them."""
        working = self._combined.working(case)
        return {name: how for name, how in self._combined.random.items() if name in working}

    def relevant(self, point: Point) -> Point:
        """The point without what has no effect in it."""
        return self._combined.relevant(point)

    def settings(self, point: Point) -> Settings:
        """The settings of `recurra train` for a point."""
        learners = (str(point["learner"]),)
        given = {name: value for name, value in (self.fixed | point).items() if name != "learner"}
        working = effective(given, learners)
        kept = {name: value for name, value in given.items() if name in working}
        return Settings(learners, {**kept, "seeds": len(self.seeds)})

    @functools.cached_property
    def _combined(self) -> Combinations:
        return Combinations(self.learners, self.fixed, self.varied)


def _read_tune(table: Any, problems: Problems) -> TuneSettings:
    """[tune], with defaults for what it does not say."""
    if not isinstance(table, dict):
        problems.add(("tune",), f"`tune` must be a table, [tune], and is {table!r}.")
        return TuneSettings()
    known = [each.name for each in dataclasses.fields(TuneSettings)]
    found = {}
    for key, value in table.items():
        least, most = LIMITS.get(key, (1, 10**6))
        try:
            if key not in known:
                raise ValueError(f"`tune.{key}` is not a setting: {options(key, known)}")
            found[key] = Setting(f"tune.{key}", "number", True, least=least, most=most).check(value)
        except ValueError as error:
            problems.add(("tune", key), str(error))
    tune = TuneSettings(**found)
    if "finalists" in found and tune.finalists > tune.trials:
        told = f"`tune.finalists` is {tune.finalists}, and there are {tune.trials} `trials` to choose from."
        problems.add(("tune", "finalists"), told)
    return tune


def _no_toml(file: str, error: str) -> str:
    """What the parser says, with the line in front."""
    said = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", error, re.DOTALL)
    if said is None:
        return f"{file}: The file is not valid TOML: {error}."
    return f"{file}, line {said[2]}: This is not valid TOML: {said[1]}, in column {said[3]}."

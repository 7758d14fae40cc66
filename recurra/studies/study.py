"""The file of a study: thousands of networks in a few lines of TOML, checked before anything runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.studies.choices import Combinations, ListedValues, Point, Random, Varied
from recurra.studies.effects import effective
from recurra.studies.reading.checks import check_built, check_effects, check_samples, check_size
from recurra.studies.reading.problems import Positions, Problems, parsed
from recurra.studies.reading.tables import Tables, TuneSettings
from recurra.studies.settings import Settings, SettingsError, read_text


@dataclass(frozen=True)
class Study(Combinations):
    """What is compared: settings that are shared, settings that vary and how, and seeds.

    Names are those of `recurra.studies.language`, as in "alpha" or "learner.kernl.perturbation". A *case* is a
    combination of everything that is listed or spaced, and a *point* is a case with its random choices drawn. What has
    no effect in a combination is left out of it, and combinations that then coincide are taken once. Every point has a
    "learner".
    """

    #: the file as it is
    text: str
    seeds: tuple[int, ...]
    #: how often random choices are drawn
    samples: int | None
    tune: TuneSettings
    positions: Positions = field(repr=False, compare=False)

    @staticmethod
    def read(path: Path) -> "Study":
        """The study in a file. A `SettingsError` has a line for each problem, with the line of the file in it."""
        return Study.of_text(read_text(path, "study"), str(path))

    @staticmethod
    def of_text(text: str, file: str = "study") -> "Study":
        """The study that a file has as its text. Problems are said to be in `file`."""
        return Study.of_table(*parsed(text, file), text)

    @staticmethod
    def of_table(table: dict[str, Any], positions: Positions | None = None, text: str = "") -> "Study":
        """The study in a table, which is laid out as the file is."""
        positions = positions or Positions("study")
        problems = Problems(positions)
        found = Tables(table, problems)
        problems.stop()
        several: dict[str, Varied] = {"learner": ListedValues(found.learners)} if len(found.learners) > 1 else {}
        varies = found.learners, found.fixed, several | found.varied, found.rows
        study = Study(*varies, text, found.seeds, found.samples, found.tune, positions)
        check_effects(study, found.paths, problems)
        check_samples(study, problems)
        check_size(study, found.paths, problems)
        problems.stop()
        check_built(study, found.paths, problems)
        problems.stop()
        return study

    def count(self) -> int:
        """How many points there are; more than there are where random choices coincide."""
        return self.count_cases() * (self.samples or 1)

    def points(self) -> list[Point]:
        """The cases, each with the random choices drawn `samples` times; the same ones each time."""
        for name in self.random if self.samples is None else ():
            told = (
                f"`{name}` is a random choice, and the file does not say how often it is drawn: write for example "
                "`samples = 20` at the top of the file, above any [table]."
            )
            raise SettingsError(self.positions.say(("vary", *name.split(".")), told))
        return self.drawn(self.samples or 1)

    def searches(self) -> list[tuple[Point, dict[str, Random]]]:
        """The cases, each with the random choices to search in it; a `SettingsError` where there can be no search.

        A case in which none of them has an effect, such as a learner without the option, is one trial, to compare with.
        """
        found = [(case, self.space(case)) for case in self.cases()]
        if not any(space for _, space in found):
            raise SettingsError(
                "There is nothing to search: `recurra tune` searches random choices, so write for example "
                "learning_rate = { log_uniform = [1e-5, 1e-1] } under [vary]."
            )
        if any("steps" in space for _, space in found):
            raise SettingsError("`steps` cannot be searched, since trials are compared after as many: list its values.")
        return found

    def space(self, case: Point) -> dict[str, Random]:
        """The random choices that have an effect in a case, or may have one, depending on others of them."""
        working = self.working(case)
        return {name: how for name, how in self.random.items() if name in working}

    def settings(self, point: Point) -> Settings:
        """The settings of `recurra train` for a point."""
        learners = (str(point["learner"]),)
        given = {name: value for name, value in (self.fixed | point).items() if name != "learner"}
        working = effective(given, learners)
        kept = {name: value for name, value in given.items() if name in working}
        return Settings(learners, {**kept, "seeds": len(self.seeds)})

"""The options of `recurra learn`: how they are typed, what they mean, and what is wrong with them."""

import inspect
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.environment import need
from recurra.studies.language import Setting
from recurra.studies.settings import SettingsError
from recurra.training.choices import table_of

COLUMNS, MODEL, OUTPUT = "Columns", "Model", "Output"
#: rows that a forecast may look ahead, and a period may have
FARTHEST = 100_000
#: the options that choose a single model in the place of the race
SINGLE = ("learner", "cell", "n", "lags", "learning_rate")
#: the options that determine the result: a run that is continued must not change them
DECISIVE = ("target", "features", "ignore", "time", "horizon", "period", "coverage", *SINGLE, "key", "predictions")


def _option(what: str, panel: str, *flags: str, **how: Any) -> Any:
    return typer.Option(*flags, help=what, rich_help_panel=panel, **how)


def _optional(what: str, panel: str, **how: Any) -> Any:
    return _option(what, panel, show_default=False, **how)


@dataclass(frozen=True)
class LearnOptions:
    """All options of the command, as they are typed. They are checked as far as that needs no look at the data."""

    file: Annotated[
        str, typer.Argument(help="CSV (also .gz) or Parquet file; - for standard input.", show_default=False)
    ] = ""
    target: Annotated[str, _optional("Column to predict.", COLUMNS)] = ""
    horizon: Annotated[
        int,
        _option(
            "Rows ahead to forecast; 0: from the other columns of the same row, and the past.",
            COLUMNS,
            min=0,
            max=FARTHEST,
        ),
    ] = 1
    features: Annotated[list[str] | None, _optional("Use only these other columns: A,B.", COLUMNS)] = None
    ignore: Annotated[list[str] | None, _optional("Leave these columns out: A,B.", COLUMNS)] = None
    time: Annotated[str | None, _optional("Column of dates, for plots; found by itself otherwise.", COLUMNS)] = None
    follow: Annotated[bool, _option("Wait for rows that are appended to the file.", COLUMNS, "--follow")] = False
    demo: Annotated[str, _optional("A series that we bring, to try it; `--demo list` names them.", COLUMNS)] = ""
    on_bad: Annotated[str, _option("At a bad row: stop, or skip it and go on.", COLUMNS)] = "stop"
    learner: Annotated[
        str | None, _optional("One model with this learner (`recurra learners`) in place of the race.", MODEL)
    ] = None
    cell: Annotated[str | None, _optional("Its cell, such as rnn, gru or lstm.", MODEL)] = None
    n: Annotated[int | None, _optional("Its units.", MODEL, min=1, max=4096)] = None
    lags: Annotated[int | None, _optional("Latest values of the target that it sees.", MODEL, min=1, max=4096)] = None
    learning_rate: Annotated[float | None, _optional("Its step size.", MODEL)] = None
    key: Annotated[int, _option("Start of all random numbers.", MODEL, min=0, max=2**32 - 1)] = 0
    period: Annotated[
        int | None,
        _option("Rows of a season, for the baseline; found by itself otherwise.", MODEL, min=1, max=FARTHEST),
    ] = None
    predictions: Annotated[Path | None, _optional("Write a CSV file of predictions.", OUTPUT)] = None
    coverage: Annotated[float | None, _optional("Share of rows that low to high should hold, as 0.9.", OUTPUT)] = None
    out: Annotated[Path | None, _optional("Write a page with plots into this folder.", OUTPUT)] = None
    checkpoint: Annotated[Path | None, _optional("Keep the state here; the same command goes on from it.", OUTPUT)] = (
        None
    )
    checkpoint_every: Annotated[float, _option("Seconds between two checkpoints.", OUTPUT)] = 20.0
    on_full: Annotated[str, _option("When the disk is full: go-on without checkpoints, or stop.", OUTPUT)] = "go-on"
    force: Annotated[bool, _option("Replace predictions or a page that exist.", OUTPUT, "--force")] = False
    as_json: Annotated[
        bool, _option("Print JSON for programs, and nothing else, on standard output.", OUTPUT, "--json")
    ] = False

    def __post_init__(self) -> None:
        from recurra.cli.learning.demos import DEMOS

        if bool(self.file) == bool(self.demo):
            raise SettingsError(
                "Name one input: a file, - for standard input, or --demo NAME (`--demo list` names them)."
            )
        if self.demo:
            _check_known("demo", self.demo, DEMOS)
            self._put("target", self.target or DEMOS[self.demo].target)
        if not self.target:
            raise SettingsError("`target` is missing: name the column to predict, as in --target price.")
        if self.out is not None:
            need("stream", "`recurra learn --out`")
        if self.learner is not None:
            _check_known("learner", self.learner, table_of("learner"))
        if self.cell is not None:
            from recurra.cells import CELLS

            _check_known("cell", self.cell, CELLS)
        _check_known("on_bad", self.on_bad, ("stop", "skip"))
        _check_known("on_full", self.on_full, ("go-on", "stop"))
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise SettingsError(f"`coverage` must be between 0 and 1, such as 0.9, and is {self.coverage}.")
        rate = self.learning_rate
        if rate is not None and not (rate > 0 and math.isfinite(rate)):
            raise SettingsError(f"`learning_rate` must be a finite number above 0, and is {rate}.")
        if not self.checkpoint_every >= 0:
            raise SettingsError(f"`checkpoint_every` must be a number of seconds, and is {self.checkpoint_every}.")
        if self.demo and self.follow:
            raise SettingsError("`follow` is for files, and a demo does not grow: leave out one of the two.")
        for name in ("features", "ignore"):  # typed with commas between them, or in several options
            typed = ",".join(getattr(self, name) or ()).split(",")
            self._put(name, [each.strip() for each in typed if each.strip()])

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # for the class is frozen

    def single(self) -> dict[str, Any]:
        """What is given of a single model. If that is nothing, a race of several models learns."""
        return {name: getattr(self, name) for name in SINGLE if getattr(self, name) is not None}

    @property
    def model_name(self) -> str:
        """What tables call the model."""
        return f"{self.learner or 'rflo'}, {self.cell or 'rnn'}" if self.single() else "race"

    def decisive(self) -> dict[str, Any]:
        """The options that determine the result, as JSON."""
        plain = lambda value: str(value) if isinstance(value, Path) else value
        return {name.replace("_", "-"): plain(getattr(self, name)) for name in DECISIVE}


def learn_command(**options: Any) -> None:
    """Predict, score, then learn, row by row of a table.

    For example: recurra learn power.csv --target megawatt --horizon 48 --out report

    Inputs are the target's own value and all other columns. Texts of at most
    32 different values are categories. An empty cell, NA, NaN or null in an
    input stands for the latest known value, and in the target for a row
    without a label. The model is compared with the last value, the value a
    season ago, and least squares on the 24 latest values.
    """
    from recurra.cli.learning.demos import DEMOS

    if options["demo"] == "list":
        for name, each in DEMOS.items():
            print(f"{name:<12} {each.about}")
        return
    asked = LearnOptions(**options)
    from recurra.cli.learning.run import learn

    raise typer.Exit(learn(asked))


# Typer reads the options of a command from its signature.
learn_command.__signature__ = inspect.signature(LearnOptions)  # pyright: ignore[reportFunctionMemberAccess]


def _check_known(option: str, value: str, choices: Collection[str]) -> None:
    try:
        Setting(option, "text", choices=tuple(choices)).check(value)
    except ValueError as error:
        raise SettingsError(str(error)) from None

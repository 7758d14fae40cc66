"""The options of `recurra learn`: how they are typed, what they mean, and what is wrong with them."""

import difflib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from recurra.cli.environment import need
from recurra.studies.settings import SettingsError

COLUMNS, MODEL, OUTPUT = "Columns", "Model", "Output"
#: rows that a forecast may look ahead, and a period may have
FARTHEST = 100_000


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns are used."""

    target: str
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    time: str | None = None


@dataclass(frozen=True)
class ModelChoice:
    """Which model learns: one if anything but the key is given, else a race of several."""

    learner: str | None = None
    cell: str | None = None
    n: int | None = None
    lags: int | None = None
    learning_rate: float | None = None
    key: int = 0

    @property
    def is_race(self) -> bool:
        """Whether no single model is chosen."""
        return self == ModelChoice(key=self.key)

    @property
    def name(self) -> str:
        """What tables call it."""
        return "race" if self.is_race else f"{self.learner or 'rflo'}, {self.cell or 'rnn'}"


@dataclass(frozen=True)
class LearnOptions:
    """All options, checked as far as that needs no look at the data."""

    columns: ColumnChoice
    file: str = ""
    demo: str | None = None
    follow: bool = False
    horizon: int = 1
    model: ModelChoice = field(default_factory=ModelChoice)
    period: int | None = None
    coverage: float | None = None
    skip_bad: bool = False
    stop_when_full: bool = False
    predictions: Path | None = None
    out: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: float = 20.0
    force: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        rate = self.model.learning_rate
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise SettingsError(f"`coverage` must be between 0 and 1, such as 0.9, and is {self.coverage}.")
        if rate is not None and not (rate > 0 and math.isfinite(rate)):
            raise SettingsError(f"`learning_rate` must be a finite number above 0, and is {rate}.")
        if not self.checkpoint_every >= 0:
            raise SettingsError(f"`checkpoint_every` must be a number of seconds, and is {self.checkpoint_every}.")
        if self.demo is not None and self.follow:
            raise SettingsError("`follow` is for files, and a demo does not grow: leave out one of the two.")

    def result_settings(self) -> dict[str, Any]:
        """The options that determine the result, as JSON: a run that is continued must not change them."""
        columns = {
            name: list(value) if isinstance(value, tuple) else value for name, value in vars(self.columns).items()
        }
        return {
            **columns,
            "horizon": self.horizon,
            "period": self.period,
            "coverage": self.coverage,
            **{name.replace("_", "-"): value for name, value in vars(self.model).items()},
            "predictions": None if self.predictions is None else str(self.predictions),
        }


def _option(what: str, panel: str, *flags: str, **how: Any) -> Any:
    return typer.Option(*flags, help=what, rich_help_panel=panel, **how)


def learn_command(
    file: Annotated[
        str | None, typer.Argument(help="CSV (also .gz) or Parquet file; - for standard input.", show_default=False)
    ] = None,
    target: Annotated[str | None, _option("Column to predict.", COLUMNS, show_default=False)] = None,
    horizon: Annotated[
        int,
        _option(
            "Rows ahead to forecast; 0: from the other columns of the same row, and the past.",
            COLUMNS,
            min=0,
            max=FARTHEST,
        ),
    ] = 1,
    features: Annotated[
        list[str] | None, _option("Use only these other columns: A,B.", COLUMNS, show_default=False)
    ] = None,
    ignore: Annotated[list[str] | None, _option("Leave these columns out: A,B.", COLUMNS, show_default=False)] = None,
    time: Annotated[
        str | None, _option("Column of dates, for plots; found by itself otherwise.", COLUMNS, show_default=False)
    ] = None,
    follow: Annotated[bool, _option("Wait for rows that are appended to the file.", COLUMNS, "--follow")] = False,
    demo: Annotated[
        str | None,
        _option("A series that we bring, to try it; `--demo list` names them.", COLUMNS, show_default=False),
    ] = None,
    on_bad: Annotated[str, _option("At a bad row: stop, or skip it and go on.", COLUMNS)] = "stop",
    learner: Annotated[
        str | None,
        _option("One model with this learner (`recurra learners`) in place of the race.", MODEL, show_default=False),
    ] = None,
    cell: Annotated[str | None, _option("Its cell: rnn, gru or lstm.", MODEL, show_default=False)] = None,
    n: Annotated[int | None, _option("Its units.", MODEL, min=1, max=4096, show_default=False)] = None,
    lags: Annotated[
        int | None, _option("Latest values of the target that it sees.", MODEL, min=1, max=4096, show_default=False)
    ] = None,
    learning_rate: Annotated[float | None, _option("Its step size.", MODEL, show_default=False)] = None,
    key: Annotated[int, _option("Seed of all random numbers.", MODEL, min=0, max=2**32 - 1)] = 0,
    period: Annotated[
        int | None,
        _option("Rows of a season, for the baseline; found by itself otherwise.", MODEL, min=1, max=FARTHEST),
    ] = None,
    predictions: Annotated[Path | None, _option("Write a CSV file of predictions.", OUTPUT, show_default=False)] = None,
    coverage: Annotated[
        float | None, _option("Share of rows that low to high should hold, as 0.9.", OUTPUT, show_default=False)
    ] = None,
    out: Annotated[
        Path | None, _option("Write a page with plots into this folder.", OUTPUT, show_default=False)
    ] = None,
    checkpoint: Annotated[
        Path | None, _option("Keep the state here; the same command goes on from it.", OUTPUT, show_default=False)
    ] = None,
    checkpoint_every: Annotated[float, _option("Seconds between two checkpoints.", OUTPUT)] = 20.0,
    on_full: Annotated[str, _option("When the disk is full: go-on without checkpoints, or stop.", OUTPUT)] = "go-on",
    force: Annotated[bool, _option("Replace predictions or a page that exist.", OUTPUT, "--force")] = False,
    as_json: Annotated[
        bool, _option("Print JSON for programs, and nothing else, on standard output.", OUTPUT, "--json")
    ] = False,
) -> None:
    """Predict, score, then learn, row by row of a table.

    For example: recurra learn power.csv --target megawatt --horizon 48 --out report

    Inputs are the target's own value and all other columns. Texts of at most
    32 different values are categories. An empty cell, NA, NaN or null in an
    input stands for the latest known value, and in the target for a row
    without a label. The model is compared with the last value, the value a
    season ago, and least squares on the 24 latest values.
    """
    from recurra.cli.learning.demos import DEMOS

    if demo == "list":
        for name, each in DEMOS.items():
            print(f"{name:<12} {each.about}")
        return
    if (file is None) == (demo is None):
        raise SettingsError("Name one input: a file, - for standard input, or --demo NAME (`--demo list` names them).")
    if demo is not None:
        target = target or DEMOS[_one_of("demo", demo, list(DEMOS))].target
    if target is None:
        raise SettingsError("`target` is missing: name the column to predict, as in --target price.")
    if out is not None:
        need("stream", "`recurra learn --out`")
    if learner is not None:
        from recurra.learners import LEARNERS

        _one_of("learner", learner, list(LEARNERS))
    if cell is not None:
        _one_of("cell", cell, ["rnn", "gru", "lstm"])
    options = LearnOptions(
        columns=ColumnChoice(target, _split(features), _split(ignore), time),
        file=file or "", demo=demo, follow=follow, horizon=horizon,
        model=ModelChoice(learner, cell, n, lags, learning_rate, key),
        period=period, coverage=coverage,
        skip_bad=_one_of("on_bad", on_bad, ["stop", "skip"]) == "skip",
        stop_when_full=_one_of("on_full", on_full, ["go-on", "stop"]) == "stop",
        predictions=predictions, out=out, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
        force=force, as_json=as_json,
    )  # fmt: skip
    from recurra.cli.learning.run import learn

    raise typer.Exit(learn(options))


def _one_of(option: str, value: str, choices: list[str]) -> str:
    if value not in choices:
        near = difflib.get_close_matches(value.lower(), choices, n=1, cutoff=0.65)
        guess = f"did you mean {near[0]!r}? C" if near else "c"
        raise SettingsError(f"`{option}` is {value!r}, which is unknown: {guess}hoose from {', '.join(choices)}.")
    return value


def _split(names: list[str] | None) -> tuple[str, ...]:
    """Names that were typed with commas between them, or in several options."""
    return tuple(name.strip() for text in names or () for name in text.split(",") if name.strip())

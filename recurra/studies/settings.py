"""The settings of a training run on the command line, and those of its learners, cell and task, checked.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

import difflib
import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from recurra.learners import Learner
    from recurra.tasks import Task

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)

#: the most bytes that a file of settings may have
LONGEST = 1_000_000

#: settings that only some runs have: what they need, as (setting, value)
NEEDS = {
    "t1": ("task", "add"),
    "t2": ("task", "add"),
    "sampled": ("task", "add"),
    "inputs": ("task", "mimic"),
    "outputs": ("task", "mimic"),
    "alpha": ("cell", "rnn"),
}

#: fields of a cell that are settings of a run
FLAT_FIELDS = ("n_in", "n", "alpha", "w_rec", "dtype")

#: tasks whose settings are settings of a run; those of the others are in `task_options`
FLAT_TASKS = ("add", "mimic")

#: settings that are numbers of a compiled program: another value compiles nothing anew
NUMBERS = ("learning_rate", "alpha", "t1", "t2", "stretch")

#: what pydantic's complaints mean in words
WANTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": 'a list such as ["uoro", "rflo"]',
    "dict_type": "a table such as [learner.kernl] (which learners to train is `learners`)",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}


class SettingsError(Exception):
    """What is wrong with a run's settings, one line for each problem."""


class Settings(BaseModel):
    """The settings of a run, under the names a TOML file uses; defaults are the paper's for most of it.

    On Add at α = 1 the paper raises DNI's rate to 0.05, and DNI(b)'s to 0.05 and 0.01.
    """

    model_config = STRICT

    task: Literal["add", "mimic", "copy", "adding", "parity", "pattern", "evidence", "digits"] = Field(
        "add", description="What to learn."
    )
    task_options: dict[str, Any] = Field({}, description="Settings of the other tasks, where not the defaults.")
    t1: int = Field(6, description="First lag of the add task.")
    t2: int = Field(10, description="Second lag of the add task.")
    sampled: bool = Field(False, description="Labels of the add task are drawn, not probabilities.")
    inputs: int = Field(32, ge=1, description="Inputs of the mimic task.")
    outputs: int = Field(32, description="Outputs of the mimic task.")
    stretch: int = Field(1, description="Steps that each input lasts.")

    cell: Literal[
        "rnn", "lstm", "gru", "lif", "alif", "lru", "rtu", "nonlinear-rtu", "elstm", "columnar-lstm", "min-gru"
    ] = Field("rnn", description="The network's cell.")
    cell_options: dict[str, Any] = Field({}, description="Settings of the cell, where not the defaults.")
    n: int = Field(32, description="Units.")
    layers: int = Field(1, ge=1, description="Recurrent layers, each of n units.")
    density: float | None = Field(None, gt=0, le=1, description="Share of recurrent weights that a sparse cell has.")
    alpha: float = Field(1.0, description="Inverse time constant of the rnn cell, in (0, 1].")
    w_rec: Literal["orthogonal", "gaussian", "symmetric", "diagonal"] = Field(
        "orthogonal", description="How the recurrent weights start."
    )
    random_feedback: bool = Field(False, description="Errors return through fixed random weights.")
    dtype: Literal["float32", "float64"] = Field("float32", description="Precision.")

    learners: Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)] = Field(
        (), validate_default=True, description="Who learns, as `recurra learners` names them; repeat for several."
    )
    learner: dict[str, dict[str, Any]] = Field({}, description="Hyperparameters by learner, where not the defaults.")
    optimizer: Literal["sgd", "momentum", "rmsprop", "adam"] = Field("sgd", description="How gradients are applied.")
    learning_rate: float = Field(1e-4, ge=0, allow_inf_nan=False, description="Step size of the optimizer.")

    seeds: int = Field(20, ge=1, description="Independent repetitions, trained at once.")
    streams: int = Field(1, ge=1, description="Parallel streams that share a seed's weights.")
    steps: int = Field(100_000, ge=1, le=2**31 - 1, description="Steps each seed learns for.")
    window: int | None = Field(None, ge=1, description="Steps a kept loss is averaged over; a hundredth of the run.")
    # JAX keeps only 32 bits of a key, so a larger one would silently repeat a smaller one's run.
    key: int = Field(0, ge=0, le=2**32 - 1, description="Start of all random numbers.")

    @field_validator("learners")
    @classmethod
    def _known_learners(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        from recurra.learners import LEARNERS

        if not names:
            raise ValueError(f"`learners` is empty: choose at least one of {', '.join(LEARNERS)}.")
        for name in names:
            _choose("learners", name, LEARNERS)
            if names.count(name) > 1:
                raise ValueError(f"`learners` must be different, and {name!r} is there {names.count(name)} times.")
        return names

    @field_validator("learner")
    @classmethod
    def _known_hyperparameters(cls, tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        from recurra.learners import LEARNERS

        return {
            name: _valid(learner_table(_choose("learner", name, LEARNERS)), table, f"learner.{name}.")
            for name, table in tables.items()
        }

    @model_validator(mode="after")
    def _known_options(self) -> "Settings":
        from recurra.cells import CELLS

        if self.task in FLAT_TASKS and self.task_options:
            raise ValueError(
                f"`task_options` has no effect where `task` is {self.task!r}, whose settings stand by themselves, as "
                "`t1` and `inputs` do: leave it out."
            )
        if self.task not in FLAT_TASKS and "stretch" in self.model_fields_set:
            raise ValueError(f"`stretch` has no effect where `task` is {self.task!r}: leave it out.")
        cell = CELLS[self.cell]
        if self.task_options:
            _valid(part_table(task_of(self.task)), self.task_options, "task_options.")
        if self.cell_options:
            _valid(part_table(cell), self.cell_options, "cell_options.")
        draws = [name for name in ("w_rec", "density") if name in self.model_fields_set and getattr(self, name)]
        if draws and not any(rec for rec, _, _ in cell.listens):
            raise ValueError(
                f"`{draws[0]}` has no effect where `cell` is {self.cell!r}, whose units do not hear each other: leave "
                "it out."
            )
        if len(draws) == 2:
            raise ValueError("`w_rec` draws all recurrent weights, and `density` a few of them: give one of the two.")
        return self

    @model_validator(mode="after")
    def _nothing_in_vain(self) -> "Settings":
        for name, (other, needed) in NEEDS.items():
            if name in self.model_fields_set and getattr(self, other) != needed:
                raise ValueError(
                    f"`{name}` has no effect where `{other}` is {getattr(self, other)!r}: leave it out, or make "
                    f"`{other}` {needed!r}."
                )
        return self


def read_bytes(path: Path, argument: str) -> bytes:
    """What is in a file of settings, which the command calls `argument`."""
    try:
        if path.is_dir():
            raise SettingsError(f"`{argument}` is {path}, which is a folder: name a TOML file of settings.")
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise SettingsError(f"`{argument}` is {path}, which cannot be read: {error.strerror}.") from None
    if len(content) > LONGEST:  # a device may have no end
        raise SettingsError(f"`{argument}` is {path}, which is longer than 1 MB: name a TOML file of settings.")
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a file, unchecked."""
    try:
        return tomllib.loads(read_bytes(path, "config").decode())
    except ValueError as error:  # also what is not UTF-8
        raise SettingsError(f"`config` is {path}, which is not valid TOML: {error}.") from None
    except RecursionError:
        raise SettingsError(f"`config` is {path}, whose lists or tables are nested too deeply.") from None


def checked(given: Mapping[str, Any]) -> Settings:
    """The settings of a run from those given."""
    try:
        return Settings.model_validate(dict(given))
    except ValidationError as error:
        raise SettingsError("\n".join(in_words(each, Settings) for each in error.errors())) from None


def _valid(model: type[BaseModel], table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    try:
        return model.model_validate(dict(table)).model_dump(exclude_unset=True)
    except ValidationError as error:
        lines = [in_words(each, model, prefix) for each in error.errors()]
        raise ValueError("\n".join(lines)) from None


def _choose(setting: str, value: Any, choices: Any) -> Any:
    """The choice of that name; of a list, the name itself."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{setting}` is {value!r}, which is unknown: {options(value, choices)}")
    return choices[value] if isinstance(choices, Mapping) else value


def options(typed: Any, choices: Iterable[str]) -> str:
    """What could have been typed: the nearest of the choices, and all of them."""
    near = difflib.get_close_matches(str(typed).lower(), list(choices), n=1)
    return f"{f'did you mean {near[0]!r}? C' if near else 'c'}hoose from {', '.join(choices)}."


def in_words(error: "ErrorDetails", model: type[BaseModel], prefix: str = "") -> str:
    """One complaint of pydantic's as a line that names the setting, the value and the way out."""
    kind, value, details = error["type"], error["input"], error.get("ctx", {})
    field = ".".join(map(str, error["loc"]))
    name = f"`{prefix}{field}`"
    if kind == "value_error":
        return str(details["error"])
    if kind == "extra_forbidden" and not model.model_fields:
        return f"{name} is not a setting: this part has none."
    if kind == "extra_forbidden":
        return f"{name} is not a setting: {options(field, model.model_fields)}"
    if kind == "literal_error":
        return (
            f"{name} is {value!r}, which is unknown: {options(value, get_args(model.model_fields[field].annotation))}"
        )
    wanted = WANTED[kind].format(**details) if kind in WANTED else f"valid ({error['msg']})"
    return f"{name} must be {wanted}, and is {value!r}."


def hyperparameters(part: "Learner") -> dict[str, Any]:
    """A learner's hyperparameters as a TOML file writes them.

    ν is the name of its distribution. Another part is the name of its class, and has its defaults.
    """
    return {field.name: written(getattr(part, field.name)) for field in fields(part)}


def written(value: Any) -> Any:
    """A setting as a TOML file writes it."""
    from recurra.checks import Part

    if isinstance(value, Part):
        return type(value).__name__
    return value.__name__ if callable(value) else value


@functools.cache
def learner_table(learner: type["Learner"]) -> type[BaseModel]:
    """The model of a learner's table: a field for each hyperparameter, of the kind that its default has."""
    made = learner()
    return _table(learner.__name__, {field.name: getattr(made, field.name) for field in fields(learner)})


@functools.cache
def part_table(kind: type) -> type[BaseModel]:
    """The model of a cell's or a task's table: its settings that have a default and are no settings of a run."""
    defaults = {
        field.name: field.default
        for field in fields(kind)
        if field.init and field.default is not MISSING and field.name not in FLAT_FIELDS
    }
    return _table(kind.__name__, defaults)


def _table(name: str, defaults: Mapping[str, Any]) -> type[BaseModel]:
    shape: Any = {field: (_kind(value), written(value)) for field, value in defaults.items()}
    return create_model(name, __config__=STRICT, **shape)


def _kind(default: Any) -> Any:
    """What a setting with this default may be."""
    choices = alternatives(default)
    if choices is not None:
        return Literal[tuple(choices)]
    return float | None if default is None else type(default)


def alternatives(default: Any) -> dict[str, Any] | None:
    """What may stand in the place of a function or a part, by name; None for numbers, which are not named."""
    from recurra import cells, learners
    from recurra.learners import HandingDown, PastFacing
    from recurra.linalg import noise

    named = lambda *each: {choice.__name__: choice for choice in each}
    if isinstance(default, HandingDown):
        return named(learners.ThroughLayers, learners.RandomTargets, learners.LocalLosses)
    if isinstance(default, PastFacing):
        return named(*(kind for kind in learners.LEARNERS.values() if issubclass(kind, PastFacing)))
    families = (
        (noise.signs, noise.gaussian, noise.uniform),
        (cells.triangular, cells.fast_sigmoid, cells.arctan),
        _activations(),
    )
    return next((named(*family) for family in families if default in family), None) if callable(default) else None


@functools.cache
def _activations() -> tuple[Any, ...]:
    import jax

    return jax.numpy.tanh, jax.nn.relu, jax.nn.sigmoid, jax.nn.gelu, jax.nn.identity


def task_of(name: str) -> type["Task"]:
    """The class of a task by its name on the command line."""
    from recurra import tasks

    return getattr(tasks, name.capitalize())

"""What one network is made of, how that travels to another process, and by what it is known again.

A `Case` has the arguments of `train` that make a network and its run; the seed is not among them. Parts of the
library's own travel as descriptions, which are plain data. Parts that a user has written travel by cloudpickle.
"""

import hashlib
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.checks import Part
from recurra.engine.experiment import Experiment, KnownRows
from recurra.engine.programs import SharedProgram, programs
from recurra.engine.settings import unusual
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.saved.parts import NotDescribedError, described, rebuilt
from recurra.step import APPLIED, Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.evaluating import Evaluation
from recurra.training.identity import Account, program_text
from recurra.training.metrics import MetricFunction
from recurra.training.recording import RecordFunction, StepRecorder


@dataclass(frozen=True)
class Case:
    """A network, how it learns, and for how long."""

    network: Network
    learner: Learner
    task: Task
    optimizer: Optimizer
    steps: int
    window: int
    streams: int | None = None
    probes: Mapping[str, Learner] = field(default_factory=dict)
    record: Mapping[str, RecordFunction] = field(default_factory=dict)
    record_every: int = 1
    evaluate: Task | None = None
    evaluate_every: int | None = None
    evaluate_steps: int | None = None
    exact_probes: Sequence[str] = ()
    metrics: Mapping[str, MetricFunction] | None = None

    @staticmethod
    def of(*given: Any) -> "Case":
        """The case of arguments of `train`, in the order of the fields. Some of them may be None, and so left open."""
        found = {each.name: value for each, value in zip(fields(Case), given, strict=False)}
        found["steps"] = checks.whole_number("`steps`", found["steps"])
        found["window"] = arguments.window_of(found["window"], found["steps"])
        found |= {name: arguments.named(name, found.get(name)) for name in ("probes", "record")}
        found["record_every"] = checks.whole_number("`record_every`", found.get("record_every", 1))
        return Case(**found)

    def made(self, shapes: KnownRows) -> "Made":
        """The case as engines run it. What does not fit together is a ValueError or a TypeError."""
        network = self.network
        streams = arguments.check(network, self.learner, self.task, self.steps, self.streams, self.probes, self.record)
        learners = {APPLIED: self.learner, **self.probes}
        recorder = StepRecorder.of(self.record, learners)
        rows = shapes(self.task, network.cell.dtype)
        fixed = streams, recorder, rows, self.exact_probes
        experiment = Experiment.of(network, learners, self.optimizer, self.task, *fixed)
        looks = self.evaluate_every, self.evaluate_steps
        held_out = Evaluation.of(network, self.evaluate, *looks, self.steps, streams, self.metrics)
        return Made(replace(self, streams=streams), experiment, held_out)

    def packed(self) -> dict[str, Any]:
        """The case in a form that travels between processes."""
        return {each.name: _packed(getattr(self, each.name)) for each in fields(self)}

    @staticmethod
    def unpacked(found: Mapping[str, Any]) -> "Case":
        """The case that `packed` made this of."""
        return Case(**{name: _unpacked(value) for name, value in found.items()})


@dataclass(frozen=True)
class Made:
    """A case, the experiment that an engine runs for it, and how that is evaluated."""

    case: Case
    experiment: Experiment
    held_out: Evaluation | None

    @property
    def trees(self) -> tuple[Experiment, ...]:
        """All that a program is made of."""
        return (self.experiment,) if self.held_out is None else (self.experiment, self.held_out.experiment)


class Sent:
    """Cases on their way to whoever computes them, with their programs. They are packed when they leave this process.

    `found` are the programs, where these are known already: to find them takes as long as a short run.
    """

    def __init__(self, made: Sequence[Made], found: Sequence[SharedProgram]):
        self._made: Sequence[Made] | None = made
        self._found: Sequence[SharedProgram] = found
        self._packed: list[dict[str, Any]] = []

    def __call__(self) -> tuple[Sequence[Made], Sequence[SharedProgram]]:
        """The cases as engines run them, and their programs; those that came from elsewhere are made now."""
        if self._made is None:
            shapes = KnownRows()
            self._made = [Case.unpacked(each).made(shapes) for each in self._packed]
            self._found = programs([each.trees for each in self._made])
        return self._made, self._found

    def __getstate__(self) -> dict[str, Any]:
        packed = self._packed or [each.case.packed() for each in self._made or ()]
        return {"_made": None, "_found": (), "_packed": packed}


def pickled(part: Any) -> bytes:
    """A part as bytes, also one that is defined in a script where cloudpickle is installed, as it is with Dask."""
    if find_spec("cloudpickle"):
        import cloudpickle

        return cloudpickle.dumps(part)
    return pickle.dumps(part)


def _packed(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {name: _packed(each) for name, each in value.items()}
    try:
        return ("part", described(value)) if isinstance(value, Part) else pickled(value)
    except NotDescribedError:
        return pickled(value)


def _unpacked(found: Any) -> Any:
    match found:
        case ("part", description):
            return rebuilt(description)
        case bytes():
            return pickle.loads(found)
        case dict():
            return {name: _unpacked(each) for name, each in found.items()}
    return found


class Identity(NamedTuple):
    """By what a case is known again: `digest` exactly, `account` where other versions of JAX or recurra are installed.

    The two differ where the case has functions that no account can describe, whose names are in `unknown`.
    """

    digest: str
    account: str
    unknown: tuple[str, ...] = ()


def identities(made: Sequence[Made], found: Sequence[SharedProgram], key: PRNGKeyArray) -> list[Identity]:
    """The identity of each case, which depends on everything that its losses depend on but the seed.

    A case that its account describes completely is known by that. Others are known by their traced program and their
    numbers too, and programs change with every version of JAX.
    """
    data = np.asarray(jax.random.key_data(key)).tolist()
    identities = [Identity("", "")] * len(made)
    for program in found:
        text = ""
        for row in program.rows:
            account = Account.of(made[row].case)
            told = {"key": data, "case": account.told, **unusual(key)}
            known_as = digest = _digest(told)
            if account.unknown:
                text = text or "".join(program_text(tree.traced, key) for tree in made[row].trees)
                own = b"".join(np.asarray(leaf).tobytes() for tree in made[row].trees for leaf in _arrays(tree))
                digest = _digest({**told, "program": text}, own)
            identities[row] = Identity(digest, known_as, account.unknown)
    return identities


def _digest(told: dict[str, Any], more: bytes = b"") -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode() + more).hexdigest()


def _arrays(experiment: Experiment) -> list[Any]:
    """The numbers of an experiment, and arrays such as the rows of a task."""
    return jax.tree.leaves(eqx.filter(experiment.traced, eqx.is_array))

"""The arguments of `train`, refused before anything runs where they make no sense."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from recurra import checks
from recurra.learners import Learner, Unfaced
from recurra.network import Network
from recurra.step import APPLIED
from recurra.step.contracts import check_about
from recurra.tasks.base import Task
from recurra.training.console import warn
from recurra.training.record import Sink
from recurra.training.recording import RecordFunction


def check(
    network: Network,
    learner: Learner,
    task: Task,
    steps: int,
    streams: int | None,
    probes: Mapping[str, Learner],
    record: Mapping[str, RecordFunction],
) -> int:
    """Raise before anything runs if the parts do not fit together. Returns the number of streams."""
    if checks.whole_number("`steps`", steps) >= 2**31:
        raise ValueError(f"`steps` must be below 2³¹, and is {steps}.")
    for name, expected, value in (("network", Network, network), ("learner", Learner, learner), ("task", Task, task)):
        if not isinstance(value, expected):
            raise TypeError(f"`{name}` must be a recurra {expected.__name__}, and is {value!r}.")
    for name, probe in probes.items():
        if not isinstance(probe, Learner):
            raise TypeError(f"`probes[{name!r}]` must be a learner such as recurra.RFLO(), and is {probe!r}.")
    for each in (learner, *probes.values()):
        check_about(each)
    checks.whole_number(f"`horizon` of {type(task).__name__}", task.horizon, least=0)
    for what, ours, theirs in (("inputs", network.cell.n_in, task.n_in), ("outputs", network.n_out, task.n_out)):
        if ours != theirs:
            raise ValueError(f"The network has {ours} {what} and the task {theirs}: make them equal.")
    streams = checks.whole_number("`streams`", task.streams if streams is None else streams)
    task.check(network.loss, steps, streams, network.cell.dtype)
    if APPLIED in probes:
        raise ValueError(f"A probe cannot be called {APPLIED!r}: that is the learner that trains.")
    if probes and not record:
        raise ValueError(
            "Probes leave no mark unless something is recorded of them: pass for example "
            "record={'alignments': recurra.record.alignments}."
        )
    for name, recorder in record.items():
        if not callable(recorder):
            raise TypeError(f"`record[{name!r}]` must be a function of an Outcome, and is {recorder!r}.")
    return streams


def warn_if_short(learner: Learner, learned: int, began: int = 0) -> None:
    """Say so if a run that learns from so many steps, after `began` earlier ones, ends before any gradient is due."""
    if learner.lag:
        field, value, least = learner.about.lag, learner.lag, learner.lag + 1 - began
    elif isinstance(learner, Unfaced) and learner.period:
        field, value, least = learner.about.period, learner.period, learner.period - began % learner.period
    else:
        return
    if learned < least:
        warn(
            f"The recurrent weights will not change: with `{field}` = {value}, {learner.name} has its first gradient "
            f"after {least:,} steps that are learned from, and the run has {max(learned, 0):,}. Take more steps, or a "
            f"smaller `{field}`."
        )


def check_outside(*given: Any) -> None:
    """Raise inside a transformation of JAX's: `train` runs a loop on the host."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((jnp.zeros(()) + 0, given))):
        raise TypeError(
            "`train` runs on the host and cannot be called inside jit, vmap or grad: call it directly. To transform a "
            "step of learning, use recurra.LearningStep."
        )


def named(name: str, mapping: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mapping as a new dictionary; an empty one for None."""
    if mapping is None or (isinstance(mapping, Mapping) and all(isinstance(key, str) for key in mapping)):
        return dict(mapping or {})
    raise TypeError(
        f"`{name}` must map names, which are text, to what they stand for, as {{'name': ...}} does, and is {mapping!r}."
    )


def window_of(window: int | None, steps: int) -> int:
    """The steps that a kept loss is averaged over: a hundredth of a run if nothing is said."""
    return checks.whole_number("`window`", max(steps // 100, 1) if window is None else window)


def which(seeds: int | Sequence[int]) -> Sequence[int]:
    """The seeds themselves, from their number or from a list of them."""
    if isinstance(seeds, np.ndarray | jax.Array):
        seeds = np.asarray(seeds).tolist()
    if not isinstance(seeds, Iterable):
        count = checks.whole_number("`seeds`", seeds)
        if count > 2**32:
            raise ValueError(f"`seeds` are whole numbers in 0..2³²-1, and {count:,} of them are asked for.")
        return range(count)
    chosen = tuple(checks.whole_number("Each of `seeds`", seed, least=0) for seed in seeds)
    if not chosen:
        raise ValueError("`seeds` is empty: give at least one.")
    if len(set(chosen)) < len(chosen) or max(chosen) >= 2**32:
        raise ValueError(f"`seeds` must be different whole numbers in 0..2³²-1, and are {chosen}.")
    return chosen


def check_seconds(what: str, value: Any) -> None:
    """Raise unless the value is a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < float("inf"):
        raise ValueError(f"{what} must be a number of seconds, at least 0, and is {value!r}.")


def check_sink(sink: Any, record: Mapping[str, Any]) -> None:
    """Raise unless records can be passed on to the sink, if there is one."""
    if sink is None:
        return
    if isinstance(sink, type) or not isinstance(sink, Sink):
        raise TypeError(
            f"`record_into` must be an object with the methods `add`, `state` and `restore`, and is {sink!r:.200}."
        )
    if not record:
        raise ValueError("`record_into` takes in what `record` names, and `record` names nothing: give both.")


def checkpoint_path(path: Path | str | None) -> Path | None:
    """The file of a checkpoint."""
    if path is None:
        return None
    if not isinstance(path, str | Path):
        raise TypeError(f"`checkpoint` must be a file such as 'run.safetensors', and is {path!r}.")
    return Path(path).absolute()  # the program may go to another folder

"""The arguments of `train`, refused before anything runs where they make no sense."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.learners import Learner, check_pairing
from recurra.network import Network
from recurra.step import APPLIED, Optimizer
from recurra.tasks.base import Task
from recurra.training.recording import RecordFunction


def check(
    network: Network,
    learner: Learner,
    task: Task,
    steps: int,
    streams: int,
    probes: Mapping[str, Learner],
    record: Mapping[str, RecordFunction],
) -> None:
    """Raise before anything runs if the parts do not fit together."""
    if checks.whole_number("`steps`", steps) >= 2**31:
        raise ValueError(f"`steps` must be below 2³¹, and is {steps}.")
    for name, expected, value in (("network", Network, network), ("learner", Learner, learner), ("task", Task, task)):
        if not isinstance(value, expected):
            raise TypeError(f"`{name}` must be a recurra {expected.__name__}, and is {value!r}.")
    for name, probe in probes.items():
        if not isinstance(probe, Learner):
            raise TypeError(f"`probes[{name!r}]` must be a learner such as recurra.RFLO(), and is {probe!r}.")
    for each in (learner, *probes.values()):
        check_pairing(each, network.cell)
    for what, ours, theirs in (("inputs", network.cell.n_in, task.n_in), ("outputs", network.n_out, task.n_out)):
        if ours != theirs:
            raise ValueError(f"The network has {ours} {what} and the task {theirs}: make them equal.")
    task.check(network.loss, steps, checks.whole_number("`streams`", streams), network.cell.dtype)
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


def named(name: str, mapping: Mapping[str, Any] | None) -> dict[str, Any]:
    """The mapping as a new dictionary; an empty one for None."""
    if mapping is None or isinstance(mapping, Mapping):
        return dict(mapping or {})
    raise TypeError(f"`{name}` must map names to what they stand for, as {{'name': ...}} does, and is {mapping!r}.")


def which(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """The seeds themselves, from their number or from a list of them."""
    if not isinstance(seeds, Iterable):
        return tuple(range(checks.whole_number("`seeds`", seeds)))
    chosen = tuple(checks.whole_number("Each of `seeds`", seed, least=0) for seed in seeds)
    if not chosen:
        raise ValueError("`seeds` is empty: give at least one.")
    if len(set(chosen)) < len(chosen) or max(chosen) >= 2**32:
        raise ValueError(f"`seeds` must be different whole numbers in 0..2³²-1, and are {chosen}.")
    return chosen


def key_of(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """A key, from a number or a key."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ():
        return key
    if isinstance(key, jax.Array):
        raise TypeError(f"`key` must be a number or one key such as jax.random.key(0), and is {key!r}.")
    if checks.whole_number("`key`", key, least=0) >= 2**32:
        raise ValueError(f"`key` must be in 0..2³²-1 when it is a number, and is {key}.")
    return jax.random.key(int(key))


def optimizer_of(optimizer: Optimizer) -> Optimizer:
    """An Optax optimizer, or a learning rate as a number."""
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    try:
        rate = checks.number(optimizer)
    except TypeError:
        raise TypeError(f"`optimizer` must be a learning rate or an Optax optimizer, and is {optimizer!r}.") from None
    if rate is None:  # traced
        return optimizer
    if not 0 <= rate < float("inf"):
        raise ValueError(f"A learning rate must be finite and at least 0, and `optimizer` is {rate:g}.")
    return rate

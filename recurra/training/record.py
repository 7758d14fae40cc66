"""Ready-made functions to record: each takes an `Outcome` inside the compiled loop, one result a step.

What they return goes into the result of a run, or into a `Sink`.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from recurra.cells.base import State, Weights
from recurra.linalg import inner, norm
from recurra.step import Outcome


@runtime_checkable
class Sink(Protocol):
    """Takes in records while a run goes on, so that they need not all be in memory: for `train(record_into=...)`.

    A checkpoint keeps what `state` returns, and a run that goes on from it begins with `restore`.

    >>> class Mean:
    ...     def __init__(self):
    ...         self.total, self.steps = np.zeros(2), 0
    ...     def add(self, records):
    ...         self.total += records["norm"]["applied"].sum(axis=1)
    ...         self.steps += records["norm"]["applied"].shape[1]
    ...     def state(self):
    ...         return {"total": self.total, "steps": np.array(self.steps)}
    ...     def restore(self, state):
    ...         self.total, self.steps = state["total"], int(state["steps"])
    >>> network, record = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), {"norm": rc.record.gradient_norms}
    >>> result = rc.train(
    ...     network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200, seeds=2, record=record, record_into=(mean := Mean())
    ... )
    >>> mean.steps, (mean.total / mean.steps).shape
    (200, (2,))
    """

    def add(self, records: Mapping[str, PyTree[np.ndarray]]) -> None:
        """The records of the next steps, as `Result.records` would hold them: leaves (seed, step, ...)."""
        ...

    def state(self) -> Mapping[str, np.ndarray]:
        """All that was taken in so far, as arrays of numbers by name."""
        ...

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it does not fit."""
        ...


def state(outcome: Outcome) -> State:
    """Every state variable.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> record = {"a": rc.record.state, "g": rc.record.gradients}
    >>> result = rc.train(network, rc.RFLO(), task, steps=200, record=record)
    >>> result.records["a"][0].shape
    (1, 200, 8)
    """
    return outcome.state


def gradients(outcome: Outcome) -> dict[str, Weights]:
    """Each learner's gradient, in full.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> record = {"a": rc.record.state, "g": rc.record.gradients}
    >>> result = rc.train(network, rc.RFLO(), task, steps=200, record=record)
    >>> result.records["g"]["applied"][0].rec.shape
    (1, 200, 8, 8)
    """
    return outcome.gradients


def emitted(outcome: Outcome) -> dict[str, Bool[Array, ""]]:
    """Whether each learner emitted a gradient.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> record = {"emitted": rc.record.emitted, "norm": rc.record.gradient_norms}
    >>> result = rc.train(network, rc.EfficientBPTT(T=10), task, steps=200, record=record)
    >>> float(result.records["emitted"]["applied"].mean())
    0.1
    """
    return outcome.emitted


def gradient_norms(outcome: Outcome) -> dict[str, Float[Array, ""]]:
    """The norm of each learner's gradient; nan where it emitted none.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> record = {"emitted": rc.record.emitted, "norm": rc.record.gradient_norms}
    >>> result = rc.train(network, rc.EfficientBPTT(T=10), task, steps=200, record=record)
    >>> float(np.isnan(result.records["norm"]["applied"]).mean())
    0.9
    """
    return {name: jnp.where(outcome.emitted[name], norm(g), jnp.nan) for name, g in outcome.gradients.items()}


def alignments(outcome: Outcome) -> dict[str, dict[str, Float[Array, ""]]]:
    """The cosine between the gradients of every two learners; nan where either emitted none, or a zero.

    >>> network, task = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), rc.Add(t1=1, t2=2)
    >>> probes, record = {"rflo": rc.RFLO()}, {"cos": rc.record.alignments}
    >>> result = rc.train(network, rc.RTRL(), task, steps=200, probes=probes, record=record)
    >>> result.records["cos"]["applied"]["rflo"].shape
    (1, 200)
    """
    names = list(outcome.gradients)
    norms = gradient_norms(outcome)

    def cosine(x: str, y: str) -> Float[Array, ""]:
        product = norms[x] * norms[y]
        return jnp.where(product > 0, inner(outcome.gradients[x], outcome.gradients[y]) / product, jnp.nan)

    return {x: {y: cosine(x, y) for y in names[i + 1 :]} for i, x in enumerate(names[:-1])}

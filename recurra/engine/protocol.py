"""What an engine is: it prepares a run of many members, and computes their steps.

Everything else an engine decides for itself: on which device, how many members at a time, how they are compiled, and
after how many steps it hands over what it has.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from recurra.engine.experiment import Experiment, Start
from recurra.engine.hardware import check_fits
from recurra.network import NetworkWeights
from recurra.step import DelayedState, LearningState

#: bytes that a seed takes while its key is made
KEY_BYTES = 64


class Members(NamedTuple):
    """The members of a run: a key for each, the numbers in which they differ, and what they start from.

    `numbers` has the structure of the experiment, with an array (members, ...) in the place of every number that
    differs and None elsewhere; or it is None. `start` has weights or states, (members, ...); None: they are drawn.
    States belong to the learners of the experiment as they are, so an engine puts no other form in their place.
    """

    keys: Key[Array, " members"]
    numbers: PyTree = None
    start: Start | None = None

    @staticmethod
    def of_seeds(key: PRNGKeyArray, seeds: Sequence[int]) -> "Members":
        """Members that differ in their seed alone."""
        check_fits(KEY_BYTES * len(seeds), f"The keys of {len(seeds):,} seeds", "take fewer seeds")
        return Members(jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(np.array(seeds, np.uint32))))


class Piece(NamedTuple):
    """What happened from one step to another: each step's loss, (member, step), and records, (member, step, ...).

    `labelled` tells in how many streams each step had a label, (member, step); None: in all of them. For a single
    stream it holds truth values. The loss is the mean over the streams that had one, and nan where none had.

    Where `every` is more than one, each loss is the mean over so many steps, all of them with a label. Both ends are
    multiples of it. `diverged` then tells at which step a member's loss was first not finite, (member,), counted from
    `start`; -1: at none.
    """

    start: int
    stop: int
    loss: np.ndarray
    labelled: np.ndarray | None
    records: PyTree[np.ndarray]
    every: int = 1
    diverged: np.ndarray | None = None


class Ends(NamedTuple):
    """Where the members of a run are: all that goes on to the next step, (member, ...), and the keys of their noise.

    Members have come equally far. So nothing in `state` counts steps, and `t` is None. States of learners that ran in
    another form are tagged with it: see `recurra.engine.specialise`.
    """

    state: LearningState | DelayedState
    noise: np.ndarray


@runtime_checkable
class Run(Protocol):
    """An experiment on its way."""

    #: the steps that every member has taken
    done: int
    #: what it is computed on, in words
    device: str
    #: the shapes of what one step of one member records
    recorded: PyTree[jax.ShapeDtypeStruct]

    def advance(self, stop: int) -> Iterator[Piece]:
        """Take every member to step `stop`, piece by piece. A caller may stop after any piece: the run stays there."""
        ...

    def weights(self) -> NetworkWeights:
        """Each member's weights now, (member, ...), in arrays of JAX's or NumPy's, as the run chooses."""
        ...

    def restart(self, weights: NetworkWeights) -> None:
        """Place all members before their first step again, with these weights, (member, ...)."""
        ...

    def ends(self, most: int) -> Callable[[], Ends] | None:
        """A function that brings to the host where each member is now; None if that takes more than `most` bytes.

        The states wait where they are until it is called.
        """
        ...

    def snapshot(self) -> list[np.ndarray]:
        """All that the run needs to go on, as plain arrays."""
        ...

    def restore(self, arrays: Sequence[np.ndarray], done: int) -> None:
        """Go on from a snapshot of the same run, taken after so many steps."""
        ...

    def __enter__(self) -> "Run": ...

    def __exit__(self, *exception: object) -> None: ...


@runtime_checkable
class Engine(Protocol):
    """A way to run experiments."""

    def prepare(self, experiment: Experiment, members: Members, window: int = 1) -> Run:
        """Place all members before their first step, and compile.

        The caller needs no more than the mean losses of windows of so many steps, counted from step 0. So an engine
        may hand over means, over a number of steps that divides a window. Most hand over the loss of every step.
        """
        ...

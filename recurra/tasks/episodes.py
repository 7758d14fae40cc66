"""What tasks of episodes share: episodes of any lengths, one after the other, laid out over blocks of steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree, Shaped

from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Task, WholeNumber

#: the longest episode, so that steps of a block of them can be counted in 32 bits
MOST_STEPS = 2**20


class Underway(NamedTuple):
    """What was drawn for the latest episode, how many of its steps are over, and how many are left."""

    drawn: PyTree[Array]
    age: Int[Array, ""]
    left: Int[Array, ""]


def none_yet(drawn: PyTree[Array]) -> Underway:
    """The state before the first block, so that every stream draws its first episode itself.

    `drawn` has the shapes of what is drawn for an episode.
    """
    zero = jnp.zeros((), "int32")
    return Underway(drawn, zero, zero)


def slots(task: Task, shortest: int, longest: int) -> int:
    """How many episodes to draw for a block: enough if all are short.

    It is a power of two, so that few programs serve all lengths.
    """
    if longest > MOST_STEPS:
        raise ValueError(
            f"An episode of {type(task).__name__} may have at most {MOST_STEPS:,} steps, and has {longest:,}."
        )
    return 1 << (-(-BLOCK // shortest) - 1).bit_length()


def lay_out(
    state: Underway, drawn: PyTree[Shaped[Array, "slots ..."]], length: WholeNumber | Int[Array, " slots"]
) -> tuple[PyTree[Shaped[Array, "steps ..."]], Int[Array, " steps"], Underway]:
    """What was drawn for the episode of each step of a block, the step's number in it, and the next state.

    `drawn` are the next episodes, and `length` their numbers of steps. Those that do not begin in this block are lost.
    """
    slots = len(jax.tree.leaves(drawn)[0])
    every = jax.tree.map(lambda now, then: jnp.concatenate([now[None], then]), state.drawn, drawn)
    lengths = jnp.concatenate([state.left[None], jnp.broadcast_to(jnp.asarray(length, "int32"), (slots,))])
    ends = jnp.cumsum(lengths)
    starts = jnp.concatenate([-state.age[None], ends[:-1]])
    i = jnp.arange(BLOCK, dtype="int32")
    which = jnp.sum(i[:, None] >= ends[None, :-1], axis=1, dtype="int32")
    age = i - starts[which]
    at = lambda k: jax.tree.map(lambda each: each[k], every)
    return at(which), age, Underway(at(which[-1]), age[-1] + 1, ends[which[-1]] - BLOCK)


def check_labels(task: Task, loss: Loss, examples: Any, kind: str, advice: str) -> None:
    """Raise if the loss does not take labels such as these: `kind` says what they are, and `advice` what to use."""
    try:
        loss.check_labels(np.asarray(examples, float))
    except ValueError:
        raise ValueError(
            f"Labels of {type(task).__name__} are {kind}, and the loss is {type(loss).__name__}: use "
            f"Network(..., loss=recurra.{advice}())."
        ) from None


def check_classes(task: Task, loss: Loss) -> None:
    """Raise unless the loss takes labels that are one of several classes."""
    check_labels(task, loss, np.eye(task.n_out), "one of several classes", "SoftmaxCrossEntropy")

"""Steps without end: the number of a step stays within 32 bits.

Learners use the number t of a step in two ways. They ask whether it is at least some small number, and for its
remainder by the length of a period or of a ring. So once t is large it can be set back by a multiple of all these
lengths, and no learner notices.
"""

import dataclasses
import math
from collections.abc import Mapping

import jax.numpy as jnp
from jaxtyping import Array, Int

from recurra.learners.base import Learner

#: twice this fits into 32 bits
MOST = 2**29


def set_back(
    learners: Mapping[str, Learner], t: Int[Array, ""], first: Int[Array, "*streams"] | None
) -> tuple[Int[Array, ""], Int[Array, "*streams"] | None]:
    """The number of a step, and that of the latest reset, set back if t is large."""
    far = distance(learners)
    earlier = lambda number: jnp.where(t >= 2 * far, number - far, number)
    return earlier(t), None if first is None else jnp.maximum(earlier(first), -far)


def distance(learners: Mapping[str, Learner]) -> int:
    """How far t is set back: a multiple of every whole number in the learners' fields, and of one more than it."""
    fields = (getattr(each, field.name) for each in learners.values() for field in dataclasses.fields(each))
    counts = [field for field in fields if type(field) is int and field > 0]
    every = math.lcm(*counts, *(count + 1 for count in counts))
    return MOST // every * every if every <= MOST else MOST

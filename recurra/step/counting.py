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
from recurra.step.contracts import is_own

#: twice this fits into 32 bits
MOST = 2**29


def set_back(
    learners: Mapping[str, Learner], t: Int[Array, ""], first: Int[Array, "*streams"] | None
) -> tuple[Int[Array, ""], Int[Array, "*streams"] | None]:
    """The number of a step, and that of the latest reset, set back if t is large."""
    far = distance(learners)
    if far is None:
        return t, first
    earlier = lambda number: jnp.where(t >= 2 * far, number - far, number)
    return earlier(t), None if first is None else jnp.maximum(earlier(first), -far)


def check_endless(learners: Mapping[str, Learner]) -> None:
    """Raise unless the steps of these learners can be counted without end."""
    if distance(learners) is None:
        told = ", ".join(map(repr, learners.values()))
        raise ValueError(
            f"Rows without end cannot be counted for {told}: the lengths by which they count have no common multiple "
            f"up to {MOST:,}. Use shorter lengths, or lengths that divide each other."
        )


def distance(learners: Mapping[str, Learner]) -> int | None:
    """How far t is set back: a multiple of all that learners may count by, and where that is too much, of what they do.

    None if that is too much too, as for two learners with unlike lengths above some 20,000. Their t is not set back,
    and they must not run for 2³¹ steps: `train` takes no more than that, and what runs without end refuses them.
    """
    for counts in (_whole_numbers(learners), _lengths(learners)):
        every = math.lcm(*counts)
        if every <= MOST:
            return MOST // every * every
    return None


def _whole_numbers(learners: Mapping[str, Learner]) -> list[int]:
    """Every whole number in the learners' fields, and one more than it."""
    fields = (getattr(each, field.name) for each in learners.values() for field in dataclasses.fields(each))
    counts = [field for field in fields if type(field) is int and field > 0]
    return [*counts, *(count + 1 for count in counts)]


def _lengths(learners: Mapping[str, Learner]) -> list[int]:
    """The same, but of a lag or a period that a learner of the library names only the length of its ring."""
    counts = []
    for each in learners.values():
        named = {} if is_own(each) else {each.about.lag: [each.lag + 1], each.about.period: [each.period]}
        for field in dataclasses.fields(each):
            value = getattr(each, field.name)
            if type(value) is int and value > 0:
                counts += named.get(field.name, [value, value + 1])
    return counts

"""RTRL with the errors of another learner: all of its noise and none of its bias, or a part of its bias.

Both learners run side by side over the same steps. With g RTRL's gradient and ĝ the other's, the error of a step is
ĝ - g, and what is applied is g + f (ĝ - g) with a factor f of one's choice.
"""

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import RTRL, About, PastFacing, Tick, noise
from recurra.cells import Cell, Credit, Influence, Weights
from recurra.learners import check_pairing
from recurra.linalg import combine, dense


class SideBySide(NamedTuple):
    """RTRL's M, the state of the other learner, and the factor f of this step."""

    exact: Influence
    other: PyTree
    factor: Float[Array, ""]


class RTRLWithErrors(PastFacing):
    """g + f (ĝ - g), where ĝ is the gradient of the learner `like`; |f| is `scale`."""

    like: PastFacing
    scale: float | Float[Array, ""] = 1.0

    @abc.abstractmethod
    def factors(self, key: PRNGKeyArray, steps: int, dtype: jnp.dtype) -> Float[Array, " steps"]:
        """f of every step."""

    def check(self, cell: Cell) -> None:
        check_pairing(self.like, cell)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> SideBySide:
        other = self.like.init(cell, weights, key, n_out)
        return SideBySide(RTRL().init(cell, weights, key, n_out), other, jnp.zeros((), cell.dtype))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[PyTree, Float[Array, " steps"]]:
        # The other learner draws what it would draw by itself; f needs a key that it does not use.
        return self.like.noise(cell, key, steps), self.factors(jax.random.fold_in(key, steps), steps, cell.dtype)

    def advance(self, tick: Tick, state: SideBySide, noise: tuple[PyTree, Float[Array, ""]]) -> SideBySide:
        of_other, factor = noise
        exact = RTRL().advance(tick, state.exact, None)
        return SideBySide(exact, self.like.advance(tick, state.other, of_other), factor)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: SideBySide) -> Weights:
        g = RTRL().contract(cell, weights, c, state.exact)
        other = dense(self.like.contract(cell, weights, c, state.other))
        return combine(1 - state.factor, g, state.factor, other)

    def forget(self, cell: Cell, state: SideBySide) -> SideBySide:
        other = self.like.forget(cell, state.other)
        return SideBySide(RTRL().forget(cell, state.exact), other, jnp.zeros_like(state.factor))


class RTRLWithNoise(RTRLWithErrors):
    """g ± σ (ĝ - g), with a sign that is drawn anew at every step; σ is `scale`.

    At each step this noise has the second moments of the error of `like`, times σ². It has no bias, and is not
    correlated in time. σ² = 1/k stands for the mean of k copies.
    """

    about = About("rtrl-with-noise", "RTRL with noise", stochastic=True)

    def factors(self, key: PRNGKeyArray, steps: int, dtype: jnp.dtype) -> Float[Array, " steps"]:
        return self.scale * noise.signs(key, (steps,), dtype)


class RTRLWithBias(RTRLWithErrors):
    """g + s (ĝ - g), where s is `scale`: 0 is RTRL, and 1 is `like` itself."""

    about = About("rtrl-with-bias", "RTRL with bias")

    def factors(self, key: PRNGKeyArray, steps: int, dtype: jnp.dtype) -> Float[Array, " steps"]:
        return self.scale * jnp.ones(steps, dtype)

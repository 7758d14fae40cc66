"""Steps that cannot overshoot: ObGD (Elsayed, Vasan and Mahmood 2024), and its adaptive variant.

Where weights w move along δ z, with an error δ and the derivative or eligibility trace z of what was in error, the
error itself moves by about α δ z·z. A step that is too long overshoots, and without batches or replay nothing averages
that out. So the step size is cut where

    α κ max(|δ|, 1) ‖z‖₁  >  1

to the largest one that fulfils the bound. Then ‖Δw‖₁ ≤ 1/κ, whatever comes in. If what is learned is linear in features
between -1 and 1, the error shrinks by at most the share 1/κ in a step, and never changes its sign for κ ≥ 1.

An agent passes max(|δ|, 1) |z| as `reach`. A gradient of a loss has no such parts. It is taken for δ z with |δ| ≥ 1, so
that `reach` is its size.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from recurra import checks
from recurra.linalg import total, zeros_like
from recurra.step.optimizers import Described, Number, number


class ObGD(Described):
    """Overshooting-bounded gradient descent: steps of size α = `learning_rate`, cut so that ‖Δw‖₁ ≤ 1/κ.

    The recurrent weights and the readout of a network that learns from labels are bounded each by itself; all weights
    of an agent are bounded together.

    >>> rc.ObGD(kappa=3.0)  # for `train(..., optimizer=...)` and agents
    ObGD(kappa=3.0)
    """

    learning_rate: Number = number(1.0)
    kappa: Number = number(2.0)

    command = "obgd"

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "kappa", above=0.0)

    def built(self) -> optax.GradientTransformation:
        def update(updates: PyTree, state: Any, params: PyTree = None, *, reach: PyTree = None, **_: object) -> tuple:
            rate = bounded(self.learning_rate, self.kappa, updates if reach is None else reach)
            return _scaled(rate, updates), state

        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


class Moments(NamedTuple):
    """Steps so far, and the running mean of squared gradients."""

    steps: Int[Array, ""]
    v: PyTree[Array]


class AdaptiveObGD(Described):
    """ObGD of gradients that are divided by their running root mean square, as in Adam without its first moment.

    The bound holds for the divided step, so that here too ‖Δw‖₁ ≤ 1/κ.

    >>> rc.AdaptiveObGD(decay=0.99).decay
    0.99
    """

    learning_rate: Number = number(1.0)
    kappa: Number = number(2.0)
    decay: Number = number(0.999)
    eps: Number = number(1e-8)

    command = "adaptive-obgd"

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "kappa", above=0.0)
        checks.in_range(self, "decay", least=0.0, below=1.0)
        checks.in_range(self, "eps", above=0.0)

    def built(self) -> optax.GradientTransformation:
        def init(params: PyTree) -> Moments:
            return Moments(jnp.zeros((), "int32"), zeros_like(params))

        def update(
            updates: PyTree, state: Moments, params: PyTree = None, *, reach: PyTree = None, **_: object
        ) -> tuple:
            v = jax.tree.map(lambda v, g: self.decay * v + (1 - self.decay) * g * g, state.v, updates)
            count = state.steps + 1
            seen = 1 - self.decay ** count.astype(jnp.result_type(float))
            divided = lambda tree: jax.tree.map(lambda g, v: g / jnp.sqrt(v / seen.astype(v.dtype) + self.eps), tree, v)
            step = divided(updates)
            rate = bounded(self.learning_rate, self.kappa, step if reach is None else divided(reach))
            return _scaled(rate, step), Moments(count, v)

        return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def bounded(rate: Number, kappa: Number, reach: PyTree[Array]) -> Float[Array, ""]:
    """The step size, cut to 1 / (κ ‖reach‖₁) where it is larger."""
    length = total(*(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(reach)))
    return rate / jnp.maximum(1.0, rate * kappa * length)


def _scaled(rate: Float[Array, ""], gradient: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(lambda g: -rate.astype(g.dtype) * g, gradient)

"""Ready-made functions to record: each takes an `Outcome` inside the compiled loop, one result a step."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from recurra.cells.base import State, Weights
from recurra.linalg import inner, norm
from recurra.step import Outcome


def state(outcome: Outcome) -> State:
    """Every state variable."""
    return outcome.state


def gradients(outcome: Outcome) -> dict[str, Weights]:
    """Each learner's gradient, in full."""
    return outcome.gradients


def emitted(outcome: Outcome) -> dict[str, Bool[Array, ""]]:
    """Whether each learner emitted a gradient."""
    return outcome.emitted


def gradient_norms(outcome: Outcome) -> dict[str, Float[Array, ""]]:
    """The norm of each learner's gradient; nan where it emitted none."""
    return {name: jnp.where(outcome.emitted[name], norm(g), jnp.nan) for name, g in outcome.gradients.items()}


def alignments(outcome: Outcome) -> dict[str, dict[str, Float[Array, ""]]]:
    """The cosine between the gradients of every two learners; nan where either emitted none, or a zero."""
    names = list(outcome.gradients)
    norms = gradient_norms(outcome)

    def cosine(x: str, y: str) -> Float[Array, ""]:
        product = norms[x] * norms[y]
        return jnp.where(product > 0, inner(outcome.gradients[x], outcome.gradients[y]) / product, jnp.nan)

    return {x: {y: cosine(x, y) for y in names[i + 1 :]} for i, x in enumerate(names[:-1])}

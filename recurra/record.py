"""Ready-made recorders: functions of a `Moment` that run inside the compiled loop, one result a step."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from recurra.algebra import inner, norm
from recurra.cells.base import State, Weights
from recurra.moment import Moment


def state(moment: Moment) -> State:
    """Every state variable."""
    return moment.state


def gradients(moment: Moment) -> dict[str, Weights]:
    """Each learner's gradient, in full."""
    return moment.gradients


def emitted(moment: Moment) -> dict[str, Bool[Array, ""]]:
    """Whether each learner emitted a gradient."""
    return moment.emitted


def gradient_norms(moment: Moment) -> dict[str, Float[Array, ""]]:
    """The norm of each learner's gradient; nan where it emitted none."""
    return {name: jnp.where(moment.emitted[name], norm(g), jnp.nan) for name, g in moment.gradients.items()}


def alignments(moment: Moment) -> dict[str, dict[str, Float[Array, ""]]]:
    """The cosine between the gradients of every two learners; nan where either emitted none, or a zero."""
    names = list(moment.gradients)
    norms = gradient_norms(moment)

    def cosine(x: str, y: str) -> Float[Array, ""]:
        product = norms[x] * norms[y]
        return jnp.where(product > 0, inner(moment.gradients[x], moment.gradients[y]) / product, jnp.nan)

    return {x: {y: cosine(x, y) for y in names[i + 1 :]} for i, x in enumerate(names[:-1])}

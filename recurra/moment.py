"""What a run knows of one step, and how it waits for gradients that come late."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recurra.cells.base import Weights


class Moment(NamedTuple):
    """All that a run knows of one step, as a recorder sees it.

    `gradients` and `emitted` have one entry for each learner: "applied" for the one that trains, and the probes under
    their names. A delayed gradient stands at the step it belongs to: with one aboard, moments arrive late but whole.
    With several streams, all but loss, gradients and emitted, which are means or shared, have a leading axis for them.
    """

    input: Float[Array, "*streams n_in"]
    label: Float[Array, "*streams n_out"]
    output: Float[Array, "*streams n_out"]
    loss: Float[Array, ""]
    state: PyTree[Float[Array, "*streams n"]]
    gradients: dict[str, Weights]
    emitted: dict[str, Bool[Array, ""]]


Recorder = Callable[[Moment], PyTree[Array]]


def delay_lines(
    x: Float[Array, "*streams n_in"],
    y: Float[Array, "*streams n_out"],
    state: PyTree[Array],
    weights: Weights,
    delay: int,
    waits: Mapping[str, int],
) -> Moment:
    """Empty rings in the shape of a moment, each as long as what it holds must wait for the latest gradient."""
    ring = lambda steps: lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype)
    hold = ring(delay)
    return Moment(
        input=hold(x),
        label=hold(y),
        output=hold(y),
        loss=hold(jnp.zeros((), x.dtype)),
        state=jax.tree.map(hold, state),
        gradients={name: jax.tree.map(ring(steps), weights) for name, steps in waits.items()},
        emitted={name: ring(steps)(jnp.zeros((), bool)) for name, steps in waits.items()},
    )


def delayed(now: Moment, late: Moment, t: Int[Array, ""]) -> tuple[Moment, Moment]:
    """The moment that is whole now, and the rings: what is read was written one round ago."""
    leaves, treedef = jax.tree.flatten(now)
    rings = treedef.flatten_up_to(late)
    ready = [ring[t % len(ring)] if len(ring) else leaf for leaf, ring in zip(leaves, rings, strict=True)]
    rings = [ring.at[t % len(ring)].set(leaf) if len(ring) else ring for leaf, ring in zip(leaves, rings, strict=True)]
    return jax.tree.unflatten(treedef, ready), jax.tree.unflatten(treedef, rings)

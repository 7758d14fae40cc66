"""The weights of a unit-wise cell, by gate and by source, and what is kept of a step to linearize it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.cells.structure import Blocks


class Sources(NamedTuple):
    """An entry for each source of a gate: recurrent units, inputs and bias. None where it does not listen to one.

    >>> (gate,) = rc.RNN(n_in=2, n=8).init_weights(jax.random.key(0))
    >>> gate.rec.shape, gate.inp.shape, gate.bias.shape
    ((8, 8), (8, 2), (8, 1))
    """

    rec: Any
    inp: Any
    bias: Any


Gates = tuple[Sources, ...]


class Trace(NamedTuple):
    """The local derivatives of one step, and ahat, what the gates received. It has size O(n) and holds no weights."""

    H: Blocks
    D: Blocks
    ahat: Sources


def listened(gate: Sources, ahat: Sources, f: Callable[[Any, Array], Any]) -> Sources:
    """f(weights, ahat.source) for the sources that this gate listens to."""
    return Sources(*(None if w is None else f(w, u) for w, u in zip(gate, ahat, strict=True)))


def heard(gate: Sources, ahat: Sources) -> Float[Array, "*rows m"]:
    """All that a gate listens to, side by side."""
    return side_by_side(listened(gate, ahat, lambda _, u: u))


def side_by_side(blocks: Sources) -> Float[Array, "*rows m"]:
    """What a gate has for each source, as one array whose last axis runs over all of them."""
    return jnp.concatenate([block for block in blocks if block is not None], axis=-1)


def apart(gate: Sources, rows: Float[Array, "*rows m"]) -> Sources:
    """The inverse of `side_by_side`: blocks like those of the gate's weights."""
    widths = [block.shape[1] for block in gate if block is not None]
    edges = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
    blocks = iter(jnp.split(rows, edges, axis=-1))
    return Sources(*(None if block is None else next(blocks) for block in gate))

"""Synthetic credit: a linear map that predicts c, fitted by bootstrapping. What DNI and DNI(b) share."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.cells.base import Cell, Credit, State
from recurra.cells.tick import Tick
from recurra.linalg import either, matvec, outer, total, where

#: linear maps by output and by input: Map[p][l] takes vector l to a term of vector p
Map = tuple[tuple[Float[Array, "_ _"], ...], ...]


class Synthesizer(NamedTuple):
    """c ≈ A ã, its slow copy A* that bootstraps, and features and immediate credit of the previous step."""

    A: Map
    A_star: Map
    features: State
    cbar: Credit


def first_synthesizer(cell: Cell, key: PRNGKeyArray, n_out: int, no_cbar: Credit) -> Synthesizer:
    """A ~ N(0, 1/√n), with an output for each entry of `no_cbar`, the immediate credit before the first step."""
    outputs, inputs = cell.widths[: len(no_cbar)], (cell.shown_width, n_out, 1)
    keys = jax.random.split(key, (len(outputs), len(inputs)))
    std = cell.widths[0] ** -0.5
    A = tuple(
        tuple(std * jax.random.normal(keys[p, l], (rows, columns), cell.dtype) for l, columns in enumerate(inputs))
        for p, rows in enumerate(outputs)
    )
    return Synthesizer(A, A, features(cell, cell.init_state(), jnp.zeros(n_out, cell.dtype)), no_cbar)


def features(cell: Cell, a: State, label: Float[Array, " n_out"]) -> State:
    """ã = (a, y*, 1), where a is what the readout sees: unlike an LSTM's memory, that stays bounded."""
    return (cell.show(a), label, jnp.ones(1, label.dtype))


def apply(A: Map, inputs: State) -> State:
    """A ã."""
    return tuple(total(*map(matvec, row, inputs)) for row in A)


def descended(A: Map, inputs: State, target: State, rate: float | Float[Array, ""]) -> Map:
    """One step of A down ½‖A inputs - target‖²."""
    error = map(jnp.subtract, apply(A, inputs), target)
    return tuple(
        tuple(a - rate * outer(e, u) for a, u in zip(row, inputs, strict=True)) for row, e in zip(A, error, strict=True)
    )


def fitted(
    tick: Tick, state: Synthesizer, cbar: Credit, bootstrap: State, rate: float | Float[Array, ""], interval: int
) -> Synthesizer:
    """The next synthesizer: A takes one step towards the target of the previous step, cbar(t-1) + bootstrap."""
    target = tuple(total(u, c) for u, c in zip(state.cbar, bootstrap, strict=True))
    # Before the first step there was no label: the present one stands for it, as in the authors' program.
    previous = where(tick.t == 0, features(tick.cell, tick.before, tick.label), state.features)
    A = descended(state.A, previous, target, rate)
    A_star = either(jax.lax.rem(tick.t + 1, tick.t.dtype.type(interval)) == 0, A, state.A_star)
    return Synthesizer(A, A_star, features(tick.cell, tick.state, tick.label), cbar)

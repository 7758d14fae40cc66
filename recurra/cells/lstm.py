"""Long short-term memory."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from recurra import checks
from recurra.cells.base import State
from recurra.cells.initial import MatrixInit, orthogonal
from recurra.cells.unitwise import UnitwiseCell


class LSTM(UnitwiseCell):
    """c(t) = σ(f) c(t-1) + σ(i) tanh(g),  h(t) = σ(o) tanh(c(t)); the forget gate starts open, with bias 1.

    >>> rc.LSTM(n_in=2, n=16).widths  # h and c
    (16, 16)
    """

    n_in: int
    n: int
    w_rec: MatrixInit = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    states: ClassVar[int] = 2
    variables: ClassVar = ("h", "c")
    gates: ClassVar = ("i", "f", "g", "o")
    listens: ClassVar = ((True, True, True),) * 4
    first_bias: ClassVar = (0.0, 1.0, 0.0, 0.0)

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")

    def unit(self, a: State, z: State) -> State:
        _, c = a
        i, f, g, o = z
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

"""The gated recurrent unit."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from recurra import checks
from recurra.cells.base import State
from recurra.cells.initial import MatrixInit, orthogonal
from recurra.cells.unitwise import UnitwiseCell


class GRU(UnitwiseCell):
    """a(t) = u a(t-1) + (1 - u) tanh(x_n + r h_n): the reset gate acts after the recurrent product.

    That order makes the unit local: h_n hears the network, x_n the input, and the two meet inside the unit.

    >>> rc.GRU(n_in=2, n=16).widths
    (16,)
    """

    n_in: int
    n: int
    w_rec: MatrixInit = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    states: ClassVar[int] = 1
    variables: ClassVar = ("a",)
    gates: ClassVar = ("r", "u", "h_n", "x_n")
    listens: ClassVar = ((True, True, True), (True, True, True), (True, False, True), (False, True, True))
    first_bias: ClassVar = (0.0, 0.0, 0.0, 0.0)

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")

    def unit(self, a: State, z: State) -> State:
        r, u, h_n, x_n = z
        u = jax.nn.sigmoid(u)
        return (u * a[0] + (1 - u) * jnp.tanh(x_n + jax.nn.sigmoid(r) * h_n),)

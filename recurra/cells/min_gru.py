"""The minimal gated recurrent unit (Feng et al. 2024): gates hear the input alone."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from recurra import checks
from recurra.cells.base import State
from recurra.cells.unitwise import UnitwiseCell


class MinGRU(UnitwiseCell):
    """a(t) = (1 - u) a(t-1) + u h, with u = σ(W_u x + b_u) and h = W_h x + b_h: linear in the state.

    >>> rc.MinGRU(n_in=2, n=16).is_recurrent  # does a unit hear others?
    False
    """

    n_in: int
    n: int
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    w_rec: ClassVar[Any] = None
    states: ClassVar[int] = 1
    variables: ClassVar = ("a",)
    gates: ClassVar = ("u", "h")
    listens: ClassVar = ((False, True, True),) * 2
    first_bias: ClassVar = (0.0,) * 2

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")

    def unit(self, a: State, z: State) -> State:
        u, h = jax.nn.sigmoid(z[0]), z[1]
        return ((1 - u) * a[0] + u * h,)

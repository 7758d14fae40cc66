"""The leaky vanilla network of the paper."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra import checks
from recurra.cells.base import State
from recurra.cells.initial import MatrixInit, orthogonal
from recurra.cells.unitwise import UnitwiseCell


class RNN(UnitwiseCell):
    """a(t) = (1 - α) a(t-1) + α φ(W ahat(t-1)).

    α in (0, 1] is the inverse time constant; φ any elementwise function; `w_rec` draws the recurrent weights.

    >>> cell = rc.RNN(n_in=2, n=32, alpha=0.5, w_rec=rc.cells.gaussian)
    >>> cell.widths
    (32,)
    """

    n_in: int
    n: int
    alpha: float | Float[Array, ""] = 1.0
    phi: Callable[[Array], Array] = eqx.field(static=True, default=jnp.tanh)
    w_rec: MatrixInit = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    states: ClassVar[int] = 1
    variables: ClassVar = ("a",)
    gates: ClassVar = ("w",)
    listens: ClassVar = ((True, True, True),)
    first_bias: ClassVar = (0.0,)

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")
        checks.in_range(self, "alpha", above=0.0, most=1.0)
        checks.function(self, "phi", "jax.numpy.tanh")

    def unit(self, a: State, z: State) -> State:
        return ((1 - self.alpha) * a[0] + self.alpha * self.phi(z[0]),)

"""The columnar LSTM (Javed et al. 2023): every unit is an LSTM of its own, with one hidden number."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import State
from recurra.cells.unitwise import UnitwiseCell


class ColumnarLSTM(UnitwiseCell):
    """c(t) = σ(f) c(t-1) + σ(i) tanh(g),  h(t) = σ(o) tanh(c(t)), as in an LSTM.

    Each gate hears the input and the h(t-1) of its own unit, as in i = W_i x + u_i h + b_i. The u start at N(0, 0.1),
    and the forget gate starts open, with bias 1.

    >>> rc.ColumnarLSTM(n_in=2, n=16).widths  # h and c
    (16, 16)
    """

    n_in: int
    n: int
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    w_rec: ClassVar[Any] = None
    states: ClassVar[int] = 2
    variables: ClassVar = ("h", "c")
    gates: ClassVar = ("i", "f", "g", "o", "u_i", "u_f", "u_g", "u_o")
    listens: ClassVar = ((False, True, True),) * 4 + ((False, False, True),) * 4
    first_bias: ClassVar = (0.0, 1.0, 0.0, 0.0) + (0.0,) * 4

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")

    def unit(self, a: State, z: State) -> State:
        h, c = a
        i, f, g, o = (x + u * h for x, u in zip(z[:4], z[4:], strict=True))
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    def biases(self, key: PRNGKeyArray) -> tuple[Float[Array, " #n"], ...]:
        of_gates = (jnp.full(1, bias, self.dtype) for bias in self.first_bias[:4])
        return *of_gates, *(0.1 * jax.random.normal(key, (4, self.n), self.dtype))

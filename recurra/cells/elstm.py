"""The LSTM with element-wise recurrence (Irie et al. 2023)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import State
from recurra.cells.unitwise import UnitwiseCell


class ELSTM(UnitwiseCell):
    """c(t) = f c(t-1) + (1 - f) z, with f = σ(F x + w_f c(t-1)) and z = tanh(Z x + w_z c(t-1)).

    w_f and w_z are vectors: a unit hears itself and no other. They start at N(0, 0.1).

    >>> rc.ELSTM(n_in=2, n=16).is_recurrent  # does a unit hear others?
    False
    """

    n_in: int
    n: int
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    w_rec: ClassVar[Any] = None
    states: ClassVar[int] = 1
    variables: ClassVar = ("c",)
    gates: ClassVar = ("f", "z", "w_f", "w_z")
    listens: ClassVar = ((False, True, True),) * 2 + ((False, False, True),) * 2
    first_bias: ClassVar = (0.0,) * 4

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")

    def unit(self, a: State, z: State) -> State:
        (c,) = a
        x_f, x_z, w_f, w_z = z
        f = jax.nn.sigmoid(x_f + w_f * c)
        return (f * c + (1 - f) * jnp.tanh(x_z + w_z * c),)

    def biases(self, key: PRNGKeyArray) -> tuple[Float[Array, " #n"], ...]:
        none = jnp.zeros(1, self.dtype)
        return none, none, *(0.1 * jax.random.normal(key, (2, self.n), self.dtype))

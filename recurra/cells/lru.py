"""The linear recurrent unit (Orvieto et al. 2023; trained online by Zucchet et al. 2023)."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import State
from recurra.cells.gates import Gates
from recurra.cells.unitwise import UnitwiseCell
from recurra.linalg import decomposable

#: why cells that learn λ need single precision
FEW_DIGITS = "so few digits round |λ| near 1, and with it how long the cell remembers"


class LRU(UnitwiseCell):
    """h(t) = λ h(t-1) + exp(γ) B x(t), with λ = exp(-exp(ν) + i exp(ω)): complex numbers, one for each unit.

    The state holds the real and the imaginary part of h, and the readout sees both: W (Re h, Im h) is the Re(C h) of
    the paper. Its D x are the direct connections of `Network(skip=True)`.

    The λ start in a ring, |λ| between `r_min` and `r_max`, with phases up to `max_phase`. γ starts where h has the
    variance of B x for inputs without correlations in time, and then is a parameter like any other.

    >>> rc.LRU(n_in=2, n=16, r_min=0.9, r_max=0.999).shown_width
    32
    """

    n_in: int
    n: int
    r_min: float | Float[Array, ""] = 0.0
    r_max: float | Float[Array, ""] = 1.0
    max_phase: float | Float[Array, ""] = 6.28
    dtype: jnp.dtype = eqx.field(static=True, default=None, converter=checks.float_dtype)

    w_rec: ClassVar[Any] = None
    states: ClassVar[int] = 2
    variables: ClassVar = ("h_re", "h_im")
    shown: ClassVar = (0, 1)
    gates: ClassVar = ("b_re", "b_im", "nu", "omega", "gamma")
    listens: ClassVar = ((False, True, False),) * 2 + ((False, False, True),) * 3
    first_bias: ClassVar = (0.0,) * 5

    def __check_init__(self) -> None:
        checks.whole(self, "n_in")
        checks.whole(self, "n")
        checks.in_range(self, "r_max", above=0.0, most=1.0)
        r_max = checks.number(self.r_max)
        checks.in_range(self, "r_min", least=0.0, most=1.0 if r_max is None else r_max)
        checks.in_range(self, "max_phase", above=0.0)
        checks.warn_if_half(self.name, self.dtype, FEW_DIGITS)

    def unit(self, a: State, z: State) -> State:
        re, im = a
        b_re, b_im, nu, omega, gamma = z
        c, s = rotation(nu, omega)
        return c * re - s * im + jnp.exp(gamma) * b_re, c * im + s * re + jnp.exp(gamma) * b_im

    def biases(self, key: PRNGKeyArray) -> tuple[Float[Array, " #n"], ...]:
        nu, omega = ring(key, self.n, self.dtype, self.r_min, self.r_max, self.max_phase)
        gamma = jnp.log(-jnp.expm1(-2 * jnp.exp(nu))) / 2
        none = jnp.zeros(1, self.dtype)
        return none, none, nu, omega, gamma

    def init_weights(self, key: PRNGKeyArray) -> Gates:
        """B ~ N(0, 1/√(2 n_in)) in each part, so that |B| is of the size of other cells' w_in."""
        b_re, b_im, *others = super().init_weights(key)
        return *(gate._replace(inp=gate.inp / 2**0.5) for gate in (b_re, b_im)), *others


@jax.custom_jvp
def rotation(nu: Float[Array, " n"], omega: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """λ = exp(-exp(ν) + i exp(ω)), as its real and imaginary part."""
    # A sine and a cosine in its place would be computed again in every loop that uses λ, at three times the cost.
    wide = decomposable(nu.dtype)
    exponent = jax.lax.complex(-jnp.exp(nu.astype(wide)), jnp.exp(omega.astype(wide)))
    rotated = jnp.exp(exponent)
    return rotated.real.astype(nu.dtype), rotated.imag.astype(nu.dtype)


@rotation.defjvp
def _(at: tuple[Array, Array], by: tuple[Array, Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """dλ = λ (-exp(ν) dν + i exp(ω) dω): from λ itself, with no sine or cosine of its own."""
    c, s = rotation(*at)
    shrunk, turned = -jnp.exp(at[0]) * by[0], jnp.exp(at[1]) * by[1]
    return (c, s), (shrunk * c - turned * s, shrunk * s + turned * c)


def ring(
    key: PRNGKeyArray,
    n: int,
    dtype: jnp.dtype,
    r_min: float | Float[Array, ""],
    r_max: float | Float[Array, ""],
    max_phase: float | Float[Array, ""],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """ν and ω of λ that are uniform over a ring: |λ|² ~ U(r_min², r_max²), phase ~ U(0, max_phase)."""
    wide = decomposable(dtype)
    limits = jnp.finfo(wide)
    u, v = jax.random.uniform(key, (2, n), wide, minval=limits.tiny)  # logarithms of zero would be infinite
    low, high = jnp.asarray(r_min, wide) ** 2, jnp.asarray(r_max, wide) ** 2
    squared = jnp.minimum(low + (high - low) * u, 1 - limits.eps)
    return jnp.log(-jnp.log(squared) / 2).astype(dtype), jnp.log(jnp.asarray(max_phase, wide) * v).astype(dtype)

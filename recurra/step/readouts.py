"""Recursive least squares: a readout that is, at every step, the best one for the whole past.

For squared errors the best readout has a closed form, and it can be kept up to date from step to step. Gradient descent
needs many steps to come near it.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from recurra import checks
from recurra.linalg import decomposable, matvec, outer, vecmat
from recurra.network import Network, Readout
from recurra.step.optimizers import Number, floating


class RLS(checks.Part):
    """With u = (1, a, x) the readout minimises Σ_s λ^(t-s) ‖z(s) - y*(s)‖² + λ^t ridge ‖W, V, b‖².

        k = P(t-1) u / (λ + u P(t-1) u)
        P(t) = (P(t-1) - k u P(t-1)) / λ
        (b, W, V)(t) = (b, W, V)(t-1) - error k

    λ is `forgetting`. P is kept as a square root S, P = S Sᵀ (Potter, 1963). So it stays positive, whatever is rounded
    and however long the run. With forgetting, P would grow without bound where an input stands still. So in every step
    the coefficient that is least certain is brought back to P_ii ≤ 1/ridge, what it was at the start. For that to be
    enough, the memory 1 / (1 - λ) must be as long as there are coefficients.

    A `LearningStep` with a shorter memory is a ValueError, and with another loss than `SquaredError` a TypeError.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=1, loss=rc.SquaredError())
    >>> readout = rc.RLS(forgetting=0.999)
    >>> step = rc.LearningStep(network, rc.RFLO(), 1e-3, readout=readout)
    """

    forgetting: Number = eqx.field(default=1.0, converter=floating)
    ridge: Number = eqx.field(default=1.0, converter=floating)

    def __check_init__(self) -> None:
        checks.in_range(self, "forgetting", above=0.0, most=1.0)
        checks.in_range(self, "ridge", above=0.0)

    def check(self, network: Network) -> None:
        """Raise if the memory is too short for the readout of this network; warn if its numbers have too few digits."""
        why = "least squares subtract large numbers that are nearly equal, and so few digits leave little of them"
        checks.warn_if_half("RLS", network.cell.dtype, why)
        kept, count = checks.number(self.forgetting), _coefficients(network)
        if kept is not None and (1 - kept) * count > 1 + 1e-6:
            least = math.ceil((1 - 1 / count) * 1e6) / 1e6
            raise ValueError(
                f"`forgetting` of RLS is {kept:g}, a memory of {1 / (1 - kept):.3g} steps, and an output has {count} "
                f"coefficients, which so few steps cannot tell: use at least {least}, or fewer units."
            )

    def init(self, network: Network) -> Float[Array, "u u"]:
        """S before the first step. The readout itself starts at zero."""
        dtype = decomposable(network.cell.dtype)
        return jnp.eye(_coefficients(network), dtype=dtype) / jnp.sqrt(jnp.asarray(self.ridge, dtype))

    def follow(
        self,
        judged: Bool[Array, "*streams"] | bool,
        error: Float[Array, "*streams n_out"],
        u: Float[Array, "*streams u"],
        S: Float[Array, "u u"],
        readout: Readout,
    ) -> tuple[Readout, Float[Array, "u u"]]:
        """The readout and S after a step; streams count one after the other, and only where there was a label."""
        if error.ndim == 1:
            return self._follow(judged, error, u, S, readout)

        def of_stream(running: tuple[Readout, Array], row: tuple) -> tuple[tuple[Readout, Array], None]:
            counts, error, u = row
            now, S = running
            error = error + _output(now, u) - _output(readout, u)  # streams before this one have moved the readout
            return self._follow(counts, error, u, S, now), None

        rows = jnp.broadcast_to(jnp.asarray(judged), error.shape[:1]), error, u
        return jax.lax.scan(of_stream, (readout, S), rows)[0]

    def _follow(
        self, judged: Array | bool, error: Array, u: Array, S: Array, readout: Readout
    ) -> tuple[Readout, Array]:
        zero, one = jnp.zeros((), S.dtype), jnp.ones((), S.dtype)
        kept = jnp.where(judged, jnp.asarray(self.forgetting, S.dtype), one)  # without a label nothing is forgotten
        f = vecmat(jnp.where(judged, u.astype(S.dtype), zero), S)
        beta = kept + jnp.sum(f * f)
        Sf = matvec(S, f)
        S = (S - outer(Sf / (beta + jnp.sqrt(kept * beta)), f)) / jnp.sqrt(kept)
        S = self._bounded(S, judged)
        k = (Sf / beta).astype(u.dtype)
        edge = 1 + readout.W.shape[1]
        moved = lambda weights, gain: weights - outer(error, gain)
        V = None if readout.V is None else moved(readout.V, k[edge:])
        return Readout(moved(readout.W, k[1:edge]), readout.b - error * k[0], V), S

    def _bounded(self, S: Float[Array, "u u"], judged: Array | bool) -> Float[Array, "u u"]:
        """S after the least certain coefficient i, if P_ii > 1/ridge, was observed once more at its present value.

        Such an observation changes no coefficient, and makes none less certain. Its noise is such that P_ii = 1/ridge.
        Without a label S stays as it is.
        """
        variance, most = jnp.sum(S * S, axis=1), 1 / jnp.asarray(self.ridge, S.dtype)
        i = jnp.argmax(variance)
        f, s = S[i], variance[i]
        # 1 - √(most / s) of the direction f goes.
        c = jnp.where((s > most) & judged, (1 - jnp.sqrt(most / jnp.maximum(s, most))) / jnp.maximum(s, most), 0)
        return S - outer(c * matvec(S, f), f)


def _coefficients(network: Network) -> int:
    """How many numbers u has."""
    return 1 + network.cell.shown_width + network.cell.n_in * network.skip


def _output(readout: Readout, u: Float[Array, " u"]) -> Float[Array, " n_out"]:
    edge = 1 + readout.W.shape[1]
    z = matvec(readout.W, u[1:edge]) + readout.b
    return z if readout.V is None else z + matvec(readout.V, u[edge:])

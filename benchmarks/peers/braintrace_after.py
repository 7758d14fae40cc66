"""What came after the paper, in braintrace: pp_prop and SnAp-1 of the leaky cell, and D_RTRL of adaptive spiking units.

    python benchmarks/peers/braintrace_after.py        its steps are those of the library, in double precision

Steps, loop, loss and descent are those of `braintrace_peer`. SnAp-1 is `SnAp` with n = 1. D_RTRL of the spiking cell is
RFLO, with three traces for each weight.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import brainstate
import braintrace
import jax
import jax.numpy as jnp
import numpy as np

from bare.spikes import DAMPENING, REFRACTORY, TAU_A, TAU_OUT, TAU_V, THRESHOLD
from peers.braintrace_peer import LeakyCell, trainer
from textbook.loop import N_IN, N_OUT, Add


@jax.custom_jvp
def spike(u):
    """1 where u > 0, with a triangle in the place of the derivative."""
    return (u > 0).astype(u.dtype)


@spike.defjvp
def _(primals, tangents):
    (u,), (du,) = primals, tangents
    return spike(u), DAMPENING * jnp.maximum(1 - jnp.abs(u), 0) * du


class AdaptiveCell(brainstate.nn.RNNCell):
    """`ALIF` of the library: v = α v + W ahat - ϑ z,   z = Θ(v - ϑ - β b),   b = ρ b + z,   f = κ f + (1 - κ) z.

    Hidden states of braintrace must not depend on each other within a step. So b and f are kept from before the spikes
    of a step, which follow from v and b.
    """

    def __init__(self, n: int):
        super().__init__()
        self.n, self.W = n, braintrace.nn.Linear(N_IN + n, n, b_init=None)
        self.decays = brainstate.ShortTermState(jnp.exp(-1 / jnp.asarray([TAU_V, TAU_A, TAU_OUT])))

    def init_state(self, batch_size: int | None = None, **kwargs) -> None:
        zero = lambda: jnp.zeros((batch_size, self.n))
        self.v, self.b, self.f = (brainstate.HiddenState(zero()) for _ in range(3))
        self.rest = brainstate.ShortTermState(zero())

    def update(self, x):
        alpha, rho, kappa = self.decays.value
        v, b, rest = self.v.value, self.b.value, self.rest.value
        z = self.spikes(v, b, rest)
        heard = jax.lax.stop_gradient(z)
        rest = jnp.maximum(rest + REFRACTORY * heard - 1, 0)
        v = alpha * v + self.W(jnp.concatenate([x, heard], axis=-1)) - THRESHOLD * heard
        b, f = rho * b + z, kappa * self.f.value + (1 - kappa) * z
        self.v.value, self.b.value, self.f.value, self.rest.value = v, b, f, rest
        return kappa * f + (1 - kappa) * self.spikes(v, b, rest)

    def spikes(self, v, b, rest):
        """z, which is zero while a unit rests."""
        alpha, rho, _ = self.decays.value
        beta = 1.7 * (1 - rho) / (1 - alpha)
        return jnp.where(rest > 0, 0, spike((v - THRESHOLD - beta * b) / THRESHOLD))


#: by name: the algorithm, its options, and the cell of n units and a leak
KNOWN: dict[str, tuple[type, dict, Callable]] = {
    "pp_prop leaky": (braintrace.pp_prop, {"decay_or_rank": 0.9}, LeakyCell),
    "SnAp-1 leaky": (braintrace.SnAp, {"n": 1}, LeakyCell),
    "D_RTRL ALIF": (braintrace.D_RTRL, {}, lambda n, alpha: AdaptiveCell(n)),
}


def learner_of(what: str, n: int, streams: int, alpha: float):
    """The cell, and what learns it."""
    algorithm, options, make = KNOWN[what]
    cell = make(n, alpha)
    return cell, braintrace.compile(cell, algorithm, jnp.zeros((streams, N_IN)), batch_size=streams, **options)


def runner(what: str, n: int, steps: int, streams: int = 1) -> Callable[[], np.ndarray]:
    """A call that takes `steps` steps and returns the loss of each; its first two calls compile."""
    _, learner = learner_of(what, n, streams, 1.0)
    advance = trainer(learner, brainstate.nn.Linear(n, N_OUT))
    rng, task = np.random.default_rng(0), Add(streams)
    return lambda: np.asarray(advance(*task.draw(rng, steps)))


def disagreement(what: str, alpha: float) -> float:
    """How far the weights are from the library's after the same steps, relative to how far they moved."""
    import recurra
    from agreement import ALPHA, DTYPE, N, travelled
    from recurra.cells import gaussian

    rnn = recurra.RNN(N_IN, N, alpha=ALPHA, dtype=DTYPE)
    ours = {
        "pp_prop leaky": (rnn, recurra.PPProp()),
        "SnAp-1 leaky": (rnn, recurra.SnAp1()),
        # Here units hear themselves, as they do in braintrace.
        "D_RTRL ALIF": (
            recurra.ALIF(N_IN, N, w_rec=gaussian, threshold=THRESHOLD * alpha / ALPHA, dtype=DTYPE),
            recurra.RFLO(),
        ),
    }
    first, (_, x, label, _), last, _ = travelled(*ours[what], 1, lambda state, over: state.weights)
    cell, learner = learner_of(what, N, 1, alpha)
    readout = brainstate.nn.Linear(N, N_OUT)
    (gate,), weight = first.cell, lambda gate: jnp.concatenate([gate.inp, gate.rec], axis=1).T
    cell.W.weight.value = {"weight": weight(gate)} | ({} if gate.bias is None else {"bias": gate.bias[:, 0]})
    readout.weight.value = {"weight": first.readout.W.T, "bias": first.readout.b}
    trainer(learner, readout)(x[:, None], label[:, None])
    moved = jnp.max(jnp.abs(weight(last.cell[0]) - weight(gate)))
    return float(jnp.max(jnp.abs(weight(last.cell[0]) - cell.W.weight.value["weight"])) / moved)


def check() -> None:
    """Raise if braintrace strays from the library, or if it would pass with another leak or threshold."""
    from agreement import ALPHA

    jax.config.update("jax_enable_x64", True)
    brainstate.environ.set(precision=64)
    for what in KNOWN:
        right, wrong = (disagreement(what, alpha) for alpha in (ALPHA, ALPHA + 1e-3))
        print(f"{what:14} {right:.1e}, with another leak or threshold {wrong:.1e}", flush=True)
        if not right < 1e-8 < wrong:
            raise SystemExit(f"braintrace's {what} does not take the library's steps, or nothing shows it.")


if __name__ == "__main__":
    check()

"""Does braintrace do the work it is timed for? In double precision its steps must be those of the NumPy loops.

    python benchmarks/peers/braintrace_agreement.py

D_RTRL must be RFLO, and UORO must be UORO when both draw the same signs and begin with nothing remembered; `pp_prop` is
in none of the other programs. With a leak of its own each must fail.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import brainstate
import braintrace
import jax
import jax.numpy as jnp
import numpy as np

from peers.braintrace_peer import OPTIONS, LeakyCell, trainer
from textbook import past
from textbook.loop import N_IN, N_OUT, Add, Network, signs, train

N, STEPS, ALPHA, TOLERANCE = 32, 200, 0.7, 1e-8


def disagreement(algorithm: str, alpha: float = ALPHA, streams: int = 1) -> float:
    """The largest difference of the recurrent weights after some steps, relative to how far they moved.

    All streams see the same, so that the mean of their gradients is that of one.
    """
    rng = np.random.default_rng(0)
    net = Network.random(N, rng, "float64")
    net.alpha, first = ALPHA, net.W.copy()
    (inputs, labels), nu = Add().draw(rng, STEPS, "float64"), signs(rng, (STEPS, N), "float64")
    cell, readout = LeakyCell(N, alpha), brainstate.nn.Linear(N, N_OUT)
    cell.W.weight.value = {"weight": jnp.asarray(inputs_first(net.W).T), "bias": jnp.asarray(net.W[:, -1])}
    readout.weight.value = {"weight": jnp.asarray(net.W_out.T), "bias": jnp.asarray(net.b_out)}

    class GivenSigns(braintrace.UORO):
        """UORO with the signs of the NumPy loop."""

        def _draw_projection(self, key, step, group_index, shape, dtype):
            return jnp.asarray(nu)[step].reshape(shape)

    kind = {"D_RTRL": braintrace.D_RTRL, "UORO": GivenSigns}[algorithm]
    learner = braintrace.compile(cell, kind, jnp.zeros((streams, N_IN)), batch_size=streams, **OPTIONS[algorithm])
    trainer(learner, readout)(*(rows[:, None].repeat(streams, axis=1) for rows in (inputs, labels)))

    own = {"D_RTRL": past.RFLO, "UORO": past.UORO}[algorithm](net, rng)
    own.A, own.B = np.zeros(N), np.zeros_like(net.W)
    train(net, own, inputs, labels, nu)
    difference = inputs_first(net.W) - np.asarray(cell.W.weight.value["weight"]).T
    return np.abs(difference).max() / np.abs(net.W - first).max()


def inputs_first(W):
    """The weights without their bias, in braintrace's order of sources."""
    return np.column_stack([W[:, N:-1], W[:, :N]])


def main() -> None:
    """Raise if braintrace strays from the NumPy loops, or if it would pass with another leak."""
    jax.config.update("jax_enable_x64", True)
    brainstate.environ.set(precision=64)
    for algorithm, streams in (("D_RTRL", 1), ("D_RTRL", 3), ("UORO", 1)):
        right, wrong = (disagreement(algorithm, alpha, streams) for alpha in (ALPHA, ALPHA + 1e-3))
        print(f"{algorithm:8} {streams} streams {right:.1e}, with another leak {wrong:.1e}")
        if not right < TOLERANCE < wrong:
            raise SystemExit(f"braintrace's {algorithm} does not take the NumPy loop's steps, or nothing shows it.")


if __name__ == "__main__":
    main()

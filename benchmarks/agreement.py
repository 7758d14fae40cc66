"""Does a bare loop compute what the library computes? Both take the same steps from the same numbers, and must agree.

In double precision, so that what differs is the algorithm and not its rounding, and with a leak, so that it counts.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import recurra
from bare import ALGORITHMS
from bare.loop import BLOCK, RATE, Carry, Sources, take_block

N, STEPS, ALPHA, TOLERANCE = 32, BLOCK, 0.7, 1e-8

#: three blocks of the library, whose bias keeps an axis of length one
sources = lambda blocks: Sources(blocks[0], blocks[1], blocks[2][..., 0])
synthesizer = lambda s: (sources(s.A[0]), sources(s.A_star[0]), s.label, s.cbar[0])
history = lambda s: (s.traces.D[0][0], s.traces.ahat.rec, s.traces.ahat.inp, s.credit[0])

#: the state a learner of the library keeps, in the shape its bare loop keeps it
STATES: dict[str, Callable[[Any], Any]] = {
    "rtrl": lambda s: (s.M, s.jacobians, s.traces.D[0][0], jnp.concatenate(s.traces.ahat, axis=1)),
    "uoro": lambda s: (s.A[0], sources(s.B[0])),
    "kf-rtrl": lambda s: (sources(s.A), s.B[0][0]),
    "r-kf-rtrl": lambda s: (s.A[0], sources([b[0] for b in s.B])),
    "r-ok": lambda s: (s.A, s.B.reshape(N * N, -1)),
    "kernl": lambda s: (s.A[0][0], s.alpha[0], sources(s.B[0][0]), s.noisy[0], s.Omega[0], s.Gamma[0]),
    "rflo": lambda s: sources(s[0][0]),
    "e-bptt": history,
    "f-bptt": history,
    "dni": synthesizer,
    "dni-b": lambda s: (synthesizer(s.synthesizer), s.J[0][0], s.W_fb),
    "fixed": lambda s: None,
}

#: the same for a block of its random numbers
NOISES: dict[str, Callable[[Any], Any]] = {
    "uoro": lambda nu: nu[0],
    "kf-rtrl": lambda nu: jnp.stack(nu, axis=1),
    "r-kf-rtrl": lambda nu: nu[0],
    "r-ok": lambda signs: signs,
    "kernl": lambda zeta: zeta[0],
}


def disagreement(name: str, bare_alpha: float = ALPHA) -> float:
    """How far the bare loop ends from the library when both take the same steps."""
    with jax.enable_x64(True):
        first, inputs, last, losses = journey(name)
        carry, bare_losses = take_block(ALGORITHMS[name], bare_alpha, first, inputs)
        return distance(first, (last, losses), (carry, bare_losses))


def journey(name: str):
    """Some steps of the library from random numbers: where it starts, what it is given, where it ends, its losses."""
    network = recurra.Network(recurra.RNN(n_in=2, n=N, alpha=ALPHA, dtype="float64"), n_out=2)
    learner = recurra.LEARNERS[name]()
    keys = jax.random.split(jax.random.key(0), 4)
    weights = network.init(keys[0])
    state = learner.init(network.cell, weights.cell, keys[1], network.n_out)
    t, noise = jnp.arange(STEPS, dtype="int32"), learner.noise(network.cell, keys[2], STEPS)
    x, label, _ = recurra.Add().block(recurra.Add().init(keys[3], "float64"), keys[3], jnp.array(0), "float64")

    first = as_bare(name, weights, network.cell.init_state(), state)
    last, losses = by_library(network, learner, weights, state, (t, x, label, noise))
    bare_noise = NOISES[name](noise) if name in NOISES else None
    return first, (t, x, label, bare_noise), as_bare(name, *last), losses


def distance(first, library, other) -> float:
    """The largest difference of two ends and their losses, relative to how far each number moved from the first."""
    (last, losses), (there, other_losses) = library, other
    moved = jax.tree.map(lambda new, old, there: _relative(new - there, new - old), last, first, there)
    return float(max(*jax.tree.leaves(moved), _relative(losses - other_losses, losses)))


def by_library(network, learner, weights, state, inputs):
    """Every step through the public pieces: Network.step, Learner.step and plain gradient descent."""

    @eqx.filter_jit
    def step(weights, a, state, inputs):
        t, x, label, noise = inputs
        result = network.step(weights, a, x, label, t)
        gradient, state = learner.step(result.tick, state, noise)
        down = lambda w, g: w - RATE * g
        cell = jax.tree.map(lambda w, g: jnp.where(learner.emits(t), down(w, g), w), weights.cell, gradient)
        readout = jax.tree.map(down, weights.readout, result.readout_gradient)
        return weights._replace(cell=cell, readout=readout), result.tick.state, state, result.loss

    a, losses = network.cell.init_state(), []
    for t in range(STEPS):
        weights, a, state, loss = step(weights, a, state, jax.tree.map(lambda rows, t=t: rows[t], inputs))
        losses.append(loss)
    return (weights, a, state), jnp.stack(losses)


def as_bare(name, weights, a, state) -> Carry:
    """A moment of the library in the shape a bare loop carries."""
    return Carry(sources(weights.cell[0]), *weights.readout, a[0], STATES[name](state))


def _relative(difference, size):
    largest = jnp.max(jnp.abs(size))
    return jnp.max(jnp.abs(difference)) / jnp.where(largest > 0, largest, 1)


def check(names) -> None:
    """Raise if a bare loop strays from the library, or if one with another leak would pass."""
    if disagreement("rflo", bare_alpha=ALPHA + 1e-3) < TOLERANCE:
        raise SystemExit("The comparison is blind: a bare loop with another leak passes it.")
    worst = {name: disagreement(name) for name in names}
    strayed = {name: value for name, value in worst.items() if not value < TOLERANCE}
    if strayed:
        raise SystemExit(f"These bare loops do not compute what the library does: {strayed}.")
    print(f"within {max(worst.values()):.0e}, these bare loops take the library's {STEPS} steps: {', '.join(names)}")

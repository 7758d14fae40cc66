"""Does a NumPy loop compute what the library computes? `python benchmarks/textbook_agreement.py` says how closely.

The library takes its steps as in `agreement`, in double precision and with a leak; the NumPy loop begins with the same
weights, state and random numbers. Each comparison is made twice: with a gradient (or, where none is applied, a leak) a
thousandth too large it must fail.
"""

from functools import cache
from operator import attrgetter

import jax
import numpy as np

import textbook
from agreement import ALPHA, STEPS, TOLERANCE, distance, journey
from bare.loop import Sources
from textbook.loop import Learner, Network, train

WRONG = 1.001
SYNTHESIZER = ("synthesizer.A", "synthesizer.A_star", "synthesizer.label", "synthesizer.cbar")

#: where a NumPy loop keeps what a bare loop keeps, in its order. BPTT keeps its history as lists that begin empty: only
#: what it does to the weights is compared.
STATES: dict[str, tuple[str, ...]] = {
    "rtrl": ("M",),
    "uoro": ("A", "B"),
    "kf-rtrl": ("A", "B"),
    "r-kf-rtrl": ("A", "B"),
    "r-ok": ("A", "B"),
    "kernl": ("A", "alpha", "B", "noisy", "Omega", "Gamma"),
    "rflo": ("B",),
    "e-bptt": (),
    "f-bptt": (),
    "dni": SYNTHESIZER,
    "dni-b": (*SYNTHESIZER, "J", "W_fb"),
    "fixed": (),
}


class Exaggerated(Learner):
    """A learner whose gradient is a little too large."""

    def __init__(self, learner):
        self.learner = learner

    def gradient(self, s, noise):
        gradient = self.learner.gradient(s, noise)
        return gradient if gradient is None else WRONG * gradient


def disagreement(name: str, alpha: float = ALPHA, exaggerate: bool = False) -> float:
    """How far the NumPy loop ends from the library when both take the same steps."""
    with jax.enable_x64(True):
        first, (x, label, noise), last, losses = remembered(name)
        net, learner = placed(name, first, alpha)
        applied = Exaggerated(learner) if exaggerate else learner
        own_losses = train(net, applied, x, label, learner.draw(None, STEPS) if noise is None else noise)
        there = [net.W, net.W_out, net.b_out, net.a, *(attrgetter(path)(learner) for path in STATES[name])]
        return distance(first, (last, losses), (there, own_losses))


@cache
def remembered(name: str):
    """The library's steps as plain arrays, in the order weights, readout, activity, state."""
    first, (_, x, label, noise), last, losses = jax.tree.map(np.asarray, journey(name))
    return arrays(name, first), (x, label, noise), arrays(name, last), losses


def arrays(name: str, carry) -> list[np.ndarray]:
    """What a bare loop carries, with the three sources of a unit's input side by side."""
    joined = [
        np.concatenate([leaf.rec, leaf.inp, leaf.bias[..., None]], axis=-1) if isinstance(leaf, Sources) else leaf
        for leaf in jax.tree.leaves(carry, is_leaf=lambda node: isinstance(node, Sources))
    ]
    if name == "r-ok":  # which a textbook keeps in columns, B by the unit that is influenced first
        *network, A, B = joined
        n = len(network[0])
        return [*network, A.T, B.reshape(-1, n, n).transpose(2, 1, 0).reshape(n * n, -1)]
    return joined[: 4 + len(STATES[name])]


def placed(name: str, first: list[np.ndarray], alpha: float) -> tuple[Network, Learner]:
    """A network and a learner that begin with copies of these numbers."""
    W, W_out, b_out, a, *state = map(np.copy, first)
    net = Network(W, W_out, b_out, a, alpha)
    learner = textbook.ALGORITHMS[name](net, np.random.default_rng(0))
    for path, value in zip(STATES[name], state, strict=True):
        *owner, attribute = path.split(".")
        setattr(attrgetter(owner[0])(learner) if owner else learner, attribute, value)
    return net, learner


def check(names) -> dict[str, float]:
    """How far each loop ends from the library; raise if one strays, or if a slightly wrong one would pass."""
    found = {name: disagreement(name) for name in names}
    strayed = {name: value for name, value in found.items() if not value < TOLERANCE}
    if strayed:
        raise SystemExit(f"These NumPy loops do not compute what the library does: {strayed}.")
    wrong = {
        name: disagreement(name, WRONG * ALPHA) if name == "fixed" else disagreement(name, exaggerate=True)
        for name in names
    }
    blind = {name: value for name, value in wrong.items() if not value > TOLERANCE}
    if blind:
        raise SystemExit(f"The comparison is blind: these pass it although they are made wrong: {blind}.")
    print(f"within {max(found.values()):.0e}, these NumPy loops take the library's {STEPS} steps: {', '.join(names)}")
    return found


if __name__ == "__main__":
    for name, value in check(list(textbook.ALGORITHMS)).items():
        print(f"{name:10} {value:.1e}")

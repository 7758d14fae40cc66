"""What a learner of the library keeps, in the shape its bare loop keeps it.

A bare loop leaves out what an LSTM's structure makes redundant, and joins what one product of matrices takes.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from bare.cells import CELLS, Local, Sources
from bare.loop import Carry
from recurra.engine.forms import Pending
from recurra.learners.eligibility import filtered
from recurra.step import APPLIED, LearningState


class Translation:
    """Everything of one cell, by its kind."""

    def __init__(self, kind: str):
        self.kind, self.cell = kind, CELLS[kind](1.0)

    def carry(self, name: str, state: LearningState, over: Callable) -> Carry:
        """Where the library is; what is not shared, `over` streams."""
        own = over(lambda learner: self.state(name, state.weights.cell, learner))(state.learners[APPLIED])
        return Carry(gates(state.weights.cell), state.weights.readout.W, state.weights.readout.b, state.a, own)

    def state(self, name: str, W, s) -> Any:
        """A learner's state."""
        variables = range(self.cell.states)
        states: dict[str, Callable[[], Any]] = {
            "rtrl": lambda: (s.M, self.waiting(s)),
            "uoro": lambda: (s.A, gates(s.B)),
            "kf-rtrl": lambda: (sources(s.A), tuple(jnp.concatenate([B[p] for B in s.B], axis=1) for p in variables)),
            "r-kf-rtrl": lambda: (s.A, tuple(sources([B[p] for B in s.B]) for p in variables)),
            "r-ok": lambda: (s.A, s.B.reshape(len(s.B), -1)),
            "kernl": lambda: (s.A, s.alpha, tuple(map(gates, s.B)), s.noisy, s.Omega, s.Gamma),
            "rflo": lambda: gates(up_to_date(W, s)[-1]),  # of the last state variable: the others' nobody reads
            "e-bptt": lambda: (self.local(s.traces), s.traces.ahat.rec, s.traces.ahat.inp, s.cbar[0]),
            "f-bptt": lambda: (self.local(s.traces), s.traces.ahat.rec, s.traces.ahat.inp, s.credit),
            "dni": lambda: synthesizer(s),
            "dni-b": lambda: (synthesizer(s.synthesizer), s.J[0][0], s.W_fb),
            "fixed": lambda: None,
        }
        return states[name]()

    def noise(self, name: str, noise) -> Any:
        """A block of a learner's random numbers."""
        if noise is None or name == "r-ok":
            return noise
        return jnp.stack(noise, axis=1) if name == "kf-rtrl" else jnp.concatenate(noise, axis=1)

    def local(self, traces) -> Local:
        """The derivatives of many steps."""
        H, D = traces.H, traces.D
        if self.kind != "lstm":
            return Local(D[0], H[0][0] if self.kind == "gru" else None)
        forget, through = H[1][1], H[0][1]  # the library keeps dh/d(memory) times the forget gate
        shown = jnp.where(forget > 0, through / jnp.where(forget > 0, forget, 1), 0)
        return Local((*D[1][:3], D[0][3]), forget, shown)

    def waiting(self, s) -> Any:
        """The steps since RTRL brought M up to date: J, by state variable, derivatives, and what gates heard."""
        return tuple(jnp.split(s.columns, self.cell.states, axis=1)), self.local(s.traces), self.heard(s.traces)

    def heard(self, traces) -> Any:
        """What gates hear, for each choice of sources."""
        pick = lambda hears: [rows for rows, heard in zip(traces.ahat, hears, strict=True) if heard]
        return {hears: jnp.concatenate(pick(hears), axis=1) for hears in self.cell.hears}


def sources(blocks) -> Sources:
    """Three blocks of the library, whose bias keeps an axis of length one."""
    return Sources(blocks[0], blocks[1], blocks[2][..., 0])


def gates(blocks) -> tuple[Sources | None, ...]:
    """Weights, or something of their shape; None for a gate that has nothing."""
    return tuple(None if all(block is None for block in gate) else sources(gate) for gate in blocks)


def up_to_date(W, s) -> Any:
    """RFLO's eligibilities, which the library keeps from before the last step where that is smaller."""
    return filtered(W, s.trace.H, s.trace, s.B) if isinstance(s, Pending) else s


def synthesizer(s) -> Any:
    """DNI's state; of the features of the previous step, the label alone is not known otherwise."""
    _, label, _ = s.features
    return gates(s.A), gates(s.A_star), label, s.cbar[0]

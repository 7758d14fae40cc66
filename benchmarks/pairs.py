"""The library's side of what came after the paper: cell and learner, and what they keep in the shape of a bare loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

import recurra
from bare.loop import Carry
from bare.rotations import Weights, turning
from bare.spikes import Heard
from recurra.cells.base import Cell
from recurra.learners.base import Learner
from recurra.step import APPLIED, LearningState
from translation import sources, up_to_date


class Pair(NamedTuple):
    """A cell of n units, from (n, dtype, α), a learner, and W, a and the learner's state as the bare loop has them."""

    cell: Callable[[int, Any, float], Cell]
    learner: Learner
    W: Callable[[Any], Any]
    a: Callable[[Any], Any]
    #: from the weights and the learner's state of one stream
    own: Callable[[Any, Any], Any]

    def carry(self, state: LearningState, over: Callable) -> Carry:
        """Where the library is; what is not shared, `over` streams."""
        weights = state.weights.cell
        own = over(lambda learner: self.own(weights, learner))(state.learners[APPLIED])
        return Carry(self.W(weights), state.weights.readout.W, state.weights.readout.b, over(self.a)(state.a), own)


def rnn(n: int, dtype: Any, alpha: float) -> recurra.RNN:
    """The leaky RNN on the Add task."""
    return recurra.RNN(2, n, alpha=alpha, dtype=dtype)


def two_rnns(n: int, dtype: Any, alpha: float) -> recurra.Stack:
    """Two layers of it."""
    return recurra.Stack(rnn(n, dtype, alpha), recurra.RNN(n, n, alpha=alpha, dtype=dtype))


def rotation(W) -> Weights:
    """Weights of trace units; inputs first."""
    w_1, w_2, nu, omega = W
    return Weights(w_1.inp.T, w_2.inp.T, nu.bias[:, 0], omega.bias[:, 0])


def of_rotation(W, s) -> Any:
    """Their influences on both parts of h, without those of w_2."""
    parts = [rotation(B) for B in up_to_date(W, s)[:2]]
    return tuple(tuple(getattr(part, name) for part in parts) for name in ("w_1", "nu", "omega"))


def heard(gate) -> Heard:
    """What units without self-connections have for each source."""
    return Heard(gate.rec.matrix, gate.inp)


def of_spikes(W, s) -> Any:
    """Influences on v, which all units share, on b and on f."""
    return Heard(s.b.rec, s.b.inp), *(heard(B[0]) for B in s.B[2:4])


as_it_is = lambda a: a
gates = lambda W: tuple(map(sources, W))

PAIRS: dict[str, Pair] = {
    "SnAp-1, RNN": Pair(rnn, recurra.SnAp1(), gates, as_it_is, lambda W, s: gates(s[0])),
    "pp_prop, RNN": Pair(rnn, recurra.PPProp(), gates, as_it_is, lambda W, s: (s.X.rec, s.X.inp, s.F[0][0], s.share)),
    "RTRL, RTU": Pair(
        lambda n, dtype, alpha: recurra.RTU(2, n, dtype=dtype),
        recurra.RTRL(),
        lambda W: turning(rotation(W)),
        lambda a: (jnp.concatenate(a[2:]), *a[:2]),
        of_rotation,
    ),
    "RFLO, ALIF": Pair(
        lambda n, dtype, alpha: recurra.ALIF(2, n, dtype=dtype),
        recurra.RFLO(),
        lambda W: heard(W[0]),
        lambda a: (a[3], *a[:3], a[4]),
        of_spikes,
    ),
    "Layered RFLO, two RNNs": Pair(
        two_rnns,
        recurra.Layered(recurra.RFLO()),
        lambda W: tuple(sources(gate) for (gate,) in W),
        lambda a: a[::-1],
        lambda W, s: tuple(sources(B[0][0]) for B in s.M),
    ),
}

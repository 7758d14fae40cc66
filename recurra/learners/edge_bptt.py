"""Truncated backpropagation through time that does not end at its far edge: a trace of M goes on from there."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, LazyWeights, Weights
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, Unfaced
from recurra.learners.e_bptt import EfficientBPTT, Segment, carried_back
from recurra.learners.following import advanced, check_followed, first_influence
from recurra.learners.rflo import RFLO
from recurra.linalg import dense


class Edge(NamedTuple):
    """The steps of a segment, and the estimates of M before its first step and after its latest one."""

    segment: Segment
    before: PyTree[Array]
    now: PyTree[Array]


class EdgeBPTT(Unfaced):
    """Every T steps Σ c Mbar + c(s) J(s) M(s-1), with s the first of the last T steps and c = cbar + c J as in E-BPTT.

    The sum is E-BPTT's gradient. The last term is what reaches back beyond the segment, with M as `beyond` estimates
    it: any past-facing learner. With RTRL the gradient is exact: that of the last T losses in all earlier weights. With
    RFLO, the default, it costs O(n²) a step. With an unbiased learner it is unbiased, and the noise enters at the far
    edge alone.
    """

    T: int = 10
    beyond: PastFacing = RFLO()

    about = About("edge-bptt", "Edge-BPTT", "δ_ki B_ij", memory="nT + n²", time="n²", unitwise=True, period="T")

    def __check_init__(self) -> None:
        checks.whole(self, "T")
        check_followed("EdgeBPTT", "beyond", self.beyond)

    @property
    def _inside(self) -> EfficientBPTT:
        return EfficientBPTT(self.T)

    def check(self, cell: Cell) -> None:
        self.beyond.check(cell)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Edge:
        M = first_influence(self.beyond, cell, weights, key, n_out)
        return Edge(self._inside.init(cell, weights, key, n_out), M, M)

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        return self.beyond.noise(cell, key, steps)

    def remember(self, tick: Tick, state: Edge, noise: PyTree) -> Edge:
        now = advanced(self.beyond, tick, state.now, noise)
        return state._replace(segment=self._inside.remember(tick, state.segment, None), now=now)

    def due(self, cell: Cell, weights: Weights, state: Edge) -> tuple[LazyWeights, Edge]:
        inside, c = carried_back(cell, weights, state.segment)
        outside = self.beyond.contract(cell, weights, c, state.before)
        return jax.tree.map(jnp.add, dense(inside), dense(outside)), state._replace(before=state.now)

"""Real-time recurrent learning (Williams & Zipser 1989): the past-facing relation as it stands.

M(t) = J M(t-1) + Mbar costs O(n⁴) a step, but a gradient needs no M(t). Between two times s < t,

    M(t) = J(t)···J(s+1) M(s) + Σ_r J(t)···J(r+1) Mbar(r),

so cbar M(t) follows from M(s) by carrying cbar back over the steps since, O(n³) in all; and at the end of a span of
steps M takes them all at once, with one product of O(n⁴) instead of one for each. The gradients are the same.
"""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra.algebra import total, vecmat
from recurra.cells.base import Cell, Credit, Influence, Weights
from recurra.cells.unitwise import Trace, UnitwiseCell
from recurra.learners.base import SPAN, Deferring, Tick, unitwise
from recurra.machine import backend


class Deferred(NamedTuple):
    """M before a span, the span's steps so far, leading axis time, and how many they are.

    Of each J the columns are kept that are not in the trace.
    """

    M: Influence
    columns: Float[Array, "span S n"]
    traces: Trace
    waiting: Int[Array, ""]


class Pulled(NamedTuple):
    """Credit carried back over a span: that of the state before it, which meets M, and that of each of its steps."""

    before: Float[Array, " S"]
    M: Influence
    credit: Float[Array, "span S"]
    traces: Trace


class RTRL(Deferring):
    """M(t) = J M(t-1) + Mbar, in full.

    `lazy` lets steps wait as described above, which needs a unit-wise cell and the memory of 16 Jacobians. By default
    it is used where it is faster, on CPUs; on a GPU its many small products would take longer than the large one.
    """

    lazy: bool | None = eqx.field(static=True, default=None)

    name: ClassVar[str] = "RTRL"
    facing: ClassVar = "past"
    tensor: ClassVar[str] = "M_kij"
    stochastic: ClassVar[bool] = False
    numerical: ClassVar[bool] = False
    memory: ClassVar[str] = "n³"
    time: ClassVar[str] = "n⁴"
    unitwise: ClassVar[bool] = False

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Influence | Deferred:
        M = cell.init_influence(weights)
        if not self.defers(cell):
            return M
        # A run that starts inside a span finds steps in it that deposited nothing and left M = 0 as it was.
        columns = jnp.zeros((SPAN, sum(cell.widths), unitwise(cell).n), cell.dtype)
        return Deferred(M, columns, cell.no_traces(weights, SPAN), jnp.zeros((), "int32"))

    def defers(self, cell: Cell) -> bool:
        return isinstance(cell, UnitwiseCell) and (backend() == "cpu" if self.lazy is None else self.lazy)

    def defer(self, tick: Tick, state: Deferred) -> tuple[Pulled, Deferred]:
        slot = tick.t % SPAN
        step = unitwise(tick.cell).seen_columns(tick.weights, tick.trace), tick.trace
        put = lambda rows, row: rows.at[slot].set(row)
        columns, traces = jax.tree.map(put, (state.columns, state.traces), step)
        state = Deferred(state.M, columns, traces, slot + 1)
        # The same for all seeds, so not taken from the state, in which each seed has its own.
        return _back(unitwise(tick.cell), tick.cbar, state, slot + 1), state

    def gradient(self, cell: Cell, weights: Weights, factors: Pulled) -> Weights:
        recent = cell.deposit_all(weights, factors.traces, unitwise(cell).split(factors.credit, axis=1))
        before = tuple(vecmat(factors.before, M) for M in factors.M)
        return jax.tree.map(jnp.add, recent, cell.unravel(weights, before))

    def mean_gradient(self, cell: Cell, weights: Weights, factors: Pulled) -> Weights:
        # The sum over streams is part of both products.
        before, *others = factors
        M, credit, traces = jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[2:]), others)
        streams = len(before)
        return self.gradient(cell, weights, Pulled(before.reshape(-1) / streams, M, credit / streams, traces))

    def fold(self, cell: Cell, weights: Weights, state: Deferred) -> Deferred:
        M = unitwise(cell).fold_influence(weights, state.traces, state.columns, state.M)
        return state._replace(M=M, waiting=jnp.zeros_like(state.waiting))

    def advance(self, tick: Tick, state: Influence, noise: None) -> Influence:
        return tick.cell.advance_influence(tick.weights, tick.trace, state)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Influence | Deferred) -> Weights:
        if isinstance(state, Deferred):
            return self.gradient(cell, weights, _back(unitwise(cell), c, state, state.waiting))
        rows = lambda M: zip(c, cell.split(M), strict=True)
        row = lambda M: total(*(None if u is None else vecmat(u, part) for u, part in rows(M)))
        return cell.unravel(weights, tuple(map(row, state)))


def _back(cell: UnitwiseCell, c: Credit, state: Deferred, waiting: Int[Array, ""]) -> Pulled:
    """c M, in factors."""
    credit = jnp.zeros((SPAN, sum(cell.widths)), cell.dtype)

    def pull(i: Array, running: tuple[Array, Array]) -> tuple[Array, Array]:
        c, credit = running
        slot = waiting - 1 - i
        H = jax.tree.map(lambda rows: rows[slot], state.traces.H)
        # Written out, this product reads J where it lies; as a dot product it would copy it first.
        seen = jnp.sum(c[:, None] * state.columns[slot], axis=0)
        return cell.beside_leaks(H, c, seen), credit.at[slot].set(c)

    before, credit = jax.lax.fori_loop(0, waiting, pull, (jnp.concatenate(cell.dense(c)), credit))
    return Pulled(before, state.M, credit, state.traces)

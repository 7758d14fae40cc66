"""A form of RTRL that brings M up to date once in a span of steps: the same gradients from fewer products.

M(t) = J M(t-1) + Mbar costs O(n⁴) a step, but a gradient needs no M(t). Between two times s < t,

    M(t) = J(t)···J(s+1) M(s) + Σ_r J(t)···J(r+1) Mbar(r),

so cbar M(t) follows from M(s) by carrying cbar back over the steps since, O(n³) in all. At the end of a span M is
brought up to date with all its steps at once, by one product of O(n⁴) instead of one for each step. This needs a
unit-wise cell, and the memory of a span of Jacobians.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Weights
from recurra.cells.gates import Sources, Trace, apart, heard, side_by_side
from recurra.cells.tick import Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.tuning import SPAN
from recurra.learners import RTRL
from recurra.learners.base import PastFacing, unitwise
from recurra.linalg import Outer, matvec, vecmat


class Span(NamedTuple):
    """M before a span, for each gate; the span's steps so far, leading axis time; and how many they are.

    M[g] has a row for each state variable and unit, and a column for each weight of gate g. Of each J only the columns
    of a[0] are kept; all others follow from the trace.
    """

    M: tuple[Float[Array, "S _"], ...]
    columns: Float[Array, "span S n"]
    traces: Trace
    waiting: Int[Array, ""]


class LazyRTRL(PastFacing):
    """M(t) = J M(t-1) + Mbar, brought up to date once in `span` steps. Each step's gradient is still complete."""

    span: int = eqx.field(static=True, default=SPAN)

    about = dataclasses.replace(RTRL.about, period="span", unitwise=True)

    def __check_init__(self) -> None:
        checks.whole(self, "span")

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Span:
        cell = unitwise(cell)
        S = cell.states * cell.n
        M = tuple(jnp.zeros((S, cell.n * side_by_side(gate).shape[1]), cell.dtype) for gate in weights)
        # A run may start inside a span. The span's earlier steps are then zeros: they deposit nothing, and M stays 0.
        columns = jnp.zeros((self.span, S, cell.n), cell.dtype)
        return Span(M, columns, cell.no_traces(weights, self.span), jnp.zeros((), "int32"))

    def advance(self, tick: Tick, state: Span, noise: None) -> Span:
        slot = tick.t % self.span
        step = unitwise(tick.cell).seen_columns(tick.weights, tick.trace), tick.trace
        put = lambda rows, row: rows.at[slot].set(row)
        columns, traces = jax.tree.map(put, (state.columns, state.traces), step)
        # The count is computed from t and not from the state: t is the same for all members of a group.
        return Span(state.M, columns, traces, slot + 1)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Span) -> Weights:
        cell = unitwise(cell)
        before, credit = _carried_back(cell, c, state)
        deposits = jax.vmap(lambda trace, c: cell.deposit(weights, trace, c))(state.traces, cell.split(credit, axis=1))
        rows = (vecmat(before, M).reshape(cell.n, -1) for M in state.M)
        earlier = tuple(apart(gate, row) for gate, row in zip(weights, rows, strict=True))
        plus = lambda now, earlier: dataclasses.replace(now, plus=earlier)
        return jax.tree.map(plus, deposits, earlier, is_leaf=lambda leaf: isinstance(leaf, Outer))

    def due(self, cell: Cell, weights: Weights, state: Span) -> tuple[None, Span]:
        """M after the span, with one product for M and one for what its steps deposited."""
        cell = unitwise(cell)

        def back(reach: Array, step: tuple[Array, tuple]) -> tuple[Array, Array]:
            columns, H = step
            return cell.beside_leaks(H, reach, matvec(reach, columns)), reach

        here = jnp.eye(cell.states * cell.n, dtype=cell.dtype)
        whole, reach = jax.lax.scan(back, here, (state.columns, state.traces.H), reverse=True)
        of_rows = jax.vmap(jax.vmap(cell.gate_credit, (None, 0)))  # for all steps, and for each row of the last state
        credits = of_rows(state.traces, cell.split(reach, axis=2))

        def folded(M: Array, gate: Sources, credit: Array) -> Array:
            deposited = matvec(credit.reshape(self.span, -1).T, heard(gate, state.traces.ahat))
            return matvec(whole, M) + deposited.reshape(M.shape)

        M = tuple(map(folded, state.M, weights, credits))
        return None, state._replace(M=M, waiting=jnp.zeros_like(state.waiting))


def _carried_back(cell: UnitwiseCell, c: Credit, state: Span) -> tuple[Float[Array, " S"], Float[Array, "span S"]]:
    """Credit carried back over a span: the credit of the state before it, for M, and that of each of its steps."""

    def pull(i: Array, running: tuple[Array, Array]) -> tuple[Array, Array]:
        c, credit = running
        slot = state.waiting - 1 - i
        H = jax.tree.map(lambda rows: rows[slot], state.traces.H)
        # Written out, this product reads J where it lies; as a dot product it would copy it first.
        seen = jnp.sum(c[:, None] * state.columns[slot], axis=0)
        return cell.beside_leaks(H, c, seen), credit.at[slot].set(c)

    now = jnp.concatenate(cell.dense_credit(c))
    nothing = jnp.zeros((len(state.columns), len(now)), cell.dtype)
    return jax.lax.fori_loop(0, state.waiting, pull, (now, nothing))

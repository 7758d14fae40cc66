"""Forms of learners that give the same gradients as the published ones, and are faster on some cells and platforms.

Each class opens with the identity that makes it possible. `recurra.engine.specialise` says which form is taken where.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.gates import Sources, Trace, apart, heard, listened, side_by_side
from recurra.cells.tick import Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.tuning import SPAN
from recurra.learners import RFLO, RTRL
from recurra.learners.base import PastFacing, unitwise
from recurra.learners.eligibility import Eligibility, filtered, no_eligibility, only, weighed
from recurra.linalg import Outer, add, add_or_zero, matvec, mul, vecmat, zeros_like
from recurra.linalg.products import EXACT


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
    """A form of RTRL that brings M up to date once in a span of steps: the same gradients from fewer products.

    M(t) = J M(t-1) + Mbar costs O(n⁴) a step, but a gradient needs no M(t). Between two times s < t,

        M(t) = J(t)···J(s+1) M(s) + Σ_r J(t)···J(r+1) Mbar(r),

    so cbar M(t) follows from M(s) by carrying cbar back over the steps since, O(n³) in all. At the end of a span M is
    brought up to date with all its steps at once, by one product of O(n⁴) instead of one for each step. This needs a
    unit-wise cell, and the memory of a span of Jacobians. Each step's gradient is still complete.
    """

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


#: M[gate][source][p][k, i, j]; None where a gate does not listen to a source
Blockwise = tuple[Sources, ...]


class BlockwiseRTRL(PastFacing):
    """A form of RTRL that keeps M apart for each source of weights: the same gradients from arrays that kernels hold.

    M has three axes for each gate and source: the unit k that is influenced, and the weight's own two, from j to i. No
    two blocks stand side by side, so nothing is cut or joined, and every size can be padded by itself.
    """

    about = RTRL.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Blockwise:
        cell = unitwise(cell)
        block = lambda w: (jnp.zeros((cell.n, *w.shape), cell.dtype),) * cell.states
        return tuple(Sources(*(None if w is None else block(w) for w in gate)) for gate in weights)

    def advance(self, tick: Tick, state: Blockwise, noise: None) -> Blockwise:
        cell, (H, D, ahat) = unitwise(tick.cell), tick.trace
        J = cell.seen_blocks(tick.weights, tick.trace)
        own = jnp.eye(cell.n, dtype=cell.dtype)[:, :, None]  # Mbar is zero except where k = i

        def advanced(g: int, u: Array, M: tuple[Array, ...]) -> tuple[Array, ...]:
            seen = [None if block is None else _summed(block, M[0]) for block in J]
            Mbar = [_times(d[g], own * u) for d in D]
            row = lambda p: add_or_zero(M[p], seen[p], *map(_times, H[p][1:], M[1:]), Mbar[p])
            return tuple(map(row, range(len(M))))

        each = lambda g, blocks: (None if M is None else advanced(g, u, M) for u, M in zip(ahat, blocks, strict=True))
        return tuple(Sources(*each(g, blocks)) for g, blocks in enumerate(state))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Blockwise) -> Weights:
        weighed = lambda M: add(*(None if u is None else _summed(u, m) for u, m in zip(c, M, strict=True)))
        return tuple(Sources(*(None if M is None else weighed(M) for M in blocks)) for blocks in state)


def _times(d: Float[Array, " #n"] | None, M: Float[Array, "n i j"] | None) -> Any:
    """d[k] M[k, i, j]."""
    return None if d is None or M is None else d[:, None, None] * M


def _summed(W: Float[Array, "*l n"], M: Float[Array, "n i j"]) -> Float[Array, "*l i j"]:
    """Σ_k W[l, k] M[k, i, j]."""
    return jax.lax.dot_general(W, M, (((W.ndim - 1,), (0,)), ((), ())), precision=EXACT)


class OwnRTRL(PastFacing):
    """A form of RTRL for units that do not hear each other: M(t) = H M(t-1) + Mbar, which stays on its diagonal k = i.

    Then J = H, and RFLO, whose leak H is all of J, is exact. So this is RFLO.
    """

    about = dataclasses.replace(RTRL.about, unitwise=True)

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Eligibility:
        return RFLO().init(cell, weights, key, n_out)

    def advance(self, tick: Tick, state: Eligibility, noise: None) -> Eligibility:
        return RFLO().advance(tick, state, noise)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Eligibility) -> Weights:
        return RFLO().contract(cell, weights, c, state)


class Pending(NamedTuple):
    """B before a step, of the state variables that units read, and the step's own derivatives."""

    B: Eligibility
    trace: Trace


class LateRFLO(PastFacing):
    """A form of RFLO for cells with variables that no unit reads, such as LSTMs: the same gradients from fewer traces.

    A variable that no unit reads at the next step, such as an LSTM's h, needs no trace of its own. With B from before a
    step, and the step's own H and D,

        c B(t) = (c H) B(t-1) + c D ahat,

    so credit is carried back over one step, and B is needed only for the variables that units read. The second term is
    an outer product, whose mean over streams is one product of matrices.

    B is kept one step late, B(t-1) = H B(t-2) + D ahat. Each step's gradient is still complete.
    """

    about = RFLO.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Pending:
        cell = unitwise(cell)
        no_trace = jax.tree.map(lambda rows: rows[0], cell.no_traces(weights, 1))
        return Pending(no_eligibility(cell, weights, kept=cell.read), zeros_like(no_trace))

    def advance(self, tick: Tick, state: Pending, noise: None) -> Pending:
        B = filtered(tick.weights, state.trace.H, state.trace, state.B)
        return Pending(only(B, unitwise(tick.cell).read), tick.trace)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Pending) -> LazyWeights:
        cH = tuple(add(*map(mul, c, column)) for column in zip(*state.trace.H, strict=True))
        earlier, now = weighed(weights, cH, state.B), cell.deposit(weights, state.trace, c)
        plus = lambda now, earlier: dataclasses.replace(now, plus=earlier)
        return jax.tree.map(plus, now, earlier, is_leaf=lambda leaf: isinstance(leaf, Outer))


class Traces(NamedTuple):
    """b, for each source a vector, and B of the state variables that units read, without the shared one."""

    b: Sources
    B: Eligibility


class SharedRFLO(PastFacing):
    """A form of RFLO for cells that hear their gates through one leaky sum, such as LIF: that sum's trace is kept once.

    A membrane potential without its reset, v' = α v + z, responds alike in all units. What a weight did to it depends
    on the source that the weight listens to, and not on the unit. It is the running sum b of that source. If gates
    reach all else in a unit through v' alone, so do their earlier values, and v with them:

        b = α b + ahat,        B[p] = Σ_q H[p][q] B[q] + D[p] bᵀ        over all q but v.

    So b takes the place of ahat, B has no part for v, and e-prop is a product of both sides of a synapse. The cell must
    have a shared variable, `UnitwiseCell.shared`.
    """

    about = RFLO.about

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Traces:
        cell = unitwise(cell)
        heard = [any(source) for source in zip(*cell.listens, strict=True)]
        no_b = lambda size, is_heard: jnp.zeros(size, cell.dtype) if is_heard else None
        b = Sources(*map(no_b, (cell.n, cell.n_in, 1), heard))
        return Traces(b, no_eligibility(cell, weights, kept=cell.read - {cell.shared}))

    def advance(self, tick: Tick, state: Traces, noise: None) -> Traces:
        v, H = unitwise(tick.cell).shared, tick.trace.H
        assert v is not None
        b = listened(state.b, tick.trace.ahat, lambda b, u: add(mul(H[v][v], b), u))
        beside = tuple(tuple(None if q == v else h for q, h in enumerate(row)) for row in H)
        return Traces(b, filtered(tick.weights, beside, tick.trace._replace(ahat=b), state.B))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Traces) -> Weights:
        return weighed(weights, c, state.B)


#: all forms, which files may describe
FORMS = (LazyRTRL, BlockwiseRTRL, OwnRTRL, LateRFLO, SharedRFLO)

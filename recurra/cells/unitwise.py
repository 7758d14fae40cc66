"""Cells written as one unit: parameters enter through a linear map and act on one unit at a time.

    z[g] = Σ_source W[g].source ahat.source        ahat = (a[0], x, 1)
    a'   = unit(a, z)                              elementwise over units

    H[p][q] = d a'[p] / d a[q]   (z fixed)         D[p][g] = d a'[p] / d z[g]        vectors over units
    J[(p,k),(q,l)]      = H[p][q][k] δ(k,l) + [q = 0] Σ_g D[p][g][k] W[g].rec[k,l]
    Mbar[(p,k),(g,i),j] = δ(k,i) D[p][g][i] ahat[j]

A cell writes `unit`; H and D follow by forward-mode differentiation, one all-ones tangent for each variable, and are
None where `unit` does not read a variable or a gate. Weights are kept in blocks, by gate and by source, and a gate
without some source has None there: a learner that maps over blocks never meets the masked ones.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra.algebra import add, add_or_zero, inner, matvec, mul, outer, outers, over_gates, total, vecmat
from recurra.cells.base import Cell, Credit, Influence, State, Tangent
from recurra.cells.derivatives import Blocks, elementwise_derivatives, seen_by
from recurra.cells.initial import MatrixInit


class Sources(NamedTuple):
    """Something for each source a unit listens to: index j, in blocks. None where a gate does not listen."""

    rec: Any
    inp: Any
    bias: Any


Gates = tuple[Sources, ...]


class Trace(NamedTuple):
    """The local derivatives of one step and what the units heard: independent of the weights, of size O(n)."""

    H: Blocks
    D: Blocks
    ahat: Sources


def listened(gate: Sources, ahat: Sources, f: Callable[[Array], Array | None]) -> Sources:
    """f(ahat.source) for the sources this gate listens to."""
    return Sources(*(None if w is None else f(u) for w, u in zip(gate, ahat, strict=True)))


class UnitwiseCell(Cell):
    """Base of cells that write only `unit`."""

    n_in: eqx.AbstractVar[int]
    n: eqx.AbstractVar[int]
    dtype: eqx.AbstractVar[jnp.dtype]
    w_rec: eqx.AbstractVar[MatrixInit]

    #: state variables a unit holds
    states: ClassVar[int]
    #: for each gate, which sources it listens to, as (rec, inp, bias)
    listens: ClassVar[tuple[tuple[bool, bool, bool], ...]]
    #: whether H is the same number for all units at all times, and kept as one
    plain_leak: ClassVar[bool]
    #: for each gate, the bias it starts with
    first_bias: ClassVar[tuple[float, ...]]

    @abc.abstractmethod
    def unit(self, a: State, z: State) -> State:
        """The next state variables from the present ones and the pre-activations, elementwise."""

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.n,) * self.states

    @property
    def read(self) -> set[int]:
        """The state variables that `unit` reads; others matter only through the gates."""
        a, z = (tuple(jnp.zeros(1, self.dtype) for _ in range(k)) for k in (self.states, len(self.listens)))
        return set().union(*seen_by(lambda a: self.unit(a, z), a))

    def init_weights(self, key: PRNGKeyArray) -> Gates:
        """w_rec as chosen, w_in ~ N(0, 1/√n_in), biases as the cell says, each gate on its own."""
        gates = []
        for gate_key, listens, bias in zip(
            jax.random.split(key, len(self.listens)), self.listens, self.first_bias, strict=True
        ):
            key_rec, key_inp = jax.random.split(gate_key)
            blocks = (
                self.w_rec(key_rec, self.n, self.dtype),
                jax.random.normal(key_inp, (self.n, self.n_in), self.dtype) / self.n_in**0.5,
                jnp.full((self.n, 1), bias, self.dtype),
            )
            gates.append(Sources(*(block if heard else None for block, heard in zip(blocks, listens, strict=True))))
        return tuple(gates)

    def forward(self, weights: Gates, a: State, x: Float[Array, " n_in"]) -> tuple[State, Trace]:
        ahat = Sources(a[0], x, jnp.ones(1, self.dtype))
        with over_gates(len(weights)):
            z = tuple(
                total(*(None if w is None or u is None else matvec(w, u) for w, u in zip(gate, ahat, strict=True)))
                for gate in weights
            )
        new, D = elementwise_derivatives(lambda z: self.unit(a, z), z)
        # A plain leak is one number, and the same everywhere.
        place_a, place_z = jax.tree.map(lambda v: jnp.zeros(1, v.dtype), (a, z)) if self.plain_leak else (a, z)
        _, H = elementwise_derivatives(lambda a: self.unit(a, place_z), place_a)
        return new, Trace(H, D, ahat)

    def passing(self, trace: Trace) -> Trace:
        if type(self).forward is not UnitwiseCell.forward:  # it may do anything
            return trace
        H = jax.tree.map(lambda _: None, trace.H) if self.plain_leak else trace.H
        return trace._replace(H=H, ahat=trace.ahat._replace(bias=None))

    def push(self, weights: Gates, trace: Trace, v: Tangent) -> Tangent:
        if v[0].ndim == 2:  # fewer products of matrices than gates
            columns = [add(*self._through_gates(weights, D)) for D in trace.D]
            through_z = [None if J is None else matvec(J, v[0]) for J in columns]
        else:
            zdot = [None if gate.rec is None else matvec(gate.rec, v[0]) for gate in weights]
            through_z = [add(*map(mul, D, zdot)) for D in trace.D]
        return tuple(add_or_zero(u, *map(mul, H, v), z) for u, H, z in zip(v, trace.H, through_z, strict=True))

    def pull(self, weights: Gates, trace: Trace, c: Credit) -> State:
        through_z = [
            None if gate.rec is None else vecmat(credit, gate.rec)
            for gate, credit in zip(weights, self.gate_credit(trace, c), strict=True)
        ]
        leaks = (map(mul, c, column) for column in zip(*trace.H, strict=True))
        each = zip(self.init_state(), leaks, (through_z, *[()] * (self.states - 1)), strict=True)
        return tuple(add_or_zero(a, *leak, *through) for a, leak, through in each)

    def deposit(self, weights: Gates, trace: Trace, c: Credit) -> Gates:
        return tuple(
            listened(gate, trace.ahat, lambda u, credit=credit: outer(credit, u))
            for gate, credit in zip(weights, self.gate_credit(trace, c), strict=True)
        )

    def deposit_norm(self, weights: Gates, trace: Trace, c: Credit) -> Float[Array, ""]:
        # ‖u vᵀ‖ = ‖u‖ ‖v‖, for each gate.
        heard = (listened(gate, trace.ahat, lambda u: u) for gate in weights)
        credits = self.gate_credit(trace, c)
        return jnp.sqrt(total(*(inner(u, u) * inner(v, v) for u, v in zip(credits, heard, strict=True))))

    def deposit_all(self, weights: Gates, traces: Trace, c: PyTree[Array]) -> Gates:
        # One matrix product over time, instead of an outer product for every step.
        credits = jax.vmap(self.gate_credit)(traces, c)
        return tuple(
            listened(gate, traces.ahat, lambda u, credit=credit: outers(credit, u))
            for gate, credit in zip(weights, credits, strict=True)
        )

    def gate_credit(self, trace: Trace, c: Credit) -> State:
        """Credit of the pre-activations, Σ_p c[p] D[p][g] for each gate g."""
        nothing = jnp.zeros(self.n, self.dtype)
        return tuple(add_or_zero(nothing, *map(mul, c, column)) for column in zip(*trace.D, strict=True))

    # RTRL's tensor, a matrix for all gates that hear the same: rows (p, k); columns (i, (g, source, j)), their sources
    # side by side. In one matrix for all gates each product would have to be moved to its columns.

    def init_influence(self, weights: Gates) -> Influence:
        fan_in = lambda gates: sum(block.shape[1] for block in jax.tree.leaves([weights[g] for g in gates]))
        matrix = lambda gates: jnp.zeros((self.states * self.n, self.n * fan_in(gates)), self.dtype)
        return tuple(map(matrix, _alike(weights)))

    def advance_influence(self, weights: Gates, trace: Trace, M: Influence) -> Influence:
        # A large matrix product, then Mbar on the diagonal k = i alone: a dense Mbar costs more than the product.
        J, unit = self.jacobian(weights, trace), jnp.arange(self.n)
        deposits = [self.deposit(weights, trace, c) for c in self._each_variable()]

        def advanced(M: Float[Array, "S _"], gates: list[int]) -> Float[Array, "S _"]:
            eligibility = jnp.stack([_side_by_side([each[g] for g in gates]) for each in deposits])
            JM = matvec(J, M).reshape(self.states, self.n, self.n, -1)
            return JM.at[:, unit, unit].add(eligibility).reshape(M.shape)

        return tuple(map(advanced, M, _alike(weights)))

    def fold_influence(self, weights: Gates, traces: Trace, columns: Float[Array, "T S n"], M: Influence) -> Influence:
        """M after T steps from M before them, with one product for M and one for what the steps deposited.

        `columns` are those of J for the variable that gates see.
        """
        back = lambda reach, step: (self.beside_leaks(step[1], reach, matvec(reach, step[0])), reach)
        steps, here = (columns, traces.H), jnp.eye(self.states * self.n, dtype=self.dtype)
        whole, reach = jax.lax.scan(back, here, steps, reverse=True)
        rows = jax.vmap(jax.vmap(self.gate_credit, (None, 0)))  # of all steps, of the state after the last one
        credits = rows(traces, self.split(reach, axis=2))

        def folded(M: Float[Array, "S _"], gates: list[int]) -> Float[Array, "S _"]:
            credit = jnp.stack([credits[g] for g in gates], axis=-1).reshape(len(columns), -1)
            heard = _side_by_side(listened(weights[gates[0]], traces.ahat, lambda u: u))
            return matvec(whole, M) + matvec(credit.T, heard).reshape(M.shape)

        return tuple(map(folded, M, _alike(weights)))

    def unravel(self, weights: Gates, row: tuple[Float[Array, " _"], ...]) -> Gates:
        found: dict[int, Sources] = {}
        for part, gates in zip(row, _alike(weights), strict=True):
            blocks, treedef = jax.tree.flatten([weights[g] for g in gates])
            edges = [sum(block.shape[1] for block in blocks[: i + 1]) for i in range(len(blocks) - 1)]
            cut = jax.tree.unflatten(treedef, jnp.split(part.reshape(self.n, -1), edges, axis=1))
            found |= zip(gates, cut, strict=True)
        return tuple(found[g] for g in range(len(weights)))

    def jacobian(self, weights: Gates, trace: Trace) -> Float[Array, "S S"]:
        """J as one matrix, rows (p, k), columns (q, l)."""
        one = jnp.eye(self.states * self.n, dtype=self.dtype)
        return self.beside_leaks(trace.H, one, self.seen_columns(weights, trace))

    def seen_columns(self, weights: Gates, trace: Trace) -> Float[Array, "S n"]:
        """The columns of J for the variable that gates see; the others are leaks, and diagonal."""
        eye = jnp.eye(self.n, dtype=self.dtype)
        leaks = (mul(H[0], eye) for H in trace.H)
        through_z = (self._through_gates(weights, D) for D in trace.D)
        return jnp.concatenate([add_or_zero(eye, leak, *gates) for leak, gates in zip(leaks, through_z, strict=True)])

    def beside_leaks(self, H: Blocks, rows: Float[Array, "*k S"], seen: Float[Array, "*k n"]) -> Float[Array, "*k S"]:
        """Rows times J, where their product with the seen columns is known."""
        parts = self.split(rows, axis=-1)
        leak = lambda q: (None if each[q] is None else c * each[q] for c, each in zip(parts, H, strict=True))
        return jnp.concatenate([seen, *(add_or_zero(parts[q], *leak(q)) for q in range(1, self.states))], axis=-1)

    def _through_gates(self, weights: Gates, D: Credit) -> list[Float[Array, "n n"] | None]:
        """d(one state variable) / da[0] through each gate."""
        return [mul(d, gate.rec) for d, gate in zip(D, weights, strict=True)]

    def _each_variable(self) -> list[Credit]:
        one = jnp.ones(self.n, self.dtype)
        return [tuple(one if p == q else None for q in range(self.states)) for p in range(self.states)]


def _alike(weights: Gates) -> list[list[int]]:
    """The numbers of gates that hear the same, together."""
    hears = [tuple(block is not None for block in gate) for gate in weights]
    return [[g for g, heard in enumerate(hears) if heard == kind] for kind in dict.fromkeys(hears)]


def _side_by_side(blocks: PyTree[Array]) -> Float[Array, "n m"]:
    return jnp.concatenate(jax.tree.leaves(blocks), axis=1)

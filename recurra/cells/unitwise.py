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
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Influence, State, Tangent
from recurra.cells.initial import MatrixInit
from recurra.cells.structure import Blocks, check_unit, constant_leaks, local_derivatives, variables_read
from recurra.linalg import Outer, add, add_or_zero, matvec, mul, total, vecmat


class Sources(NamedTuple):
    """An entry for each source of a gate: recurrent units, inputs and bias. None where it does not listen to one."""

    rec: Any
    inp: Any
    bias: Any


Gates = tuple[Sources, ...]


class Trace(NamedTuple):
    """The local derivatives of one step, and ahat, what the gates received. It has size O(n) and holds no weights."""

    H: Blocks
    D: Blocks
    ahat: Sources


def listened(gate: Sources, ahat: Sources, f: Callable[[Array], Any]) -> Sources:
    """f(ahat.source) for the sources this gate listens to."""
    return Sources(*(None if w is None else f(u) for w, u in zip(gate, ahat, strict=True)))


def side_by_side(blocks: Sources) -> Float[Array, "*rows m"]:
    """What a gate has for each source, as one array whose last axis runs over all of them."""
    return jnp.concatenate([block for block in blocks if block is not None], axis=-1)


def apart(gate: Sources, rows: Float[Array, "*rows m"]) -> Sources:
    """The inverse of `side_by_side`: blocks like those of the gate's weights."""
    widths = [block.shape[1] for block in gate if block is not None]
    edges = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
    blocks = iter(jnp.split(rows, edges, axis=-1))
    return Sources(*(None if block is None else next(blocks) for block in gate))


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
    #: for each gate, the bias it starts with
    first_bias: ClassVar[tuple[float, ...]]

    def __check_init__(self) -> None:
        if len(self.first_bias) != len(self.listens):
            raise TypeError(
                f"`first_bias` of {self.name} must have one number for each of its {len(self.listens)} gates, and has "
                f"{len(self.first_bias)}."
            )
        if isinstance(self.n, Integral) and self.n > 0:  # else the cell's own checks say what is wrong
            check_unit(self.name, self.unit, *self._blank())
            checks.draws(self, "w_rec", "recurra.cells.orthogonal", int(self.n), (self.n, self.n))
            if not any(map(any, self.listens)):
                raise TypeError(f"`listens` of {self.name} gives its gates no source, so it has no weights to learn.")

    @abc.abstractmethod
    def unit(self, a: State, z: State) -> State:
        """The next state variables from the present ones and the pre-activations, elementwise."""

    def _blank(self) -> tuple[State, State]:
        """A state and pre-activations of zero."""
        zero = jnp.zeros(self.n, self.dtype)
        return (zero,) * self.states, (zero,) * len(self.listens)

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.n,) * self.states

    @property
    def read(self) -> set[int]:
        """The state variables that `unit` reads directly; others matter only through the gates."""
        return variables_read(self.unit, *self._blank())

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
        heard = lambda gate: (None if w is None else matvec(w, u) for w, u in zip(gate, ahat, strict=True))
        z = tuple(total(*heard(gate)) for gate in weights)
        new, H, D = local_derivatives(self.unit, a, z)
        return new, Trace(H, D, ahat)

    def differing(self, trace: Trace) -> Trace:
        constant = constant_leaks(self.unit, *self._blank())
        kept = lambda p, row: tuple(None if (p, q) in constant else h for q, h in enumerate(row))
        H = tuple(kept(p, row) for p, row in enumerate(trace.H))
        return Trace(H, trace.D, trace.ahat._replace(bias=None))

    def push(self, weights: Gates, trace: Trace, v: Tangent) -> Tangent:
        if v[0].ndim == 2:  # one product of matrices for all gates and the leak
            through = [None if J is None else matvec(J, v[0]) for J in self._seen(weights, trace)]
            leaks = (map(mul, H[1:], v[1:]) for H in trace.H)
        else:
            zdot = [None if gate.rec is None else matvec(gate.rec, v[0]) for gate in weights]
            through = [add(*map(mul, D, zdot)) for D in trace.D]
            leaks = (map(mul, H, v) for H in trace.H)
        return tuple(add_or_zero(u, *leak, z) for u, leak, z in zip(v, leaks, through, strict=True))

    def pull(self, weights: Gates, trace: Trace, c: Credit) -> State:
        through_z = [
            None if gate.rec is None else vecmat(credit, gate.rec)
            for gate, credit in zip(weights, self.gate_credit(trace, c), strict=True)
        ]
        leaks = (map(mul, c, column) for column in zip(*trace.H, strict=True))
        each = zip(self.init_state(), leaks, (through_z, *[()] * (self.states - 1)), strict=True)
        return tuple(add_or_zero(a, *leak, *through) for a, leak, through in each)

    def deposit(self, weights: Gates, trace: Trace, c: Credit) -> tuple[Sources, ...]:
        return tuple(
            listened(gate, trace.ahat, lambda u, credit=credit: Outer(credit, u))
            for gate, credit in zip(weights, self.gate_credit(trace, c), strict=True)
        )

    def gate_credit(self, trace: Trace, c: Credit) -> State:
        """Credit of the pre-activations, Σ_p c[p] D[p][g] for each gate g."""
        nothing = jnp.zeros(self.n, self.dtype)
        return tuple(add_or_zero(nothing, *map(mul, c, column)) for column in zip(*trace.D, strict=True))

    # M[g][p] has a row for each unit k, and a column for each weight of gate g: (i, j), with j over its sources.

    def no_influence(self, weights: Gates) -> Influence:
        columns = (self.n * side_by_side(gate).shape[1] for gate in weights)
        return tuple((jnp.zeros((self.n, count), self.dtype),) * self.states for count in columns)

    def add_immediate(self, weights: Gates, trace: Trace, M: Influence) -> Influence:
        unit = jnp.arange(self.n)  # Mbar is zero except where k = i

        def plus(M: Array, d: Array | None, heard: Array) -> Array:
            return (
                M
                if d is None
                else M.reshape(self.n, self.n, -1).at[unit, unit].add(d[:, None] * heard[None]).reshape(M.shape)
            )

        heard = [side_by_side(listened(gate, trace.ahat, lambda u: u)) for gate in weights]
        of_gate = zip(M, zip(*trace.D, strict=True), heard, strict=True)
        return tuple(tuple(plus(M, d, u) for M, d in zip(Ms, D, strict=True)) for Ms, D, u in of_gate)

    def contract(self, weights: Gates, c: Credit, M: Influence) -> Gates:
        row = lambda M: total(*(None if u is None else vecmat(u, part) for u, part in zip(c, M, strict=True)))
        return tuple(apart(gate, row(each).reshape(self.n, -1)) for gate, each in zip(weights, M, strict=True))

    # J as one matrix, for r-OK and the lazy form of RTRL.

    def jacobian(self, weights: Gates, trace: Trace) -> Float[Array, "S S"]:
        """J, rows (p, k), columns (q, l)."""
        one = jnp.eye(self.states * self.n, dtype=self.dtype)
        return self.beside_leaks(trace.H, one, self.seen_columns(weights, trace))

    def seen_columns(self, weights: Gates, trace: Trace) -> Float[Array, "S n"]:
        """The columns of J for a[0], the variable that gates receive. All other columns are diagonal blocks from H."""
        nothing = jnp.zeros((self.n, self.n), self.dtype)
        return jnp.concatenate([nothing if J is None else J for J in self._seen(weights, trace)])

    def beside_leaks(self, H: Blocks, rows: Float[Array, "*k S"], seen: Float[Array, "*k n"]) -> Float[Array, "*k S"]:
        """`rows` times J. `seen` is their product with `seen_columns`; the other columns follow from H."""
        parts = self.split(rows, axis=-1)
        times = lambda c, h: c * jnp.expand_dims(h, tuple(range(c.ndim - 1)))
        leak = lambda q: (None if each[q] is None else times(c, each[q]) for c, each in zip(parts, H, strict=True))
        return jnp.concatenate([seen, *(add_or_zero(parts[q], *leak(q)) for q in range(1, self.states))], axis=-1)

    def _seen(self, weights: Gates, trace: Trace) -> list[Float[Array, "n n"] | None]:
        """For each state variable its derivative in a[0], through the leak and all gates."""
        eye = jnp.eye(self.n, dtype=self.dtype)
        through = lambda D: (mul(d, gate.rec) for d, gate in zip(D, weights, strict=True))
        return [add(mul(H[0], eye), *through(D)) for H, D in zip(trace.H, trace.D, strict=True)]

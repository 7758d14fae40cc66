"""Cells written as one unit: parameters enter through a linear map and act on one unit at a time.

    z[g] = Σ_source W[g].source ahat.source        ahat = (a[0], x, 1)
    a'   = unit(a, z)                              elementwise over units

    H[p][q] = d a'[p] / d a[q]   (z fixed)         D[p][g] = d a'[p] / d z[g]        vectors over units
    J[(p,k),(q,l)]      = H[p][q][k] δ(k,l) + [q = 0] Σ_g D[p][g][k] W[g].rec[k,l]
    Mbar[(p,k),(g,i),j] = δ(k,i) D[p][g][i] ahat[j]

A cell writes `unit`; H and D follow by forward-mode differentiation, one all-ones tangent for each variable, and are
None where `unit` does not read a variable or a gate. Weights are kept in blocks, by gate and by source, and a gate
without some source has None there: a learner that maps over blocks never meets the masked ones. A block is a matrix, or
a matrix that has weights at some places only (`recurra.linalg.patterned`), if `w_rec` draws one.
"""

import abc
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import KeyPath
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Influence, State, Tangent
from recurra.cells.gates import Gates, Sources, Trace, listened
from recurra.cells.influence import BY_GATE, OWN, WHOLE, Layout
from recurra.cells.initial import MatrixInit
from recurra.cells.structure import (
    Blocks,
    check_unit,
    constant_leaks,
    local_derivatives,
    shared_variable,
    variables_read,
)
from recurra.linalg import Patterned, Places, add, add_or_zero, full, matvec, mul, outer_like, own, total, vecmat


class _Numbered:
    """The names of a class that gives none: numbers from "0" on, as many as `count` says of the class."""

    def __init__(self, count: Callable[[Any], int]):
        self.count = count

    def __get__(self, cell: Any, kind: type) -> tuple[str, ...]:
        return tuple(map(str, range(self.count(kind))))


class UnitwiseCell(Cell):
    """Base of cells that write only `unit`.

    `gates` and `variables` name the gates and the state variables, in the order of `listens` and of the state.

    What `unit` returns is checked when a cell is made: a TypeError says what is wrong. An example is in docs/cells.md.
    """

    n_in: eqx.AbstractVar[int]
    n: eqx.AbstractVar[int]
    dtype: eqx.AbstractVar[jnp.dtype]
    #: how recurrent weights are drawn; None for a cell whose gates do not hear the network
    w_rec: eqx.AbstractVar[MatrixInit]

    #: whether `unit` was read from a program, which tells more of it than the checks here
    is_read: ClassVar[bool] = False
    #: state variables a unit holds
    states: ClassVar[int]
    #: for each gate, which sources it listens to, as (rec, inp, bias)
    listens: ClassVar[tuple[tuple[bool, bool, bool], ...]]
    #: for each gate, the bias it starts with
    first_bias: ClassVar[tuple[float, ...]]
    #: the name of each gate, by which optimizers and errors tell gates apart; numbers, if a class gives no names
    gates: ClassVar[tuple[str, ...]] = cast(Any, _Numbered(lambda kind: len(getattr(kind, "listens", ()))))
    #: the name of each state variable; numbers, if a class gives no names
    variables: ClassVar[tuple[str, ...]] = cast(Any, _Numbered(lambda kind: getattr(kind, "states", 0)))

    def __check_init__(self) -> None:
        if len(self.first_bias) != len(self.listens):
            raise TypeError(
                f"`first_bias` of {self.name} must have one number for each of its {len(self.listens)} gates, and has "
                f"{len(self.first_bias)}."
            )
        self._check_names("gates", len(self.listens), "`listens`")
        self._check_names("variables", self.states, "`states`")
        if isinstance(self.n, Integral) and self.n > 0 and not self.is_read:  # else other checks say what is wrong
            check_unit(self.name, self.unit, *self._blank())
            if self.is_recurrent:
                checks.draws(self, "w_rec", "recurra.cells.orthogonal", int(self.n), (self.n, self.n))
            if not any(map(any, self.listens)):
                raise TypeError(f"`listens` of {self.name} gives its gates no source, so it has no weights to learn.")

    def _check_names(self, which: str, count: int, counted: str) -> None:
        names = getattr(self, which)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names) or len(names) != count:
            raise TypeError(
                f"`{which}` of {self.name} must be a tuple with a name for each of its {count} {which}, as {counted} "
                f"says, and is {names!r}: leave it out to have them numbered."
            )

    @abc.abstractmethod
    def unit(self, a: State, z: State) -> State:
        """The next state variables from the present ones and the pre-activations, elementwise."""

    @property
    def is_recurrent(self) -> bool:
        """Whether units hear each other. If not, J = H, and the cost of RTRL grows like RFLO's."""
        return any(rec for rec, _, _ in self.listens)

    @property
    def places(self) -> Places | None:
        """Where recurrent weights are, if `w_rec` draws a matrix that has them at some places only; else None."""
        if self.w_rec is None or not self.is_recurrent:
            return None
        drawn = jax.eval_shape(lambda key: cast(Any, self.w_rec)(key, self.n, self.dtype), jax.random.key(0))
        return drawn.places if isinstance(drawn, Patterned) else None

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

    @property
    def shared(self) -> int | None:
        """The state variable that responds alike in all units and through which alone gates act, if there is one."""
        return shared_variable(self.unit, *self._blank())

    def init_weights(self, key: PRNGKeyArray) -> Gates:
        """w_rec as chosen, w_in ~ N(0, 1/√n_in), and biases as the cell says, each gate on its own."""
        keys, bias_key = jax.random.split(key, len(self.listens)), jax.random.fold_in(key, len(self.listens))
        gates = []
        for gate_key, (hears_rec, hears_inp, has_bias), bias in zip(
            keys, self.listens, self.biases(bias_key), strict=True
        ):
            key_rec, key_inp = jax.random.split(gate_key)
            inp = jax.random.normal(key_inp, (self.n, self.n_in), self.dtype) / self.n_in**0.5 if hears_inp else None
            rec = self.w_rec(key_rec, self.n, self.dtype) if hears_rec and self.w_rec is not None else None
            gates.append(Sources(rec, inp, jnp.broadcast_to(bias, self.n)[:, None] if has_bias else None))
        return tuple(gates)

    def biases(self, key: PRNGKeyArray) -> tuple[Float[Array, " #n"], ...]:
        """The bias that each gate starts with. Override it if units start at values of their own."""
        return tuple(jnp.full(1, bias, self.dtype) for bias in self.first_bias)

    def labels(self, weights: Gates) -> tuple[Sources, ...]:
        each = zip(weights, self.gates, strict=True)
        return tuple(jax.tree.map(lambda _, name=name: name, gate) for gate, name in each)

    def place(self, path: KeyPath) -> str:
        gate, *within = path
        return f".{self.gates[gate.idx]}{jax.tree_util.keystr(tuple(within))}"

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
        is_plain = all(isinstance(gate.rec, Array) for gate in weights if gate.rec is not None)
        if v[0].ndim == 2 and is_plain and self.is_recurrent:  # one product of matrices for all gates and the leak
            through = [None if J is None else matvec(J, v[0]) for J in self.seen_blocks(weights, trace)]
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

    def push_input(self, weights: Gates, trace: Trace, v: Float[Array, "n_in *k"]) -> Tangent:
        zdot = tuple(None if gate.inp is None else matvec(gate.inp, v) for gate in weights)
        nothing = jnp.zeros((self.n, *v.shape[1:]), self.dtype)
        return tuple(add_or_zero(nothing, *map(mul, D, zdot)) for D in trace.D)

    def pull_input(self, weights: Gates, trace: Trace, c: Credit) -> Float[Array, " n_in"]:
        credits = zip(self.gate_credit(trace, c), weights, strict=True)
        through = (None if gate.inp is None else vecmat(credit, gate.inp) for credit, gate in credits)
        return add_or_zero(trace.ahat.inp, *through)

    def deposit(self, weights: Gates, trace: Trace, c: Credit) -> tuple[Sources, ...]:
        return tuple(
            listened(gate, trace.ahat, lambda w, u, credit=credit: outer_like(w, credit, u))
            for gate, credit in zip(weights, self.gate_credit(trace, c), strict=True)
        )

    def gate_credit(self, trace: Trace, c: Credit) -> State:
        """Credit of the pre-activations, Σ_p c[p] D[p][g] for each gate g."""
        nothing = jnp.zeros(self.n, self.dtype)
        return tuple(add_or_zero(nothing, *map(mul, c, column)) for column in zip(*trace.D, strict=True))

    def spread(self, trace: Trace, z: State) -> State:
        """The tangent of the state that follows from one of the pre-activations, Σ_g D[p][g] z[g] for each p."""
        nothing = jnp.zeros(self.n, self.dtype)
        return tuple(add_or_zero(nothing, *map(mul, row, z)) for row in trace.D)

    def own_jacobian(self, weights: Gates, trace: Trace) -> Blocks:
        """The part of J within each unit: H, and for a[0] also the weights of units on themselves."""
        itself = [own(gate.rec) for gate in weights]
        rows = zip(trace.H, trace.D, strict=True)
        return tuple((add(H[0], *map(mul, D, itself)), *H[1:]) for H, D in rows)

    def no_influence(self, weights: Gates) -> Influence:
        return self._layout(weights).nothing(self, weights)

    def add_immediate(self, weights: Gates, trace: Trace, M: Influence) -> Influence:
        return self._layout(weights).add_immediate(self, weights, trace, M)

    def contract(self, weights: Gates, c: Credit, M: Influence) -> Gates:
        return self._layout(weights).contract(self, weights, c, M)

    def _layout(self, weights: Gates) -> Layout:
        if not self.is_recurrent:
            return OWN
        return WHOLE if any(isinstance(gate.rec, Patterned) for gate in weights) else BY_GATE

    # J as one matrix, for r-OK and the lazy form of RTRL.

    def jacobian(self, weights: Gates, trace: Trace) -> Float[Array, "S S"]:
        """J, rows (p, k), columns (q, l)."""
        one = jnp.eye(self.states * self.n, dtype=self.dtype)
        return self.beside_leaks(trace.H, one, self.seen_columns(weights, trace))

    def seen_columns(self, weights: Gates, trace: Trace) -> Float[Array, "S n"]:
        """The columns of J for a[0], the variable that gates receive. All other columns are diagonal blocks from H."""
        nothing = jnp.zeros((self.n, self.n), self.dtype)
        return jnp.concatenate([nothing if J is None else J for J in self.seen_blocks(weights, trace)])

    def beside_leaks(self, H: Blocks, rows: Float[Array, "*k S"], seen: Float[Array, "*k n"]) -> Float[Array, "*k S"]:
        """`rows` times J. `seen` is their product with `seen_columns`; the other columns follow from H."""
        parts = self.split(rows, axis=-1)
        times = lambda c, h: c * jnp.expand_dims(h, tuple(range(c.ndim - 1)))
        leak = lambda q: (None if each[q] is None else times(c, each[q]) for c, each in zip(parts, H, strict=True))
        return jnp.concatenate([seen, *(add_or_zero(parts[q], *leak(q)) for q in range(1, self.states))], axis=-1)

    def seen_blocks(self, weights: Gates, trace: Trace) -> list[Float[Array, "n n"] | None]:
        """For each state variable its derivative in a[0], through the leak and all gates."""
        eye = jnp.eye(self.n, dtype=self.dtype)
        matrices = [None if gate.rec is None else full(gate.rec) for gate in weights]
        through = lambda D: map(mul, D, matrices)
        return [add(mul(H[0], eye), *through(D)) for H, D in zip(trace.H, trace.D, strict=True)]

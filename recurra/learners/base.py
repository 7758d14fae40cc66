"""The two relations that generate every algorithm, and the four axes along which they differ.

A network takes a(t-1) and x(t) to a(t). With J(t) = da(t)/da(t-1), the immediate influence Mbar(t) = da(t)/dw at
step t alone, and the immediate credit cbar(t) = dL(t)/da(t), credit is assigned to the weights w in one of two ways:

    past facing     M(t) = J(t) M(t-1) + Mbar(t)        gradient = cbar(t) M(t)
    future facing   c(t) = cbar(t) + c(t+1) J(t+1)      gradient = c(t) Mbar(t)

A past-facing learner sums what all earlier applications of w did to the present loss; it must *compress* M, which
has one entry for each pair of a unit and a weight. A future-facing learner sums what the present application of w
will do to all later losses; it must *predict* c, which depends on a future not yet seen. So a learner is either a way
to represent and advance M (`advance`, `contract`) or a way to estimate c (`credit`), and the rest is shared.

The axes are class metadata for tables, legends and tests; nothing dispatches on them:

    facing       past or future, or neither where a gradient sums over both times
    tensor       how M, or the predictor of c, is stored, by its indices: unit k, weight from j to i
    stochastic   whether the update needs random numbers to stay unbiased
    numerical    whether something is fitted by descent or decomposition instead of written in closed form
"""

import abc
from typing import Any, ClassVar, Literal, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.algebra import mean
from recurra.cells.adapter import GeneralCell
from recurra.cells.base import Cell, Credit, State, Tangent, Weights
from recurra.cells.unitwise import UnitwiseCell

#: steps that a deferring learner lets wait, at most: the first of a span has a number that this divides
SPAN = 16


class Tick(eqx.Module):
    """One step as a learner sees it."""

    cell: Cell
    weights: Weights
    t: Int[Array, ""]
    before: State
    state: State
    trace: Any
    label: Float[Array, " n_out"]
    error: Float[Array, " n_out"]
    cbar: Credit

    def push(self, v: Tangent) -> Tangent:
        """J v."""
        return self.cell.push(self.weights, self.trace, v)

    def pull(self, c: Credit) -> State:
        """c J."""
        return self.cell.pull(self.weights, self.trace, c)

    def deposit(self, c: Credit) -> Weights:
        """c Mbar."""
        return self.cell.deposit(self.weights, self.trace, c)

    def deposit_norm(self, c: Credit) -> Float[Array, ""]:
        """‖c Mbar‖."""
        return self.cell.deposit_norm(self.weights, self.trace, c)


class Learner(eqx.Module):
    """An algorithm that turns each step into a gradient for the recurrent weights; its fields are hyperparameters."""

    #: the name in tables and legends
    name: ClassVar[str]
    facing: ClassVar[Literal["past", "future", "–"]]
    tensor: ClassVar[str]
    stochastic: ClassVar[bool]
    numerical: ClassVar[bool]
    memory: ClassVar[str]
    time: ClassVar[str]
    #: whether it uses that parameters act on one unit at a time
    unitwise: ClassVar[bool]
    #: whether the seeds of a core are faster vmapped than one by one; None if that depends on how much they carry
    together: ClassVar[bool | None] = None

    @property
    def lag(self) -> int:
        """How many steps after a step its gradient is emitted."""
        return 0

    def emits(self, t: Int[Array, ""]) -> Bool[Array, ""] | bool:
        """Whether a gradient leaves at step t; where it does not, the optimizer is not stepped."""
        return True

    @abc.abstractmethod
    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree:
        """The state before the first step."""

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        """The random numbers of a whole block of steps, leading axis time; None if it needs none."""
        return None

    @abc.abstractmethod
    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Weights, PyTree]:
        """The gradient for the recurrent weights, and the next state."""

    # `step` in two, for a loop with several streams: the mean of their gradients may cost less than each of them. A
    # learner that writes only `step` needs none of this.

    def factors(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[PyTree[Array], PyTree]:
        """What the gradient is the product of, and the next state."""
        return self.step(tick, state, noise)

    def gradient(self, cell: Cell, weights: Weights, factors: PyTree[Array]) -> Weights:
        """The gradient from its factors."""
        return factors

    def mean_gradient(self, cell: Cell, weights: Weights, factors: PyTree[Array]) -> Weights:
        """The mean of gradients from the factors of each, on their leading axis."""
        return mean(jax.vmap(lambda each: self.gradient(cell, weights, each))(factors))


class PastFacing(Learner):
    """M(t) = J M(t-1) + Mbar, gradient = cbar M."""

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Weights, PyTree]:
        state = self.advance(tick, state, noise)
        return self.contract(tick.cell, tick.weights, tick.cbar, state), state

    @abc.abstractmethod
    def advance(self, tick: Tick, state: PyTree, noise: PyTree) -> PyTree:
        """The estimate of M(t) from that of M(t-1)."""

    @abc.abstractmethod
    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree) -> Weights:
        """c M, linear in c."""

    def influence(self, cell: Cell, weights: Weights, state: PyTree) -> Weights:
        """The dense estimate of M, each leaf (units, *weight shape): for analysis and tests, of size O(n³)."""
        row = lambda basis: self.contract(cell, weights, cell.split(basis), state)
        return jax.vmap(row)(jnp.eye(sum(cell.widths), dtype=cell.dtype))


class Deferring(PastFacing):
    """Lets the steps of a span wait, and brings M up to date at its end, for all of them at once.

    Each step's gradient is complete all the same. `step` ends spans by itself; a loop that knows where they end calls
    `defer` and `fold` instead, since a branch in every step costs more than a loop around them.
    """

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Weights, PyTree]:
        if not self.defers(tick.cell):
            return super().step(tick, state, noise)
        factors, state = self.defer(tick, state)
        fold = lambda state: self.fold(tick.cell, tick.weights, state)
        state = jax.lax.cond(tick.t % SPAN == SPAN - 1, fold, lambda state: state, state)
        return self.gradient(tick.cell, tick.weights, factors), state

    @abc.abstractmethod
    def defers(self, cell: Cell) -> bool:
        """Whether it lets steps of this cell wait; otherwise `step` is that of any past-facing learner."""

    @abc.abstractmethod
    def defer(self, tick: Tick, state: PyTree) -> tuple[PyTree[Array], PyTree]:
        """What the gradient is the product of, and the state with this step waiting."""

    @abc.abstractmethod
    def fold(self, cell: Cell, weights: Weights, state: PyTree) -> PyTree:
        """The state at the end of a span, with no step waiting."""


class FutureFacing(Learner):
    """c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar."""

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Weights, PyTree]:
        factors, state = self.factors(tick, state, noise)
        return self.gradient(tick.cell, tick.weights, factors), state

    def factors(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[tuple[Credit, Any], PyTree]:
        c, trace, state = self.credit(tick, state)
        return (c, trace), state

    def gradient(self, cell: Cell, weights: Weights, factors: tuple[Credit, Any]) -> Weights:
        c, trace = factors
        return cell.deposit(weights, trace, c)

    def mean_gradient(self, cell: Cell, weights: Weights, factors: PyTree[Array]) -> Weights:
        c, traces = factors
        return cell.deposit_all(weights, traces, jax.tree.map(lambda u: u / len(u), c))

    @abc.abstractmethod
    def credit(self, tick: Tick, state: PyTree) -> tuple[Credit, Any, PyTree]:
        """The estimate of c for the step `lag` steps ago, that step's trace, and the next state."""


class Intermittent(Learner):
    """Emits every T steps: there the gradient Σ c Mbar of all of them, and zero elsewhere.

    A loop that knows where rounds of T steps end takes the gradient from `credits` there, and none from `step`.
    """

    T: eqx.AbstractVar[int]

    def emits(self, t: Int[Array, ""]) -> Bool[Array, ""]:
        return (t + 1) % self.T == 0

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[Weights, PyTree]:
        state = self.remember(tick, state, noise)
        gradient = lambda: tick.cell.deposit_all(tick.weights, *self.credits(tick.cell, tick.weights, state))
        nothing = lambda: jax.tree.map(jnp.zeros_like, tick.weights)
        return jax.lax.cond(self.emits(tick.t), gradient, nothing), state

    @abc.abstractmethod
    def remember(self, tick: Tick, state: PyTree, noise: PyTree) -> PyTree:
        """The next state."""

    @abc.abstractmethod
    def credits(self, cell: Cell, weights: Weights, state: PyTree) -> tuple[PyTree[Array], PyTree[Array]]:
        """The traces of the last T steps, leading axis time, and the credit of each, after a step that emits."""


def check_pairing(learner: Learner, cell: Cell) -> None:
    """Raise if the learner asks more of the cell than it offers."""
    if not learner.unitwise or isinstance(cell, UnitwiseCell):
        return
    wrapped = cell.name if isinstance(cell, GeneralCell) else type(cell).__name__
    raise TypeError(
        f"{type(learner).__name__} needs a unit-wise cell, and {wrapped} is a general one: use recurra.RNN, "
        "recurra.GRU or recurra.LSTM, or a learner that takes any cell: RTRL, UORO, EfficientBPTT, FutureBPTT, DNI or "
        "Fixed."
    )


def splits(learner: Learner) -> bool:
    """Whether `factors` and `mean_gradient` stand for `step`: not where a subclass wrote `step` or what it calls."""
    classes = type(learner).__mro__
    written = lambda name: next(i for i, each in enumerate(classes) if name in vars(each) or each is Learner)
    return written("factors") <= min(written("step"), written("contract"))


def emits_in_rounds(learner: Learner) -> TypeGuard[Intermittent]:
    """Whether it emits every T steps and at no other time, as far as the library's own classes say."""
    kind = type(learner)
    return isinstance(learner, Intermittent) and kind.step is Intermittent.step and kind.emits is Intermittent.emits


def unitwise(cell: Cell) -> UnitwiseCell:
    """The cell, known to be unit-wise since `check_pairing`."""
    assert isinstance(cell, UnitwiseCell)
    return cell

"""The two relations that generate every algorithm, and the four axes along which they differ.

A network takes a(t-1) and x(t) to a(t). With J(t) = da(t)/da(t-1), the immediate influence Mbar(t) = da(t)/dw at
step t alone, and the immediate credit cbar(t) = dL(t)/da(t), credit is assigned to the weights w in one of two ways:

    past facing     M(t) = J(t) M(t-1) + Mbar(t)        gradient = cbar(t) M(t)
    future facing   c(t) = cbar(t) + c(t+1) J(t+1)      gradient = c(t) Mbar(t)

A past-facing learner sums what all earlier applications of w did to the present loss; it must *compress* M, which
has one entry for each pair of a unit and a weight. A future-facing learner sums what the present application of w
will do to all later losses; it must *predict* c, which depends on a future not yet seen. So a learner is either a way
to represent and advance M (`advance`, `contract`) or a way to estimate c (`credit`), and the rest is shared.

The axes describe a learner for tables, legends and tests; nothing dispatches on them:

    facing       past or future, or neither where a gradient sums over both times; it follows from the base class
    tensor       how M, or the predictor of c, is stored, by its indices: unit k, weight from j to i
    stochastic   whether the update needs random numbers to stay unbiased
    numerical    whether something is fitted by descent or decomposition instead of written in closed form
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.tick import Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.linalg import dense, where, zeros_like


@dataclass(frozen=True)
class About:
    """What an algorithm is: its name on the command line and in tables, its axes, its costs and its needs.

    >>> rc.RFLO.about.id, rc.RFLO.about.memory, rc.RFLO.about.cells
    ('rflo', 'n²', 'unit-wise')
    """

    id: str
    name: str
    tensor: str = "–"
    memory: str = "–"
    time: str = "–"
    stochastic: bool = False
    numerical: bool = False
    #: whether it uses that parameters act on one unit at a time
    unitwise: bool = False
    #: whether recurrent weights must be sparse (`recurra.cells.Sparsely`)
    sparse: bool = False
    #: whether the cell must be a `recurra.Stack`
    layers: bool = False
    #: the field that says how many steps after a step its gradient is emitted
    lag: str | None = None
    #: the field that says after how many steps `due` is called
    period: str | None = None

    @property
    def cells(self) -> str:
        """The cells that it serves, in words."""
        return "stack" if self.layers else "sparse" if self.sparse else "unit-wise" if self.unitwise else "any"


class Learner(checks.Part):
    """An algorithm that turns each step into a gradient for the recurrent weights; its fields are hyperparameters.

    Subclass `PastFacing`, `FutureFacing` or `Unfaced`. A gradient may be handed over as outer products that are not
    multiplied out (`recurra.linalg.Outer`): their mean over streams is then one product of matrices.

    An example is in docs/add-a-learner.md.
    """

    about: ClassVar[About]
    facing: ClassVar[str]

    @property
    def name(self) -> str:
        """The name in tables and legends."""
        return self.about.name

    @property
    def lag(self) -> int:
        """How many steps after a step its gradient is emitted."""
        return getattr(self, self.about.lag) if self.about.lag else 0

    @property
    def period(self) -> int:
        """How many steps lie between two calls of `due`; 0 if it is never called."""
        return getattr(self, self.about.period) if self.about.period else 0

    def check(self, cell: Cell) -> None:
        """Raise if it cannot learn with this cell for a reason of its own."""
        return None

    @abc.abstractmethod
    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree:
        """The state before the first step."""

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        """The random numbers of a whole block of steps, leading axis time; None if it needs none."""
        return None

    @abc.abstractmethod
    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[LazyWeights | None, PyTree]:
        """The gradient for the recurrent weights, None if there is none, and the next state."""

    def due(self, cell: Cell, weights: Weights, state: PyTree) -> tuple[LazyWeights | None, PyTree]:
        """What is due after every `period` steps: a gradient, None if there is none, and the next state."""
        return None, state

    @abc.abstractmethod
    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        """Whether a gradient leaves at step t; where it does not, the optimizer is not stepped.

        `unlabelled` counts the steps since the latest one that had a label; None where all of them have one.
        """


class PastFacing(Learner):
    """M(t) = J M(t-1) + Mbar, gradient = cbar M. What a learner keeps of M is its state.

    An example is in docs/add-a-learner.md.
    """

    facing: ClassVar[str] = "past"

    @abc.abstractmethod
    def advance(self, tick: Tick, state: PyTree, noise: PyTree) -> PyTree:
        """The estimate of M(t) from that of M(t-1).

        A part that is None in the first state serves this step's gradient, and is not kept for the next step.
        """

    @abc.abstractmethod
    def contract(self, cell: Cell, weights: Weights, c: Credit, state: PyTree) -> LazyWeights:
        """c M, linear in c."""

    @property
    def uses_given_credit(self) -> bool:
        """Whether the credit of its gradient is the one that it is given, and not one of its own."""
        return True

    def forget(self, cell: Cell, state: PyTree) -> PyTree:
        """The state with M = 0, as after a reset. Override it if part of the state was learned and should stay."""
        return zeros_like(state)

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[LazyWeights, PyTree]:
        if tick.reset is not None:
            state = where(tick.reset, self.forget(tick.cell, state), state)
        M = self.advance(tick, state, noise)
        return self.contract(tick.cell, tick.weights, tick.cbar, M), _kept(state, M)

    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        return True if unlabelled is None else unlabelled == 0

    def influence(self, cell: Cell, weights: Weights, state: PyTree) -> Weights:
        """The dense estimate of M, each leaf (units, *weight shape): for analysis and tests, of size O(n³).

        A state that does not tell all of M is a ValueError. RFLO, for example, keeps no trace of an LSTM's h, which no
        unit reads again: it serves the gradient of its own step alone.
        """
        from recurra.learners.following import first_influence

        key, (applied, pull) = jax.random.key(0), cell.applied_with_pull(weights)
        whole = jax.eval_shape(lambda: first_influence(self, cell, applied, key, 1))
        if jax.tree.structure(state) != jax.tree.structure(whole):
            kept = jax.eval_shape(lambda: self.init(cell, applied, key, 1))
            if jax.tree.structure(kept) == jax.tree.structure(whole):
                why = (
                    "It is that of another learner or network, or an engine keeps it in a faster form: then train with "
                    "engine=recurra.ScanEngine(specialise=False)."
                )
            else:
                why = (
                    "None does, whatever the engine, since what serves the gradient of a single step only is not kept: "
                    "use recurra.online_grad, whose states have an `M` that is whole."
                )
            raise ValueError(f"The state does not tell all of M for {self.name} on {type(cell).__name__}. {why}")
        row = lambda basis: pull(dense(self.contract(cell, applied, cell.split(basis), state)))
        return jax.vmap(row)(jnp.eye(sum(cell.widths), dtype=cell.dtype))


class FutureFacing(Learner):
    """c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar.

    An example is `recurra.DNI`, whose source is shown in docs/learners/dni.md.
    """

    facing: ClassVar[str] = "future"

    @abc.abstractmethod
    def credit(self, tick: Tick, state: PyTree) -> tuple[Credit, Any, PyTree]:
        """The estimate of c for the step `lag` steps ago, that step's trace, and the next state."""

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[LazyWeights, PyTree]:
        c, trace, state = self.credit(tick, state)
        return tick.cell.deposit(tick.weights, trace, c), state

    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        if not self.lag:  # predicted credit needs no label of this step
            return True
        return t >= self.lag if unlabelled is None else (t >= self.lag) & (unlabelled <= self.lag)


class Unfaced(Learner):
    """Faces neither way: it remembers what it sees, and emits a gradient only when one is `due`.

    An example is `recurra.EfficientBPTT`, whose source is shown in docs/learners/e-bptt.md.
    """

    facing: ClassVar[str] = "–"

    @abc.abstractmethod
    def remember(self, tick: Tick, state: PyTree, noise: PyTree) -> PyTree:
        """The next state."""

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[None, PyTree]:
        return None, self.remember(tick, state, noise)

    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        if not self.period:
            return False
        ends = (t + 1) % self.period == 0
        return ends if unlabelled is None else ends & (unlabelled < self.period)


def _kept(first: PyTree, new: PyTree) -> PyTree:
    """The new state without the parts that are None in the first, such as traces of a variable that no unit reads."""
    return jax.tree.map(lambda old, new: None if old is None else new, first, new, is_leaf=lambda leaf: leaf is None)


def unitwise(cell: Cell) -> UnitwiseCell:
    """The cell, typed as a unit-wise one: for learners whose `about` asks for that."""
    assert isinstance(cell, UnitwiseCell)
    return cell

"""Labels that arrive late: two states of one network, and the rows between them.

A forecast h rows ahead gets its label h rows later. Meanwhile further rows arrive, and each asks for a forecast. So
there are two states. The *leading* one takes every input as it comes, with the weights of the moment, and makes the
predictions. The *trailing* one takes an input only when its label has arrived, and learns. Weights never see a label
before it exists. Where a label comes before the next input, both states are the same.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recurra import checks
from recurra.cells.base import State
from recurra.learners.history import put
from recurra.linalg import where
from recurra.network import NetworkWeights
from recurra.step.given import check_row
from recurra.step.learning import LearningStep
from recurra.step.types import GivenCredit, GivenError, LearningState, Outcome


class WaitingRow(NamedTuple):
    """An input without its label yet, the output it led to, and what the caller wants to find again."""

    x: Float[Array, "*streams n_in"]
    output: Float[Array, "*streams n_out"]
    reset: Bool[Array, "*streams"] | None
    note: PyTree[Array]


class DelayedState(NamedTuple):
    """The trailing state, which learns; the leading one, which predicts; and the rows that wait for their labels.

    `waiting` is a ring, whose oldest row is number `oldest`, and in which `filled` rows are.
    """

    learning: LearningState
    lead: State
    waiting: WaitingRow
    oldest: Int[Array, ""]
    filled: Int[Array, ""]

    @property
    def weights(self) -> NetworkWeights:
        """The weights of the moment."""
        return self.learning.weights


class DelayedStep(checks.Part):
    """A step of learning whose labels come late. At most `rows` inputs wait for their labels.

    One more would take the place of the oldest, and nothing here notices: `recurra.Online` counts them.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=1, loss=rc.SquaredError())
    >>> step = rc.DelayedStep(rc.LearningStep(network, rc.RFLO(), 1e-2), rows=3)
    >>> state, output = step.observe(step.start(step.step.init(jax.random.key(0))), jnp.ones(2))
    >>> state, outcome = step.learn(state, jnp.ones(1))
    """

    step: LearningStep
    rows: int = 1

    def __check_init__(self) -> None:
        checks.whole(self, "rows")

    def start(self, learning: LearningState, note: PyTree[Array] = None) -> DelayedState:
        """The state before the first row. `note` has the structure of what will be noted of every row."""
        step, network = self.step, self.step.network
        zeros = lambda width: step.in_every_stream(jnp.zeros(width, network.cell.dtype))
        reset = step.in_every_stream(jnp.zeros((), bool)) if learning.first is not None else None
        row = WaitingRow(zeros(network.cell.n_in), zeros(network.n_out), reset, note)
        ring = jax.tree.map(lambda leaf: jnp.zeros((self.rows, *leaf.shape), leaf.dtype), row)
        zero = jnp.zeros((), "int32")
        return DelayedState(learning, learning.a, ring, zero, zero)

    def observe(
        self,
        state: DelayedState,
        x: Float[Array, "*streams n_in"],
        reset: Bool[Array, "*streams"] | None = None,
        note: PyTree[Array] = None,
    ) -> tuple[DelayedState, Float[Array, "*streams n_out"]]:
        """Input x arrives: the leading state moves on, and there is an output. The row then waits for its label."""
        check_row(self.step.network.cell.n_in, self.step.streams, x, reset)

        def look(a: State, x: Array, reset: Array | None) -> tuple[State, Array]:
            a = a if reset is None else where(reset, self.step.network.cell.init_state(), a)
            after, _, output = self.step.network.forward(state.weights, a, x)
            return after, output

        if reset is None and state.waiting.reset is not None:  # the ring has a place for it
            reset = self.step.in_every_stream(jnp.zeros((), bool))
        lead, output = self.step.over_streams(look)(state.lead, x, reset)
        waiting = self._put(state, WaitingRow(x, output, reset, note))
        return state._replace(lead=lead, waiting=waiting, filled=state.filled + 1), output

    def _put(self, state: DelayedState, row: WaitingRow) -> WaitingRow:
        if self.rows == 1:  # with no index to compute, the compiler sees that this row is the oldest
            return jax.tree.map(lambda leaf: leaf[None], row)
        return put(state.waiting, state.oldest + state.filled, row)

    def caught_up(self, state: DelayedState) -> DelayedState:
        """The state when no row waits: both states of the network are the same.

        Where a label comes with its row, a compiler that is told so runs the cell once, for both.
        """
        return state._replace(lead=state.learning.a)

    def oldest(self, state: DelayedState) -> WaitingRow:
        """The row whose label comes next."""
        return jax.tree.map(lambda rows: rows[0 if self.rows == 1 else state.oldest], state.waiting)

    def learn(
        self,
        state: DelayedState,
        target: Float[Array, "*streams n_out"] | GivenError | GivenCredit,
        noise: dict[str, PyTree] | None = None,
        present: Bool[Array, "*streams"] | None = None,
    ) -> tuple[DelayedState, Outcome]:
        """The label of the oldest row arrives: the trailing state takes the row, and learns.

        `loss` and `output` of the outcome are those of the prediction that was made when the row arrived.
        """
        row = self.oldest(state)
        seen, _ = self.step.observe(state.learning, row.x, noise, row.reset)
        learning, outcome = self.step.learn(seen, target, present)
        oldest = jnp.where(state.oldest + 1 == self.rows, 0, state.oldest + 1)
        after = state._replace(learning=learning, oldest=oldest, filled=state.filled - 1)
        return after, outcome._replace(output=row.output, loss=self.step.loss_of(row.output, target, present))

    def crosses_reset(self, state: DelayedState, reset: Bool[Array, "*streams"] | None) -> Any:
        """Whether the state was set back after the oldest of all `rows` rows. `reset` belongs to the row to come."""
        if reset is None or state.waiting.reset is None:
            return False
        later = jnp.arange(self.rows, dtype=state.oldest.dtype) != state.oldest
        return reset | jnp.any(state.waiting.reset & later.reshape(-1, *(1 for _ in reset.shape)), axis=0)

"""What an engine runs: a step of learning, a task that feeds it, and what is kept of each step."""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, LazyWeights, Weights
from recurra.cells.tick import Tick
from recurra.engine.compiling import traced
from recurra.learners.base import About, Learner, Unfaced
from recurra.linalg import decomposable, zeros_like
from recurra.network import Network, NetworkWeights
from recurra.step import APPLIED, DelayedState, DelayedStep, LearningState, LearningStep, Optimizer, Outcome
from recurra.step.contracts import check_arrays, check_returns, is_own
from recurra.step.optimizers import Described
from recurra.tasks.base import BLOCK, Rows, Task

# Labels that come rows later: a task with a horizon h has the label of row t - h in row t. For the first h steps
# nothing can be learned, and rows are only observed. From then on every step learns the oldest row that waits, and
# observes a new one. So what waits where follows from the number of the step, and no member carries it. The random
# numbers of a row wait with it.


def late_start(queue: DelayedStep, learning: LearningState, noise: PyTree[Any]) -> DelayedState:
    """The state before the first row. `noise` has the shapes of a row's random numbers."""
    return _bare(queue.start(learning, zeros_like(noise)))


def late_observed(
    queue: DelayedStep, state: DelayedState, rows: Rows, noise: PyTree, t: Int[Array, ""]
) -> DelayedState:
    """Step t < h: the row waits for its label."""
    state = state._replace(oldest=jnp.zeros_like(t), filled=t)
    return _bare(queue.observe(state, rows.x, rows.reset, noise)[0])


def late_learned(
    queue: DelayedStep, state: DelayedState, rows: Rows, noise: PyTree, t: Int[Array, ""], now: Int[Array, ""]
) -> tuple[DelayedState, Outcome, Bool[Array, "*streams"] | None]:
    """Step t ≥ h: the label is learned for the row h earlier; then row t waits. Learners call this step `now` - h.

    Also returns the outcome for that earlier row, and whether its label counts; None: it does.
    """
    learning = state.learning._replace(t=now - queue.rows)
    state = state._replace(learning=learning, oldest=t % queue.rows, filled=jnp.full_like(t, queue.rows))
    present = rows.present
    if rows.reset is not None:
        present = ~queue.crosses_reset(state, rows.reset) & (True if present is None else present)
    state, outcome = queue.learn(state, rows.label, queue.oldest(state).note, present)
    return _bare(queue.observe(state, rows.x, rows.reset, noise)[0]), outcome, present


def _bare(state: DelayedState) -> DelayedState:
    """The state as members carry it."""
    return state._replace(learning=state.learning._replace(t=None), oldest=None, filled=None)


class Keys(NamedTuple):
    """One key for each use, the same whichever learner is trained, so that learners are compared on equal terms."""

    weights: PRNGKeyArray
    task: PRNGKeyArray
    stream: PRNGKeyArray
    learners: PRNGKeyArray
    noise: PRNGKeyArray


class Carry(NamedTuple):
    """Everything that goes from one step to the next. Engines count steps themselves, so `learning.t` is None.

    With a task whose labels come late, `learning` also holds the rows that wait for them.
    """

    learning: LearningState | DelayedState
    task: Any
    recorder: PyTree


class StepRecord(NamedTuple):
    """What is kept of a step. `labelled` tells how many streams had a label; None: they all do, in every step.

    For a single stream it is a truth value.
    """

    loss: Float[Array, ""]
    labelled: Bool[Array, ""] | Int[Array, ""] | None
    records: PyTree[Array]


class NeverDue(Learner):
    """A learner without the work that is due after every `period` steps: the engine does it after a round of them."""

    learner: Learner

    about = About("never-due", "Never due")
    facing = "–"

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> PyTree:
        return self.learner.init(cell, weights, key, n_out)

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> PyTree[Array] | None:
        return self.learner.noise(cell, key, steps)

    def step(self, tick: Tick, state: PyTree, noise: PyTree) -> tuple[LazyWeights | None, PyTree]:
        return self.learner.step(tick, state, noise)

    def emits(
        self, t: Int[Array, ""], unlabelled: Int[Array, "*streams"] | None = None
    ) -> Bool[Array, "*streams"] | bool:
        # A learner that faces neither way has no gradient but the one that is due.
        return False if isinstance(self.learner, Unfaced) else self.learner.emits(t, unlabelled)


def with_learners(step: LearningStep, learners: Mapping[str, Learner]) -> LearningStep:
    """The step with other learners, or other forms of them, in their places."""
    probes = {name: learner for name, learner in learners.items() if name != APPLIED}
    is_learner = lambda node: isinstance(node, Learner) or type(node) is dict
    return eqx.tree_at(lambda each: (each.learner, each.probes), step, (learners[APPLIED], probes), is_leaf=is_learner)


class Recorder(Protocol):
    """Returns what is kept of every step; it may carry a state of its own from step to step."""

    def init(self, step: LearningStep, state: LearningState) -> PyTree:
        """Its state before the first step."""
        ...

    def __call__(self, state: PyTree, outcome: Outcome, t: Int[Array, ""]) -> tuple[PyTree, PyTree[Array]]:
        """Its next state, and what to keep of step t."""
        ...


#: What a member may start from: weights, or all that goes from one step to the next
Start = NetworkWeights | LearningState


class Experiment(eqx.Module):
    """One run of one member, as pure functions.

    `began` is the number of steps that learners have taken before, if a run starts from a state; None: none. `gaps`
    tells whether labels may be missing, and `resets` whether the state may be set back.
    """

    step: LearningStep
    task: Task
    recorder: Any = None
    began: Int[Array, ""] | None = None
    gaps: bool = eqx.field(default=False, static=True)
    resets: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        for part in (self.task, self.step.network.cell, self.step.network.loss, *self.step.learners.values()):
            for field in dataclasses.fields(part):
                check_hashable(part, field.name)

    @staticmethod
    def of(
        network: Network,
        learners: Mapping[str, Learner],
        optimizer: Optimizer,
        task: Task,
        streams: int = 1,
        recorder: Any = None,
        rows: Rows | None = None,
        exact_probes: Collection[str] = (),
    ) -> "Experiment":
        """An experiment that allows what the task has: missing labels, resets, or neither.

        `rows` are the shapes of a block of the task, if they are known: to find them takes a millisecond.
        """
        rows = task_rows(task, network.cell.dtype) if rows is None else rows
        resets = rows.reset is not None
        gaps = rows.present is not None or (resets and task.horizon > 0)  # a reset may come before a late label
        probes = {name: learner for name, learner in learners.items() if name != APPLIED}
        step = LearningStep(network, learners[APPLIED], optimizer, probes, streams, exact_probes=exact_probes)
        return Experiment(step, task, recorder, gaps=gaps, resets=resets)

    @property
    def horizon(self) -> int:
        """How many rows after a row its label comes."""
        return self.task.horizon

    @property
    def queue(self) -> DelayedStep:
        """The step with its labels late, if there is a horizon."""
        return DelayedStep(self.step, self.horizon)

    def init(self, key: PRNGKeyArray, start: Start | None = None) -> tuple[Carry, Keys]:
        """The start of one member."""
        return self.init_from(Keys(*jax.random.split(key, len(Keys._fields))), start)

    def init_from(self, keys: Keys, start: Start | None = None) -> tuple[Carry, Keys]:
        """The start of a run whose keys are chosen one by one."""
        first = self.step.first_weights(keys.weights) if start is None else start
        learning = first if isinstance(first, LearningState) else self.start_from(first, keys.learners)
        learning = learning._replace(t=None)
        task = self.task.init(keys.task, self.step.network.cell.dtype)
        if self.step.streams > 1:
            task = jax.vmap(self.task.in_stream, (None, 0))(task, jnp.arange(self.step.streams, dtype="int32"))
        recorder = None if self.recorder is None else self.recorder.init(self.step, learning)
        if self.horizon:
            noise = jax.eval_shape(lambda: jax.tree.map(lambda rows: rows[0], self.step.noise(keys.noise, 1)))
            learning = late_start(self.queue, learning, noise)
        return Carry(learning, task, recorder), keys

    def start_from(self, weights: NetworkWeights, key: PRNGKeyArray) -> LearningState:
        """The state of learning before the first step, with given weights."""
        return self.step.start_from(weights, key, self.gaps, self.resets)

    def draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
        """Rows and random numbers of a block of steps, leading axis time, and the task's state after it."""
        rows, task = self.draw_rows(carry.task, keys, number)
        return (rows, self.draw_noise(keys, number)), task

    def draw_rows(self, task: Any, keys: Keys, number: Int[Array, ""]) -> tuple[Rows, Any]:
        """Inputs and labels of a block of steps, leading axis time, and the task's state after it."""
        block = lambda key, task: self.task.block(task, key, number, self.step.network.cell.dtype)
        rows, task = self.step.each_stream(block, jax.random.fold_in(keys.stream, number), task)
        if self.step.streams > 1:  # steps go first, then streams
            rows = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), rows)
        return rows, task

    def draw_noise(self, keys: Keys, number: Int[Array, ""]) -> dict[str, PyTree[Array]]:
        """Random numbers of a block of steps for every learner, leading axis time."""
        return {
            name: self.step.noise_of(name, jax.random.fold_in(own, number), BLOCK)
            for name, own in self.step.own_keys(keys.noise).items()
        }

    def take(self, carry: Carry, row: tuple[Rows, PyTree], t: Int[Array, ""]) -> tuple[Carry, StepRecord]:
        """Step t on a row of `draw`: what goes on to the next, and what is kept. The first `horizon` are `observe`d.

        For the learners in `later` the caller calls `end_round`.
        """
        rows, noise = row
        now = t if self.began is None else t + self.began
        if isinstance(carry.learning, DelayedState):
            learning, outcome, present = late_learned(self.queue, carry.learning, rows, noise, t, now)
            labelled = jnp.ones((), bool) if present is None else _count(present)
        else:
            step = self._step_between_rounds
            seen, _ = step.observe(carry.learning._replace(t=now), rows.x, noise, rows.reset)
            learning, outcome = step.learn(seen, rows.label, rows.present)
            labelled = None if rows.present is None else _count(rows.present)
            learning = learning._replace(t=None)
        state, records = (None, {}) if self.recorder is None else self.recorder(carry.recorder, outcome, t)
        return Carry(learning, carry.task, state), StepRecord(outcome.loss, labelled, records)

    def observe(self, carry: Carry, row: tuple[Rows, PyTree], t: Int[Array, ""]) -> Carry:
        """Step t before `horizon`: no label has come, and nothing is learned or kept."""
        assert isinstance(carry.learning, DelayedState)
        return carry._replace(learning=late_observed(self.queue, carry.learning, *row, t))

    @property
    def later(self) -> frozenset[str]:
        """The learners whose `due` is called at the end of a round of steps, and not inside a step.

        A branch in every step would cost more than a loop over rounds. But a recorder needs every gradient at its own
        step. So with a recorder, a learner whose gradient comes from `due` is not among them. None is where learners
        count steps otherwise than the engine does.
        """
        if self.horizon or self.began is not None:
            return frozenset()
        waits = lambda learner: learner.period and not (self.recorder is not None and isinstance(learner, Unfaced))
        return frozenset(name for name, learner in self.step.learners.items() if waits(learner))

    @property
    def _step_between_rounds(self) -> LearningStep:
        """The step in which nothing is ever due of the learners in `later`."""
        learners = {
            name: NeverDue(learner) if name in self.later else learner for name, learner in self.step.learners.items()
        }
        return with_learners(self.step, learners)

    @property
    def round(self) -> int:
        """The number of steps in a round; 0 if nothing is done after one."""
        return math.gcd(*(self.step.learners[name].period for name in self.later))

    def end_round(self, carry: Carry, t: Int[Array, ""], is_whole: bool = False) -> Carry:
        """What is due before step t. With `is_whole` a complete round has just ended, and fewer branches are needed."""
        if not self.later or isinstance(carry.learning, DelayedState):
            return carry
        learning = carry.learning._replace(t=t)
        for name in sorted(self.later, key=list(self.step.learners).index):
            period = self.step.learners[name].period
            is_due: Bool[Array, ""] | bool = True if is_whole and period == self.round else t % period == 0
            learning = self.step.due(name, learning, is_due)
        return carry._replace(learning=learning._replace(t=None))

    @property
    def traced(self) -> "Experiment":
        """The same experiment with its numbers as arrays.

        They become arguments of compiled programs, so that another value compiles nothing anew.
        """
        dtype = self.step.network.cell.dtype
        experiment = eqx.tree_at(lambda tree: tree.task, self, self.task.traced())
        is_number = lambda leaf: isinstance(leaf, float) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f")
        is_data = lambda leaf: isinstance(leaf, float | np.ndarray)

        def in_arrays(part: Any) -> Any:
            kind = decomposable(dtype) if isinstance(part, Described) else dtype  # 0.999 would be 1 in 16 bits
            array = lambda leaf: jnp.asarray(leaf, kind) if is_number(leaf) else jnp.asarray(leaf)
            return jax.tree.map(lambda leaf: array(leaf) if is_data(leaf) else leaf, part)

        return jax.tree.map(in_arrays, experiment, is_leaf=lambda part: isinstance(part, Described))


def _count(present: Bool[Array, "*streams"]) -> Bool[Array, ""] | Int[Array, ""]:
    """In how many streams something is there; for a single stream, whether it is."""
    return jnp.sum(present, dtype="int32") if present.ndim else present


class KnownRows:
    """The shapes of blocks, found once for each task and type of number."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, jnp.dtype], tuple[Task, Rows]] = {}

    def __call__(self, task: Task, dtype: jnp.dtype) -> Rows:
        """The shapes of a block of this task. The task is held, so that no other has its place in memory."""
        known = self._found.get((id(task), dtype)) or (task, task_rows(task, dtype))
        return self._found.setdefault((id(task), dtype), known)[1]


def check_hashable(part: Any, name: str) -> None:
    """Raise if the field holds something besides arrays that has no hash: JAX finds compiled programs by it."""
    fixed = [
        leaf for leaf in jax.tree.leaves(getattr(part, name, None)) if not isinstance(leaf, jax.Array | np.ndarray)
    ]
    try:
        hash(tuple(fixed))
    except TypeError:
        raise TypeError(
            f"`{name}` of {type(part).__name__} holds {fixed!r}, which cannot be hashed: use arrays, numbers or tuples."
        ) from None


def task_rows(task: Task, dtype: jnp.dtype) -> Rows:
    """The shapes of a block; what a task of one's own returns is checked."""
    array = lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
    return traced(_first_block, jax.tree.map(array, task.traced()), jax.random.key(0), dtype)[1]


def _first_block(task: Task, key: PRNGKeyArray, dtype: jnp.dtype) -> Rows:
    state = task.init(key, dtype)
    found = task.block(state, key, jnp.zeros((), "int32"), dtype)
    if is_own(task):
        _check_block(task, state, found, dtype)
    return found[0]


def _check_block(task: Task, state: Any, found: Any, dtype: jnp.dtype) -> None:
    name = type(task).__name__
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], Rows):
        raise TypeError(f"{name}.block must return recurra.Rows(x, label) and the next state, and returns {found!r}.")
    array = lambda kind, *shape: jnp.zeros((BLOCK, *shape), kind)
    flags = lambda each: None if each is None else array(bool)
    rows, after = found
    wanted = Rows(array(dtype, task.n_in), array(dtype, task.n_out), flags(rows.present), flags(rows.reset))
    check_returns(f"{name}.block, for the {BLOCK} steps of a block (recurra.BLOCK),", rows, wanted)
    check_arrays(f"{name}.init", state)
    check_returns(f"{name}.block, as the next state,", after, state)
    check_returns(f"{name}.in_stream", task.in_stream(state, jnp.zeros((), "int32")), state)

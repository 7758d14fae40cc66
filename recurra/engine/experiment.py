"""What an engine runs: a step of learning, a task that feeds it, and what is kept of each step."""

import math
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.learners.base import Unfaced
from recurra.step import LearningState, LearningStep, Outcome
from recurra.tasks.base import BLOCK, Task


class Keys(NamedTuple):
    """One key for each use, the same whichever learner is trained, so that learners are compared on equal terms."""

    weights: PRNGKeyArray
    task: PRNGKeyArray
    stream: PRNGKeyArray
    learners: PRNGKeyArray
    noise: PRNGKeyArray


class Carry(NamedTuple):
    """Everything that goes from one step to the next. Engines count steps themselves, so `learning.t` is None."""

    learning: LearningState
    task: Any
    recorder: PyTree


class Recorder(Protocol):
    """Returns what is kept of every step; it may carry a state of its own from step to step."""

    def init(self, step: LearningStep, state: LearningState) -> PyTree:
        """Its state before the first step."""
        ...

    def __call__(self, state: PyTree, outcome: Outcome, t: Int[Array, ""]) -> tuple[PyTree, PyTree[Array]]:
        """Its next state, and what to keep of step t."""
        ...


class Experiment(eqx.Module):
    """One run of one member, as pure functions."""

    step: LearningStep
    task: Task
    recorder: Any = None

    def init(self, key: PRNGKeyArray) -> tuple[Carry, Keys]:
        """The start of one member."""
        return self.init_from(Keys(*jax.random.split(key, len(Keys._fields))))

    def init_from(self, keys: Keys) -> tuple[Carry, Keys]:
        """The start of a run whose keys are chosen one by one."""
        learning = self.step.start(keys.weights, keys.learners)._replace(t=None)
        task = self.step.in_every_stream(self.task.init(keys.task, self.step.network.cell.dtype))
        recorder = None if self.recorder is None else self.recorder.init(self.step, learning)
        return Carry(learning, task, recorder), keys

    def draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
        """Inputs, labels and random numbers of a block of steps, leading axis time, and the task's state after it."""
        fold, dtype = jax.random.fold_in, self.step.network.cell.dtype
        block = lambda key, task: self.task.block(task, key, number, dtype)
        x, label, task = self.step.each_stream(block, fold(keys.stream, number), carry.task)
        if self.step.streams > 1:  # steps go first, then streams
            x, label = (leaf.swapaxes(0, 1) for leaf in (x, label))
        noise = {
            name: self.step.noise_of(name, fold(own, number), BLOCK)
            for name, own in self.step.own_keys(keys.noise).items()
        }
        return (x, label, noise), task

    def take(
        self, carry: Carry, row: PyTree[Array], t: Int[Array, ""]
    ) -> tuple[Carry, tuple[Float[Array, ""], PyTree[Array]]]:
        """Step t on a row of `draw`: what goes on to the next, and (loss, records)."""
        x, label, noise = row
        seen, _ = self.step.observe(carry.learning._replace(t=t), x, noise)
        learning, outcome = self.step.learn(seen, label, later=self.later)
        state, records = (None, {}) if self.recorder is None else self.recorder(carry.recorder, outcome, t)
        return Carry(learning._replace(t=None), carry.task, state), (outcome.loss, records)

    @property
    def later(self) -> frozenset[str]:
        """The learners whose `due` is called at the end of a round of steps, and not inside a step.

        A branch in every step would cost more than a loop over rounds. But a recorder needs every gradient at its own
        step. So with a recorder, a learner whose gradient comes from `due` is not among them.
        """
        waits = lambda learner: learner.period and not (self.recorder is not None and isinstance(learner, Unfaced))
        return frozenset(name for name, learner in self.step.learners.items() if waits(learner))

    @property
    def round(self) -> int:
        """The number of steps in a round; 0 if nothing is done after one."""
        return math.gcd(*(self.step.learners[name].period for name in self.later))

    def end_round(self, carry: Carry, t: Int[Array, ""], is_whole: bool = False) -> Carry:
        """What is due before step t. With `is_whole` a complete round has just ended, and fewer branches are needed."""
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
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if isinstance(leaf, float) else leaf, experiment)

"""One experiment: what is drawn for it, and what happens in a step. Nothing here touches the host."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from recurra.algebra import mean, mean_outer, over_streams
from recurra.cells.base import State, Weights
from recurra.learners.base import Deferring, Learner, emits_in_rounds, splits
from recurra.moment import Moment, Recorder, delay_lines, delayed
from recurra.network import Network, NetworkWeights, Readout, Step
from recurra.tasks.base import BLOCK, Task

Optimizer = optax.GradientTransformation | Float[Array, ""] | float


class Carry(NamedTuple):
    """Everything that goes from one step to the next."""

    weights: NetworkWeights
    optimizers: tuple[PyTree, PyTree]
    state: State
    learners: dict[str, PyTree]
    task: Any
    late: Moment | None


class Keys(NamedTuple):
    """One key for each use, the same whichever learner is trained, so that learners are compared on equal terms."""

    weights: PRNGKeyArray
    task: PRNGKeyArray
    stream: PRNGKeyArray
    learners: PRNGKeyArray
    noise: PRNGKeyArray


class Loop(eqx.Module):
    """One experiment: what is trained, by which learner, on which task, and what is recorded of it.

    With several `streams` the network runs in as many copies that share their weights, each on data of its own, and
    descends along the mean of their gradients.
    """

    network: Network
    learners: dict[str, Learner]
    task: Task
    optimizer: Optimizer
    recorders: Mapping[str, Recorder]
    streams: int = 1

    @property
    def delay(self) -> int:
        """How late moments arrive."""
        return max(learner.lag for learner in self.learners.values()) if self.recorders else 0

    def init(self, key: PRNGKeyArray) -> tuple[Carry, Keys]:
        """The start of one seed."""
        return self.init_from(Keys(*jax.random.split(key, len(Keys._fields))))

    def init_from(self, keys: Keys) -> tuple[Carry, Keys]:
        """The start of a run whose keys are chosen one by one."""
        cell, dtype = self.network.cell, self.network.cell.dtype
        weights = self.network.init(keys.weights)
        learners = {
            name: self._draw_each(
                lambda key, learner=learner: learner.init(cell, weights.cell, key, self.network.n_out),
                _own(keys.learners, name),
            )
            for name, learner in self.learners.items()
        }
        state, task = self._repeated((cell.init_state(), self.task.init(keys.task, dtype)))
        carry = Carry(
            weights,
            (_init_optimizer(self.optimizer, weights.cell), _init_optimizer(self.optimizer, weights.readout)),
            state,
            learners,
            task,
            self._delay_lines(weights.cell, state),
        )
        return carry, keys

    @property
    def deferring(self) -> dict[str, Deferring]:
        """The learners that let the steps of a span wait."""
        cell = self.network.cell
        return {name: each for name, each in self.learners.items() if isinstance(each, Deferring) and each.defers(cell)}

    def draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
        """Inputs, labels and random numbers of a block of steps, leading axis time, and the task's state after it."""
        cell, fold = self.network.cell, jax.random.fold_in
        block = lambda key, task: self.task.block(task, key, number, cell.dtype)
        x, label, task = self._draw_each(block, fold(keys.stream, number), carry.task)
        noise = {
            name: self._draw_each(
                lambda key, learner=learner: learner.noise(cell, key, BLOCK), fold(_own(keys.noise, name), number)
            )
            for name, learner in self.learners.items()
        }
        rows = (x, label, noise)  # steps go first, then streams
        return rows if self.streams == 1 else jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), rows), task

    def _draw_each(self, draw: Callable[..., PyTree], key: PRNGKeyArray, *each: PyTree) -> PyTree:
        """`draw`, for every stream with a key of its own."""
        return draw(key, *each) if self.streams == 1 else jax.vmap(draw)(jax.random.split(key, self.streams), *each)

    def _repeated(self, tree: PyTree[Array]) -> PyTree[Array]:
        """The same for every stream."""
        repeat = lambda leaf: jnp.broadcast_to(leaf, (self.streams, *leaf.shape))
        return tree if self.streams == 1 else jax.tree.map(repeat, tree)

    def step(self, carry: Carry, inputs: PyTree[Array], t: Int[Array, ""]) -> tuple[Carry, PyTree[Array]]:
        """Step t on a row of `draw`: what goes on to the next, and (loss, records)."""
        x, label, noise = inputs
        weights, deferring = carry.weights, self.deferring

        def look(a: State, x: Array, label: Array, learners: PyTree, noise: PyTree) -> tuple[Step, dict, dict]:
            step = self.network.step(weights, a, x, label, t)

            def learned(name: str, learner: Learner) -> tuple[PyTree, PyTree]:
                if name in deferring:
                    return deferring[name].defer(step.tick, learners[name])
                return (learner.factors if self._splits(name) else learner.step)(step.tick, learners[name], noise[name])

            pairs = {name: learned(name, learner) for name, learner in self.learners.items()}
            found, states = ({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))
            return step, found, states

        step, found, states = self.over_streams(look)(carry.state, x, label, carry.learners, noise)
        loss, output, readout_gradient, tick = step
        if self.streams > 1:
            loss, readout_gradient = mean(loss), Readout(mean_outer(tick.error, tick.state[0]), mean(tick.error))
        gradients = {name: self._gradient(name, weights.cell, each) for name, each in found.items()}

        cell_state, readout_state = carry.optimizers
        cell, cell_state = self._move(weights.cell, gradients[APPLIED], cell_state, t)
        readout, readout_state = descend(self.optimizer, readout_gradient, readout_state, weights.readout)

        emitted = {name: jnp.asarray(learner.emits(t)) for name, learner in self.learners.items()}
        now = Moment(x, label, output, loss, tick.state, gradients, emitted)
        moment, late = (now, None) if carry.late is None else delayed(now, carry.late, t)
        records = {name: recorder(moment) for name, recorder in self.recorders.items()}
        return Carry(
            NetworkWeights(cell, readout, weights.feedback),
            (cell_state, readout_state),
            tick.state,
            states,
            carry.task,
            late,
        ), (loss, records)

    def _delay_lines(self, weights: Weights, state: PyTree[Array]) -> Moment | None:
        waits = {name: self.delay - learner.lag for name, learner in self.learners.items()}
        of_stream = lambda size: self._repeated(jnp.zeros(size, self.network.cell.dtype))
        vectors = of_stream(self.network.cell.n_in), of_stream(self.network.n_out)
        return delay_lines(*vectors, state, weights, self.delay, waits) if self.recorders else None

    def over_streams(self, f: Callable) -> Callable:
        """f, for every stream."""
        return f if self.streams == 1 else over_streams(f)

    def _splits(self, name: str) -> bool:
        """Whether a learner hands over the factors of its gradient."""
        return name in self.deferring or (self.streams > 1 and splits(self.learners[name]))

    def _gradient(self, name: str, weights: Weights, found: PyTree[Array]) -> Weights:
        """The mean over streams, from gradients or their factors."""
        cell, learner = self.network.cell, self.learners[name]
        if not self._splits(name):
            return found if self.streams == 1 else mean(found)
        return (learner.gradient if self.streams == 1 else learner.mean_gradient)(cell, weights, found)

    def _move(self, weights: Weights, gradient: Weights, state: PyTree, t: Int[Array, ""]) -> tuple[Weights, PyTree]:
        """The recurrent weights and their optimizer's state, moved if the learner emits here, not after a round."""
        learner = self.learners[APPLIED]
        emits = False if emits_in_rounds(learner) else learner.emits(t)
        if emits is False:
            return weights, state
        if emits is True:
            return descend(self.optimizer, gradient, state, weights)
        if not isinstance(self.optimizer, optax.GradientTransformation):
            return descend(jnp.where(emits, self.optimizer, 0), gradient, state, weights)  # at rate 0 nothing moves
        # A momentum must not decay where nothing was emitted.
        move = lambda: descend(self.optimizer, gradient, state, weights)
        return jax.lax.cond(emits, move, lambda: (weights, state))


#: the name of the learner whose gradients are applied
APPLIED = "applied"


def _own(key: PRNGKeyArray, name: str) -> PRNGKeyArray:
    """A learner's key: it depends on its name alone, so that a probe changes nothing for the others."""
    return jax.random.fold_in(key, 0 if name == APPLIED else zlib.crc32(name.encode()))


def _init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    return optimizer.init(weights) if isinstance(optimizer, optax.GradientTransformation) else None


def descend(optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
    """The weights, moved, and the optimizer's state."""
    if not isinstance(optimizer, optax.GradientTransformation):  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state

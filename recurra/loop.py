"""The compiled loop: a pure function that takes a run from one step to another.

Randomness is drawn for a block of steps at once, with keys folded from the absolute number of the block, so a run has
the same bits however it is cut. Bounds are arguments of the compiled program: one compilation serves any number of
steps. Nothing here prints, reads a clock or touches the host.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import State, Weights
from recurra.learners.base import Intermittent, Learner, Tick
from recurra.network import Network, NetworkWeights
from recurra.tasks.base import BLOCK, Task

Optimizer = optax.GradientTransformation | Float[Array, ""] | float


class Moment(NamedTuple):
    """All that a run knows of one step, as a recorder sees it.

    `gradients` and `emitted` have one entry for each learner: "applied" for the one that trains, and the probes under
    their names. A delayed gradient stands at the step it belongs to: with one aboard, moments arrive late but whole.
    """

    input: Float[Array, " n_in"]
    label: Float[Array, " n_out"]
    output: Float[Array, " n_out"]
    loss: Float[Array, ""]
    state: State
    gradients: dict[str, Weights]
    emitted: dict[str, Bool[Array, ""]]


Recorder = Callable[[Moment], PyTree[Array]]


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
    """One experiment: what is trained, by which learner, on which task, and what is recorded of it."""

    network: Network
    learners: dict[str, Learner]
    task: Task
    optimizer: Optimizer
    recorders: Mapping[str, Recorder]

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
            name: learner.init(cell, weights.cell, _own(keys.learners, name), self.network.n_out)
            for name, learner in self.learners.items()
        }
        carry = Carry(
            weights,
            (_init_optimizer(self.optimizer, weights.cell), _init_optimizer(self.optimizer, weights.readout)),
            cell.init_state(),
            learners,
            self.task.init(keys.task, dtype),
            self._delay_lines(cell.init_state(), weights.cell),
        )
        return carry, keys

    def advance(
        self, carry: Carry, keys: Keys, start: Int[Array, ""], stop: Int[Array, ""], capacity: int
    ) -> tuple[Carry, PyTree[Array]]:
        """Steps start..stop-1, at most `capacity` of them, with each step's (loss, records)."""
        shapes = jax.eval_shape(lambda: self._step(carry, self._first_of_block(carry, keys), jnp.zeros((), "int32"))[1])
        records = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

        def block(number: Array, running: tuple[Carry, PyTree]) -> tuple[Carry, PyTree]:
            carry, records = running
            inputs, task = self._draw(carry, keys, number)
            before = number * BLOCK

            def step(i: Array, running: tuple[Carry, PyTree]) -> tuple[Carry, PyTree]:
                carry, records = running
                t = before + i
                carry, record = self._step(carry, jax.tree.map(lambda rows: rows[i], inputs), t)
                return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

            first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, BLOCK)
            carry, records = jax.lax.fori_loop(first, last, step, (carry, records))
            # A block left half-way is drawn again from its beginning when the run goes on.
            done = lambda new, old: jnp.where(last == BLOCK, new, old)
            return carry._replace(task=jax.tree.map(done, task, carry.task)), records

        return jax.lax.fori_loop(start // BLOCK, (stop - 1) // BLOCK + 1, block, (carry, records))

    def _draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
        cell, fold = self.network.cell, jax.random.fold_in
        x, label, task = self.task.block(carry.task, fold(keys.stream, number), number, cell.dtype)
        noise = {
            name: learner.noise(cell, fold(_own(keys.noise, name), number), BLOCK)
            for name, learner in self.learners.items()
        }
        return (x, label, noise), task

    def _first_of_block(self, carry: Carry, keys: Keys) -> PyTree[Array]:
        inputs, _ = self._draw(carry, keys, jnp.zeros((), "int32"))
        return jax.tree.map(lambda rows: rows[0], inputs)

    def _step(self, carry: Carry, inputs: PyTree[Array], t: Int[Array, ""]) -> tuple[Carry, PyTree[Array]]:
        x, label, noise = inputs
        weights = carry.weights
        loss, output, readout_gradient, tick = self.network.step(weights, carry.state, x, label, t)
        gradients, states = {}, {}
        for name, learner in self.learners.items():
            gradients[name], states[name] = learner.step(tick, carry.learners[name], noise[name])

        cell_state, readout_state = carry.optimizers
        cell, cell_state = self._descend(tick, gradients[APPLIED], states[APPLIED], cell_state)
        readout, readout_state = _apply(self.optimizer, readout_gradient, readout_state, weights.readout)

        emitted = {name: jnp.asarray(learner.emits(t)) for name, learner in self.learners.items()}
        now = Moment(x, label, output, loss, tick.state, gradients, emitted)
        moment, late = (now, None) if carry.late is None else _delayed(now, carry.late, t)
        records = {name: recorder(moment) for name, recorder in self.recorders.items()}
        return Carry(
            NetworkWeights(cell, readout, weights.feedback),
            (cell_state, readout_state),
            tick.state,
            states,
            carry.task,
            late,
        ), (loss, records)

    def _descend(self, tick: Tick, gradient: Weights, learned: PyTree, state: PyTree) -> tuple[Weights, PyTree]:
        """The recurrent weights and their optimizer's state, moved if the learner emitted."""
        learner, weights = self.learners[APPLIED], tick.weights
        emits = learner.emits(tick.t)
        compute = lambda: gradient
        if emits is False:
            return weights, state
        if isinstance(learner, Intermittent):  # computed there and then, and no zeros are made between
            compute = lambda: learner.gradient(tick, learned)
        elif emits is True:
            return _apply(self.optimizer, gradient, state, weights)
        elif not isinstance(self.optimizer, optax.GradientTransformation):  # a rate of zero goes nowhere
            return _apply(jnp.where(emits, self.optimizer, 0), gradient, state, weights)
        # A momentum must not decay where nothing was emitted.
        move = lambda: _apply(self.optimizer, compute(), state, weights)
        return jax.lax.cond(emits, move, lambda: (weights, state))

    def _delay_lines(self, state: State, weights: Weights) -> Moment | None:
        """Empty rings in the shape of a moment, each as long as what it holds must wait for the latest gradient."""
        if not self.recorders:
            return None
        ring = lambda steps: lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype)
        wait = {name: ring(self.delay - learner.lag) for name, learner in self.learners.items()}
        zeros = lambda *shape: ring(self.delay)(jnp.zeros(shape, self.network.cell.dtype))
        return Moment(
            input=zeros(self.network.cell.n_in),
            label=zeros(self.network.n_out),
            output=zeros(self.network.n_out),
            loss=zeros(),
            state=jax.tree.map(ring(self.delay), state),
            gradients={name: jax.tree.map(line, weights) for name, line in wait.items()},
            emitted={name: line(jnp.zeros((), bool)) for name, line in wait.items()},
        )


#: the name of the learner whose gradients are applied
APPLIED = "applied"


def _own(key: PRNGKeyArray, name: str) -> PRNGKeyArray:
    """A learner's key: it depends on its name alone, so that a probe changes nothing for the others."""
    return jax.random.fold_in(key, 0 if name == APPLIED else zlib.crc32(name.encode()))


def _delayed(now: Moment, late: Moment, t: Int[Array, ""]) -> tuple[Moment, Moment]:
    """The moment that is whole now, and the rings: what is read was written one round ago."""
    leaves, treedef = jax.tree.flatten(now)
    rings = treedef.flatten_up_to(late)
    ready = [ring[t % len(ring)] if len(ring) else leaf for leaf, ring in zip(leaves, rings, strict=True)]
    rings = [ring.at[t % len(ring)].set(leaf) if len(ring) else ring for leaf, ring in zip(leaves, rings, strict=True)]
    return jax.tree.unflatten(treedef, ready), jax.tree.unflatten(treedef, rings)


def _init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    return optimizer.init(weights) if isinstance(optimizer, optax.GradientTransformation) else None


def _apply(optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
    if not isinstance(optimizer, optax.GradientTransformation):  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state

"""The compiled loop: a pure function that takes a run from one step to another.

Randomness is drawn for a block of steps at once, with keys folded from the absolute number of the block, so a run has
the same bits however it is cut. Bounds are arguments of the compiled program: one compilation serves any number of
steps. Nothing here prints, reads a clock or touches the host.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra.cells.base import State, Weights
from recurra.learners.base import Learner
from recurra.network import Network, NetworkWeights
from recurra.tasks.base import Task

Optimizer = optax.GradientTransformation | Float[Array, ""] | float


class Moment(eqx.Module):
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
    late: Any


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
        keys = Keys(*jax.random.split(key, len(Keys._fields)))
        cell, dtype = self.network.cell, self.network.cell.dtype
        weights = self.network.init(keys.weights)
        learners = {
            name: learner.init(cell, weights.cell, jax.random.fold_in(keys.learners, i), self.network.n_out)
            for i, (name, learner) in enumerate(self.learners.items())
        }
        carry = Carry(
            weights,
            (_init_optimizer(self.optimizer, weights.cell), _init_optimizer(self.optimizer, weights.readout)),
            cell.init_state(),
            learners,
            self.task.init(keys.task, dtype),
            None,
        )
        return carry._replace(late=self._empty_delay_lines(carry, keys)), keys

    def advance(
        self, carry: Carry, keys: Keys, start: Int[Array, ""], stop: Int[Array, ""], capacity: int
    ) -> tuple[Carry, PyTree[Array]]:
        """Steps start..stop-1, at most `capacity` of them, with each step's (loss, records)."""
        length = self.task.block_length
        shapes = jax.eval_shape(lambda: self._step(carry, self._first_of_block(carry, keys), jnp.zeros((), "int32"))[1])
        records = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

        def block(number: Array, running: tuple[Carry, PyTree]) -> tuple[Carry, PyTree]:
            carry, records = running
            inputs, task = self._draw(carry, keys, number)

            def step(i: Array, running: tuple[Carry, PyTree]) -> tuple[Carry, PyTree]:
                carry, records = running
                t = number * length + i
                carry, record = self._step(carry, jax.tree.map(lambda rows: rows[i], inputs), t)
                return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

            first = jnp.maximum(start - number * length, 0)
            last = jnp.minimum(stop - number * length, length)
            carry, records = jax.lax.fori_loop(first, last, step, (carry, records))
            # A block left half-way is drawn again from its beginning when the run goes on.
            done = lambda new, old: jnp.where(last == length, new, old)
            return carry._replace(task=jax.tree.map(done, task, carry.task)), records

        return jax.lax.fori_loop(start // length, (stop + length - 1) // length, block, (carry, records))

    def _draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
        cell, length = self.network.cell, self.task.block_length
        fold = jax.random.fold_in
        x, label, task = self.task.block(carry.task, fold(keys.stream, number), number, cell.dtype)
        noise = {
            name: learner.noise(cell, fold(fold(keys.noise, i), number), length)
            for i, (name, learner) in enumerate(self.learners.items())
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
        update = lambda w, s: _apply(self.optimizer, gradients[APPLIED], s, w)
        emits = self.learners[APPLIED].emits(t)
        if emits is True:
            cell, cell_state = update(weights.cell, cell_state)
        elif emits is False:
            cell = weights.cell
        else:  # a momentum must not decay where nothing was emitted
            cell, cell_state = jax.lax.cond(emits, update, lambda w, s: (w, s), weights.cell, cell_state)
        readout, readout_state = _apply(self.optimizer, readout_gradient, readout_state, weights.readout)

        moment, late = self._delayed(carry.late, x, label, output, loss, tick.state, gradients, t)
        records = {name: recorder(moment) for name, recorder in self.recorders.items()}
        return Carry(
            NetworkWeights(cell, readout, weights.feedback),
            (cell_state, readout_state),
            tick.state,
            states,
            carry.task,
            late,
        ), (loss, records)

    def _delayed(
        self,
        late: Any,
        x: Array,
        label: Array,
        output: Array,
        loss: Array,
        state: State,
        gradients: dict[str, Weights],
        t: Int[Array, ""],
    ) -> tuple[Moment | None, Any]:
        """The moment that is complete now: `delay` steps ago."""
        if not self.recorders:
            return None, None
        emitted = {name: jnp.asarray(learner.emits(t)) for name, learner in self.learners.items()}
        values = ((x, label, output, loss, state), {name: (gradients[name], emitted[name]) for name in self.learners})
        # Each line is a ring as long as its delay: what is read was written one round ago.
        swap = lambda new, ring: (ring[t % len(ring)], ring.at[t % len(ring)].set(new)) if len(ring) else (new, ring)
        leaves, treedef = jax.tree.flatten(values)
        rings = treedef.flatten_up_to(late)
        ready, late = zip(*map(swap, leaves, rings), strict=True)
        basics, per_learner = jax.tree.unflatten(treedef, ready)
        moment = Moment(
            *basics,
            {name: gradient for name, (gradient, _) in per_learner.items()},
            {name: flag for name, (_, flag) in per_learner.items()},
        )
        return moment, jax.tree.unflatten(treedef, late)

    def _empty_delay_lines(self, carry: Carry, keys: Keys) -> Any:
        if not self.recorders:
            return None
        cell, dtype = self.network.cell, self.network.cell.dtype
        ring = lambda steps: lambda leaf: jnp.zeros((steps, *leaf.shape), leaf.dtype)
        basics = (
            jnp.zeros(cell.n_in, dtype), jnp.zeros(self.network.n_out, dtype), jnp.zeros(self.network.n_out, dtype),
            jnp.zeros((), dtype), carry.state,
        )  # fmt: skip
        per_learner = {
            name: jax.tree.map(ring(self.delay - learner.lag), (carry.weights.cell, jnp.zeros((), bool)))
            for name, learner in self.learners.items()
        }
        return jax.tree.map(ring(self.delay), basics), per_learner


#: the name of the learner whose gradients are applied
APPLIED = "applied"


def _init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    return optimizer.init(weights) if isinstance(optimizer, optax.GradientTransformation) else None


def _apply(optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
    if not isinstance(optimizer, optax.GradientTransformation):  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state

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
from recurra.learners.base import SPAN, Deferring, Intermittent, Learner
from recurra.moment import Moment, Recorder, delay_lines, delayed
from recurra.network import Network, NetworkWeights, Step
from recurra.tasks.base import BLOCK, Task

#: steps that an accelerator takes between two looks at the host, and how many of them are compiled one after the other
STRIDE, UNROLL = 32, 2

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


#: a run on its way, and what was recorded of it
Running = tuple[Carry, PyTree[Array]]


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

    def advance(
        self,
        carry: Carry,
        keys: Keys,
        start: Int[Array, ""],
        stop: Int[Array, ""],
        capacity: int,
        strides: bool = False,
    ) -> Running:
        """Steps start..stop-1, at most `capacity` of them, with each step's (loss, records).

        With `strides` both bounds are multiples of `STRIDE`: the steps of a stride are then a loop of known length, and
        a GPU runs it without asking the host after every step whether to go on.
        """
        shapes = jax.eval_shape(lambda: self._step(carry, self._first_of_block(carry, keys), jnp.zeros((), "int32"))[1])
        records = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

        def block(number: Array, running: Running) -> Running:
            inputs, task = self._draw(running[0], keys, number)
            before = number * BLOCK
            first, last = jnp.maximum(start - before, 0), jnp.minimum(stop - before, BLOCK)

            def step(i: Array, running: Running) -> Running:
                carry, records = running
                t = before + i
                carry, record = self._step(carry, jax.tree.map(lambda rows: rows[i], inputs), t)
                return carry, jax.tree.map(lambda rows, row: rows.at[t - start].set(row), records, record)

            def span(k: Array, running: Running) -> Running:
                until = jnp.minimum(last, (k + 1) * SPAN)
                carry, records = jax.lax.fori_loop(jnp.maximum(first, k * SPAN), until, step, running)
                return self._folded(carry, until == (k + 1) * SPAN), records

            def stride(k: Array, running: Running) -> Running:
                carry, records = running
                begin = k * STRIDE
                rows = jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, begin, STRIDE), inputs)
                carry, new = self._stride(carry, rows, before + begin)
                at = before + begin - start
                put = lambda rows, new: jax.lax.dynamic_update_slice_in_dim(rows, new, at, axis=0)
                return carry, jax.tree.map(put, records, new)

            if strides:
                carry, records = jax.lax.fori_loop(first // STRIDE, last // STRIDE, stride, running)
            elif self._deferring:
                carry, records = jax.lax.fori_loop(first // SPAN, (last - 1) // SPAN + 1, span, running)
            else:
                carry, records = jax.lax.fori_loop(first, last, step, running)
            # A block left half-way is drawn again from its beginning when the run goes on.
            done = lambda new, old: jnp.where(last == BLOCK, new, old)
            return carry._replace(task=jax.tree.map(done, task, carry.task)), records

        return jax.lax.fori_loop(start // BLOCK, (stop - 1) // BLOCK + 1, block, (carry, records))

    def _stride(self, carry: Carry, rows: PyTree[Array], t: Int[Array, ""]) -> Running:
        """`STRIDE` steps from step t on, and what is recorded of them."""

        def step(carry: Carry, inputs: tuple[Array, PyTree]) -> Running:
            i, row = inputs
            carry, record = self._step(carry, row, t + i)
            return (self._folded(carry, (i + 1) % SPAN == 0) if self._deferring else carry), record

        return jax.lax.scan(step, carry, (jnp.arange(STRIDE, dtype="int32"), rows), unroll=UNROLL)

    @property
    def _deferring(self) -> dict[str, Deferring]:
        """The learners that let the steps of a span wait."""
        cell = self.network.cell
        return {name: each for name, each in self.learners.items() if isinstance(each, Deferring) and each.defers(cell)}

    def _folded(self, carry: Carry, complete: Bool[Array, ""] | bool) -> Carry:
        """With no step waiting, if the span is complete."""
        states = {name: carry.learners[name] for name in self._deferring}

        def fold(states: dict[str, PyTree]) -> dict[str, PyTree]:
            fold = lambda learner: lambda state: learner.fold(self.network.cell, carry.weights.cell, state)
            each = {name: fold(learner) for name, learner in self._deferring.items()}
            return {name: (each[name] if self.streams == 1 else jax.vmap(each[name]))(states[name]) for name in each}

        folded = jax.lax.cond(complete, fold, lambda states: states, states)
        return carry._replace(learners=carry.learners | folded)

    def _draw(self, carry: Carry, keys: Keys, number: Int[Array, ""]) -> tuple[PyTree[Array], Any]:
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

    def _first_of_block(self, carry: Carry, keys: Keys) -> PyTree[Array]:
        inputs, _ = self._draw(carry, keys, jnp.zeros((), "int32"))
        return jax.tree.map(lambda rows: rows[0], inputs)

    def _step(self, carry: Carry, inputs: PyTree[Array], t: Int[Array, ""]) -> tuple[Carry, PyTree[Array]]:
        x, label, noise = inputs
        weights, deferring = carry.weights, self._deferring

        def look(a: State, x: Array, label: Array, learners: PyTree, noise: PyTree) -> tuple[Step, dict, dict]:
            step = self.network.step(weights, a, x, label, t)
            learned = {
                name: learner.step(step.tick, learners[name], noise[name])
                for name, learner in self.learners.items()
                if name not in deferring
            } | {name: learner.defer(step.tick, learners[name]) for name, learner in deferring.items()}
            gradients, states = ({name: pair[i] for name, pair in learned.items()} for i in (0, 1))
            return step, gradients, states

        each = look if self.streams == 1 else jax.vmap(look)
        step, gradients, states = each(carry.state, x, label, carry.learners, noise)
        loss, output, readout_gradient, tick = step
        if self.streams > 1:
            # A product: it adds streams side by side, and is not drawn into the loops that make what it adds.
            weight = jnp.full(self.streams, 1 / self.streams, self.network.cell.dtype)
            mean = lambda tree: jax.tree.map(lambda leaf: jnp.tensordot(weight, leaf, 1, precision="highest"), tree)
            loss, readout_gradient, gradients = mean((loss, readout_gradient, gradients))

        cell_state, readout_state = carry.optimizers
        applied = self.learners[APPLIED]
        gradient = lambda: gradients[APPLIED]
        if isinstance(applied, Intermittent) and self.streams == 1:  # computed where it is applied, no zeros between
            gradient = lambda: applied.gradient(tick, states[APPLIED])
        cell, cell_state = self._descend(weights.cell, gradient, cell_state, t)
        readout, readout_state = _apply(self.optimizer, readout_gradient, readout_state, weights.readout)

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

    def _descend(
        self, weights: Weights, gradient: Callable[[], Weights], state: PyTree, t: Int[Array, ""]
    ) -> tuple[Weights, PyTree]:
        """The recurrent weights and their optimizer's state, moved if the learner emits."""
        learner = self.learners[APPLIED]
        emits = learner.emits(t)
        if emits is False:
            return weights, state
        if emits is True:
            return _apply(self.optimizer, gradient(), state, weights)
        if not isinstance(learner, Intermittent) and not isinstance(self.optimizer, optax.GradientTransformation):
            return _apply(jnp.where(emits, self.optimizer, 0), gradient(), state, weights)  # at rate 0 nothing moves
        # A momentum must not decay where nothing was emitted.
        move = lambda: _apply(self.optimizer, gradient(), state, weights)
        return jax.lax.cond(emits, move, lambda: (weights, state))


#: the name of the learner whose gradients are applied
APPLIED = "applied"


def _own(key: PRNGKeyArray, name: str) -> PRNGKeyArray:
    """A learner's key: it depends on its name alone, so that a probe changes nothing for the others."""
    return jax.random.fold_in(key, 0 if name == APPLIED else zlib.crc32(name.encode()))


def _init_optimizer(optimizer: Optimizer, weights: PyTree) -> PyTree:
    return optimizer.init(weights) if isinstance(optimizer, optax.GradientTransformation) else None


def _apply(optimizer: Optimizer, gradient: PyTree, state: PyTree, weights: PyTree) -> tuple[PyTree, PyTree]:
    if not isinstance(optimizer, optax.GradientTransformation):  # a bare learning rate is plain gradient descent
        return jax.tree.map(lambda w, g: w - optimizer * g, weights, gradient), None
    updates, state = optimizer.update(gradient, state, weights)
    return optax.apply_updates(weights, updates), state

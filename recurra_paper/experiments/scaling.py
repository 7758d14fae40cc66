"""What a learner costs as the network grows, and as its horizon or rank does: bytes of state, operations, seconds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from recurra import Learner, Network, cells
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.by_hand import due_of, gradient_of, tick_of
from recurra_paper.operations import operations
from recurra_paper.setup import kind_of

#: seconds that one timing takes at least, and how many there are at each size
SECONDS, TIMINGS = 0.03, 9
#: what an order depends on besides n, the values it takes while n is held, and the n that is held
HORIZONS = {"e-bptt": "T", "f-bptt": "T", "r-ok": "r"}
VALUES, HELD = (8, 16, 32, 64), 4096
#: sizes at which bytes and operations are counted: nothing is computed, so they may be large
COUNTED = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Scaling(Experiment):
    """One learner: n grows with the horizon of the BPTTs and the rank of r-OK held, then the other way round."""

    version: ClassVar[int] = 5
    alone: ClassVar[bool] = True

    learner: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"scaling/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        return kind_of(self.learner)(), VALUES, HELD, COUNTED

    @property
    def cost(self) -> float:
        return 2.5 * len(self.sizes)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        learner = kind_of(self.learner)()
        counts = zip(*(_counts(learner, n) for n in COUNTED), strict=True)
        arrays = dict(zip(("count_n", "count_bytes", "count_flops"), map(np.array, (COUNTED, *counts)), strict=True))
        seconds = []
        # An accelerator would take the same time for all sizes here: the time to start its kernels.
        with jax.default_device(jax.devices("cpu")[0]):
            for i, n in enumerate(self.sizes):
                seconds.append(_seconds_a_step(_runner(learner, n)))
                advance((i + 1) / len(self.sizes))
        return arrays | {"n": np.array(self.sizes), "seconds": np.array(seconds)} | self._along_horizon()

    def _along_horizon(self) -> Arrays:
        if self.learner not in HORIZONS:
            return {}
        name = HORIZONS[self.learner]
        size, count = zip(*(_counts(kind_of(self.learner)(**{name: value}), HELD) for value in VALUES), strict=True)
        return {"horizon": np.array(VALUES), "horizon_bytes": np.array(size), "horizon_flops": np.array(count)}


class _Step:
    """One step of a learner on a network of n units, with everything it starts from."""

    def __init__(self, learner: Learner, n: int):
        self.network = Network(cells.RNN(n_in=2, n=n, dtype="float32"), 2)
        self.learner = learner
        self.x, self.y = jnp.ones(2, "float32"), jnp.full(2, 0.5, "float32")

    def start(self) -> Any:
        """Weights, activity, the learner's state and its random numbers."""
        weights, cell = self.network.init(jax.random.key(0)), self.network.cell
        state = self.learner.init(cell, weights.cell, jax.random.key(1), 2)
        noise = jax.tree.map(lambda rows: rows[0], self.learner.noise(cell, jax.random.key(2), 1))
        return weights, cell.init_state(), state, noise

    def __call__(self, weights: Any, a: Any, state: Any, noise: Any, t: Any) -> Any:
        tick = tick_of(self.network, weights, a, self.x, self.y, t)
        gradient, state = gradient_of(self.learner, tick, state, noise)
        return tick.state, state, gradient

    def due(self, weights: Any, state: Any) -> Any:
        """What is due after the learner's period: the gradient, and the next state."""
        return due_of(self.learner, self.network, weights, state)


def _counts(learner: Learner, n: int) -> tuple[float, float]:
    """Bytes of state, and operations a step; those of what is due are spread over the period."""
    step = _Step(learner, n)
    start, t = jax.eval_shape(step.start), jax.ShapeDtypeStruct((), "int32")
    weights, _, state, _ = start
    due = operations(step.due, weights, state) / learner.period if learner.period else 0.0
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
    return float(size), operations(step, *start, t) + due


def _runner(learner: Learner, n: int) -> Callable[[int], Any]:
    """A function that takes so many steps."""
    step, period = _Step(learner, n), learner.period
    weights, a, state, noise = jax.jit(step.start)()
    size = lambda gradient: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradient))

    @jax.jit
    def steps(weights, a, state, noise, count):  # nothing may be hoisted out of the loop: the state runs through it
        def due(state, total):
            gradient, state = step.due(weights, state)
            return state, total + size(gradient)

        def body(t, carry):
            a, state, total = carry
            a, state, gradient = step(weights, a, state, noise, t)
            total = total + size(gradient)
            if period:
                state, total = jax.lax.cond((t + 1) % period == 0, due, lambda *as_they_are: as_they_are, state, total)
            return a, state, total

        return jax.lax.fori_loop(0, count, body, (a, state, jnp.zeros((), "float32")))

    return lambda count: jax.block_until_ready(steps(weights, a, state, noise, count))


def _seconds_a_step(run: Callable[[int], Any]) -> float:
    """The least of several timings, each long enough to measure: what else a machine does only adds to them."""
    run(1)
    count, taken = 10, 0.0
    while taken < SECONDS:
        count *= 4
        started = time.perf_counter()
        run(count)
        taken = time.perf_counter() - started
    timings = []
    for _ in range(TIMINGS):
        started = time.perf_counter()
        run(count)
        timings.append((time.perf_counter() - started) / count)
    return min(timings)

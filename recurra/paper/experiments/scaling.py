"""What a learner costs as the network grows, and as its horizon or rank does: bytes of state, operations, seconds."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from recurra import cells
from recurra.learners import LEARNERS, RTRL, Learner
from recurra.learners.base import Intermittent
from recurra.machine import bytes_of, core
from recurra.network import Network
from recurra.paper.experiments.base import Advance, Arrays, Experiment
from recurra.paper.operations import operations

#: seconds that one timing takes at least, and how many there are at each size
SECONDS, TIMINGS = 0.03, 9
#: what besides n an order is in, the values it takes while n is held, and the n at which n dominates them
HORIZONS = {"e-bptt": "T", "f-bptt": "T", "r-ok": "r"}
VALUES, HELD = (4, 8, 16, 32), 512


@dataclass(frozen=True)
class Scaling(Experiment):
    """One learner: n grows with the horizon of the BPTTs and the rank of r-OK held, then the other way round."""

    version: ClassVar[int] = 3
    alone: ClassVar[bool] = True

    learner: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"scaling/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        return _as_stated(self.learner), VALUES, HELD

    @property
    def cost(self) -> float:
        return 2.5 * len(self.sizes)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        learner, rows = _as_stated(self.learner), []
        with jax.default_device(core()):  # an accelerator takes the same time for all sizes here, to start its kernels
            for i, n in enumerate(self.sizes):
                rows.append((*_counts(learner, n), *_measured(learner, n)))
                advance((i + 1) / len(self.sizes))
        state_bytes, flops, compiled, seconds = np.array(rows, dtype=float).T
        arrays = {"n": np.array(self.sizes), "state_bytes": state_bytes, "flops": flops}
        return arrays | {"compiled_flops": compiled, "seconds": seconds} | self._along_horizon()

    def _along_horizon(self) -> Arrays:
        if self.learner not in HORIZONS:
            return {}
        name = HORIZONS[self.learner]
        size, count = zip(*(_counts(LEARNERS[self.learner](**{name: value}), HELD) for value in VALUES), strict=True)
        return {"horizon": np.array(VALUES), "horizon_bytes": np.array(size), "horizon_flops": np.array(count)}


def _as_stated(name: str) -> Learner:
    """The learner as the table's orders describe it: RTRL with its product at every step."""
    return RTRL(lazy=False) if name == "rtrl" else LEARNERS[name]()


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
        tick = self.network.step(weights, a, self.x, self.y, t).tick
        gradient, state = self.learner.step(tick, state, noise)
        return tick.state, state, gradient


def _counts(learner: Learner, n: int) -> tuple[float, float]:
    """Bytes of state, and operations a step; where gradients come every T steps, the mean over T."""
    step = _Step(learner, n)
    start, t = jax.eval_shape(step.start), jax.ShapeDtypeStruct((), "int32")
    size = bytes_of(start[2])
    most, least = (operations(step, *start, t, branch=branch) for branch in (max, min))
    T = learner.T if isinstance(learner, Intermittent) else 1
    return size, least + (most - least) / T


def _measured(learner: Learner, n: int) -> tuple[float, float]:
    """Operations by the compiled program's own analysis, and seconds a step."""
    step = _Step(learner, n)
    weights, a, state, noise = jax.jit(step.start)()
    analysis = jax.jit(step).lower(weights, a, state, noise, jnp.int32(0)).compile().cost_analysis()

    @jax.jit
    def steps(weights, a, state, noise, count):  # nothing may be hoisted out of the loop: the state runs through it
        def body(t, carry):
            a, state, total = carry
            a, state, gradient = step(weights, a, state, noise, t)
            return a, state, total + sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradient))

        return jax.lax.fori_loop(0, count, body, (a, state, jnp.zeros((), "float32")))

    run = lambda count: jax.block_until_ready(steps(weights, a, state, noise, count))
    return float((analysis or {}).get("flops", np.nan)), _seconds_a_step(run)


def _seconds_a_step(run: Any) -> float:
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

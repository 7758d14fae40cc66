"""What a learner costs as the network grows: bytes of state, operations and seconds a step."""

import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from recurra import cells
from recurra.learners import LEARNERS
from recurra.network import Network
from recurra.paper.experiments.base import Advance, Arrays, Experiment

#: seconds of timing at each size
BUDGET = 0.3


@dataclass(frozen=True)
class Scaling(Experiment):
    """One learner; the horizon of the BPTTs and the rank of r-OK stay as they are while n grows."""

    learner: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"scaling/{self.learner}"

    @property
    def cost(self) -> float:
        return 2.5 * len(self.sizes)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        rows = []
        for i, n in enumerate(self.sizes):
            rows.append(self._measure(n))
            advance((i + 1) / len(self.sizes))
        state_bytes, flops, seconds = np.array(rows, dtype=float).T
        return {"n": np.array(self.sizes), "state_bytes": state_bytes, "flops": flops, "seconds": seconds}

    def _measure(self, n: int) -> tuple[float, float, float]:
        learner = LEARNERS[self.learner]()
        network = Network(cells.RNN(n_in=2, n=n, dtype="float32"), 2)
        weights = network.init(jax.random.key(0))
        state = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
        noise = learner.noise(network.cell, jax.random.key(2), 1)
        first = jax.tree.map(lambda rows: rows[0], noise)
        x, y = jnp.ones(2, "float32"), jnp.full(2, 0.5, "float32")

        def steps(weights, a, state, count):  # nothing may be hoisted out of the loop: the state runs through it
            def body(t, carry):
                a, state, total = carry
                tick = network.step(weights, a, x, y, t).tick
                gradient, state = learner.step(tick, state, first)
                used = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(gradient))
                return tick.state, state, total + used

            return jax.lax.fori_loop(0, count, body, (a, state, jnp.zeros((), "float32")))

        def once(weights, a, state):
            tick = network.step(weights, a, x, y, jnp.int32(0)).tick
            return learner.step(tick, state, first)

        a = network.cell.init_state()
        analysis = jax.jit(once).lower(weights, a, state).compile().cost_analysis()
        flops = float((analysis or {}).get("flops", np.nan))
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        return size, flops, _seconds_a_step(jax.jit(steps), weights, a, state)


def _seconds_a_step(steps, *arguments) -> float:
    """The median of several timings, each long enough to measure."""
    jax.block_until_ready(steps(*arguments, 1))
    count, taken = 10, 0.0
    while taken < BUDGET / 10:
        count *= 4
        started = time.perf_counter()
        jax.block_until_ready(steps(*arguments, count))
        taken = time.perf_counter() - started
    timings = []
    for _ in range(5):
        started = time.perf_counter()
        jax.block_until_ready(steps(*arguments, count))
        timings.append((time.perf_counter() - started) / count)
    return float(np.median(timings))

"""Which terms dL(t)/dw(s) enter which gradient, measured from the implementations.

The learner runs on ticks in which one loss alone hands out credit, and the weights have an immediate influence at one
step alone. A gradient that is then not zero holds that pair (s, t).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from recurra import EfficientBPTT, FutureBPTT, Learner, Network, cells
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.by_hand import due_of, gradient_of, tick_of
from recurra_paper.setup import kind_of

#: the horizon of the paper's drawing, and how many steps are looked at
HORIZON, STEPS = 4, 12


@dataclass(frozen=True)
class Lattice(Experiment):
    """One learner."""

    learner: str

    @property
    def name(self) -> str:
        return f"lattice/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        return HORIZON, STEPS

    @property
    def cost(self) -> float:
        return 3.0

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        special = {"f-bptt": FutureBPTT(T=HORIZON), "e-bptt": EfficientBPTT(T=HORIZON)}
        learner = special[self.learner] if self.learner in special else kind_of(self.learner)()
        enters = pairs_that_enter(learner)
        emits = np.array([bool(learner.emits(jnp.array(t))) for t in range(STEPS)])
        advance(1.0)
        return {"enters": enters & emits[:, None, None], "emits": emits}


def pairs_that_enter(learner: Learner) -> np.ndarray:
    """Whether the pair (s, t) enters the gradient that is emitted at a step: an array (emitted at, s, t)."""
    network = Network(cells.RNN(n_in=2, n=4, alpha=0.7), 2)
    weights = network.init(jax.random.key(0))
    noise = learner.noise(network.cell, jax.random.key(1), STEPS)
    xs = jax.random.normal(jax.random.key(2), (STEPS, 2), network.cell.dtype)
    y = jnp.array([0.3, 0.7], network.cell.dtype)

    def gradients(s: jax.Array, t: jax.Array) -> jax.Array:
        state = learner.init(network.cell, weights.cell, jax.random.key(3), 2)
        a, sizes = network.cell.init_state(), []
        for now in range(STEPS):
            tick = tick_of(network, weights, a, xs[now], y, jnp.array(now, "int32"))
            heard = jax.tree.map(lambda v, now=now: jnp.where(now == s, v, 0), tick.trace.ahat)
            ahat = heard._replace(bias=jnp.zeros_like(heard.bias))  # learners may know that it never differs
            cbar = jax.tree.map(lambda v, now=now: jnp.where(now == t, v, 0), tick.cbar)
            marked = eqx.tree_at(lambda k: (k.trace, k.cbar), tick, (tick.trace._replace(ahat=ahat), cbar))
            gradient, state = gradient_of(learner, marked, state, jax.tree.map(lambda rows, now=now: rows[now], noise))
            if learner.period and (now + 1) % learner.period == 0:
                due, state = due_of(learner, network, weights, state)
                gradient = gradient if due is None else due
            sizes.append(sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(gradient)))
            a = tick.state
        return jnp.stack(sizes)

    every = jnp.arange(STEPS)
    sizes = jax.jit(jax.vmap(jax.vmap(gradients, (None, 0)), (0, None)))(every, every)
    return np.moveaxis(np.asarray(sizes) > 0, 2, 0)

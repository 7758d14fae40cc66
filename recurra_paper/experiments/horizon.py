"""How far back Mimic's labels depend on their inputs: one input is changed, and the labels that follow are compared."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import Mimic
from recurra.linalg import matvec
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.setup import task_of

#: steps before the changed input, after which the target has forgotten its start, and steps that are compared
BEFORE, AFTER = 100, 40
#: changed inputs for each target
CHANGES = 64


@dataclass(frozen=True)
class Horizon(Experiment):
    """Random targets of the Mimic task; at one step all bits are drawn again."""

    seeds: int

    @property
    def name(self) -> str:
        return "horizon/mimic"

    @property
    def parts(self) -> tuple[Any, ...]:
        return task_of("mimic", "1"), BEFORE, AFTER, CHANGES

    @property
    def cost(self) -> float:
        return 5.0

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        task = task_of("mimic", "1")
        assert isinstance(task, Mimic)
        keys = jax.random.split(jax.random.key(0), self.seeds)
        effect = np.asarray(jax.lax.map(eqx.filter_jit(lambda key: effects(task, key)), keys), float)
        advance(1.0)
        return {"lag": np.arange(AFTER), "effect": effect}


def effects(task: Mimic, key: PRNGKeyArray) -> Float[Array, " lags"]:
    """The mean squared change of the label `lag` steps after all bits of one input were drawn again."""
    key_task, key_x, key_new = jax.random.split(key, 3)
    target = task.init(key_task, task.target.dtype)
    bits = lambda key, *shape: jax.random.bernoulli(key, 0.5, (*shape, task.n_in)).astype(task.target.dtype)

    def labels(x: Float[Array, "steps n_in"]) -> Float[Array, "steps n_out"]:
        def step(a: Any, x: Array) -> tuple[Any, Array]:
            a, _ = task.target.forward(target.weights, a, x)
            return a, a[0]

        _, states = jax.lax.scan(step, task.target.init_state(), x)
        return matvec(states, target.readout.W.T) + target.readout.b

    def change(keys: tuple[PRNGKeyArray, PRNGKeyArray]) -> Float[Array, " lags"]:
        x = bits(keys[0], BEFORE + AFTER)
        difference = labels(x) - labels(x.at[BEFORE].set(bits(keys[1])))
        return jnp.sum(difference[BEFORE:] ** 2, axis=-1)

    pairs = jax.random.split(key_x, CHANGES), jax.random.split(key_new, CHANGES)
    return jnp.mean(jax.vmap(change)(pairs), axis=0)

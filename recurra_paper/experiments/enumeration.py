"""Bias without sampling: the exact expectation of a stochastic learner's estimate of M, over every pattern of signs."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from recurra import KFRTRL, RKFRTRL, ROK, RTRL, UORO, Network, NetworkWeights, PastFacing, cells
from recurra.cells import Weights
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.by_hand import tick_of

#: the learners that are said to be unbiased, from M = 0; r-OK with the least rank, at which it must round
LEARNERS: dict[str, PastFacing] = {
    "uoro": UORO(initial_scale=0.0),
    "kf-rtrl": KFRTRL(initial_scale=0.0),
    "r-kf-rtrl": RKFRTRL(initial_scale=0.0),
    "r-ok": ROK(r=1),
}
#: no more patterns than this are tried: as many steps as they allow
PATTERNS = 2**14


@dataclass(frozen=True)
class Enumeration(Experiment):
    """A leaky network of two units; every pattern of signs over several steps, in double precision."""

    learner: str

    @property
    def name(self) -> str:
        return f"enumeration/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        return LEARNERS[self.learner], PATTERNS

    @property
    def cost(self) -> float:
        return 4.0

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        found = expectation(LEARNERS[self.learner])
        advance(1.0)
        return found


def expectation(learner: PastFacing) -> Arrays:
    """How far the exact expectation of M lies from RTRL's, and how far single estimates scatter, relative to it."""
    with jax.enable_x64(True):
        network = Network(cells.RNN(n_in=1, n=2, alpha=0.7, dtype="float64"), 2)
        key_x, key_y, key_w = jax.random.split(jax.random.key(0), 3)
        xs = jax.random.normal(key_x, (4, 1), "float64")
        ys = jax.nn.softmax(jax.random.normal(key_y, (4, 2), "float64"))
        weights = network.init(key_w)
        every, steps = estimates(learner, network, weights, xs, ys, PATTERNS)
        exact, _ = estimates(RTRL(), network, weights, xs[:steps], ys[:steps], 1)
    size = float(np.linalg.norm(exact))
    return {
        "distance": np.array(np.linalg.norm(every.mean(axis=0) - exact[0]) / size),
        "std": np.array(np.sqrt(every.var(axis=0).sum()) / size),
        "steps": np.array(steps),
        "patterns": np.array(len(every)),
    }


def estimates(
    learner: PastFacing,
    network: Network,
    weights: NetworkWeights,
    xs: Float[Array, "steps n_in"],
    ys: Float[Array, "steps n_out"],
    budget: int,
) -> tuple[Float[np.ndarray, "patterns entries"], int]:
    """Every estimate of M that signs can lead to, flattened, and after how many steps: as many as the budget allows.

    The learner's noise must be signs. A learner without noise has one estimate.
    """
    cell = network.cell
    one = jax.tree.map(lambda rows: rows[0], learner.noise(cell, jax.random.key(0), 1))
    flat_noise, noise_of = ravel_pytree(one)
    count = flat_noise.size
    steps = min(len(xs), int(np.log2(budget)) // count) if count else len(xs)
    patterns = np.array(list(itertools.product([-1.0, 1.0], repeat=count * steps))).reshape(
        2 ** (count * steps), steps, count
    )
    first = learner.init(cell, weights.cell, jax.random.key(0), network.n_out)

    def final(signs: Float[Array, "steps count"]) -> Float[Array, " entries"]:
        state, a = first, cell.init_state()
        for t in range(steps):
            tick = tick_of(network, weights, a, xs[t], ys[t], jnp.array(t, "int32"))
            state, a = learner.advance(tick, state, noise_of(signs[t])), tick.state
        return flat(learner.influence(cell, weights.cell, state))

    return np.asarray(jax.jit(jax.vmap(final))(jnp.asarray(patterns, cell.dtype))), steps


def flat(M: Weights) -> Float[Array, " entries"]:
    """All entries in a row."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(M)])

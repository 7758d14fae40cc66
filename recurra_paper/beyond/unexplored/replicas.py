"""Estimates of RTRL's gradient step by step: bias, variance and alignment over replicas, and an exact expectation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import RTRL, Learner, Network, PastFacing, Task
from recurra.cells import orthogonal
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.bias import gradients_of_replicas, seed_keys
from recurra_paper.experiments.enumeration import expectation


class Contracting(eqx.Module):
    """Orthogonal weights W, scaled so that |W|, which is W without the signs of its entries, has this spectral norm.

    φ' is at most 1. So |J| has at most this norm, and a product of |J| over t steps at most norm^t.
    """

    norm: float = 0.8

    def __call__(self, key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
        Q = orthogonal(key, n, dtype)
        magnitudes, v = jnp.abs(Q), jnp.ones(n, dtype)
        for _ in range(20):  # its largest singular value stands far apart from the others
            v = magnitudes.T @ (magnitudes @ v)
            v = v / jnp.sqrt(v @ v)
        largest = magnitudes @ v
        return self.norm * Q / jnp.sqrt(largest @ largest)


@dataclass(frozen=True)
class Replicas(Experiment):
    """Every replica sees the same weights and stream and draws its own random numbers; the weights do not move.

    Learners start from M = 0. What is kept is a mean over replicas for each learner, network and step in `sampled`.
    """

    known_as: str
    network: Network
    task: Task
    learners: Mapping[str, Learner]
    networks: int
    replicas: int
    #: numbers of steps after which gradients are compared, from 1 on
    sampled: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        return (1 + len(self.learners)) * (3 + 6e-5 * self.networks * self.replicas * self.sampled[-1])

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        keys, steps, sampled = seed_keys(self.networks), self.sampled[-1], np.array(self.sampled) - 1
        gradients = lambda learner, key: gradients_of_replicas(
            self.network, learner, self.task, key, self.replicas, steps, sampled
        )
        exact = [gradients(RTRL(), key)[0] for key in keys]
        found: list[Arrays] = []
        for learner in self.learners.values():
            each = [moments(gradients(learner, key), truth) for key, truth in zip(keys, exact, strict=True)]
            found.append({name: np.stack([one[name] for one in each]) for name in each[0]})
            advance(len(found) / len(self.learners))
        about = {"learners": np.array(list(self.learners)), "step": np.array(self.sampled)}
        size = np.stack([(truth**2).sum(axis=-1) for truth in exact])
        counts = {"replicas": np.array(self.replicas), "exact": size}
        return {**about, **counts, **{name: np.stack([one[name] for one in found]) for name in found[0]}}


def moments(sample: Float[np.ndarray, "R T P"], exact: Float[np.ndarray, "T P"]) -> Arrays:
    """At every step: the squared error of the mean over R replicas, their variance, and their mean cosine with exact.

    Of the squared error, variance / R is due to sampling. A single replica has no variance.
    """
    variance = sample.var(axis=0, ddof=1).sum(axis=-1) if len(sample) > 1 else np.zeros(len(exact))
    scale = np.linalg.norm(sample, axis=-1) * np.linalg.norm(exact, axis=-1)
    cosine = np.divide((sample * exact).sum(axis=-1), scale, out=np.zeros_like(scale), where=scale > 0)
    squared = ((sample.mean(axis=0) - exact) ** 2).sum(axis=-1)
    return {"squared_error": squared, "variance": variance, "cosine": cosine.mean(axis=0)}


@dataclass(frozen=True)
class Expectation(Experiment):
    """The exact expectation of M in a network of two units, over every pattern of signs."""

    known_as: str
    learner: PastFacing

    @property
    def name(self) -> str:
        return self.known_as

    @property
    def cost(self) -> float:
        return 5.0

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        found = expectation(self.learner)
        advance(1.0)
        return found

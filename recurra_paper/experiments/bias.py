"""Bias and variance of past-facing learners: many replicas of their randomness along one trajectory, weights held."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from recurra import BLOCK, KeRNL, Learner, LearningStep, Network, Task
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.setup import learner_of, network_of, task_of

#: Those that draw no random numbers have one replica.
LEARNERS = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo")
#: steps at which gradients are compared, at most
SAMPLES = 40


@dataclass(frozen=True)
class Bias(Experiment):
    """Every replica sees the same weights and stream and draws its own random numbers; then the next network.

    Stochastic learners start from M = 0, so that what is measured is the rule and not the start.
    """

    version: ClassVar[int] = 3

    task: str
    networks: int
    replicas: int
    steps: int

    @property
    def name(self) -> str:
        return f"bias/{self.task}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of(self.task, "1")
        return network_of(task, "1"), task, *(learner_of(name, self.task, "1") for name in ("rtrl", *LEARNERS)), SAMPLES

    @property
    def cost(self) -> float:
        return len(LEARNERS) * (5 + 6e-5 * self.networks * self.replicas * self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, task, *_ = self.parts
        sampled = later_half(self.steps)
        rows: dict[str, list[np.ndarray]] = {"bias": [], "bias_noise": [], "std": []}
        done, keys = 0, seed_keys(self.networks)
        measured = lambda learner, key: gradients_of_replicas(
            network, learner, task, key, self.replicas, self.steps, sampled
        )
        exact = [measured(learner_of("rtrl", self.task, "1"), key)[0] for key in keys]
        for name in LEARNERS:
            found = []
            learner = learner_of(name, self.task, "1")
            for key, truth in zip(keys, exact, strict=True):
                found.append(errors(measured(learner, key), truth))
                done += 1
                advance(done / (len(LEARNERS) * self.networks))
            for quantity, values in zip(rows, zip(*found, strict=True), strict=True):
                rows[quantity].append(np.array(values))
        counts = {"replicas": np.array(self.replicas), "networks": np.array(self.networks)}
        return {"learners": np.array(LEARNERS), **counts, **{name: np.stack(values) for name, values in rows.items()}}


def later_half(steps: int) -> np.ndarray:
    """Steps of the later half, spread out: the start, where M is still empty, says little."""
    return np.unique(np.linspace(steps // 2, steps - 1, SAMPLES).astype(int))


def seed_keys(networks: int) -> Key[Array, " networks"]:
    """A key for each network."""
    return jax.random.split(jax.random.key(0), networks)


def gradients_of_replicas(
    network: Network, learner: Learner, task: Task, key: PRNGKeyArray, replicas: int, steps: int, sampled: np.ndarray
) -> np.ndarray:
    """Gradients of replicas of a learner that starts from M = 0: (replica, sampled step, weight), in double precision.

    They share their weights, which do not move, and their stream. Each draws random numbers of its own, so a learner
    that draws none has one replica.
    """
    count = replicas if learner.about.stochastic or isinstance(learner, KeRNL) else 1
    step = LearningStep(network, _from_zero(learner), 0.0)
    of_network, of_replicas = jax.random.split(key)
    gradients = _replicated(step, task, of_network, jax.random.split(of_replicas, count), steps, jnp.asarray(sampled))
    rows = [np.asarray(leaf).reshape(count, len(sampled), -1) for leaf in jax.tree.leaves(gradients)]
    return np.concatenate(rows, axis=-1, dtype=np.float64)


@eqx.filter_jit
def _replicated(
    step: LearningStep,
    task: Task,
    key: PRNGKeyArray,
    replicas: Key[Array, " replicas"],
    steps: int,
    sampled: Int[Array, " S"],
) -> PyTree[Array]:
    """The gradients of all replicas at some steps, leaves (replica, sampled step, ...)."""
    for_weights, for_task, for_rows = jax.random.split(key, 3)
    weights, dtype = step.network.init(for_weights), step.network.cell.dtype
    inputs, labels = [], []
    state = task.init(for_task, dtype)
    for number in range(-(-steps // BLOCK)):
        rows, state = task.block(state, jax.random.fold_in(for_rows, number), jnp.asarray(number, "int32"), dtype)
        inputs.append(rows.x)
        labels.append(rows.label)
    stream = jnp.concatenate(inputs)[:steps], jnp.concatenate(labels)[:steps]

    def take(state: Any, row: Any) -> tuple[Any, PyTree[Array]]:
        x, label, noise = row
        seen, _ = step.observe(state, x, noise)
        state, outcome = step.learn(seen, label)
        return state, outcome.gradients["applied"]

    def one(replica: PRNGKeyArray) -> PyTree[Array]:
        for_start, for_noise = jax.random.split(replica)
        rows = (*stream, step.noise(for_noise, steps))
        _, gradients = jax.lax.scan(take, step.start_from(weights, for_start), rows)
        return jax.tree.map(lambda leaf: leaf[sampled], gradients)

    return jax.vmap(one)(replicas)


def errors(sample: np.ndarray, exact: np.ndarray) -> tuple[float, float, float]:
    """Bias, what sampling adds to it, and standard deviation: root mean squares over steps, in norms of the exact one.

    One scale serves all steps, since some gradients are near zero.
    """
    size = np.sqrt((exact**2).sum(axis=-1).mean())
    variance = sample.var(axis=0, ddof=1).sum(axis=-1).mean() if len(sample) > 1 else 0.0
    bias = np.sqrt(((sample.mean(axis=0) - exact) ** 2).sum(axis=-1).mean())
    return float(bias / size), float(np.sqrt(variance / len(sample)) / size), float(np.sqrt(variance) / size)


def _from_zero(learner: Learner) -> Learner:
    if not hasattr(learner, "initial_scale"):
        return learner
    return eqx.tree_at(lambda tree: tree.initial_scale, learner, 0.0)

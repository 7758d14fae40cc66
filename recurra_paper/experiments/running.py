"""The step and the engine of `train`, for experiments that keep something else of a run than its losses."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PRNGKeyArray, PyTree

from recurra.cells.base import Weights
from recurra.engine.experiment import Experiment
from recurra.engine.fold import advance
from recurra.engine.hardware import core_device
from recurra.engine.protocol import Members, Run
from recurra.engine.scan import ScanEngine
from recurra.engine.specialise import specialised
from recurra.learners import Learner
from recurra.linalg import zeros_like
from recurra.network import Network
from recurra.step import APPLIED, LearningState, LearningStep, Outcome
from recurra.tasks import Task
from recurra.training import record
from recurra.training.recording import StepRecorder
from recurra.training.train import LEARNING_RATE


def seed_keys(seeds: int) -> Key[Array, " seeds"]:
    """The keys of the first seeds, as `train` has them."""
    return Members.of_seeds(jax.random.key(0), range(seeds)).keys


def prepare(
    network: Network,
    learners: Mapping[str, Learner],
    task: Task,
    rate: float,
    seeds: int,
    recorder: StepRecorder | None = None,
) -> Run:
    """A run of the first seeds, as `train` would start it from key 0."""
    experiment = Experiment(LearningStep(network, dict(learners), rate), task, recorder)
    return ScanEngine().prepare(experiment, Members.of_seeds(jax.random.key(0), range(seeds)))


def records_of_replicas(
    network: Network, learner: Learner, task: Task, seed: PRNGKeyArray, replicas: int, steps: int, sampled: np.ndarray
) -> PyTree[Array]:
    """Gradients of replicas that share their weights and stream, and draw random numbers of their own.

    The weights do not move. Leaves are (replica, sampled step, ...).
    """
    learners = {APPLIED: learner}
    recorder = StepRecorder.of({"gradient": record.gradients}, learners)
    experiment = Experiment(LearningStep(network, learners, 0.0), task, recorder)
    keys = jax.random.split(jax.random.fold_in(seed, 1), replicas)
    return _replicated(experiment.traced, seed, keys, steps, jnp.asarray(sampled))["gradient"]


@eqx.filter_jit
def _replicated(
    experiment: Experiment, seed: PRNGKeyArray, keys: Key[Array, " replicas"], steps: int, sampled: Int[Array, " S"]
) -> PyTree[Array]:
    def one(key: PRNGKeyArray) -> PyTree[Array]:
        _, shared = experiment.init(seed)
        own = jax.random.split(key)
        carry, own_keys = experiment.init_from(shared._replace(learners=own[0], noise=own[1]))
        zero, stop = jnp.zeros((), "int32"), jnp.array(steps, "int32")
        _, kept = advance(experiment, carry, own_keys, zero, stop, steps)
        return jax.tree.map(lambda rows: rows[sampled], kept.records)

    return jax.vmap(one)(keys)


class Sums(eqx.Module):
    """A recorder that adds up every learner's gradient, each at the step it belongs to, and keeps nothing of a step."""

    inner: StepRecorder

    def init(self, step: LearningStep, state: LearningState) -> tuple[Outcome, dict[str, Weights]]:
        """Nothing summed yet."""
        return self.inner.init(step, state), {name: zeros_like(state.weights.cell) for name in self.inner.waits}

    def __call__(self, state: Any, outcome: Outcome, t: Int[Array, ""]) -> tuple[Any, dict]:
        inner, sums = state
        inner, kept = self.inner(inner, outcome, t)
        return (inner, jax.tree.map(jnp.add, sums, kept["gradients"])), {}


def sums_of_gradients(
    network: Network,
    learners: Mapping[str, Learner],
    task: Task,
    learning: int,
    settling: int,
    stretches: int,
    length: int,
) -> Callable[[PRNGKeyArray], dict[str, np.ndarray]]:
    """A function that takes a seed's key to every learner's gradients summed over stretches, (stretch, weight).

    The first learner trains for `learning` steps. Then the weights are held. `settling` steps later the sums begin.
    """
    first, *others = learners
    named = {APPLIED: learners[first], **{name: learners[name] for name in others}}
    inner = StepRecorder.of({"gradients": record.gradients}, named)
    assert inner is not None
    at_rate = lambda rate: specialised(Experiment(LearningStep(network, named, rate), task, Sums(inner)).traced, "cpu")

    @eqx.filter_jit
    def run(moving: Experiment, held: Experiment, key: PRNGKeyArray) -> dict[str, Array]:
        carry, keys = moving.init(key)

        def take(experiment: Experiment, carry: Any, start: Any, count: int) -> Any:
            begin = jnp.asarray(start, "int32")
            return carry if not count else advance(experiment, carry, keys, begin, begin + count, count)[0]

        before = learning + settling + inner.delay
        carry = take(held, take(moving, carry, 0, learning), learning, before - learning)

        def stretch(carry: Any, number: Array) -> tuple[Any, dict[str, Weights]]:
            waiting, sums = carry.recorder
            carry = take(held, carry._replace(recorder=(waiting, zeros_like(sums))), before + number * length, length)
            return carry, carry.recorder[1]

        _, sums = jax.lax.scan(stretch, carry, jnp.arange(stretches, dtype="int32"))
        flat = lambda tree: jnp.concatenate([leaf.reshape(stretches, -1) for leaf in jax.tree.leaves(tree)], axis=1)
        return {name: flat(tree) for name, tree in sums.items()}

    def of_seed(key: PRNGKeyArray) -> dict[str, np.ndarray]:
        # An accelerator would take longer: a step is too small for it.
        with jax.default_device(core_device()):
            sums = run(at_rate(LEARNING_RATE), at_rate(0.0), key)
        return {first if name == APPLIED else name: np.asarray(rows, np.float64) for name, rows in sums.items()}

    return of_seed

"""The step and the engine of `train`, for experiments that keep something else of a run than its losses."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra.engine.experiment import Experiment
from recurra.engine.fold import advance
from recurra.engine.protocol import Members, Run
from recurra.engine.scan import ScanEngine
from recurra.learners import Learner
from recurra.network import Network
from recurra.step import LearningStep
from recurra.tasks import Task
from recurra.training.recording import StepRecorder


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
    network: Network, learners: Mapping[str, Learner], task: Task, recorder: StepRecorder, replicas: int, steps: int
) -> PyTree[Array]:
    """What is recorded of replicas that share their weights and stream, and draw random numbers of their own.

    The weights do not move. Leaves are (replica, step, ...).
    """
    experiment = Experiment(LearningStep(network, dict(learners), 0.0), task, recorder)
    return _replicated(experiment.traced, jax.random.split(jax.random.key(1), replicas), steps)


@eqx.filter_jit
def _replicated(experiment: Experiment, keys: PRNGKeyArray, steps: int) -> PyTree[Array]:
    def one(key: PRNGKeyArray) -> PyTree[Array]:
        _, shared = experiment.init(jax.random.key(0))
        own = jax.random.split(key)
        carry, own_keys = experiment.init_from(shared._replace(learners=own[0], noise=own[1]))
        zero, stop = jnp.zeros((), "int32"), jnp.array(steps, "int32")
        _, kept = advance(experiment, carry, own_keys, zero, stop, steps)
        return kept.records

    return jax.vmap(one)(keys)

"""Runs that start from weights or states that a user has: checked, and laid out for every seed."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey, keystr

from recurra import checks
from recurra.engine.experiment import Experiment, Start
from recurra.engine.specialise import adopted, tagged
from recurra.network import NetworkWeights
from recurra.online.model import Online
from recurra.online.step import OnlineState
from recurra.step import DelayedState, LearningState


def starting_from(given: Start | None, experiment: Experiment, seeds: int, steps: int) -> tuple[Experiment, Any]:
    """The experiment that starts from there, and what each seed starts from, leaves (seed, ...), or None.

    A state that an engine kept is tagged with the form of its learners, and goes on in that form.
    """
    if given is None:
        return experiment, None
    if isinstance(given, NetworkWeights):
        experiment.step.network.check_weights(given, "start", seeds)
        return experiment, _for_seeds(given, jax.eval_shape(experiment.step.first_weights, jax.random.key(0)), seeds)
    if not isinstance(given, LearningState):
        advice = (
            ": of a recurra.Online take `learning`" if isinstance(given, Online | OnlineState | DelayedState) else ""
        )
        raise TypeError(
            "`start` must be weights of the network, as `Network.init` and `Result.weights` have them, or a "
            f"LearningState, and is {given!r:.200}{advice}."
        )
    began = _steps_before(given.t, steps)
    given = given._replace(t=None, key=None)
    step, _ = adopted(experiment.step, given.learners if isinstance(given.learners, dict) else {})
    like = _first_state(dataclasses.replace(experiment, step=step))
    like = like._replace(learners=tagged(step, like.learners))
    # Whether labels may be missing, and states set back, is a matter of the task.
    given = given._replace(unlabelled=_count(given.unlabelled, like.unlabelled), first=_count(given.first, like.first))
    place = experiment.step.network.place
    in_state = lambda path: f".weights{place(path[1:])}" if path[0] == GetAttrKey("weights") else keystr(path)
    of = "network, learner and optimizer"
    advice = " Of a recurra.Online take `learning`, and of a result `states`."
    checks.fits("start", given, like, of=of, advice=advice, seeds=seeds, place=in_state)
    start = _for_seeds(given, like, seeds)
    return dataclasses.replace(experiment, began=jnp.asarray(began, "int32") if began else None), start


def _first_state(experiment: Experiment) -> LearningState:
    """The shapes of a state before the first step."""
    key = jax.random.key(0)
    first = lambda key: experiment.start_from(experiment.step.first_weights(key), key)
    return jax.eval_shape(first, key)._replace(t=None)


def _steps_before(t: Any, steps: int) -> int:
    """How many steps all states have behind them."""
    counts = np.unique(np.asarray(0 if t is None else t))
    if len(counts) > 1:
        raise ValueError(f"The states in `start` must have come equally far, and their `t` are {counts.tolist()}.")
    began = int(counts[0])
    if not 0 <= began < 2**31 - steps:
        raise ValueError(
            f"`t` of the state in `start` is {began:,} and `steps` is {steps:,}: both together must stay below 2³¹."
        )
    return began


def _count(given: Any, like: Any) -> Any:
    return None if like is None else np.zeros(like.shape, like.dtype) if given is None else given


def _for_seeds(given: Start, like: Start, seeds: int) -> Start:
    """What each seed starts from, leaves (seed, ...)."""
    each = lambda leaf, like: np.broadcast_to(np.asarray(leaf), (seeds, *like.shape))
    return jax.tree.map(each, given, like)

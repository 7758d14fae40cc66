"""Runs that start from weights or states that a user has: checked, and laid out for every seed."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
        like = jax.eval_shape(experiment.step.first_weights, jax.random.key(0))
        return experiment, _for_seeds(given, like, seeds)
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


def _shapes(like: Any, seeds: int) -> tuple[tuple[int, ...], ...]:
    return like.shape, (seeds, *like.shape)


def _for_seeds(given: Start, like: Start, seeds: int) -> Start:
    """What each seed starts from, leaves (seed, ...); an error names the first array that is not as in `like`."""
    _check_structure(given, like)
    paths = jax.tree_util.tree_leaves_with_path(like)
    leaves = [
        _leaf(f"start{jax.tree_util.keystr(path)}", leaf, wanted, seeds)
        for (path, wanted), leaf in zip(paths, jax.tree.leaves(given), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _check_structure(given: Start, like: Start) -> None:
    if jax.tree.structure(given) == jax.tree.structure(like):
        return
    names = lambda tree: [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    missing = [f"no `{name[1:]}`" for name in names(like) if name not in names(given)]
    unknown = [f"`{name[1:]}` too" for name in names(given) if name not in names(like)]
    said = " and ".join([*missing[:1], *unknown[:1]]) or "other parts"
    raise ValueError(
        f"`start` is not of this network, learner and optimizer: it has {said}. Make it with the same settings. "
        "Of a recurra.Online take `learning`, and of a result `states`."
    )


def _leaf(name: str, leaf: Any, like: Any, seeds: int) -> np.ndarray:
    array = np.asarray(leaf)
    if array.dtype != like.dtype:
        raise TypeError(f"`{name}` is {array.dtype} and the network's is {like.dtype}: convert it with astype.")
    if array.shape not in _shapes(like, seeds):
        raise ValueError(
            f"`{name}` must have shape {like.shape} for all seeds, or {(seeds, *like.shape)} for {seeds} of them, and "
            f"has {array.shape}."
        )
    if jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, and holds nan or an infinity: start from other weights.")
    return np.broadcast_to(array, (seeds, *like.shape))

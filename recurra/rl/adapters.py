"""Environments of others: Gymnax, which is written in JAX, and Gymnasium, which is stepped from Python.

Both packages come with `pip install 'recurra[rl]'`, and are imported once an adapter is made.
"""

import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra.rl.actions import Actions, Continuous, Discrete
from recurra.rl.agents import Agent
from recurra.rl.environments import Environment, Transition, check_seen
from recurra.rl.lives import Happened

#: steps of a block of rows
ROWS = 50


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{name} is not installed, or lacks something ({error}): pip install 'recurra[rl]'"
        ) from error


def _actions_of(game: str, space: Any) -> Actions:
    """The actions of a space of Gymnax or Gymnasium, which name them alike."""
    if hasattr(space, "n") and getattr(space, "start", 0) == 0 and np.ndim(space.n) == 0:
        return Discrete(int(space.n))
    if hasattr(space, "low") and len(space.shape) <= 1:
        n, bound = math.prod(space.shape), lambda b: tuple(np.broadcast_to(np.asarray(b, float), space.shape).ravel())
        return Continuous(n, bound(space.low), bound(space.high))
    raise ValueError(f"The actions of {game} are {space}: recurra.rl knows Discrete from 0 and Box of one axis.")


def _observed(game: str, space: Any, seen: Sequence[int] | None) -> tuple[int, ...]:
    """Which entries of a flattened observation an agent sees."""
    if not hasattr(space, "low"):
        raise ValueError(f"Observations of {game} are {space}, and recurra.rl takes arrays of numbers: wrap it first.")
    size = math.prod(space.shape)
    seen = tuple(range(size) if seen is None else seen)
    check_seen(game, seen, size)
    return seen


class Gymnax(Environment):
    """An environment of Gymnax by its name, with its own settings.

    Of each observation the agent sees the entries `seen`. A time limit of the environment truncates its episodes.

    >>> environment = rc.rl.Gymnax("CartPole-v1", seen=(0, 2))  # the velocities are hidden
    >>> environment.n_in, environment.actions
    (2, Discrete(n=2))
    """

    game: str = eqx.field(static=True)
    seen: tuple[int, ...] = eqx.field(static=True)
    settings: Any
    made: Any = eqx.field(static=True)
    space: Actions

    def __init__(self, game: str, seen: Sequence[int] | None = None, **settings: Any):
        gymnax = _package("gymnax")
        if game not in gymnax.registered_envs:
            raise ValueError(f"Gymnax has no environment {game!r}, but: {', '.join(gymnax.registered_envs)}.")
        self.game = game
        self.made, default = gymnax.make(game)
        unknown = settings.keys() - vars(default).keys()
        if unknown:
            raise ValueError(f"{game} has no setting {sorted(unknown)[0]!r}, but: {', '.join(vars(default))}.")
        self.settings = default.replace(**settings)
        self.seen = _observed(game, self.made.observation_space(self.settings), seen)
        self.space = _actions_of(game, self.made.action_space(self.settings))

    @property
    def name(self) -> str:
        return self.game

    @property
    def n_in(self) -> int:
        return len(self.seen)

    @property
    def actions(self) -> Actions:
        return self.space

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Array], Float[Array, " n_in"]]:
        with jax.numpy_dtype_promotion("standard"):
            observation, state = self.made.reset_env(key, self.settings)
        # Numbers of Python's become arrays, so that a state has the same types at every step.
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), state), self._shown(observation)

    def step(self, state: PyTree[Array], action: Any, key: PRNGKeyArray) -> tuple[PyTree[Array], Transition]:
        with jax.numpy_dtype_promotion("standard"):
            observation, after, reward, terminated, _ = self.made.step_env(key, state, action, self.settings)
            late = self.made.is_truncated(after, self.settings)
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
        terminated, late = (jnp.asarray(flag).astype(bool) for flag in (terminated, late))
        return after, Transition(self._shown(observation), jnp.asarray(reward, float), terminated, late & ~terminated)

    def _shown(self, observation: Any) -> Float[Array, " n_in"]:
        return jnp.ravel(jnp.asarray(observation, float))[np.array(self.seen)]


class Gymnasium:
    """An environment of Gymnasium by its name, with its settings, or a function that makes one.

    `recurra.rl.live` steps one for each seed, row by row; all seeds of the agent still are one program. Of each
    observation the agent sees the entries `seen`. Lives in it cannot be kept in checkpoints.

    >>> environment = rc.rl.Gymnasium("CartPole-v1", seen=(0, 2))
    >>> environment.n_in, environment.actions
    (2, Discrete(n=2))
    """

    def __init__(self, game: Any, seen: Sequence[int] | None = None, **settings: Any):
        gymnasium = _package("gymnasium")
        self.name = game if isinstance(game, str) else getattr(game, "__name__", "the environment")
        self.make = (lambda: gymnasium.make(game, **settings)) if isinstance(game, str) else (lambda: game(**settings))
        try:
            example = self.make()
        except gymnasium.error.Error as error:
            raise ValueError(f"Gymnasium could not make {self.name}: {error}") from error
        self.seen = _observed(self.name, example.observation_space, seen)
        self.actions = _actions_of(self.name, example.action_space)
        self.size = math.prod(example.observation_space.shape)
        example.close()

    @property
    def n_in(self) -> int:
        """How many numbers an agent sees."""
        return len(self.seen)

    def shown(self, observation: Any, step: int) -> np.ndarray:
        """What the agent sees of an observation; ValueError if it is not what the environment said it would be."""
        array = np.asarray(observation, float).ravel()
        if array.size != self.size:
            raise ValueError(
                f"{self.name} returned an observation of {array.size} numbers at step {step:,}, and said that it has "
                f"{self.size}."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{self.name} returned an observation with nan or an infinity at step {step:,}: {array}.")
        return array[list(self.seen)]


class RowLives:
    """The lives of several seeds, each in an environment of its own that is stepped from Python."""

    device = "cores"

    def __init__(self, agent: Agent, environment: Gymnasium, key: PRNGKeyArray, seeds: Sequence[int]):
        self.done, self._environment = 0, environment
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(np.array(seeds, np.uint32)))
        self._state, self._key = jax.vmap(agent.init)(keys), jax.random.fold_in(key, 1)
        self._games = [environment.make() for _ in seeds]
        first = np.asarray(jax.vmap(lambda key: jax.random.bits(key, dtype="uint32"))(keys)).tolist()
        begun = zip(self._games, first, strict=True)
        self._seen = np.stack([environment.shown(game.reset(seed=seed)[0], 0) for game, seed in begun])

        def act(state: Any, seen: Array, key: PRNGKeyArray) -> Any:
            return jax.vmap(agent.act)(state, seen, jax.random.split(key, len(seeds)))

        def learn(state: Any, *outcome: Array) -> Any:
            state = jax.vmap(agent.learn)(state, *outcome)
            return state, jnp.square(jax.vmap(agent.delta)(state)).reshape(len(seeds), -1).mean(axis=1)

        self._act, self._learn = jax.jit(act), jax.jit(learn)

    def advance(self, stop: int) -> Iterator[Happened]:
        """Take every seed to step `stop`, a few rows at a time. A caller may stop after any of them."""
        while self.done < stop:
            rows = [self._row() for _ in range(min(ROWS, stop - self.done))]
            yield Happened(*(np.stack(each, axis=1) for each in zip(*rows, strict=True)))

    def _row(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        key, to_be_shown = jax.random.fold_in(self._key, self.done), self._environment.shown
        self._state, actions = self._act(self._state, self._seen, key)
        after, rewards, over, late = [], [], [], []
        for game, action in zip(self._games, np.asarray(actions), strict=True):
            observation, reward, terminated, truncated, _ = game.step(action if action.ndim else int(action))
            if not np.isfinite(reward):
                raise ValueError(f"{self._environment.name} returned the reward {reward} at step {self.done:,}.")
            after.append(to_be_shown(observation, self.done))
            rewards.append(float(reward))
            over.append(bool(terminated))
            late.append(bool(truncated) and not terminated)
        seen, ends = np.stack(after), np.array(over) | np.array(late)
        self._state, squared = self._learn(self._state, np.array(rewards), seen, np.array(over), np.array(late))
        for row in np.flatnonzero(ends):
            seen[row] = to_be_shown(self._games[row].reset()[0], self.done)
        self._seen, self.done = seen, self.done + 1
        return np.array(rewards), ends, np.asarray(squared)

    def states(self) -> PyTree:
        """The states of the agents, each array with a leading axis over seeds."""
        return self._state

    def stages(self) -> None:
        """There are none: the environments' own states are out of reach, and nothing can be kept."""

    def snapshot(self) -> list[np.ndarray]:
        """Not possible: `recurra.rl.live` refuses checkpoints."""
        raise NotImplementedError

    def restore(self, arrays: Sequence[np.ndarray], done: int) -> None:
        """Not possible either."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the environments."""
        for game in self._games:
            game.close()

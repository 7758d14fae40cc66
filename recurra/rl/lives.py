"""Lives on their way: the steps of many seeds of an agent in an environment.

Seeds are vmapped, in as many groups as there are cores, each in a thread of its own: a compiled program holds no lock
while it runs. On an accelerator all seeds are one group. Steps are taken in blocks of `BLOCK`, always the same ones,
and each step's random numbers come from its own number. So results do not depend on where a life was interrupted.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray, PyTree

from recurra.engine.compiling import compiled, multiplies_small, traced
from recurra.engine.hardware import cores
from recurra.engine.settings import settings_of_this_thread
from recurra.linalg import where
from recurra.rl.agents import Agent
from recurra.rl.environments import Environment
from recurra.training.gathering import LossWindows

#: steps of a block
BLOCK = 500


class Stage(NamedTuple):
    """An agent's state with that of its environment, and the observation that the agent is about to see."""

    agent: PyTree
    environment: PyTree
    observation: Array


class Happened(NamedTuple):
    """What happened at each step, (seed, step): the reward, whether an episode ended, and the mean square of δ."""

    reward: np.ndarray
    ends: np.ndarray
    squared: np.ndarray


def first_stage(agent: Agent, environment: Environment, key: PRNGKeyArray) -> Stage:
    """Before the first step of a life."""
    key_agent, key_environment = jax.random.split(key)
    return Stage(agent.init(key_agent), *environment.reset(key_environment))


def step(agent: Agent, environment: Environment, stage: Stage, key: PRNGKeyArray) -> tuple[Stage, Any, Any]:
    """One step: the next stage, the action, and what came of it. After an end a new episode is ready."""
    key_action, key_step, key_reset = jax.random.split(key, 3)
    state, action = agent.act(stage.agent, stage.observation, key_action)
    world, outcome = environment.step(stage.environment, action, key_step)
    state = agent.learn(state, *_in_learns_order(outcome))
    anew = environment.reset(key_reset)
    ends = outcome.terminated | outcome.truncated
    return Stage(state, *where(ends, anew, (world, outcome.observation))), action, outcome


def _in_learns_order(outcome: Any) -> tuple[Any, ...]:
    return outcome.reward, outcome.observation, outcome.terminated, outcome.truncated


def _block(agent: Agent, environment: Environment, stages: Stage, keys: Key[Array, " n"], first: Any, length: int):
    def one(stage: Stage, key: PRNGKeyArray) -> tuple[Stage, tuple[Array, Array, Array]]:
        def take(stage: Stage, t: Array) -> tuple[Stage, tuple[Array, Array, Array]]:
            stage, _, outcome = step(agent, environment, stage, jax.random.fold_in(key, t))
            squared = jnp.mean(agent.delta(stage.agent) ** 2)
            mean = jnp.mean(jnp.asarray(outcome.reward, squared.dtype))
            return stage, (mean, outcome.terminated | outcome.truncated, squared)

        return jax.lax.scan(take, stage, first + jnp.arange(length, dtype="int32"))

    return jax.vmap(one)(stages, keys)


def _first(agent: Agent, environment: Environment, keys: Key[Array, " n"]) -> Stage:
    return jax.vmap(lambda key: first_stage(agent, environment, key))(keys)


class Lives:
    """The lives of several seeds, between two blocks of steps. It is a run as `recurra.training` keeps them."""

    def __init__(self, agent: Agent, environment: Environment, key: PRNGKeyArray, seeds: Sequence[int]):
        self.done, self._parts = 0, (agent, environment)
        platform = jax.default_backend()
        self.device = "cores" if platform == "cpu" else jax.devices()[0].device_kind
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(np.array(seeds, np.uint32)))
        groups = min(cores(), len(seeds)) if platform == "cpu" else 1
        cuts = np.array_split(np.arange(len(seeds)), groups)
        # the key of steps is another than that of the start
        self._keys = [jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys[rows]) for rows in cuts]
        init = compiled(_first, platform, runs_once=True)
        self._stages = [init(agent, environment, keys[rows]) for rows in cuts]
        program, _ = traced(_block, agent, environment, self._stages[0], self._keys[0], np.int32(0), 1)
        self._take = compiled(_block, platform, products_in_loop=multiplies_small(program))
        self._settings, self._pool = settings_of_this_thread(), ThreadPoolExecutor(groups)

    def advance(self, stop: int) -> Iterator[Happened]:
        """Take every seed to step `stop`, block by block. A caller may stop after any block."""
        while self.done < stop:
            length = min(BLOCK - self.done % BLOCK, stop - self.done)

            def take(group: int, first: int = self.done, length: int = length) -> tuple[Stage, tuple]:
                with self._settings():
                    stages, happened = self._take(
                        *self._parts, self._stages[group], self._keys[group], np.int32(first), length
                    )
                    return stages, tuple(np.asarray(each) for each in happened)

            found = list(self._pool.map(take, range(len(self._stages))))
            self._stages = [stages for stages, _ in found]
            self.done += length
            yield Happened(*(np.concatenate(each) for each in zip(*(rows for _, rows in found), strict=True)))

    def states(self) -> PyTree:
        """The states of the agents, each array with a leading axis over seeds."""
        return self._joined(lambda stage: stage.agent)

    def stages(self) -> Stage:
        """The states of agents and environments, each array with a leading axis over seeds."""
        return self._joined(lambda stage: stage)

    def _joined(self, part: Callable[[Stage], Any]) -> Any:
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *map(part, self._stages))

    def snapshot(self) -> list[np.ndarray]:
        """All that the lives need to go on, as plain arrays (seed, ...), whatever the number of groups."""
        alike = zip(*map(jax.tree.leaves, self._stages), strict=True)
        return [np.concatenate([np.asarray(_plain(leaf)) for leaf in leaves]) for leaves in alike]

    def restore(self, arrays: Sequence[np.ndarray], done: int) -> None:
        """Go on from a snapshot of the same lives, taken after so many steps."""
        first, stages = 0, []
        for stage, keys in zip(self._stages, self._keys, strict=True):
            leaves, structure = jax.tree.flatten(stage)
            rows = slice(first, first := first + len(keys))
            own = [_like(leaf, array[rows]) for leaf, array in zip(leaves, arrays, strict=True)]
            stages.append(jax.tree.unflatten(structure, own))
        self._stages, self.done = stages, done

    def close(self) -> None:
        """Let the threads go."""
        self._pool.shutdown()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, array: np.ndarray) -> Array:
    plain = jnp.asarray(array)
    return jax.random.wrap_key_data(plain, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else plain


def identity(agent: Agent, environment: Environment, key: PRNGKeyArray, settings: Mapping[str, Any]) -> str:
    """A digest of all that lives depend on: their numbers, and the program of one step, with every function in it."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())

    def whole(agent: Agent, environment: Environment, key: PRNGKeyArray) -> Any:
        return step(agent, environment, first_stage(agent, environment, key), key)[0]

    lowered: Any = eqx.filter_jit(whole)
    digest.update(lowered.lower(agent, environment, key).as_text().encode())
    for leaf in jax.tree.leaves(eqx.filter((agent, environment), eqx.is_array)):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


class Experience:
    """What a life brought so far: means over windows of steps, and every episode that ended."""

    def __init__(self, seeds: Sequence[int], window: int):
        self._parts = {"reward": LossWindows(seeds, window), "squared": LossWindows(seeds, window)}
        #: of each seed's episodes the return, and the step after their last one
        self.episodes: list[tuple[list[float], list[int]]] = [([], []) for _ in seeds]
        self._return, self.seen = np.zeros(len(seeds)), 0

    @property
    def reward(self) -> LossWindows:
        """Rewards, which diverged where they or δ are not finite."""
        return self._parts["reward"]

    @property
    def squared(self) -> LossWindows:
        """The mean square of δ."""
        return self._parts["squared"]

    def append(self, happened: Happened) -> None:
        """The next steps."""
        self.reward.append(happened.reward)
        self.squared.append(happened.squared)
        rewards = happened.reward.astype(np.float64)
        for row, (returns, ends) in enumerate(self.episodes):
            last = 0
            for at in np.flatnonzero(happened.ends[row]):
                returns.append(float(self._return[row] + rewards[row, last : at + 1].sum()))
                ends.append(self.seen + int(at) + 1)
                last, self._return[row] = at + 1, 0.0
            self._return[row] += rewards[row, last:].sum()
        self.seen += happened.reward.shape[1]

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        named = {f"{part}.{name}": array for part, own in self._parts.items() for name, array in own.state().items()}
        counts = np.array([len(returns) for returns, _ in self.episodes], np.int64)
        flat = lambda which, dtype: np.array([each for both in self.episodes for each in both[which]], dtype)
        return {
            **named,
            "episodes": counts,
            "returns": flat(0, np.float64),
            "ends": flat(1, np.int64),
            "return": self._return.copy(),
            "seen": np.array(self.seen),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        for part, own in self._parts.items():
            begins = f"{part}."
            own.restore({name.removeprefix(begins): a for name, a in state.items() if name.startswith(begins)})
        counts, returns, ends = (state[name] for name in ("episodes", "returns", "ends"))
        if len(counts) != len(self.episodes) or not len(returns) == len(ends) == counts.sum():
            raise ValueError("episodes of other seeds")
        cuts = np.cumsum(counts)[:-1]
        pairs = zip(np.split(returns, cuts), np.split(ends, cuts), strict=True)
        self.episodes = [(r.tolist(), e.tolist()) for r, e in pairs]
        self._return, self.seen = state["return"].copy(), int(state["seen"])

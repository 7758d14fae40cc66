"""Environments as pure functions, so that all seeds of an agent live in one program.

    reset    key                     ->  state, observation
    step     state, action, key      ->  state, (observation, reward, terminated, truncated)

An episode that terminated is over. One that was truncated was cut off by a clock, and would have gone on. Either way
the observation is the last one of the episode, and whoever calls `step` calls `reset` next. `recurra.rl.live` does so.

Ours are in `recurra.rl.memory`. `recurra.rl.Gymnax` takes those of Gymnax in, and `recurra.rl.Gymnasium` those of
Gymnasium, which are no pure functions and are stepped from Python.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.rl.actions import Actions


class Transition(NamedTuple):
    """What came of an action. `reward` may be a vector, for agents that predict several.

    >>> rc.rl.Transition(jnp.zeros(2), jnp.ones(()), jnp.array(True), jnp.array(False)).reward.shape
    ()
    """

    observation: Float[Array, " n_in"]
    reward: Float[Array, "..."]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Environment(checks.Part):
    """An environment written in JAX. Observations are vectors of `n_in` numbers.

    `actions` is None in an environment that takes no notice of what an agent does, which is there to be predicted.

    >>> environment = rc.rl.MemoryChain(length=4)
    >>> state, observation = environment.reset(jax.random.key(0))
    >>> state, (observation, reward, terminated, truncated) = environment.step(state, 1, jax.random.key(1))
    """

    @property
    @abc.abstractmethod
    def n_in(self) -> int:
        """How many numbers an observation has."""

    @property
    @abc.abstractmethod
    def actions(self) -> Actions | None:
        """What an agent may do."""

    @property
    def name(self) -> str:
        """What tables and errors call it."""
        return type(self).__name__

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Array], Float[Array, " n_in"]]:
        """A new episode: its first state and observation."""

    @abc.abstractmethod
    def step(self, state: PyTree[Array], action: Any, key: PRNGKeyArray) -> tuple[PyTree[Array], Transition]:
        """The state after an action, and what came of it."""


class TimeLimit(Environment):
    """An environment whose episodes are truncated after so many steps.

    >>> rc.rl.TimeLimit(rc.rl.TMaze(length=5), steps=20).n_in
    4
    """

    environment: Environment
    steps: int

    def __check_init__(self) -> None:
        _check_inner(self)
        checks.whole(self, "steps")

    @property
    def name(self) -> str:
        return self.environment.name

    @property
    def n_in(self) -> int:
        return self.environment.n_in

    @property
    def actions(self) -> Actions | None:
        return self.environment.actions

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Array], Float[Array, " n_in"]]:
        state, observation = self.environment.reset(key)
        return (state, jnp.zeros((), "int32")), observation

    def step(self, state: PyTree[Array], action: Any, key: PRNGKeyArray) -> tuple[PyTree[Array], Transition]:
        (inner, age), late = state, state[1] + 1 >= self.steps
        inner, outcome = self.environment.step(inner, action, key)
        return (inner, age + 1), outcome._replace(truncated=outcome.truncated | (late & ~outcome.terminated))


class Masked(Environment):
    """An environment of which an agent sees only the entries `seen` of each observation, such as (0, 2).

    >>> rc.rl.Masked(rc.rl.TMaze(length=5), seen=(0, 1)).n_in
    2
    """

    environment: Environment
    seen: tuple[int, ...] = eqx.field(converter=tuple, static=True)

    def __check_init__(self) -> None:
        _check_inner(self)
        check_seen("Masked", self.seen, self.environment.n_in)

    @property
    def name(self) -> str:
        return f"{self.environment.name}, masked"

    @property
    def n_in(self) -> int:
        return len(self.seen)

    @property
    def actions(self) -> Actions | None:
        return self.environment.actions

    def reset(self, key: PRNGKeyArray) -> tuple[PyTree[Array], Float[Array, " n_in"]]:
        state, observation = self.environment.reset(key)
        return state, observation[np.array(self.seen)]

    def step(self, state: PyTree[Array], action: Any, key: PRNGKeyArray) -> tuple[PyTree[Array], Transition]:
        state, outcome = self.environment.step(state, action, key)
        return state, outcome._replace(observation=outcome.observation[np.array(self.seen)])


def check_seen(owner: str, seen: tuple[int, ...], n_in: int) -> None:
    """Raise unless `seen` names some of `n_in` entries of an observation."""
    good = lambda i: isinstance(i, int | np.integer) and not isinstance(i, bool) and 0 <= i < n_in
    if not seen or not all(map(good, seen)):
        raise ValueError(f"`seen` of {owner} must name entries of an observation, 0 to {n_in - 1}, and is {seen}.")


def _check_inner(owner: Any) -> None:
    if not isinstance(owner.environment, Environment):
        raise TypeError(
            f"`environment` of {type(owner).__name__} must be a recurra.rl.Environment, and is "
            f"{owner.environment!r:.100}."
        )


def check_environment(environment: Environment, action: PyTree) -> None:
    """Raise unless an environment is written in JAX, and returns what it should for such an action."""
    name = environment.name
    key = jax.random.key(0)
    try:
        state, observation = jax.eval_shape(environment.reset, key)
        after, outcome = jax.eval_shape(environment.step, state, action, key)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise TypeError(
            f"{name} is not written in JAX: its functions need numbers where JAX traces "
            f"({str(error).splitlines()[0]}). Write them with jax.numpy, or make it an environment of "
            "Gymnasium and pass recurra.rl.Gymnasium(...)."
        ) from error
    if not isinstance(outcome, Transition):
        raise TypeError(f"{name}.step must return a state and a recurra.rl.Transition, and returns {outcome!r:.100}.")
    if _shapes(state) != _shapes(after) or jax.tree.structure(state) != jax.tree.structure(after):
        raise TypeError(
            f"{name}.step must return a state like that of `reset`, of {_shapes(state)}, and returns one of "
            f"{_shapes(after)}."
        )
    for where, seen in (("reset", observation), ("step", outcome.observation)):
        if getattr(seen, "shape", None) != (environment.n_in,):
            raise ValueError(
                f"{name}.{where} must return observations of shape ({environment.n_in},), and returns "
                f"{getattr(seen, 'shape', seen)}."
            )
    for flag in ("terminated", "truncated"):
        found = getattr(outcome, flag)
        if getattr(found, "shape", None) != () or found.dtype != bool:
            raise TypeError(f"{name}.step must return `{flag}` as one truth value, and returns {found}.")


def _shapes(tree: PyTree) -> list[str]:
    return [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)]

"""Running normalisation of what an agent sees and earns, without which steps have no scale (Elsayed et al. 2024)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, PyTree

from recurra import checks
from recurra.linalg import where
from recurra.rl.agents import Agent


class RunningMoments(NamedTuple):
    """The number of values so far, their mean, and the sum of squared distances from it, as Welford (1962) has them."""

    values: Int[Array, ""]
    mean: Float[Array, "*shape"]
    squares: Float[Array, "*shape"]

    @staticmethod
    def none(shape: tuple[int, ...], dtype: Any) -> "RunningMoments":
        """Before the first value."""
        return RunningMoments(jnp.zeros((), "int32"), jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))

    def after(self, x: Float[Array, "*shape"]) -> "RunningMoments":
        """After one more value."""
        values, off = self.values + 1, x - self.mean
        mean = self.mean + off / values.astype(x.dtype)
        return RunningMoments(values, mean, self.squares + off * (x - mean))

    def deviation(self) -> Float[Array, "*shape"]:
        """The standard deviation; 1 as long as there are fewer than two values."""
        enough = self.values > 1
        variance = self.squares / jnp.maximum(self.values - 1, 1).astype(self.squares.dtype)
        return jnp.where(enough, jnp.sqrt(variance + 1e-8), 1)


class Seen(NamedTuple):
    """The agent's state, the moments of observations and of discounted rewards, their sum so far, and a new start."""

    agent: Any
    observations: RunningMoments
    returns: RunningMoments
    total: Float[Array, ""]
    begins: Bool[Array, ""]


class Normalised(Agent):
    """An agent that sees observations less their mean, over their standard deviation, of all that came so far.

    Rewards are divided by the standard deviation of their running discounted sum. They keep their sign, since a mean
    that is taken off would be another task. The discount is `gamma`. Either part can be left out.

    >>> agent = rc.rl.AC(rc.RTU(n_in=2, n=8), rc.RTRL(), actions=3)
    >>> agent = rc.rl.Normalised(agent, rewards=False)
    >>> state, action = agent.act(agent.init(jax.random.key(0)), jnp.array([1e3, 1e-3]), jax.random.key(1))
    """

    agent: Agent
    observations: bool = True
    rewards: bool = True
    gamma: float = 0.99

    def __check_init__(self) -> None:
        if not isinstance(self.agent, Agent):
            raise TypeError(
                f"`agent` of Normalised must be an agent such as recurra.rl.AC, and is {self.agent!r:.100}."
            )
        checks.flag(self, "observations")
        checks.flag(self, "rewards")
        checks.in_range(self, "gamma", least=0.0, most=1.0)

    @property
    def actions(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the agent may do."""
        return self.agent.actions

    @property
    def n_in(self) -> int:
        return self.agent.n_in

    def init(self, key: PRNGKeyArray) -> Seen:
        inner = self.agent.init(key)
        dtype = self.agent.outputs(inner).dtype
        none = RunningMoments.none
        return Seen(inner, none((self.n_in,), dtype), none((), dtype), jnp.zeros((), dtype), jnp.array(True))

    def act(self, state: Seen, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Seen, PyTree[Array]]:
        # Within an episode `learn` has counted the observation already.
        x = jnp.asarray(observation).astype(state.observations.mean.dtype)
        observations = where(state.begins, state.observations.after(x), state.observations)
        inner, action = self.agent.act(state.agent, self._scaled(observations, x), key)
        return state._replace(agent=inner, observations=observations, begins=jnp.array(False)), action

    def learn(
        self,
        state: Seen,
        reward: Float[ArrayLike, ""],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Seen:
        dtype = state.observations.mean.dtype
        x, reward = jnp.asarray(observation).astype(dtype), jnp.asarray(reward).astype(dtype)
        observations, total = state.observations.after(x), self.gamma * state.total + reward
        returns = state.returns.after(total)
        given = reward / returns.deviation() if self.rewards else reward
        inner = self.agent.learn(state.agent, given, self._scaled(observations, x), terminated, truncated)
        ends = jnp.asarray(terminated) | jnp.asarray(truncated)
        return Seen(inner, observations, returns, jnp.where(ends, 0, total), ends)

    def _scaled(self, moments: RunningMoments, x: Float[Array, " n_in"]) -> Float[Array, " n_in"]:
        return (x - moments.mean) / moments.deviation() if self.observations else x

    def delta(self, state: Seen) -> Float[Array, "..."]:
        return self.agent.delta(state.agent)

    def outputs(self, state: Seen) -> Float[Array, " n_out"]:
        return self.agent.outputs(state.agent)

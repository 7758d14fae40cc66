"""Agents as pure functions, which learn at every step and from nothing but this step.

    init     key                                                        ->  state
    act      state, observation, key                                    ->  state, action
    learn    state, reward, observation, terminated, truncated          ->  state

`act` takes the network to the observation and chooses. `learn` is told what came of it: the reward, the observation
after the action, and whether the episode is over. With V(t) the network's value of observation t, all agents learn from
an error of one step, and traces carry it back to what led there:

    δ(t) = r(t+1) + γ V(t+1) - V(t)                   V(t+1) = 0 where the episode terminated

A truncated episode was cut off by a clock, and would have gone on: it counts V(t+1). After either kind of end, traces
are zero, and the next `act` sets back the state of the network and M. So over an episode, with weights held, the
updates add up to those towards the λ-return.

All functions work in `jax.jit`, `jax.vmap` and `jax.lax.scan`, and one row at a time.
"""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell
from recurra.linalg import zeros_like
from recurra.rl.actions import Actions, Discrete, actions_of
from recurra.rl.approximator import Approximator, Followed
from recurra.step.adam import Adam
from recurra.step.optimizers import Optimizer, checked_optimizer


class Living(NamedTuple):
    """The network of an agent, its latest outputs and action, the latest δ, and whether a new episode begins.

    `own` is what a single kind of agent keeps beside that.
    """

    net: Followed
    outputs: Float[Array, " n_out"]
    action: PyTree[Array]
    delta: Float[Array, "..."]
    begins: Bool[Array, ""]
    own: PyTree = None


class Agent(checks.Part):
    """An agent. Its fields are settings; what changes is in the state that its functions pass on.

    >>> issubclass(rc.rl.AC, rc.rl.Agent)
    True
    """

    actions: eqx.AbstractVar[Actions | None]

    def __hash__(self) -> int:
        # `jax.jit(agent.act)` keeps what it compiled by this; the generated hash would stumble over a head's arrays.
        return hash(jax.tree.structure(self))

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray) -> Any:
        """The state before the first step."""

    @abc.abstractmethod
    def act(self, state: Any, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Any, PyTree[Array]]:
        """Take in an observation, which is the first of an episode if the last one ended, and choose an action."""

    @abc.abstractmethod
    def learn(
        self,
        state: Any,
        reward: Float[ArrayLike, "..."],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Any:
        """Take in what came of the action. After the end of an episode, `observation` is its last one."""

    @property
    @abc.abstractmethod
    def n_in(self) -> int:
        """How many numbers an observation has."""

    @abc.abstractmethod
    def delta(self, state: Any) -> Float[Array, "..."]:
        """The error δ of the latest `learn`."""

    @abc.abstractmethod
    def outputs(self, state: Any) -> Float[Array, " n_out"]:
        """What the network made of the latest observation: values, or a value and what the policy is made of."""


class NetworkAgent(Agent):
    """What agents with one network have in common."""

    cell: eqx.AbstractVar[Cell]
    learner: eqx.AbstractVar[Any]
    optimizer: eqx.AbstractVar[Optimizer]
    head: eqx.AbstractVar[Any]
    lamda: eqx.AbstractVar[float]

    @property
    @abc.abstractmethod
    def _sizes(self) -> tuple[int, tuple[int, ...]]:
        """How many outputs the network has, and the shape of δ. There is a trace for each δ."""

    @property
    def network(self) -> Approximator:
        """The network with its learner, traces and optimizer."""
        n_out, deltas = self._sizes
        return Approximator(self.cell, self.learner, n_out, self.optimizer, self.head, math.prod(deltas))

    def _first(self, key: PRNGKeyArray, action: PyTree[Array], own: PyTree = None) -> Living:
        outputs, delta = (jnp.zeros(shape, self.cell.dtype) for shape in self._sizes)
        return Living(self.network.init(key), outputs, action, delta, jnp.array(True), own)

    def _look(self, state: Living, observation: Float[Array, " n_in"]) -> Living:
        net, outputs = self.network.observe(state.net, observation, state.begins)
        return state._replace(net=net, outputs=outputs, begins=jnp.array(False))

    def _after(self, state: Living, e: Array, keep: Any, delta: Array, terminated: Any, truncated: Any) -> Living:
        """The state after a step of learning. Where there are several traces, each array has an axis over them."""
        ends = jnp.asarray(terminated) | jnp.asarray(truncated)
        of_traces = jnp.atleast_2d(e), jnp.atleast_1d(jnp.asarray(keep, e.dtype)), jnp.atleast_1d(delta)
        return state._replace(net=self.network.learn(state.net, *of_traces, ends), delta=delta, begins=ends)

    @property
    def n_in(self) -> int:
        return self.cell.n_in

    def delta(self, state: Living) -> Float[Array, "..."]:
        return state.delta

    def outputs(self, state: Living) -> Float[Array, " n_out"]:
        return state.outputs


def _check(agent: Any) -> None:
    """Raise unless rates of decay lie between 0 and 1, and the parts fit each other."""
    for name in ("gamma", "lamda"):
        checks.in_range(agent, name, least=0.0, most=1.0)
    _ = agent.network  # which refuses parts that do not fit


def _error(reward: Any, gamma: Any, now: Array, then: Array, terminated: Any) -> Float[Array, "..."]:
    """δ = r + γ V(t+1) - V(t)."""
    reward = jnp.asarray(reward).astype(now.dtype)
    return reward + jnp.asarray(gamma, now.dtype) * jnp.where(terminated, 0, then) - now


class AC(NetworkAgent):
    """AC(λ): an actor and a critic, which are outputs of one network and learn along one trace.

    The derivatives of the value and of log π of the action join the trace together. With `entropy` the derivative of
    the policy's entropy joins too, with the sign of δ, as Elsayed et al. (2024) have it: it always pulls towards an
    undecided policy.

    >>> agent = rc.rl.AC(rc.RTU(n_in=2, n=8), rc.RTRL(), actions=3)
    >>> state, action = agent.act(agent.init(jax.random.key(0)), jnp.ones(2), jax.random.key(1))
    >>> state = agent.learn(state, 1.0, jnp.zeros(2), terminated=False)
    """

    cell: Cell
    learner: Any
    actions: Actions = eqx.field(converter=actions_of)
    optimizer: Optimizer = eqx.field(default_factory=Adam, converter=checked_optimizer)
    head: Any = None
    gamma: float = 0.99
    lamda: float = 0.8
    entropy: float = 0.01

    def __check_init__(self) -> None:
        checks.in_range(self, "entropy", least=0.0)
        _check(self)

    @property
    def _sizes(self) -> tuple[int, tuple[int, ...]]:
        return 1 + self.actions.n_out, ()

    def init(self, key: PRNGKeyArray) -> Living:
        policy = jnp.zeros(self.actions.n_out, self.cell.dtype)
        return self._first(key, zeros_like(jax.eval_shape(self.actions.sample, policy, key)))

    def act(self, state: Living, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Living, Array]:
        state = self._look(state, observation)
        action = self.actions.sample(state.outputs[1:], key)
        return state._replace(action=action), self.actions.sent(action)

    def learn(
        self,
        state: Living,
        reward: Float[ArrayLike, ""],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Living:
        value, policy = state.outputs[0], state.outputs[1:]
        delta = _error(reward, self.gamma, value, self.network.outputs_at(state.net, observation)[0], terminated)

        def judged(policy: Array) -> Array:
            likely = self.actions.log_probability(policy, state.action)
            return likely + self.entropy * jnp.sign(delta) * self.actions.entropy(policy)

        e = jnp.concatenate([jnp.ones_like(value)[None], jax.grad(judged)(policy)])
        return self._after(state, e, self.gamma * self.lamda, delta, terminated, truncated)


class Q(NetworkAgent):
    """Q(λ) as Watkins has it: the value of the best next action is learned, whatever the agent does.

    A trace is cut where an action was not the best, since what follows it says nothing of the best ones. With the
    probability `epsilon` an action is drawn at random. Over the first `explore` steps this probability falls from 1.

    >>> agent = rc.rl.Q(rc.GRU(n_in=2, n=8), rc.SnAp1(), actions=3, epsilon=0.1)
    >>> state, action = agent.act(agent.init(jax.random.key(0)), jnp.ones(2), jax.random.key(1))
    >>> state = agent.learn(state, 1.0, jnp.zeros(2), terminated=False)
    """

    cell: Cell
    learner: Any
    actions: Any = eqx.field(converter=actions_of)  # a `Discrete`
    optimizer: Optimizer = eqx.field(default_factory=Adam, converter=checked_optimizer)
    head: Any = None
    gamma: float = 0.99
    lamda: float = 0.8
    epsilon: float = 0.05
    explore: int = 0

    def __check_init__(self) -> None:
        _check_values(self)
        _check(self)

    @property
    def _sizes(self) -> tuple[int, tuple[int, ...]]:
        return self.actions.n, ()

    def init(self, key: PRNGKeyArray) -> Living:
        zero = jnp.zeros((), "int32")
        return self._first(key, zero, zero)  # its own: the steps so far

    def act(self, state: Living, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Living, Array]:
        state = self._look(state, observation)
        action = _nearly_best(self, state.outputs, state.own, key)
        return state._replace(action=action), action

    def learn(
        self,
        state: Living,
        reward: Float[ArrayLike, ""],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Living:
        q, then = state.outputs, self.network.outputs_at(state.net, observation).max()
        delta = _error(reward, self.gamma, q[state.action], then, terminated)
        keep = jnp.where(state.action == _best(q), self.gamma * self.lamda, 0.0)
        e = jax.nn.one_hot(state.action, self.actions.n, dtype=q.dtype)
        return self._after(state, e, keep, delta, terminated, truncated)._replace(own=state.own + 1)


class NextChoice(NamedTuple):
    """The steps so far, the key of the next choice, and the action that was chosen for the next step."""

    steps: Array
    key: PRNGKeyArray
    action: Array


class SARSA(NetworkAgent):
    """SARSA(λ): the value of what the agent does itself is learned. The next action is chosen before it learns.

    With the probability `epsilon` an action is drawn at random. Over the first `explore` steps this probability falls
    from 1.

    >>> agent = rc.rl.SARSA(rc.GRU(n_in=2, n=8), rc.SnAp1(), actions=3, epsilon=0.1)
    >>> state, action = agent.act(agent.init(jax.random.key(0)), jnp.ones(2), jax.random.key(1))
    >>> state = agent.learn(state, 1.0, jnp.zeros(2), terminated=False)
    """

    cell: Cell
    learner: Any
    actions: Any = eqx.field(converter=actions_of)  # a `Discrete`
    optimizer: Optimizer = eqx.field(default_factory=Adam, converter=checked_optimizer)
    head: Any = None
    gamma: float = 0.99
    lamda: float = 0.8
    epsilon: float = 0.05
    explore: int = 0

    def __check_init__(self) -> None:
        _check_values(self)
        _check(self)

    @property
    def _sizes(self) -> tuple[int, tuple[int, ...]]:
        return self.actions.n, ()

    def init(self, key: PRNGKeyArray) -> Living:
        zero = jnp.zeros((), "int32")
        return self._first(key, zero, NextChoice(zero, jax.random.fold_in(key, 1), zero))

    def act(self, state: Living, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Living, Array]:
        begins, own = state.begins, state.own
        state = self._look(state, observation)
        key, later = jax.random.split(key)
        action = jnp.where(begins, _nearly_best(self, state.outputs, own.steps, key), own.action)
        return state._replace(action=action, own=own._replace(key=later)), action

    def learn(
        self,
        state: Living,
        reward: Float[ArrayLike, ""],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Living:
        q, then, own = state.outputs, self.network.outputs_at(state.net, observation), state.own
        steps = own.steps + 1
        chosen = _nearly_best(self, then, steps, own.key)
        delta = _error(reward, self.gamma, q[state.action], then[chosen], terminated)
        e = jax.nn.one_hot(state.action, self.actions.n, dtype=q.dtype)
        after = self._after(state, e, self.gamma * self.lamda, delta, terminated, truncated)
        return after._replace(own=NextChoice(steps, own.key, chosen))


def _check_values(agent: Any) -> None:
    """Raise unless an agent that learns values of actions has discrete ones, and rates of exploring that make sense."""
    if not isinstance(agent.actions, Discrete):
        raise TypeError(
            f"{type(agent).__name__} learns a value for each action, so they must be discrete, and `actions` is "
            f"{agent.actions!r}: use recurra.rl.AC for continuous ones."
        )
    checks.in_range(agent, "epsilon", least=0.0, most=1.0)
    checks.whole(agent, "explore", least=0)


def _best(q: Float[Array, " n"]) -> Array:
    """The first of the actions with the highest value."""
    return jnp.argmax(q).astype("int32")


def _nearly_best(agent: Any, q: Float[Array, " n"], steps: Array, key: PRNGKeyArray) -> Array:
    """The best action, or at times one drawn at random."""
    key_whether, key_which = jax.random.split(key)
    fallen = steps.astype(q.dtype) / max(agent.explore, 1)
    epsilon = jnp.maximum(agent.epsilon, 1 - fallen) if agent.explore else agent.epsilon
    is_random = jax.random.uniform(key_whether, (), q.dtype) < epsilon
    drawn = jax.random.randint(key_which, (), 0, agent.actions.n, "int32")
    return jnp.where(is_random, drawn, _best(q))


class TD(NetworkAgent):
    """TD(λ): predictions of sums of discounted rewards, one for each of several discount factors.

    Several rewards, one for each factor, make general value functions; a single one is predicted over several
    horizons. Each prediction has a trace of its own. `act` returns the predictions, which environments without actions
    take no notice of.

    >>> agent = rc.rl.TD(rc.RTU(n_in=2, n=8), rc.RTRL(), gamma=(0.5, 0.9, 0.98))
    >>> state, predictions = agent.act(agent.init(jax.random.key(0)), jnp.ones(2), jax.random.key(1))
    >>> state = agent.learn(state, 1.0, jnp.zeros(2), terminated=False)
    >>> agent.delta(state).shape
    (3,)
    """

    cell: Cell
    learner: Any
    gamma: tuple[float, ...] = eqx.field(default=(0.9,), converter=lambda g: tuple(g) if np.ndim(g) else (g,))
    optimizer: Optimizer = eqx.field(default_factory=Adam, converter=checked_optimizer)
    head: Any = None
    lamda: float = 0.9

    actions: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __check_init__(self) -> None:
        checks.in_range(self, "lamda", least=0.0, most=1.0)
        for gamma in self.gamma:
            value = checks.number(gamma)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"Each `gamma` of TD must be at least 0 and at most 1, and one of them is {value:g}.")
        _ = self.network  # which refuses parts that do not fit

    @property
    def _sizes(self) -> tuple[int, tuple[int, ...]]:
        return len(self.gamma), (len(self.gamma),)

    def init(self, key: PRNGKeyArray) -> Living:
        return self._first(key, jnp.zeros(len(self.gamma), self.cell.dtype))

    def act(self, state: Living, observation: Float[Array, " n_in"], key: PRNGKeyArray) -> tuple[Living, Array]:
        state = self._look(state, observation)
        return state._replace(action=state.outputs), state.outputs

    def learn(
        self,
        state: Living,
        reward: Float[ArrayLike, "*rewards"],
        observation: Float[Array, " n_in"],
        terminated: Bool[ArrayLike, ""],
        truncated: Bool[ArrayLike, ""] = False,
    ) -> Living:
        gamma, v = jnp.stack([jnp.asarray(g, state.outputs.dtype) for g in self.gamma]), state.outputs
        if jnp.shape(reward) not in ((), v.shape):
            raise ValueError(
                f"`reward` must be a number, or one for each of {len(v)} discount factors, and has shape "
                f"{jnp.shape(reward)}."
            )
        delta = _error(reward, gamma, v, self.network.outputs_at(state.net, observation), terminated)
        e = jnp.eye(len(v), dtype=v.dtype)
        return self._after(state, e, gamma * self.lamda, delta, terminated, truncated)

"""What an agent may do: one of several actions, or numbers; and the policies that a network's outputs stand for."""

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks


class Actions(checks.Part):
    """The actions of an environment. A policy over them is made of `n_out` outputs of a network.

    >>> [actions.n_out for actions in (rc.rl.Discrete(3), rc.rl.Continuous(2))]
    [3, 4]
    """

    @property
    @abc.abstractmethod
    def n_out(self) -> int:
        """How many outputs a policy is made of."""

    @abc.abstractmethod
    def sample(self, outputs: Float[Array, " n_out"], key: PRNGKeyArray) -> Array:
        """An action drawn from the policy."""

    @abc.abstractmethod
    def log_probability(self, outputs: Float[Array, " n_out"], action: Array) -> Float[Array, ""]:
        """The logarithm of the probability, or of its density, of an action."""

    @abc.abstractmethod
    def entropy(self, outputs: Float[Array, " n_out"]) -> Float[Array, ""]:
        """How undecided the policy is."""

    def sent(self, action: Array) -> Array:
        """What the environment gets of an action."""
        return action


class Discrete(Actions):
    """The actions 0 to n-1. The outputs are logits.

    >>> actions = rc.rl.Discrete(3)
    >>> int(actions.sample(jnp.array([0.0, 50.0, 0.0]), jax.random.key(0)))
    1
    """

    n: int

    def __check_init__(self) -> None:
        checks.whole(self, "n")

    @property
    def n_out(self) -> int:
        return self.n

    def sample(self, outputs: Float[Array, " n_out"], key: PRNGKeyArray) -> Array:
        return jax.random.categorical(key, outputs).astype("int32")

    def log_probability(self, outputs: Float[Array, " n_out"], action: Array) -> Float[Array, ""]:
        return jax.nn.log_softmax(outputs)[action]

    def entropy(self, outputs: Float[Array, " n_out"]) -> Float[Array, ""]:
        return -jnp.sum(jax.nn.softmax(outputs) * jax.nn.log_softmax(outputs))


class Continuous(Actions):
    """Vectors of n numbers. The policy is Gaussian, with n means and n standard deviations softplus(outputs).

    The environment gets the numbers clipped to `low` and `high`, each a number for all or one for each.

    >>> actions = rc.rl.Continuous(2, low=-1.0, high=1.0)
    >>> actions.n_out, actions.sent(jnp.array([3.0, -0.5])).tolist()
    (4, [1.0, -0.5])
    """

    n: int
    low: Any = -math.inf
    high: Any = math.inf

    def __check_init__(self) -> None:
        checks.whole(self, "n")
        for name in ("low", "high"):
            bound = jnp.asarray(getattr(self, name))
            if bound.shape not in ((), (self.n,)) or bool(jnp.isnan(bound).any()):
                raise ValueError(f"`{name}` of Continuous must be a number, or {self.n} of them, and is {bound}.")
        if not bool(jnp.all(jnp.asarray(self.low) < jnp.asarray(self.high))):
            raise ValueError(f"`low` of Continuous must be below `high`, and they are {self.low} and {self.high}.")

    @property
    def n_out(self) -> int:
        return 2 * self.n

    def _parts(self, outputs: Float[Array, " n_out"]) -> tuple[Array, Array]:
        """Means and standard deviations."""
        mean, spread = jnp.split(outputs, 2)
        return mean, jax.nn.softplus(spread) + 1e-5

    def sample(self, outputs: Float[Array, " n_out"], key: PRNGKeyArray) -> Array:
        mean, deviation = self._parts(outputs)
        return mean + deviation * jax.random.normal(key, mean.shape, mean.dtype)

    def log_probability(self, outputs: Float[Array, " n_out"], action: Array) -> Float[Array, ""]:
        mean, deviation = self._parts(outputs)
        return jnp.sum(jax.scipy.stats.norm.logpdf(action, mean, deviation))

    def entropy(self, outputs: Float[Array, " n_out"]) -> Float[Array, ""]:
        return jnp.sum(jnp.log(self._parts(outputs)[1])) + self.n * 0.5 * math.log(2 * math.pi * math.e)

    def sent(self, action: Array) -> Array:
        bound = lambda value: jnp.asarray(value, action.dtype)
        return jnp.clip(action, bound(self.low), bound(self.high))


def actions_of(given: Any) -> Actions:
    """Actions, or so many discrete ones."""
    if isinstance(given, Actions):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Discrete(given)
    raise TypeError(
        "`actions` of an agent must be recurra.rl.Discrete(n) or Continuous(n), or the number of discrete actions, and "
        f"is {given!r}."
    )

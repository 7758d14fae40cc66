"""Small tasks that need memory, with a dial for how much.

In all of them an observation that decides is gone when it is needed. So an agent without memory earns what chance
gives, and how far back an agent remembers can be read off its rewards.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.rl.actions import Actions, Discrete
from recurra.rl.environments import Environment, Transition


class Chain(NamedTuple):
    """What was shown, and the step of the episode."""

    cue: Array
    t: Array


class MemoryChain(Environment):
    """A light shines left or right at the first step. `length` steps later a bell asks for the side.

    The reward is 1 for the right answer and -1 for the other; nothing else is rewarded. An observation is (left, right,
    bell). This is the task of bsuite's "memory length" (Osband et al. 2020), without a clock among what is seen.

    >>> rc.rl.MemoryChain(length=8).actions
    Discrete(n=2)
    """

    length: int

    n_in: ClassVar[int] = 3  # pyright: ignore[reportIncompatibleMethodOverride]
    actions: ClassVar[Actions] = Discrete(2)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self) -> None:
        checks.whole(self, "length")

    def reset(self, key: PRNGKeyArray) -> tuple[Chain, Float[Array, " n_in"]]:
        state = Chain(jax.random.randint(key, (), 0, 2, "int32"), jnp.zeros((), "int32"))
        return state, self._seen(state)

    def step(self, state: Chain, action: Any, key: PRNGKeyArray) -> tuple[Chain, Transition]:
        asked = state.t == self.length
        reward = jnp.where(asked, jnp.where(action == state.cue, 1.0, -1.0), 0.0)
        after = Chain(state.cue, state.t + 1)
        return after, Transition(self._seen(after), reward, asked, jnp.array(False))

    def _seen(self, state: Chain) -> Float[Array, " n_in"]:
        first = state.t == 0
        parts = first & (state.cue == 0), first & (state.cue == 1), state.t == self.length
        return jnp.stack(parts).astype(float)


class RepeatFirst(Environment):
    """Cards are dealt for `length` steps, and at each of them the first one is to be named.

    A right answer is worth 1/`length`, a wrong one as much less. An observation has a number for each of the `suits`,
    and tells whether it is the first. As in POPGym (Morad et al. 2023).

    >>> rc.rl.RepeatFirst(length=16).n_in
    5
    """

    length: int
    suits: int = 4

    def __check_init__(self) -> None:
        checks.whole(self, "length")
        checks.whole(self, "suits", least=2)

    @property
    def n_in(self) -> int:
        return self.suits + 1

    @property
    def actions(self) -> Actions:
        return Discrete(self.suits)

    def reset(self, key: PRNGKeyArray) -> tuple[Chain, Float[Array, " n_in"]]:
        first = self._card(key)
        return Chain(first, jnp.zeros((), "int32")), self._seen(first, 1.0)

    def step(self, state: Chain, action: Any, key: PRNGKeyArray) -> tuple[Chain, Transition]:
        reward = jnp.where(action == state.cue, 1.0, -1.0) / self.length
        after = Chain(state.cue, state.t + 1)
        return after, Transition(self._seen(self._card(key), 0.0), reward, after.t == self.length, jnp.array(False))

    def _card(self, key: PRNGKeyArray) -> Array:
        return jax.random.randint(key, (), 0, self.suits, "int32")

    def _seen(self, card: Array, is_first: float) -> Float[Array, " n_in"]:
        return jnp.append(jax.nn.one_hot(card, self.suits, dtype=float), is_first)


class Dealt(NamedTuple):
    """How often each kind came so far, which kind is asked for, and the step of the episode."""

    counts: Array
    asked: Array
    t: Array


class CountRecall(Environment):
    """At each of `length` steps a card is dealt and a kind is asked for: how often did it come so far?

    An answer counts from 0 to `most`, and more is as good as `most`. A right one is worth 1/`length`, a wrong one as
    much less. An observation has a number for each kind that is dealt, and one for each that is asked for. As in
    POPGym.

    >>> rc.rl.CountRecall(length=16, kinds=2).n_in
    4
    """

    length: int
    kinds: int = 2
    most: int = 4

    def __check_init__(self) -> None:
        checks.whole(self, "length")
        checks.whole(self, "kinds", least=2)
        checks.whole(self, "most")

    @property
    def n_in(self) -> int:
        return 2 * self.kinds

    @property
    def actions(self) -> Actions:
        return Discrete(self.most + 1)

    def reset(self, key: PRNGKeyArray) -> tuple[Dealt, Float[Array, " n_in"]]:
        return self._deal(jnp.zeros(self.kinds, "int32"), jnp.zeros((), "int32"), key)

    def step(self, state: Dealt, action: Any, key: PRNGKeyArray) -> tuple[Dealt, Transition]:
        truth = jnp.minimum(state.counts[state.asked], self.most)
        reward = jnp.where(action == truth, 1.0, -1.0) / self.length
        after, seen = self._deal(state.counts, state.t + 1, key)
        return after, Transition(seen, reward, after.t == self.length, jnp.array(False))

    def _deal(self, counts: Array, t: Array, key: PRNGKeyArray) -> tuple[Dealt, Float[Array, " n_in"]]:
        card, asked = jax.random.randint(key, (2,), 0, self.kinds, "int32")
        seen = jax.nn.one_hot(jnp.stack([card, asked]), self.kinds, dtype=float)
        return Dealt(counts.at[card].add(1), asked, t), seen.ravel()


class Maze(NamedTuple):
    """On which side the reward is, 0 left and 1 right; the place in the corridor, and the age of the episode."""

    side: Array
    place: Array
    t: Array


class TMaze(Environment):
    """A light at the entrance tells on which side of the junction the reward lies, `length` places further on.

    Actions are forward, left and right. Turning to the reward is worth 1, to the other side -1, and bumping into a wall
    -0.1. An observation is (light left, light right, corridor, junction). An episode that takes longer than `patience`
    times the shortest way is truncated. After Bakker (2002).

    >>> rc.rl.TMaze(length=10).actions
    Discrete(n=3)
    """

    length: int
    patience: int = 4

    n_in: ClassVar[int] = 4  # pyright: ignore[reportIncompatibleMethodOverride]
    actions: ClassVar[Actions] = Discrete(3)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self) -> None:
        checks.whole(self, "length")
        checks.whole(self, "patience")

    def reset(self, key: PRNGKeyArray) -> tuple[Maze, Float[Array, " n_in"]]:
        zero = jnp.zeros((), "int32")
        state = Maze(jax.random.randint(key, (), 0, 2, "int32"), zero, zero)
        return state, self._seen(state)

    def step(self, state: Maze, action: Any, key: PRNGKeyArray) -> tuple[Maze, Transition]:
        junction, ahead = state.place == self.length, action == 0
        turned, right = junction & ~ahead, action == 1 + state.side
        at_wall = jnp.where(junction == ahead, -0.1, 0.0)
        reward = jnp.where(turned, jnp.where(right, 1.0, -1.0), at_wall)
        after = Maze(state.side, state.place + (ahead & ~junction).astype("int32"), state.t + 1)
        late = after.t >= self.patience * (self.length + 1)
        return after, Transition(self._seen(after), reward, turned, late & ~turned)

    def _seen(self, state: Maze) -> Float[Array, " n_in"]:
        start, end = state.place == 0, state.place == self.length
        parts = start & (state.side == 0), start & (state.side == 1), ~start & ~end, end
        return jnp.stack(parts).astype(float)


class TraceConditioning(Environment):
    """A tone, a silent trace, and then a puff of air: when will it come? There is nothing to do but to predict.

    The tone lasts `tone` steps, and the puff comes `trace` steps after its end. The next tone begins after a pause
    that is drawn from 1 to 2 times `pause`. Beside tone and puff an observation has `distractors`, which are
    on at random steps. The reward is the puff. Episodes have no end. After Rafiee et al. (2022).

    >>> rc.rl.TraceConditioning(trace=10).actions is None
    True
    """

    trace: int
    tone: int = 4
    pause: int = 40
    distractors: int = 2

    actions: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def __check_init__(self) -> None:
        checks.whole(self, "trace")
        checks.whole(self, "tone")
        checks.whole(self, "pause")
        checks.whole(self, "distractors", least=0)

    @property
    def n_in(self) -> int:
        return 2 + self.distractors

    def reset(self, key: PRNGKeyArray) -> tuple[Array, Float[Array, " n_in"]]:
        wait = self._pause(key)
        return wait, self._seen(wait, key)

    def step(self, state: Array, action: Any, key: PRNGKeyArray) -> tuple[Array, Transition]:
        # the steps to the next tone, where positive; else minus the steps since it began
        over = state <= -(self.tone + self.trace)
        after = jnp.where(over, self._pause(key), state - 1)
        seen = self._seen(after, key)
        return after, Transition(seen, seen[1], jnp.array(False), jnp.array(False))

    def expected(self, state: Array, gamma: float) -> Float[Array, ""]:
        """The sum of discounted rewards that the next puff brings, once its tone has begun; nan before."""
        left = (self.tone + self.trace + state).astype(float)
        return jnp.where((state <= 0) & (left > 0), gamma ** (left - 1), jnp.nan)

    def _pause(self, key: PRNGKeyArray) -> Array:
        return jax.random.randint(key, (), self.pause, 2 * self.pause + 1, "int32")

    def _seen(self, state: Array, key: PRNGKeyArray) -> Float[Array, " n_in"]:
        tone = (state <= 0) & (state > -self.tone)
        puff = state == -(self.tone + self.trace)
        noise = jax.random.bernoulli(jax.random.fold_in(key, 1), 0.1, (self.distractors,))
        return jnp.concatenate([jnp.stack([tone, puff]), noise]).astype(float)

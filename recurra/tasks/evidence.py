"""Evidence accumulation: on which side were more cues?"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.losses import Loss
from recurra.tasks.base import BLOCK, Rows, Task, WholeNumber
from recurra.tasks.episodes import Underway, check_classes, lay_out, none_yet, slots

#: fields that are times
TIMES = ("pause", "cue", "delay", "decision")


class Evidence(Task):
    """Cues on the left or the right, a delay, and a decision: on which side were more of them?

    It is the task of Bellec et al. (2020), after experiments with mice (Morcos & Harvey 2016, Engelhard et al. 2019).
    An episode has `cues`, each a `pause` and then a `cue`, then the `delay`, then the `decision`. Times are in
    milliseconds, and a step takes `dt` of them: with dt=10 an episode has 225 steps in place of 2250. Times that are
    not whole steps, and an even number of cues, are a ValueError.

    Four populations of `neurons` spike independently, `rate` times a second on average: the first during cues on the
    left, the second during cues on the right, the third during the decision, and the fourth all the time with the rate
    `noise`. In each episode one side is the likely one, and each cue comes on it with probability `bias`.

    Only steps of the decision have a label, [left, right]. Before the cues it is either with equal probability, so no
    answer that knows nothing of them has a mean loss below log 2. With `reset` the network is set back to its first
    state before every episode.

    >>> task = rc.Evidence(dt=10)
    >>> task.n_in, task.n_out, task.steps
    (40, 2, 225)
    """

    cues: int = 7
    cue: WholeNumber = 100
    pause: WholeNumber = 50
    delay: WholeNumber = 1050
    decision: WholeNumber = 150
    neurons: int = 10
    rate: float | Float[Array, ""] = 40.0
    noise: float | Float[Array, ""] = 10.0
    bias: float | Float[Array, ""] = 0.7
    dt: WholeNumber = 1
    reset: bool = True
    #: episodes that are drawn for a block
    slots: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        for name in ("cues", "neurons", "dt"):
            checks.whole(self, name)
        for name in TIMES:
            checks.whole(self, name, least=int(name in ("cue", "decision")))
            if getattr(self, name) % self.dt:
                raise ValueError(
                    f"`{name}` of Evidence must be whole steps of `dt`, and is {getattr(self, name)} ms with steps of "
                    f"{self.dt} ms."
                )
        if self.cues % 2 == 0:
            raise ValueError(f"`cues` of Evidence must be odd, so that one side has more, and is {self.cues}.")
        for name in ("rate", "noise"):
            checks.in_range(self, name, least=0.0, most=1000 / int(self.dt))  # a spike at every step, at most
        checks.in_range(self, "bias", least=0.0, most=1.0)
        checks.flag(self, "reset")
        self.slots = slots(self, int(self.steps), int(self.steps))

    @property
    def n_in(self) -> int:
        return 4 * self.neurons

    @property
    def n_out(self) -> int:
        return 2

    @property
    def steps(self) -> WholeNumber:
        """The number of steps in an episode."""
        return (self.cues * (self.pause + self.cue) + self.delay + self.decision) // self.dt

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_classes(self, loss)

    def traced(self) -> Task:
        times = lambda task: [getattr(task, name) for name in (*TIMES, "dt")]
        return eqx.tree_at(times, self, [jnp.asarray(time, "int32") for time in times(self)])

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Underway:
        return none_yet(jnp.zeros(self.cues, bool))

    def block(
        self, state: Underway, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Underway]:
        key_side, key_cues, key_spikes = jax.random.split(key, 3)
        # In single precision whatever the network has, so that all see the same spikes.
        uniform = lambda key, *shape: jax.random.uniform(key, shape, "float32")
        side = uniform(key_side, self.slots, 1) < 0.5
        right = side == (uniform(key_cues, self.slots, self.cues) < jnp.asarray(self.bias, "float32"))
        right, t, state = lay_out(state, right, self.steps)
        deciding = t >= self.steps - self.decision // self.dt
        chance = self._rates(right, t, deciding) * jnp.asarray(self.dt, "float32") / 1000
        spikes = uniform(key_spikes, BLOCK, 4, self.neurons) < chance[..., None]
        more = (2 * jnp.sum(right, axis=1, dtype="int32") > self.cues).astype(dtype)
        label = jnp.where(deciding[:, None], jnp.stack([1 - more, more], axis=1), 0)
        x = spikes.reshape(BLOCK, self.n_in).astype(dtype)
        return Rows(x, label, deciding, t == 0 if self.reset else None), state

    def _rates(
        self, right: Bool[Array, "steps cues"], t: Int[Array, " steps"], deciding: Bool[Array, " steps"]
    ) -> Float[Array, "steps 4"]:
        """Spikes per second of each population."""
        interval = (self.pause + self.cue) // self.dt
        which = t // interval
        is_cue = (which < self.cues) & (t % interval >= self.pause // self.dt)
        is_right = jnp.take_along_axis(right, which[:, None], axis=1, mode="clip")[:, 0]
        fires = jnp.stack([is_cue & ~is_right, is_cue & is_right, deciding], axis=1)
        heard = jnp.where(fires, jnp.asarray(self.rate, "float32"), 0)
        return jnp.concatenate([heard, jnp.broadcast_to(jnp.asarray(self.noise, "float32"), (BLOCK, 1))], axis=1)

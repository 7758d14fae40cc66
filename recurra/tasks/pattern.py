"""Pattern generation: a periodic signal, out of input spikes that are the same in every period."""

import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from recurra import checks
from recurra.losses import Loss, SquaredError
from recurra.tasks.base import BLOCK, Rows, Task
from recurra.tasks.episodes import MOST_STEPS, check_labels

#: cycles of the sinusoids in a period
CYCLES = (1, 2, 3, 5)


class Signal(NamedTuple):
    """Amplitude and phase of every sinusoid, the seed of the input spikes, and the next step in the period."""

    amplitude: Float[Array, "outputs cycles"]
    phase: Float[Array, "outputs cycles"]
    seed: UInt32[Array, ""]
    t: Int[Array, ""]


class Pattern(Task):
    """Labels are sums of sinusoids with 1, 2, 3 and 5 cycles in a `period`; inputs are random, but the same in each.

    It is the task of Bellec et al. (2020), with the inputs of their tutorial. A period is a second. Amplitudes come
    from [0.5, 2] and phases from [0, 2π], once for a run. Each label is scaled so that its largest absolute value is 1.
    An input spikes `rate` times a second on average. There is no noise, and nothing to remember but the place in the
    period. With `reset` the network is set back to its first state before every period.

    Streams show the same signal, but start at different places of it. Losses of probabilities are refused by `train`
    with a ValueError.

    >>> task = rc.Pattern(period=500, inputs=20)
    >>> task.n_in, task.n_out
    (20, 1)
    """

    default_loss: ClassVar[type[Loss]] = SquaredError

    period: int = 1000
    inputs: int = 100
    outputs: int = 1
    rate: float | Float[Array, ""] = 50.0
    reset: bool = True

    def __check_init__(self) -> None:
        checks.whole(self, "period", least=2 * max(CYCLES) + 1)  # with fewer steps the cycles could not be told apart
        for name in ("inputs", "outputs"):
            checks.whole(self, name)
        checks.flag(self, "reset")
        if self.period > MOST_STEPS:
            raise ValueError(f"`period` of Pattern must be at most {MOST_STEPS:,}, and is {self.period:,}.")
        checks.in_range(self, "rate", least=0.0, most=float(self.period))  # a spike at every step, at most

    @property
    def n_in(self) -> int:
        return self.inputs

    @property
    def n_out(self) -> int:
        return self.outputs

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_labels(self, loss, np.full((1, self.outputs), -1.0), "numbers between -1 and 1", "SquaredError")

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Signal:
        key_amplitude, key_phase, key_seed = jax.random.split(key, 3)
        shape = self.outputs, len(CYCLES)
        amplitude = jax.random.uniform(key_amplitude, shape, "float32", 0.5, 2)
        phase = jax.random.uniform(key_phase, shape, "float32", 0, 2 * np.pi)
        every = self._labels(amplitude, phase, jnp.arange(self.period, dtype="int32"))
        seed = jax.random.bits(key_seed, (), "uint32")
        return Signal(amplitude / jnp.max(jnp.abs(every), axis=0)[:, None], phase, seed, jnp.zeros((), "int32"))

    def in_stream(self, state: Signal, stream: Int[Array, ""]) -> Signal:
        # About a golden section from one stream to the next: however many there are, they start far from each other.
        # With no common divisor no two start together, unless there are more streams than steps.
        golden = math.floor(0.618 * self.period)
        shift = next(shift for shift in range(golden, self.period + 2) if math.gcd(shift, self.period) == 1)
        return state._replace(t=stream * shift % self.period)

    def block(self, state: Signal, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype) -> tuple[Rows, Signal]:
        t = (state.t + jnp.arange(BLOCK + 1, dtype="int32")) % self.period
        t, after = t[:-1], t[-1]
        # A step of the period has a key of its own, so that nobody need hold all spikes.
        spikes = jax.random.key(state.seed)
        drawn = lambda step: jax.random.uniform(jax.random.fold_in(spikes, step), (self.inputs,), "float32")
        x = jax.vmap(drawn)(t) < jnp.asarray(self.rate, "float32") / self.period
        labels = self._labels(state.amplitude, state.phase, t).astype(dtype)
        return Rows(x.astype(dtype), labels, None, t == 0 if self.reset else None), state._replace(t=after)

    def _labels(
        self, amplitude: Float[Array, "outputs cycles"], phase: Float[Array, "outputs cycles"], t: Int[Array, " steps"]
    ) -> Float[Array, "steps outputs"]:
        # Whole turns are taken off while they are whole numbers, so that nothing is lost late in a long period.
        turns = (t[:, None] * jnp.array(CYCLES, "int32")[None] % self.period).astype("float32") / self.period
        angle = 2 * np.pi * turns[:, None] + phase[None]
        return jnp.sum(amplitude[None] * jnp.sin(angle), axis=-1)

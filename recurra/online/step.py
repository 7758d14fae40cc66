"""One row of a stream: what is prepared before the network sees it, and what becomes of its label.

The core of online models as pure functions, `init`, `observe` and `learn`. They can be compiled, vmapped and looped
over like the step of learning that they stand on. What they add to it comes from the past alone: running
standardisation, lagged inputs, targets as differences, labels that arrive late, and random numbers that follow from the
state.

Running statistics change, and what the readout predicts must not. Least squares are linear in the target, and
indifferent to units of their inputs. So their readout becomes, exactly, what it would be if the past had been in the
new units from the start.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from recurra import checks
from recurra.engine.experiment import Keys
from recurra.linalg import decomposable
from recurra.network import NetworkWeights, Readout
from recurra.step import RLS, DelayedState, DelayedStep, GivenCredit, GivenError, LearningStep, Outcome
from recurra.step.counting import check_endless
from recurra.step.given import check_flag, check_label, check_row, check_target
from recurra.step.optimizers import Described
from recurra.tasks.base import BLOCK

#: Standardised inputs are cut off at so many standard deviations.
FAR = 10.0


class Running(NamedTuple):
    """A mean and a variance over the last rows.

    Plain averages until `memory` rows have come, which is why `rows` are counted: exponential averages would need no
    count, but would be biased at the start.
    """

    rows: Float[Array, ""]
    mean: Float[Array, " columns"]
    variance: Float[Array, " columns"]


def nothing_seen(columns: int, dtype: jnp.dtype) -> Running:
    """Before the first row."""
    return Running(jnp.zeros((), dtype), jnp.zeros(columns, dtype), jnp.zeros(columns, dtype))


def seen(before: Running, x: Float[Array, " columns"], memory: int, counts: Bool[Array, ""] | bool = True) -> Running:
    """With one more row, if it counts. After `memory` rows the weight of the past falls exponentially."""
    count = jnp.minimum(before.rows + jnp.where(counts, 1, 0).astype(x.dtype), float(memory))
    share = jnp.where(counts, 1 / jnp.maximum(count, 1), 0)
    away = jnp.where(counts, x - before.mean, 0)
    mean = before.mean + share * away
    variance = before.variance + share * (away * (x - mean) - before.variance)
    return Running(count, mean, jnp.where(counts, variance, before.variance))


def standardised(stats: Running, x: Float[Array, "*rows columns"]) -> Float[Array, "*rows columns"]:
    """x with mean 0 and variance 1; 0 where nothing has varied yet."""
    varies = stats.variance > 0
    away = (x - stats.mean) / jnp.sqrt(jnp.where(varies, stats.variance, 1))
    return jnp.where(varies, jnp.clip(away, -FAR, FAR), 0)


#: An output z means shift + scale · z.
Units = tuple[Float[Array, " n_out"], Float[Array, " n_out"]]


def of_target(readout: Readout, before: Units, after: Units) -> Readout:
    """The readout for another shift and scale of the target."""
    ratio = before[1] / after[1]
    V = None if readout.V is None else readout.V * ratio[:, None]
    b = readout.b * ratio + (before[0] - after[0]) / after[1]
    return Readout(readout.W * ratio[:, None], b, V)


def change(before: Running, after: Running) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
    """r and c, with which an input x in the old units is r x + c in the new ones."""
    known = (before.variance > 0) & (after.variance > 0)
    old, new = (jnp.sqrt(jnp.where(known, stats.variance, 1)) for stats in (before, after))
    return old / new, jnp.where(known, (before.mean - after.mean) / new, 0)


def of_inputs(
    readout: Readout, S: Float[Array, "u u"] | None, r: Float[Array, " n_in"], c: Float[Array, " n_in"]
) -> tuple[Readout, Float[Array, "u u"] | None]:
    """The readout, and the square root S of `RLS`, for inputs r x + c in the place of x."""
    assert readout.V is not None
    V = readout.V / r
    readout = Readout(readout.W, readout.b - V @ c, V)
    if S is None:
        return readout, None
    first = S.shape[0] - len(r)  # after 1 and the state come the inputs
    of_x = S[first:] / r.astype(S.dtype)[:, None]
    of_one = S[:1] - (c.astype(S.dtype) @ of_x)[None]
    return readout, jnp.concatenate([of_one, S[1:first], of_x])


class Noise(NamedTuple):
    """The random numbers of the present block of steps, and where the next come from."""

    rows: dict[str, PyTree[Array]]
    key: UInt32[Array, " words"]
    block: UInt32[Array, ""]
    slot: Int[Array, ""]


def first_noise(step: LearningStep, key: PRNGKeyArray) -> Noise:
    """Before the first step."""
    zero = jnp.zeros((), "uint32")
    return Noise(_drawn(step, key, zero), jax.random.key_data(key), zero, jnp.zeros((), "int32"))


def next_noise(step: LearningStep, noise: Noise) -> tuple[dict[str, PyTree[Array]], Noise]:
    """The random numbers of this step, and of what comes after it."""
    if not jax.tree.leaves(noise.rows):
        return noise.rows, noise
    now = jax.tree.map(lambda rows: rows[noise.slot], noise.rows)
    is_over = noise.slot + 1 == BLOCK
    block = noise.block + is_over.astype("uint32")
    draw = lambda: _drawn(step, jax.random.wrap_key_data(noise.key), block)
    rows = jax.lax.cond(is_over, draw, lambda: noise.rows)
    return now, Noise(rows, noise.key, block, jnp.where(is_over, 0, noise.slot + 1))


def _drawn(step: LearningStep, key: PRNGKeyArray, block: UInt32[Array, ""]) -> dict[str, PyTree[Array]]:
    draw = lambda name, own: step.noise_of(name, jax.random.fold_in(own, block), BLOCK)
    return {name: draw(name, own) for name, own in step.own_keys(key).items()}


#: A prediction deviates at most so many times as far as any label has.
BEYOND = 1.5


class OnlineState(NamedTuple):
    """Everything that goes from one row to the next. What is not used is None.

    `inputs` are running statistics of the raw inputs, `past` their latest rows, newest first. `target` are statistics
    of the labels, or of their differences; `reach` is the largest deviation of a label so far, and `last` the latest
    one.
    """

    delayed: DelayedState
    inputs: Running | None
    past: Float[Array, "*streams lags lagged"] | None
    target: Running | None
    reach: Float[Array, "*streams n_out"] | None
    last: Float[Array, "*streams n_out"] | None
    started: Bool[Array, ""]
    noise: Noise


class OnlineStep(checks.Part):
    """A step of learning for raw data as they arrive.

    With `horizon` h ≥ 1 the label of a row is the target's value h rows later. With h = 0 it is the label of the row
    itself, and arrives after the prediction.

    The network sees the row x(t), and with `lags` > 1 also the first `lagged` columns of the latest rows, down to
    x(t - lags + 1). `scale_inputs` and `scale_target` standardise by running statistics over the last `memory` rows.
    With `difference` the network predicts by how much the target will differ from its latest known value.

    Where inputs are scaled, the first `warmup` rows only tell their scale. The network sees them, and learns nothing
    yet. A `learning` with too few inputs for the lags is a ValueError.

    With `resets` a row may begin a sequence. The network is then set back to its first state before the row, its lags
    begin anew, and no learner lets anything pass. Scales go on. A label that comes `horizon` rows after its row does
    not count if a sequence begins in between. `difference` cannot be had at the same time, since at the beginning of a
    sequence no value of its target is known.

    >>> rc.OnlineStep(rc.forecaster(n_in=1).step.learning, horizon=3, lags=24, lagged=1).n_in
    1
    """

    learning: LearningStep
    horizon: int = 0
    lags: int = 1
    lagged: int = 0
    scale_inputs: bool = True
    scale_target: bool = True
    difference: bool = False
    memory: int = 100_000
    warmup: int = 20
    resets: bool = False

    def __check_init__(self) -> None:
        checks.whole(self, "horizon", least=0)
        checks.whole(self, "lags")
        checks.whole(self, "lagged", least=0)
        checks.whole(self, "memory", least=2)
        checks.whole(self, "warmup", least=0)
        for name in ("scale_inputs", "scale_target", "difference", "resets"):
            checks.flag(self, name)
        if self.resets and self.difference:
            raise ValueError(
                "`difference` adds the latest value of the target, and with `resets` a sequence begins without one: "
                "leave one of them out."
            )
        if not isinstance(self.learning, LearningStep):
            raise TypeError(f"`learning` must be a recurra.LearningStep, and is {self.learning!r}.")
        check_endless(self.learning.learners)
        if self.n_in < max(self.lagged, 1):
            raise ValueError(
                f"The network has {self.learning.network.cell.n_in} inputs, which is too few for {self.lags} lags of "
                f"{self.lagged} columns: it needs (lags - 1) · lagged more than there are columns."
            )

    @property
    def n_in(self) -> int:
        """How many numbers a row has."""
        return self.learning.network.cell.n_in - (self.lags - 1) * self.lagged

    @property
    def n_out(self) -> int:
        """How many numbers a label has."""
        return self.learning.network.n_out

    @property
    def traced(self) -> "OnlineStep":
        """The same step with its numbers as arrays, so that another value compiles nothing anew."""
        dtype = self.learning.network.cell.dtype

        def in_arrays(part: Any) -> Any:
            # 0.999 needs more digits than short numbers have.
            kind = decomposable(dtype) if isinstance(part, Described | RLS) else dtype
            return jax.tree.map(lambda leaf: jnp.asarray(leaf, kind) if isinstance(leaf, float) else leaf, part)

        return jax.tree.map(in_arrays, self, is_leaf=lambda part: isinstance(part, Described | RLS))

    @property
    def queue(self) -> DelayedStep:
        """The step with its labels late."""
        return DelayedStep(self.learning, max(self.horizon, 1))

    def init(self, key: PRNGKeyArray, weights: NetworkWeights | None = None) -> OnlineState:
        """The state before the first row. The same key gives the same weights and random numbers as in `train`."""
        step, dtype = self.learning, self.learning.network.cell.dtype
        keys = Keys(*jax.random.split(key, len(Keys._fields)))
        weights = step.first_weights(keys.weights) if weights is None else weights
        learning = step.start_from(weights, keys.learners, gaps=True, resets=self.resets)
        wide = step.in_every_stream
        has_past = self.lags > 1 and self.lagged
        last = wide(jnp.zeros(self.n_out, dtype)) if self.difference else None
        return OnlineState(
            self.queue.start(learning, last),
            wide(nothing_seen(self.n_in, dtype)) if self.scale_inputs else None,
            wide(jnp.zeros((self.lags - 1, self.lagged), dtype)) if has_past else None,
            wide(nothing_seen(self.n_out, dtype)) if self.scale_target else None,
            wide(jnp.zeros(self.n_out, dtype)) if self.scale_target else None,
            last,
            jnp.zeros((), bool),
            first_noise(step, keys.noise),
        )

    def observe(
        self, state: OnlineState, x: Float[Array, "*streams n_in"], reset: Bool[Array, "*streams"] | None = None
    ) -> tuple[OnlineState, Float[Array, "*streams n_out"]]:
        """A row arrives; where `reset` is true, it begins a sequence. Returns the next state and the prediction.

        A row of another shape is a ValueError.
        """
        reset = self._flags(reset)
        check_row(self.n_in, self.learning.streams, x)
        wide = self.learning.over_streams
        before, past = state.inputs, state.past
        stats = before
        if before is not None:
            stats = wide(lambda stats, x: seen(stats, x, self.memory))(before, x)
            state = state._replace(delayed=self._in_new_inputs(state.delayed, before, stats))
        heard = x if stats is None else wide(standardised)(stats, x)
        if past is not None:
            now = x[..., None, : self.lagged]
            goes_on = state.started if reset is None else (state.started & ~reset)[..., None, None]
            past = jnp.where(goes_on, past, now)  # before the first row all was as it is now
            of_past = past if stats is None else wide(self._standardised_past)(stats, past)
            heard = jnp.concatenate([heard, of_past.reshape(*x.shape[:-1], -1)], axis=-1)
            past = jnp.concatenate([now, past], axis=-2)[..., : self.lags - 1, :]
        delayed, z = self.queue.observe(state.delayed, heard, reset, state.last)
        shift, scale = self._units(state.target, state.last)
        after = state._replace(delayed=delayed, inputs=stats, past=past, started=jnp.ones((), bool))
        if state.reach is None:
            return after, shift + scale * z
        # Least squares may be far off where no row has been yet.
        return after, shift + jnp.clip(scale * z, -BEYOND * state.reach, BEYOND * state.reach)

    def learn(
        self,
        state: OnlineState,
        y: Float[Array, "*streams n_out"] | GivenError | GivenCredit,
        present: Bool[Array, "*streams"],
        reset: Bool[Array, "*streams"] | None = None,
    ) -> tuple[OnlineState, Outcome]:
        """The label of the oldest row that waits for one, if it is `present`; an error or credit may take its place.

        They are in units of the network's output, and so are label, output and loss of the outcome. With a `horizon`,
        `reset` belongs to the row that arrives together with the label. The label then does not count if a sequence
        begins with that row, or with one of the others that wait. A label of another shape than the prediction is a
        ValueError.
        """
        reset = self._flags(reset)
        check_target(self.learning.network, self.learning.streams, y, present)
        present = jnp.asarray(present)
        if reset is not None and self.horizon:
            present = present & ~self.queue.crosses_reset(state.delayed, reset)
        rows, noise = next_noise(self.learning, state.noise)
        delayed, target, reach, last = state.delayed, state.target, state.reach, state.last
        learns = self._is_warm(state)
        if not isinstance(y, GivenError | GivenCredit):
            base = self.queue.oldest(delayed).note
            if target is not None:
                before, counts = self._units(target, base), learns & (self._power(target, base) > 0)
                counted = lambda stats, v, present: seen(stats, v, self.memory, present)
                target = self.learning.over_streams(counted)(target, y if base is None else y - base, present)
                delayed = self._in_new_units(delayed, before, self._units(target, base), counts)
            if last is not None:
                last = jnp.where(present[..., None], y, last)
            shift, scale = self._units(target, base)
            if reach is not None:
                reach = jnp.where(present[..., None], jnp.maximum(reach, jnp.abs(y - shift)), reach)
            y = (y - shift) / scale
        delayed, outcome = self.queue.learn(delayed, y, rows, present & learns)
        return state._replace(delayed=delayed, target=target, reach=reach, last=last, noise=noise), outcome

    def told(
        self, state: OnlineState, y: Float[Array, "*streams n_out"], present: Bool[Array, "*streams"]
    ) -> OnlineState:
        """A value of the target becomes known that is no row's label: those of the first `horizon` rows."""
        check_label(self.learning.network, self.learning.streams, y, present)
        last = None if state.last is None else jnp.where(jnp.asarray(present)[..., None], y, state.last)
        return state._replace(last=last)

    def _flags(self, reset: Any) -> Array | None:
        if reset is None:
            return None
        if not self.resets:
            raise ValueError(
                "`reset` was given, and the model was made without resets: make it with "
                "recurra.OnlineStep(..., resets=True)."
            )
        check_flag("`reset`", reset, self.learning.streams)
        return jnp.asarray(reset)

    def _is_warm(self, state: OnlineState) -> Bool[Array, ""]:
        """Whether enough rows have told the scale of the inputs; all streams have seen as many."""
        if state.inputs is None:
            return jnp.ones((), bool)
        return jnp.max(state.inputs.rows) > min(self.warmup, self.memory - 1)

    def _units(self, target: Running | None, base: Array | None) -> tuple[Any, Any]:
        """shift and scale, with which an output z means shift + scale · z. All streams share one scale."""
        if target is None:
            return (0 if base is None else base), 1
        power = self._power(target, base)
        scale = jnp.where(power > 0, jnp.sqrt(jnp.where(power > 0, power, 1)), 1)
        return (target.mean if base is None else base), scale

    def _power(self, target: Running, base: Array | None) -> Float[Array, " n_out"]:
        """The mean square of what the readout predicts, in its own units; the mean over streams."""
        power = target.variance + (0 if base is None else target.mean**2)
        return power if self.learning.streams == 1 else jnp.mean(power, axis=0)

    def _in_new_units(self, delayed: DelayedState, before: tuple, after: tuple, counts: Array) -> DelayedState:
        """The readout in new units of the target; a head of a user's adapts to them."""
        if self.learning.network.head is not None:
            return delayed
        if self.learning.streams > 1:  # each has a mean of its own, and all have one readout
            before, after = (jnp.zeros_like(before[1]), before[1]), (jnp.zeros_like(after[1]), after[1])
        # Until a target varies and something is learned, the first weights are right for whichever unit there will be.
        before = tuple(jnp.where(counts, *pair) for pair in zip(before, after, strict=True))
        return _with_readout(delayed, of_target(delayed.weights.readout, before, after))

    def _in_new_inputs(self, delayed: DelayedState, before: Running, after: Running) -> DelayedState:
        """The readout's direct connections, and the rows that wait, in new units of the inputs; the network adapts."""
        network = self.learning.network
        if not network.skip or network.head is not None or self.learning.streams > 1:
            return delayed
        every = lambda values: jnp.concatenate([values, jnp.tile(values[: self.lagged], self.lags - 1)])
        cell, kept = delayed.learning.optimizers
        rule, (r, c) = self.learning.readout, map(every, change(before, after))
        readout, S = of_inputs(delayed.weights.readout, None if rule is None else kept, r, c)
        waiting = delayed.waiting._replace(x=r * delayed.waiting.x + c)
        delayed = delayed._replace(waiting=waiting)
        return _with_readout(delayed, readout, (cell, kept if rule is None else S))

    def _standardised_past(self, stats: Running, past: Float[Array, "lags lagged"]) -> Float[Array, "lags lagged"]:
        first = Running(stats.rows, stats.mean[: self.lagged], stats.variance[: self.lagged])
        return jax.vmap(standardised, (None, 0))(first, past)


def _with_readout(delayed: DelayedState, readout: Readout, optimizers: Any = None) -> DelayedState:
    learning = delayed.learning
    weights = learning.weights._replace(readout=readout)
    optimizers = learning.optimizers if optimizers is None else optimizers
    return delayed._replace(learning=learning._replace(weights=weights, optimizers=optimizers))

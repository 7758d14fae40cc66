"""A model for data that arrive: it predicts and learns, one row or many at a time."""

import copy
import dataclasses
import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.engine.compiling import compiled
from recurra.engine.hardware import core_device
from recurra.engine.specialise import specialised_step, tagged
from recurra.network import NetworkWeights
from recurra.online import keeping
from recurra.online.diverging import Diverged, Watch, grown, norms_of
from recurra.online.native import Native, NativeError
from recurra.online.program import ROWS, Kind, Packing, Program, no_outs, program_of
from recurra.online.rows import GivenRows, Origins, explain, many_rows, one_label, one_row
from recurra.online.step import OnlineState, OnlineStep
from recurra.saved.trees import arrays_of
from recurra.step import LearningState


def _first_state(step: OnlineStep, key: PRNGKeyArray, weights: NetworkWeights | None) -> OnlineState:
    return step.init(key, weights)


def _typed(key: int | PRNGKeyArray) -> int | PRNGKeyArray:
    """The key; one made by `jax.random.PRNGKey` as one of `jax.random.key`."""
    if isinstance(key, jax.Array) and key.dtype == "uint32" and key.shape == jax.random.PRNGKey(0).shape:
        return jax.random.wrap_key_data(key)
    return key


OBSERVE, FIRST = Kind(("observe",)), Kind(("told", "observe"))


class Online:
    """A network that learns from a stream.

    `step` says what is done with every row; it has the pure functions behind this object. `key` draws the first
    weights, unless `weights` are given: those of one network, such as `Result.weights_of` returns. With several
    streams, a row has one line for each.

    The attribute `step` is the step as it runs: there a learner may be a faster form with the same gradients, such as
    one of RTRL that brings its influence up to date once in a span of rows. `state` is the state of that step alone.
    `learning` goes with the learners as published, in `train(start=...)`. With `specialise=False` learners run as
    published, so that all three go together, and `PastFacing.influence` takes their states.

    Rows and labels are in their own units: NumPy arrays, lists, or numbers where there is only one. With a `horizon` of
    0 a label belongs to the row it comes with. With h ≥ 1, `y` is the value of the target at the present row. It is the
    label of the row h earlier, and predictions are of the value h rows later.

    With `native`, rows are computed by plain C that the machine's own compiler compiled: a row of a small network then
    takes a few microseconds. Compiling takes seconds, once on a machine.

    A model whose step has `resets` takes sequences: with `reset` a row says that a sequence begins with it.

    A row of another shape, or one that is not finite, is a ValueError, and so is a number for `key` outside 0..2³²-1. A
    model that diverges raises `recurra.Diverged`.

    >>> rc.Online(rc.forecaster(n_in=1).step, key=1).learn_one(0.5, 0.5).shape
    (1,)
    """

    def __init__(
        self,
        step: OnlineStep,
        key: int | PRNGKeyArray = 0,
        weights: NetworkWeights | None = None,
        specialise: bool = True,
        native: bool = False,
    ):
        if not isinstance(step, OnlineStep):
            raise TypeError(f"`step` must be a recurra.OnlineStep, and is {step!r}.")
        if weights is not None:
            step.learning.network.check_weights(weights)
        # The same key as that of seed 0 in `train`.
        root = jax.random.fold_in(checks.key_of(_typed(key)), 0)
        with jax.default_device(core_device()):
            if specialise:
                step = dataclasses.replace(step, learning=specialised_step(step.learning, "cpu"))
            self._take_up(step, compiled(_first_state, "cpu", runs_once=True)(step.traced, root, weights))
        self.native = native

    def _take_up(self, step: OnlineStep, state: OnlineState) -> None:
        self.step = step
        #: how many numbers a row and a label have, and how many rows after a row its label comes (0: with the row)
        self.n_in, self.n_out, self.horizon = step.n_in, step.n_out, step.horizon
        #: rows seen so far
        self.rows = 0
        self._waiting = 0
        self._watch = Watch()
        streams, dtype = step.learning.streams, step.learning.network.cell.dtype
        self._shape = (step.n_out,) if streams == 1 else (streams, step.n_out)
        self._origins = Origins.unknown(step)
        self._kind = Kind(("learn", "observe") if step.horizon else ("observe", "learn"))
        traced = step.traced
        tree = no_outs(step), eqx.filter(traced, eqx.is_array), state
        self._packing = Packing.of(tree)
        self._native: Native | None = None
        self._compiled: Native | None = None
        self._packed = jax.device_put(self._packing.pack_here(tree), core_device())  # and there it stays
        self._programs: dict[Kind, Program] = {}
        self._buffer = np.zeros((ROWS + 1, streams, step.n_in + step.n_out + 1 + step.resets), dtype)
        #: a single row of a single stream, and its parts: for `learn_one`, with the least to be done in Python
        self._line = self._buffer.copy()
        last = step.n_in + step.n_out
        self._line[0, :, last] = self._line[ROWS, 0, 0] = 1
        self._x = self._line[0, 0, : step.n_in] if streams == 1 else np.zeros(0)
        self._y = self._line[0, 0, step.n_in : last] if streams == 1 else np.zeros(0)

    @property
    def state(self) -> OnlineState:
        """The state, for `step.observe` and `step.learn` of this model's `step`. For `train` take `learning`."""
        with jax.default_device(core_device()):
            return jax.tree.map(jnp.asarray, self._packing.unpack_here(self._packed)[2])

    def __copy__(self) -> "Online":
        """A model that goes on by itself; compiled C, too, gets a struct of its own."""
        model = self.with_state(self.state)
        model._watch = copy.deepcopy(self._watch)
        return model

    def __deepcopy__(self, memo: Any) -> "Online":
        return self.__copy__()

    @property
    def _packed(self) -> tuple[Any, ...]:
        """The state as programs take it. A native model packs it only when somebody asks."""
        if self._is_ahead and self._native is not None:
            self._arrays, self._is_ahead = self._native.packed(self._arrays), False
        return self._arrays

    @_packed.setter
    def _packed(self, packed: tuple[Any, ...]) -> None:
        self._arrays, self._is_ahead = packed, False

    @property
    def native(self) -> bool:
        """Whether rows are computed by C that the machine's compiler compiled, and not by JAX.

        It may be set at any time: predictions agree but for rounding, and files are the same. Where C cannot be had, a
        warning says why, and JAX goes on.
        """
        return self._native is not None

    @native.setter
    def native(self, wanted: bool) -> None:
        if bool(wanted) is self.native:
            return
        self._packed = self._packed
        self._programs, self._native = {}, None
        if wanted:
            try:
                self._compiled = self._compiled or Native(self.step, self.state, self._packing)
                self._native = self._compiled
            except NativeError as error:
                warnings.warn(f"This model's rows are computed by JAX, and not by compiled C: {error}.", stacklevel=2)

    @property
    def learning(self) -> LearningState:
        """The state of learning, from which `train(start=...)` goes on: weights, optimizer, network state and traces.

        Rows that wait for their labels are not among them.
        """
        learning = self.state.delayed.learning
        return learning._replace(learners=tagged(self.step.learning, learning.learners))

    @property
    def weights(self) -> NetworkWeights:
        """The weights of the moment, for `Network.run`."""
        return self.state.delayed.weights

    def predict_one(self, x: Any, reset: Any = False) -> np.ndarray:
        """The prediction for a row, which is only looked at: nothing changes. With `reset` it begins a sequence."""
        before = self._origins
        try:
            return self._call(OBSERVE, one_row(self.step, x, None, reset))[0][0]
        finally:
            self._origins = before

    def learn_one(self, x: Any, y: Any = None, reset: Any = False) -> np.ndarray:
        """Take one row and its label, None if there is none. Returns the prediction for the row.

        With a horizon of 0 the prediction comes before the label is seen. An error or credit may stand in the place of
        the label: `recurra.GivenError`, `recurra.GivenCredit`.

        With `reset` a sequence begins with this row, for a model whose step has `resets`: the network is first set back
        to its first state. With several streams it may hold a flag for each. A label that belongs to a row of the
        sequence before does not count.
        """
        is_usual = type(x) is np.ndarray and type(y) is np.ndarray and self._waiting == self.horizon and reset is False
        is_usual = is_usual and x.dtype.kind in "fiub" and y.dtype.kind in "fiub"
        if is_usual and x.shape == self._x.shape and y.shape == self._y.shape and self._origins.are_known:
            origins = self._origins
            if (native := self._native) is not None and self._x.size:
                native.take_up(None if self._is_ahead else self._arrays, origins)
                native.x[:], native.y[:] = x, y
                if native.one():
                    self._is_ahead, self.rows = True, self.rows + 1
                    return native.out.copy()
                return self.take(one_row(self.step, x, y, reset))[0]
            with np.errstate(over="ignore", invalid="ignore"):
                np.subtract(x, origins.x[0], self._x, casting="unsafe")
                np.subtract(y, origins.y[0], self._y, casting="unsafe")
            after = self._program(self._kind)(*self._packed, self._line)
            out, is_fine = self._packing.first_row(after)
            if is_fine and out[-1]:
                self._packed, self.rows = after, self.rows + 1
                return out[:-1] + origins.y[0]
        return self.take(one_row(self.step, x, y, reset))[0]

    def learn_many(self, X: Any, Y: Any = None, reset: Any = None) -> np.ndarray:
        """Take many rows, (rows, n_in), with their labels, (rows, n_out). Returns the prediction for each row.

        The result is that of `learn_one` in a loop, bit for bit. Labels that a NumPy mask covers are missing. `reset`
        has a flag for each row, or for each row and stream: true where a sequence begins.
        """
        return self.take(many_rows(self.step, X, Y, reset))

    def forecast_ahead(self, row_after: Callable[[np.ndarray], Any], y: Any, count: int) -> list[np.ndarray]:
        """Forecasts of so many rows to come, each made as if the forecast before it had come true. Nothing changes.

        `y` is the latest value of the target, and `row_after(y)` makes the next row of the latest value.
        """
        kept, forecasts = self.kept(), []
        try:
            for _ in range(count):
                out, self._packed = self._call(FIRST, one_row(self.step, row_after(y), y))
                y = out[0]
                forecasts.append(y)
        finally:
            self.go_back(kept)
        return forecasts

    def observe_one(self, x: Any, reset: Any = False) -> np.ndarray:
        """Take a row whose label comes later, by `label_one`; ValueError if too many wait. Returns its prediction.

        With `reset` a sequence begins with this row.
        """
        if self._waiting >= max(self.horizon, 1):
            raise ValueError(
                f"{self._waiting} rows wait for their labels, and there is no room for more: call `label_one` first, "
                "or give the model a longer `horizon`."
            )
        out, self._packed = self._call(OBSERVE, one_row(self.step, x, None, reset))
        self._waiting, self.rows = self._waiting + 1, self.rows + 1
        return out[0]

    def label_one(self, y: Any = None) -> None:
        """The label of the oldest row that waits for one, None if it will never come; ValueError if no row waits.

        It counts for that row, also if another sequence has begun since.
        """
        if not self._waiting:
            raise ValueError("No row waits for its label: call `observe_one` first.")
        rows = one_label(self.step, y)
        self._packed = self._call(Kind(("learn",), rows.target), rows)[1]
        self._waiting -= 1

    def state_arrays(self) -> dict[str, np.ndarray]:
        """All numbers that a file keeps of the model."""
        return {**keeping.under("state", arrays_of(self.state)), **self._origins.arrays()}

    def description(self) -> dict[str, Any]:
        """All else that a file keeps of it, as JSON."""
        numbers = {"rows": self.rows, "waiting": self._waiting}
        return {**keeping.step_described(self.step), **numbers, **self._origins.flags()}

    @staticmethod
    def from_saved(
        description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: "Online | None" = None
    ) -> "Online":
        """The model of which these were made; ValueError if there is none. `like` has parts that no file describes."""
        step = keeping.step_of(description, None if like is None else like.step)
        state = keeping.state_of(step, keeping.within(arrays, "state"))
        rows, waiting = keeping.whole(description, "rows"), keeping.whole(description, "waiting")
        if waiting > max(step.horizon, 1) or int(state.delayed.filled) != waiting:
            raise ValueError("the number of rows that wait for their labels is wrong")
        if not 0 <= int(state.delayed.oldest) < max(step.horizon, 1):
            raise ValueError("the oldest of the rows that wait is none of them")
        return Online.continued(step, state, rows, waiting, Origins.from_saved(step, description, arrays))

    @staticmethod
    def continued(
        step: OnlineStep, state: OnlineState, rows: int, waiting: int, origins: Origins | None = None
    ) -> "Online":
        """A model that has seen so many rows, of which some wait for their labels, and goes on from this state."""
        model = Online.__new__(Online)
        with jax.default_device(core_device()):
            model._take_up(step, state)
        model.rows, model._waiting = rows, waiting
        model._origins = model._origins if origins is None else origins
        return model

    def with_state(self, state: OnlineState, step: OnlineStep | None = None) -> "Online":
        """The model as it is, but with another state, and if one is given another step, to which the state belongs."""
        step = self.step if step is None else step
        model = Online.continued(step, state, self.rows, self._waiting, self._origins.widened(step))
        model.native = self.native
        return model

    def kept(self) -> tuple[Any, ...]:
        """All that changes, to `go_back` to. It takes no time: arrays of JAX's do not change."""
        return self._packed, self._origins, self._waiting, self.rows

    def go_back(self, kept: tuple[Any, ...]) -> None:
        """Be again as when `kept` was called."""
        self._packed, self._origins, self._waiting, self.rows = kept

    def notes(self) -> list[str]:
        """What a person should know: that what the learner keeps has grown, as it may with UORO and its kin."""
        return self._watch.look(self.rows, self.norms)

    def norms(self) -> dict[str, float]:
        """The norm of each part of the state: weights, what the learner keeps, and the rest."""
        return norms_of(self.state)

    def take(self, rows: GivenRows) -> np.ndarray:
        """Take all rows, or none if something is wrong with one of them."""
        if self._waiting and not self.horizon:
            raise ValueError("A row waits for its label: call `label_one` before a row that brings its own.")
        kind = self._kind._replace(target=rows.target)
        count, filling = len(rows.x), max(self.horizon - self._waiting, 0)
        if count == 1 and not filling:
            outs, self._packed = self._call(kind, rows)
            self.rows += 1
            return outs
        kept, outs = self.kept(), []
        filling = min(filling, count)  # until the queue is full no label has come
        edges = [*range(0, filling, ROWS), *range(filling, count, ROWS), count]
        try:
            for start, stop in itertools.pairwise(edges):
                part = rows.part(start, stop)
                first = FIRST if rows.target is jax.Array else OBSERVE._replace(target=rows.target)
                out, self._packed = self._call(first if start < filling else kind, part, start)
                outs.append(out)
        except BaseException:
            self.go_back(kept)
            raise
        self._waiting, self.rows = self._waiting + filling, self.rows + count
        return np.concatenate(outs) if outs else np.zeros((0, *self._shape))

    def _call(self, kind: Kind, rows: GivenRows, start: int = 0) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Predictions for at most `ROWS` rows, and the state after them. `start` rows of the same call were taken."""
        count, before, wrong = len(rows.x), self._origins, None
        if not before.are_known:
            wrong = before.too_large(rows, self._buffer.dtype)
            self._origins = before.after(rows, self._buffer.dtype)
        after = self._program(kind)(*self._packed, self._filled(rows))
        outs = self._packing.first(after)
        if wrong is not None or not (outs[:count, -1].all() and outs[ROWS, 0]):
            try:
                self._complain(kind, rows, start, wrong)
            finally:
                self._origins = before
        predictions = outs[:count, :-1].reshape((*rows.present.shape, self.n_out))
        return self._origins.added(predictions, before, rows, self.horizon).reshape(count, *self._shape), after

    def _filled(self, rows: GivenRows) -> np.ndarray:
        """The numbers that a program takes."""
        count, buffer, n = len(rows.x), self._buffer, self.step.n_in
        last = n + rows.y.shape[-1]
        if rows.y.shape[-1] != self.step.n_out:  # credit has a width of its own
            buffer = np.zeros((ROWS + 1, len(self._origins.x), last + 1 + self.step.resets), buffer.dtype)
        cells = buffer[:count]
        with np.errstate(over="ignore", invalid="ignore"):
            cells[:, :, :n] = rows.x - self._origins.x
            cells[:, :, n:last] = rows.y - self._origins.y if rows.target is jax.Array else rows.y
        cells[:, :, last] = rows.present
        if self.step.resets:
            cells[:, :, -1] = False if rows.reset is None else rows.reset
        buffer[ROWS, 0, 0] = count
        return buffer

    def _complain(self, kind: Kind, rows: GivenRows, start: int, wrong: int | None) -> NoReturn:
        """Say what is not finite, and why; or that row `wrong` of these is too large.

        What is not finite may reach an output only some rows later. So rows are taken again, one at a time.
        """
        i, before, after = 0, self._packed, self._packed
        for i in range(len(rows.x)):
            before, after = after, self._program(kind)(*after, self._filled(rows.part(i, i + 1)))
            outs = self._packing.first(after)
            if i == wrong or not (outs[0, -1] and outs[ROWS, 0]):
                break
        number = self.rows + start + i
        origin_y = self._origins.y if rows.target is jax.Array else np.zeros(1)
        if said := explain(rows, i, number, self._buffer.dtype, (self._origins.x, origin_y)):
            raise ValueError(said)
        what = grown(self._packing.unpack_here(before)[2], self._packing.unpack_here(after)[2])
        raise Diverged(
            f"The model diverged at row {number:,}: {what}. It is as it was before this call. Try a lower learning "
            "rate, an optimizer that clips gradients, such as recurra.Adam(1e-3, clip=1), or a learner whose memory "
            "cannot grow, such as RFLO in the place of UORO.",
            number,
        )

    def _program(self, kind: Kind) -> Program:
        found = self._programs.get(kind)
        if found is None and self._native is not None:
            found = self._native.program(kind)
        if found is None:
            found = program_of(self.step.traced, self._packing, kind)
        self._programs[kind] = found
        return found

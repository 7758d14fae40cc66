"""A model for data that arrive: it predicts and learns, one row or many at a time."""

import itertools
from collections.abc import Mapping
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra.engine.compiling import compiled
from recurra.engine.hardware import core_device
from recurra.engine.specialise import fastest
from recurra.network import NetworkWeights
from recurra.online import keeping
from recurra.online.errors import Diverged
from recurra.online.norms import KEPT, grown, norms_of
from recurra.online.packing import Packing
from recurra.online.program import ROWS, Kind, Program, no_outs, program_of
from recurra.online.rows import Rows, explain, many_rows, one_label, one_row
from recurra.online.step import OnlineState, OnlineStep, with_learner


def _first_state(step: OnlineStep, key: PRNGKeyArray, weights: NetworkWeights | None) -> OnlineState:
    return step.init(key, weights)


#: The norm of what the learner keeps is noted from so many rows on, and said if it grows by this factor.
LOOK_FIRST, GROWN = 128, 1000.0

OBSERVE, FIRST = Kind(("observe",)), Kind(("told", "observe"))


class Online:
    """A network that learns from a stream.

    `step` says what is done with every row; it has the pure functions behind this object. `key` draws the first
    weights, unless `weights` are given. With several streams, a row has one line for each.

    Rows and labels are in their own units: NumPy arrays, lists, or numbers where there is only one. With a `horizon` of
    0 a label belongs to the row it comes with. With h ≥ 1, `y` is the value of the target at the present row. It is the
    label of the row h earlier, and predictions are of the value h rows later.
    """

    def __init__(
        self,
        step: OnlineStep,
        key: int | PRNGKeyArray = 0,
        weights: NetworkWeights | None = None,
        specialise: bool = True,
    ):
        if not isinstance(step, OnlineStep):
            raise TypeError(f"`step` must be a recurra.OnlineStep, and is {step!r}.")
        # The same key as that of seed 0 in `train`.
        root = jax.random.fold_in(jax.random.key(key) if isinstance(key, int) else key, 0)
        with jax.default_device(core_device()):
            for name, learner in step.learning.learners.items() if specialise else ():
                step = with_learner(step, name, fastest(learner, step.learning.network.cell, "cpu"))
            self._take_up(step, compiled(_first_state, "cpu", runs_once=True)(step.traced, root, weights))

    def _take_up(self, step: OnlineStep, state: OnlineState) -> None:
        self.step = step
        #: how many numbers a row and a label have, and how many rows after a row its label comes (0: with the row)
        self.n_in, self.n_out, self.horizon = step.n_in, step.n_out, step.horizon
        #: rows seen so far
        self.rows = 0
        self._waiting = 0
        self._look_at, self._kept_first = LOOK_FIRST, 0.0
        self._notes: list[str] = []
        streams, dtype = step.learning.streams, step.learning.network.cell.dtype
        self._shape = (step.n_out,) if streams == 1 else (streams, step.n_out)
        #: The first row is subtracted where numbers are scaled, so that little is lost when they are rounded.
        self._origin_x, self._origin_y = np.zeros((streams, step.n_in)), np.zeros((streams, step.n_out))
        #: what still needs its origin: the inputs, and the labels of each stream
        self._needs_x, self._needs_y = step.scale_inputs, (step.scale_target or step.difference,) * streams
        self._kind = Kind(("learn", "observe") if step.horizon else ("observe", "learn"))
        traced = step.traced
        tree = no_outs(step), eqx.filter(traced, eqx.is_array), state
        self._packing = Packing.of(tree)
        self._packed = jax.device_put(self._packing.pack_here(tree), core_device())  # and there it stays
        self._programs: dict[Kind, Program] = {}
        self._buffer = np.zeros((ROWS + 1, streams, step.n_in + step.n_out + 1), dtype)
        #: a single row of a single stream, and its parts: for `learn_one`, with the least to be done in Python
        self._line = self._buffer.copy()
        self._line[0, :, -1] = self._line[ROWS, 0, 0] = 1
        self._x = self._line[0, 0, : step.n_in] if streams == 1 else np.zeros(0)
        self._y = self._line[0, 0, step.n_in : -1] if streams == 1 else np.zeros(0)

    @property
    def state(self) -> OnlineState:
        """The state, for `step.observe` and `step.learn`."""
        with jax.default_device(core_device()):
            return jax.tree.map(jnp.asarray, self._packing.unpack_here(self._packed)[2])

    @property
    def weights(self) -> NetworkWeights:
        """The weights of the moment, for `Network.run`."""
        return self.state.delayed.weights

    def predict_one(self, x: Any) -> np.ndarray:
        """The prediction for a row, which is only looked at: nothing changes."""
        before = self._origins
        try:
            return self._call(OBSERVE, one_row(self.step, x, None))[0][0]
        finally:
            self._origins = before

    def learn_one(self, x: Any, y: Any = None) -> np.ndarray:
        """Take one row and its label, None if there is none. Returns the prediction for the row.

        With a horizon of 0 the prediction comes before the label is seen. An error or credit may stand in the place of
        the label: `recurra.GivenError`, `recurra.GivenCredit`.
        """
        is_usual = type(x) is np.ndarray and type(y) is np.ndarray and self._waiting == self.horizon
        is_usual = is_usual and x.dtype.kind in "fiub" and y.dtype.kind in "fiub"
        if is_usual and x.shape == self._x.shape and y.shape == self._y.shape and not self._needs_origins:
            with np.errstate(over="ignore", invalid="ignore"):
                np.subtract(x, self._origin_x[0], self._x, casting="unsafe")
                np.subtract(y, self._origin_y[0], self._y, casting="unsafe")
            after = self._program(self._kind)(*self._packed, self._line)
            out, is_fine = self._packing.first_row(after)
            if is_fine and out[-1]:
                self._packed, self.rows = after, self.rows + 1
                return out[:-1] + self._origin_y[0]
        return self._learned(one_row(self.step, x, y))[0]

    def learn_many(self, X: Any, Y: Any = None) -> np.ndarray:
        """Take many rows, (rows, n_in), with their labels, (rows, n_out). Returns the prediction for each row.

        The result is that of `learn_one` in a loop, bit for bit. Labels that a NumPy mask covers are missing.
        """
        return self._learned(many_rows(self.step, X, Y))

    def observe_one(self, x: Any) -> np.ndarray:
        """Take a row whose label comes later, through `label_one`. Returns the prediction."""
        if self._waiting >= max(self.horizon, 1):
            raise ValueError(
                f"{self._waiting} rows wait for their labels, and there is no room for more: call `label_one` first, "
                "or give the model a longer `horizon`."
            )
        out, self._packed = self._call(OBSERVE, one_row(self.step, x, None))
        self._waiting, self.rows = self._waiting + 1, self.rows + 1
        return out[0]

    def label_one(self, y: Any = None) -> None:
        """The label of the oldest row that waits for one; None if it will never come."""
        if not self._waiting:
            raise ValueError("No row waits for its label: call `observe_one` first.")
        rows = one_label(self.step, y)
        self._packed = self._call(Kind(("learn",), rows.target), rows)[1]
        self._waiting -= 1

    def state_arrays(self) -> dict[str, np.ndarray]:
        """All numbers that a file keeps of the model."""
        origins = {"origin_x": self._origin_x, "origin_y": self._origin_y}
        return {**keeping.under("state", keeping.arrays_of(self.state)), **origins}

    def description(self) -> dict[str, Any]:
        """All else that a file keeps of it, as JSON."""
        numbers = {"rows": self.rows, "waiting": self._waiting}
        flags = {"needs_x": bool(self._needs_x), "needs_y": [bool(each) for each in self._needs_y]}
        return {**keeping.step_described(self.step), **numbers, **flags}

    @staticmethod
    def from_saved(
        description: Mapping[str, Any], arrays: Mapping[str, np.ndarray], like: "Online | None" = None
    ) -> "Online":
        """The model of which these were made; ValueError if there is none. `like` has parts that no file describes."""
        step = keeping.step_of(description, None if like is None else like.step)
        state = keeping.state_of(step, keeping.within(arrays, "state"))
        model = Online.__new__(Online)
        with jax.default_device(core_device()):
            model._take_up(step, state)
        model.rows = keeping.whole(description, "rows")
        model._waiting = keeping.whole(description, "waiting")
        if model._waiting > max(step.horizon, 1) or int(state.delayed.filled) != model._waiting:
            raise ValueError("the number of rows that wait for their labels is wrong")
        if not 0 <= int(state.delayed.oldest) < max(step.horizon, 1):
            raise ValueError("the oldest of the rows that wait is none of them")
        streams = step.learning.streams
        model._origin_x = keeping.shaped(arrays, "origin_x", streams, step.n_in)
        model._origin_y = keeping.shaped(arrays, "origin_y", streams, step.n_out)
        model._needs_x, needs_y = description.get("needs_x") is True, description.get("needs_y")
        if not isinstance(needs_y, list) or len(needs_y) != streams:
            raise ValueError("it does not say which streams had a label")
        model._needs_y = tuple(each is True for each in needs_y)
        return model

    def kept(self) -> tuple[Any, ...]:
        """All that changes, to `go_back` to. It takes no time: arrays of JAX's do not change."""
        return self._packed, self._origins, self._waiting, self.rows

    def go_back(self, kept: tuple[Any, ...]) -> None:
        """Be again as when `kept` was called."""
        self._packed, self._origins, self._waiting, self.rows = kept

    def notes(self) -> list[str]:
        """What a person should know: that what the learner keeps has grown, as it may with UORO and its kin.

        It is looked at whenever the number of rows has doubled.
        """
        if self.rows >= self._look_at:
            self._look_at = max(2 * self.rows, LOOK_FIRST)
            now = self.norms()[KEPT]
            self._kept_first = self._kept_first or now
            if self._kept_first and now > GROWN * self._kept_first:
                factor = now / self._kept_first
                self._notes.append(
                    f"What the learner keeps has grown {factor:,.0f}-fold by row {self.rows:,}: if errors grow too, "
                    "try a lower learning rate or another learner."
                )
        return list(self._notes)

    def norms(self) -> dict[str, float]:
        """The norm of each part of the state: weights, what the learner keeps, and the rest."""
        return norms_of(self.state)

    def _learned(self, rows: Rows) -> np.ndarray:
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

    def _call(self, kind: Kind, rows: Rows, start: int = 0) -> tuple[np.ndarray, tuple[Any, ...]]:
        """Predictions for at most `ROWS` rows, and the state after them. `start` rows of the same call were taken."""
        count, before = len(rows.x), self._origins
        if self._needs_origins:
            self._set_origins(rows)
        after = self._program(kind)(*self._packed, self._filled(rows))
        outs = self._packing.first(after)
        if not (outs[:count, -1].all() and outs[ROWS, 0]):
            try:
                self._complain(kind, rows, start)
            finally:
                self._origins = before
        origin = self._origin_y
        if origin is not before[1]:  # before the first label nothing is known of its level
            known = np.logical_or.accumulate(rows.present)
            known = known if self.horizon else np.concatenate([np.zeros_like(known[:1]), known[:-1]])
            origin = np.where(known[..., None], origin, before[1])
        return outs[:count, :-1].reshape(count, *self._shape) + origin.reshape(-1, *self._shape), after

    def _filled(self, rows: Rows) -> np.ndarray:
        """The numbers that a program takes."""
        count, buffer, n = len(rows.x), self._buffer, self.step.n_in
        if rows.y.shape[-1] != self.step.n_out:  # credit has a width of its own
            buffer = np.zeros((ROWS + 1, len(self._origin_x), n + rows.y.shape[-1] + 1), buffer.dtype)
        cells = buffer[:count]
        with np.errstate(over="ignore", invalid="ignore"):
            cells[:, :, :n] = rows.x - self._origin_x
            cells[:, :, n:-1] = rows.y - self._origin_y if rows.target is jax.Array else rows.y
        cells[:, :, -1] = rows.present
        buffer[ROWS, 0, 0] = count
        return buffer

    def _complain(self, kind: Kind, rows: Rows, start: int) -> NoReturn:
        """Say what is not finite, and why.

        What is not finite may reach an output only some rows later. So rows are taken again, one at a time.
        """
        i, before, after = 0, self._packed, self._packed
        for i in range(len(rows.x)):
            before, after = after, self._program(kind)(*after, self._filled(rows.part(i, i + 1)))
            outs = self._packing.first(after)
            if not (outs[0, -1] and outs[ROWS, 0]):
                break
        number = self.rows + start + i
        origin_y = self._origin_y if rows.target is jax.Array else np.zeros(1)
        if said := explain(rows, i, number, self._buffer.dtype, (self._origin_x, origin_y)):
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
        if found is None:
            found = self._programs[kind] = program_of(self.step.traced, self._packing, kind)
        return found

    def _set_origins(self, rows: Rows) -> None:
        """Take the first row, and the first label of each stream, as the origins."""
        with np.errstate(over="ignore"):
            held = lambda values: np.where(np.isfinite(values.astype(self._buffer.dtype)), values, 0.0)
            if self._needs_x:
                self._origin_x, self._needs_x = held(rows.x[0]), False
            comes = rows.present.any(axis=0) & np.array(self._needs_y)
            if rows.target is jax.Array and comes.any():
                first = rows.y[rows.present.argmax(axis=0), np.arange(len(comes))]
                self._origin_y = np.where(comes[:, None], held(first), self._origin_y)
                self._needs_y = tuple(np.array(self._needs_y) & ~comes)

    @property
    def _needs_origins(self) -> bool:
        return self._needs_x or any(self._needs_y)

    @property
    def _origins(self) -> tuple[Any, ...]:
        return self._origin_x, self._origin_y, self._needs_x, self._needs_y

    @_origins.setter
    def _origins(self, origins: tuple[Any, ...]) -> None:
        self._origin_x, self._origin_y, self._needs_x, self._needs_y = origins

"""One order computed, wherever this runs: cases and seeds in, arrays out."""

import contextlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recurra.engine.choosing import AutoEngine, engine_of
from recurra.engine.protocol import Engine, Members
from recurra.engine.scan import ScanEngine
from recurra.engine.settings import having
from recurra.saved.trees import arrays_of
from recurra.training.cases import Case
from recurra.training.checkpoint import Gathered, Resumable
from recurra.training.interrupts import Asked, asked_to_stop
from recurra.training.places.base import Computed, Order, State, refusal, versions
from recurra.training.result import Result
from recurra.training.running import Job, run


class UnfitError(RuntimeError):
    """This worker has other versions than the order was written with."""


def compute(order: Order, report: Callable[[int], None] = lambda done: None, asked: Asked | None = None) -> Computed:
    """Take the members of an order to its last step. `report` is told how many network-steps are done.

    Where the caller can be `asked` to stop, the outcome is what there is by then. Otherwise it is a KeyboardInterrupt.
    """
    if why := refusal(order.versions, versions(), platform.node()):
        raise UnfitError(why)
    began = time.perf_counter()
    with having(order.settings), contextlib.ExitStack() as stack:
        heard = stack.enter_context(asked_to_stop()) if asked is None else asked
        made, programs = order.cases()
        found = Collected((len(order.members),))
        states: list[State] = [()] * len(order.members)
        devices, taken, seconds = set[str](), 0, 0.0
        for program in programs:
            at = {row: i for i, row in enumerate(program.rows)}
            own = [i for i, member in enumerate(order.members) if member.row in at]
            if not own:
                continue
            numbers = program.numbers_of([at[order.members[i].row] for i in own])
            keys = Members.of_seeds(_key(order), [order.members[i].seed for i in own]).keys
            plan, first = made[program.rows[0]].held_out, made[program.rows[0]].case
            job = Job(
                program.experiment[0],
                Members(keys, numbers[0]),
                range(len(own)),
                order.stop,
                first.window,
                first.record_every,
                first=order.start,
                held_out=plan,
                held_out_numbers=None if plan is None else numbers[1],
            )
            passed = _Passed(None if order.state is None else [order.state[i] for i in own], order.start)
            count = len(own)
            telling = lambda done, before=taken, count=count: report(before + (done - order.start) * count)
            result = run(job, _engine_for(order), passed, heard, telling)
            _add(found, own, result, order, first)
            devices.add(passed.device)
            taken, seconds = taken + len(own) * (result.steps - order.start), seconds + result.seconds
            del result  # it holds the states of all of them
            if order.returns_state and not heard.signal:
                for i, state in zip(own, passed.states_of(len(own)), strict=True):
                    states[i] = state
            if heard.signal:
                break
        if heard.signal and asked is None:
            raise KeyboardInterrupt
    return Computed(
        found.values,
        found.axes,
        found.dims,
        seconds,
        time.perf_counter() - began - seconds,
        platform.node(),
        ", ".join(sorted(devices)),
        tuple(states) if order.returns_state and not heard.signal else None,
        heard.signal,
    )


def _key(order: Order) -> Any:
    data, kind = order.key
    return jax.random.wrap_key_data(jnp.asarray(data), impl=kind)


def _engine_for(order: Order) -> Engine:
    engine = engine_of(order.engine, alike=True)
    if isinstance(engine, AutoEngine):
        engine = replace(engine, among=order.among)
    # Faster forms of learners differ by device, and a state may go on elsewhere: it is that of the published form.
    if isinstance(engine, AutoEngine | ScanEngine) and (order.state is not None or order.returns_state):
        engine = replace(engine, specialise=False)
    return engine


class _Passed:
    """Takes the place of a checkpoint where states are passed from order to order."""

    def __init__(self, states: Sequence[State] | None, done: int):
        self._states, self._done = states, done
        self._after: Callable[[], list[np.ndarray]] = list
        self.device = ""

    def load(self, run: Resumable, gathered: Gathered) -> None:
        """Take the members up where they were."""
        self.device = run.device
        if self._states is not None:
            size, *_ = run.snapshot()
            run.restore([size, *(np.stack(rows) for rows in zip(*self._states, strict=True))], self._done)

    def keep(self, run: Resumable, gathered: Gathered, now: bool = False) -> None:
        """Remember where the members are at the end."""
        if now:
            self._after = run.snapshot

    def states_of(self, count: int) -> list[State]:
        """Where each member is."""
        _, *arrays = self._after()
        return [tuple(array[i, ...] for array in arrays) for i in range(count)]


def _add(found: "Collected", own: list[int], result: Result, order: Order, case: Case) -> None:
    """Note the result of some members of an order."""
    at = (np.array(own),)
    found.axes["step"] = ends_of_windows(order.start, order.stop, case.window)
    found.put("loss", at, result.loss, ("step",))
    found.put("final_loss", at, result.final_loss())
    diverged = np.array([result.diverged.get(label, -1) for label in result.seeds], np.int64)
    found.put("diverged_at", at, diverged, none=-1)
    found.put("steps_done", at, np.full(len(own), result.steps, np.int64), none=0)
    if result.evaluated_loss is not None and result.evaluated_step is not None and result.best_step is not None:
        found.axes.setdefault("evaluated_step", result.evaluated_step)
        found.put("evaluated_loss", at, result.evaluated_loss, ("evaluated_step",))
        for name, values in result.metrics.items():
            found.put(f"evaluated_{name}", at, values, ("evaluated_step",))
        found.put("best_step", at, result.best_step, none=-1)
    for name, array in arrays_of(result.records).items():
        found.axes.setdefault("recorded_step", np.arange(0, order.stop, case.record_every))
        more = tuple(f"record.{name}.{axis}" for axis in range(1, array.ndim - 1))
        found.put(f"record.{name}", at, _floating(array), ("recorded_step", *more))


def ends_of_windows(start: int, stop: int, window: int) -> np.ndarray:
    """The step after which each window ends."""
    return np.append(np.arange(start + window, stop, window), stop)


class Collected:
    """Arrays by name that are filled row by row. Where there is nothing yet, numbers are nan, and steps 0 or -1."""

    def __init__(self, shape: tuple[int, ...]):
        self._shape = shape
        self.values: dict[str, np.ndarray] = {}
        self.axes: dict[str, np.ndarray] = {}
        #: the names of the axes after the first ones
        self.dims: dict[str, tuple[str, ...]] = {}
        #: where networks are that go on later, by the row
        self.states: dict[tuple[int, ...], State] = {}

    def add(self, at: tuple[np.ndarray, ...], outcome: Computed) -> None:
        """The rows of an outcome."""
        for name, axis in outcome.axes.items():
            self.axes.setdefault(name, axis)
        for name, array in outcome.values.items():
            self.put(name, at, array, outcome.dims.get(name, ()), BLANK.get(name, np.nan))
        if outcome.state is not None:
            self.states |= zip(zip(*(axis.tolist() for axis in at), strict=True), outcome.state, strict=True)

    def put(
        self, name: str, at: tuple[np.ndarray, ...], new: np.ndarray, dims: tuple[str, ...] = (), none: Any = np.nan
    ) -> None:
        """Write rows. The first axis of some may be shorter than that of all: a run may stop, and records come late."""
        whole = (self.axes[dims[0]].shape[-1], *new.shape[2:]) if dims else ()
        if name not in self.values:
            self.values[name] = np.full((*self._shape, *whole), none, new.dtype)
            if dims:
                self.dims[name] = dims
        values = self.values[name] = self.values[name].astype(np.result_type(self.values[name], new), copy=False)
        values[at if not dims else (*at, slice(0, new.shape[1]))] = new


#: what stands where nothing is known, if it is not nan
BLANK = {"diverged_at": -1, "steps_done": 0, "best_step": -1}


def _floating(array: np.ndarray) -> np.ndarray:
    """What is recorded, as numbers among which nan stands for what is missing."""
    if array.dtype.kind not in "biufc":  # bfloat16, which is no type of NumPy's own
        array = array.astype(np.float32)
    return array.astype(np.result_type(array, np.float32), copy=False)

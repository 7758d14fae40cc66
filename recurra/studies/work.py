"""One order computed, wherever this runs: plain settings in, arrays out."""

import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from recurra.engine.experiment import Experiment, KnownRows
from recurra.engine.programs import Program, programs
from recurra.engine.protocol import Members, Run
from recurra.engine.scan import ScanEngine
from recurra.step import APPLIED
from recurra.studies.parts import build
from recurra.studies.places.base import Member, Order, Outcome, State, refusal, versions
from recurra.studies.settings import Settings, checked
from recurra.training.gathering import LossWindows
from recurra.training.interrupts import Asked, asked_to_stop
from recurra.training.result import mean_at_end


class UnfitError(RuntimeError):
    """This worker has other versions than the order was written with."""


def compute(order: Order, report: Callable[[int], None] = lambda done: None) -> Outcome:
    """Take the members of an order to its last step. `report` is told how many network-steps are done."""
    if why := refusal(order.versions, versions(), platform.node()):
        raise UnfitError(why)
    began = time.perf_counter()
    with jax.enable_x64(order.x64), asked_to_stop() as asked:
        settings = [checked({**each, "learners": tuple(each["learners"])}) for each in order.settings]
        shapes = KnownRows()
        rows = [
            _Rows(order, settings, program) for program in programs([experiment_of(each, shapes) for each in settings])
        ]
        taken = 0
        for each in rows:
            each.take(asked, lambda done, before=taken: report(before + done))
            taken += len(each.members) * (order.stop - order.start)
    return _outcome(order, settings[0], rows, time.perf_counter() - began)


class _Rows:
    """The members of an order that share a program."""

    def __init__(self, order: Order, settings: Sequence[Settings], program: Program):
        self._order, self._settings, self._program = order, settings, program
        place = {row: i for i, row in enumerate(program.rows)}
        #: which members of the order they are
        self.members = [i for i, member in enumerate(order.members) if member.row in place]
        self._own = [order.members[i] for i in self.members]
        self._numbers = program.numbers_of([place[member.row] for member in self._own])
        self.windows = LossWindows(range(len(self._own)), window_of(settings[program.rows[0]]))
        self.states: list[State] | None = None
        self.seconds, self.device = 0.0, ""

    def take(self, asked: Asked, report: Callable[[int], None]) -> None:
        """Take them to the order's last step."""
        if not self._own:
            return
        order, count = self._order, len(self._own)
        members = Members(_keys(self._settings, self._own), self._numbers)
        # Faster forms of learners differ by device, and a state may go on elsewhere: it is that of the published form.
        engine = ScanEngine(alike=True, specialise=order.state is None and not order.returns_state)
        with engine.prepare(self._program.experiment, members) as run:
            if order.state is not None:
                _restore(run, [order.state[i] for i in self.members], order.start)
            self.device, began = run.device, time.perf_counter()
            for piece in run.advance(order.stop):
                self.windows.append(piece.loss, piece.labelled)
                report(count * (piece.stop - order.start))
                if asked.signal:
                    raise KeyboardInterrupt
            self.seconds = time.perf_counter() - began
            if order.returns_state:
                _, *arrays = run.snapshot()
                self.states = [tuple(array[i, ...] for array in arrays) for i in range(count)]


def _outcome(order: Order, settings: Settings, rows: list[_Rows], seconds: float) -> Outcome:
    count, window = len(order.members), window_of(settings)
    ends = np.append(np.arange(order.start + window, order.stop, window), order.stop)
    loss, labelled = np.full((count, len(ends)), np.nan), np.zeros((count, len(ends)), np.int64)
    diverged_at = np.full(count, -1)
    states: list[State] = [()] * count
    for each in rows:
        if each.members:
            loss[each.members], labelled[each.members] = each.windows.means(), each.windows.labelled()
            for i, step in each.windows.diverged.items():
                diverged_at[each.members[i]] = order.start + step
            for i, state in zip(each.members, each.states or [], strict=False):
                states[i] = state
    computing = sum(each.seconds for each in rows)
    return Outcome(
        step=ends,
        loss=loss,
        final_loss=mean_at_end(ends, loss, labelled, (diverged_at >= 0).tolist()),
        diverged_at=diverged_at,
        seconds=computing,
        compile_seconds=seconds - computing,
        worker=platform.node(),
        device=", ".join(sorted({each.device for each in rows if each.device})),
        state=tuple(states) if order.returns_state else None,
    )


def window_of(settings: Settings) -> int:
    """The steps that a kept loss is averaged over."""
    return settings.window or max(settings.steps // 100, 1)


def experiment_of(settings: Settings, shapes: KnownRows | None = None) -> Experiment:
    """One network of a study, as an engine runs it."""
    parts = build(settings)
    (learner,) = parts.learners.values()
    rows = (shapes or KnownRows())(parts.task, parts.network.cell.dtype)
    return Experiment.of(parts.network, {APPLIED: learner}, parts.optimizer, parts.task, settings.streams, rows=rows)


def _keys(settings: Sequence[Settings], members: Sequence[Member]) -> Any:
    """A key for each member: as in `recurra.train`, from the key of its settings and its seed."""
    roots = np.array([settings[member.row].key for member in members], np.uint32)
    seeds = np.array([member.seed for member in members], np.uint32)
    return _fold(jnp.asarray(roots), jnp.asarray(seeds))


@eqx.filter_jit
def _fold(roots: UInt32[Array, " members"], seeds: UInt32[Array, " members"]) -> Any:
    return jax.vmap(lambda root, seed: jax.random.fold_in(jax.random.key(root), seed))(roots, seeds)


def _restore(run: Run, states: Sequence[State], done: int) -> None:
    size, *_ = run.snapshot()
    run.restore([size, *(np.stack(rows) for rows in zip(*states, strict=True))], done)

"""Members on their way: what `train` and `sweep` have in common."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from recurra.engine.experiment import Experiment
from recurra.engine.hardware import bytes_of, check_fits, in_words
from recurra.engine.protocol import Engine, Members, Piece, Run
from recurra.training.checkpoint import Keeper
from recurra.training.console import say
from recurra.training.evaluating import Evaluation, Evaluations, GatheredParts
from recurra.training.gathering import Gathering, InMemory, LossWindows, Records, kept_before
from recurra.training.handover import MOST_BYTES, Handover
from recurra.training.interrupts import Asked
from recurra.training.progress import Report
from recurra.training.record import Sink
from recurra.training.result import Result

#: bytes of records that are worth a remark
MUCH = 500e6


@dataclass(frozen=True)
class Job:
    """Members to train, and what is kept of them. Each has a label, which in `train` is its seed."""

    experiment: Experiment
    members: Members
    labels: Sequence[int]
    steps: int
    window: int
    record_every: int = 1
    #: where records go; None: into the result
    record_into: Sink | None = None
    #: how they are evaluated, and with which numbers
    held_out: Evaluation | None = None
    held_out_numbers: Any = None
    #: the step from which losses are gathered, a multiple of `window`: members may have come so far before
    first: int = 0


def run(job: Job, engine: Engine, kept: Keeper, asked: Asked, report: Report, title: str | None = None) -> Result:
    """Take all members to the last step, or until it is asked to stop; remarks go under the `title`, if there is one.

    A seed in the result is a member's label.
    """
    began, labels, steps, held_out = time.perf_counter(), job.labels, job.steps, job.held_out
    with contextlib.ExitStack() as stack:
        going = stack.enter_context(engine.prepare(job.experiment, job.members, job.window))
        found = None
        if held_out is not None:
            members = job.members._replace(numbers=job.held_out_numbers)
            found = stack.enter_context(Evaluations.of(held_out, engine, members, going.weights()))
        compiled = time.perf_counter()
        recorder = job.experiment.recorder
        delay = job.experiment.horizon + (recorder.delay if recorder else 0)
        recorded = going.recorded if job.record_into is None else {}, kept_before(steps - delay, job.record_every)
        _check_memory(*recorded, len(labels), steps, job.window, title)
        losses, in_memory = LossWindows(labels, job.window, job.first), InMemory(recorded[0], len(labels), recorded[1])
        gathered = Gathering(
            losses, Records(in_memory if job.record_into is None else job.record_into, job.record_every, delay)
        )
        everything = gathered if found is None else GatheredParts(gathered, found)
        kept.load(going, everything)
        report(first := going.done)
        try:
            if found is not None and not asked.signal:  # a run may have been killed before it was evaluated
                found.look(going.done, going.weights)
            for piece in () if asked.signal else _pieces(going, steps, found):
                gathered.append(piece)
                if found is not None and found.look(going.done, going.weights) and title:
                    say(f"{title}: after {going.done:,} steps {found.last()}")
                kept.keep(going, everything)
                report(going.done)
                if asked.signal:
                    break
        finally:  # `report` may end the run by raising, and nothing that was computed is lost
            if going.done > first and gathered.seen == going.done:
                kept.keep(going, everything, now=True)
        return Result(
            seeds=tuple(labels),
            steps=going.done,
            step=losses.ends(),
            loss=losses.means(),
            weights=jax.tree.map(np.array, going.weights()),  # copies, which a user may change
            records=in_memory.joined(),
            record_every=job.record_every,
            diverged=losses.diverged,
            labelled=losses.labelled(),
            interrupted=bool(asked.signal),
            seconds=time.perf_counter() - compiled,
            compile_seconds=compiled - began,
            handover=_handover(job.experiment, going),
            **({} if found is None else found.all(going, not asked.signal)),
        )


def _pieces(run: Run, steps: int, found: Evaluations | None) -> Iterator[Piece]:
    """All pieces of a run, which stops wherever it is evaluated."""
    while run.done < steps:
        yield from run.advance(steps if found is None else found.next_stop(run.done, steps))


def _handover(experiment: Experiment, run: Run) -> Handover:
    began = 0 if experiment.began is None else int(experiment.began)
    return Handover(experiment.step, experiment.horizon, run.done, began, experiment.resets, run.ends(MOST_BYTES))


def _check_memory(recorded: Any, recorded_steps: int, seeds: int, steps: int, window: int, title: str | None) -> None:
    """Raise if what will be kept on the host does not fit; say, under the title, how much it is if it is much."""
    needed = LossWindows.bytes_of(seeds, steps, window)
    check_fits(needed, f"The losses of {-(-steps // window):,} windows and {seeds:,} seeds", "take a longer `window`")
    needed = InMemory.bytes_of(recorded, seeds, recorded_steps)
    each = f"{in_words(bytes_of(recorded))} a step and seed"
    check_fits(
        needed,
        f"What is recorded, {each},",
        "record every k-th step with `record_every`, record less of it, or pass it on with `record_into`",
    )
    if title and needed >= MUCH:
        say(f"{title}: what is recorded will take {in_words(needed)} of memory.")

"""Train one learner over many seeds at once."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recurra import checks
from recurra.engine.experiment import Experiment
from recurra.engine.fold import advance
from recurra.engine.hardware import bytes_of, check_fits, in_words
from recurra.engine.protocol import Engine, Members
from recurra.engine.scan import ScanEngine
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.step import APPLIED, Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.checkpoint import EVERY, Checkpoint
from recurra.training.console import say
from recurra.training.gather import LossWindows, Records
from recurra.training.interrupts import Interrupted, asked_to_stop
from recurra.training.progress import progress as show_progress
from recurra.training.recording import RecordFunction, StepRecorder
from recurra.training.result import Result

#: bytes of records, and numbers of seeds, that are worth a remark
MUCH, MANY = 500e6, 20_000
#: the paper's learning rate, the fastest at which all of its algorithms settle
LEARNING_RATE = 1e-4


def train(
    network: Network,
    learner: Learner,
    task: Task,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
    streams: int = 1,
    key: int | PRNGKeyArray = 0,
    optimizer: Optimizer = LEARNING_RATE,
    window: int | None = None,
    probes: Mapping[str, Learner] | None = None,
    record: Mapping[str, RecordFunction] | None = None,
    record_every: int = 1,
    engine: Engine | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int | float = EVERY,
    progress: bool | Callable[[int], None] = True,
) -> Result:
    """Train `network` on `task` with `learner`, every seed at once on all cores or the GPU.

    `seeds` is how many, or which; seed s starts from `key` folded with s, and shares its weights and stream with every
    other learner trained from the same key. `optimizer` is a learning rate for plain gradient descent or an Optax
    optimizer; the recurrent weights and the readout each keep their own state of it. With several `streams` a seed
    learns from as many streams in parallel, each with a state of its own and all with the same weights, which follow
    the mean of their gradients. Losses are averaged over `window` steps (a hundredth of the run by default).

    `probes` are further learners that see the same steps and change nothing. `record` maps names to functions of an
    `Outcome` (see `recurra.record`) whose results are kept for every step, or for every k-th one with
    `record_every=k`. If a learner emits late, the last steps are missing, since their gradients did not come. `engine`
    runs the steps, by default `recurra.ScanEngine()`.

    With a file for `checkpoint` the run is kept there every `checkpoint_every` seconds and when it stops, and the same
    call goes on from it. A finished run stays there too: the same call returns it at once, and a call with other
    settings takes the file over. Delete it when you have saved the result. With a `window` of your own, a call for more
    `steps` goes on from a finished run.

    `progress` shows a bar, or is called with the number of steps done. Ctrl-C, SIGTERM and SIGHUP end the run after
    the steps that are being computed and raise `recurra.Interrupted`, a KeyboardInterrupt with the `result` so far.

    On one machine the same call gives the same bits, however an engine cuts the run into pieces, and so does a run that
    goes on from a checkpoint. Several seeds may be computed together, and then the last bits of a seed depend on how
    many they are, that is on `seeds` and the number of cores; see `recurra.ScanEngine` for a way to make them not.
    """
    arguments.check_outside(network, learner, task, optimizer, key, probes)
    probes, record = arguments.named("probes", probes), arguments.named("record", record)
    which, root = arguments.which(seeds), arguments.key_of(key)
    arguments.check(network, learner, task, steps, streams, probes, record)
    steps, streams = int(steps), int(streams)
    every = checks.whole_number("`record_every`", record_every)
    arguments.check_seconds("`checkpoint_every`", checkpoint_every)
    window = checks.whole_number("`window`", max(steps // 100, 1) if window is None else window)
    learners = {APPLIED: learner, **probes}
    recorder = StepRecorder.of(record, learners)
    experiment = Experiment.of(network, learners, optimizer, task, streams, recorder)

    identity = lambda: _identity(experiment, root, {"seeds": list(which), "window": window})
    kept = Checkpoint(arguments.checkpoint_path(checkpoint, record), checkpoint_every, steps, identity)
    if engine is not None and (isinstance(engine, type) or not isinstance(engine, Engine)):
        raise TypeError(f"`engine` must be an engine such as recurra.ScanEngine(), and is {engine!r}.")
    label = f"{learner.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    with kept.held(), asked_to_stop() as asked, show_progress(label, steps, progress) as report:
        began, members = time.perf_counter(), Members.of_seeds(root, which)
        if len(which) >= MANY and progress is True:
            say(f"{label}: the weights of all of them are drawn before the first step, which takes a while.")
        with (engine or ScanEngine()).prepare(experiment, members) as run:
            compiled = time.perf_counter()
            _check_memory(run.recorded, len(which), steps, window, every, label if progress is True else None)
            losses = LossWindows(which, window)
            records = Records(run.recorded, len(which), steps, every, recorder.delay if recorder else 0)
            kept.load(run, losses)
            report(first := run.done)
            try:
                for piece in () if asked.signal else run.advance(steps):
                    losses.append(piece.loss, piece.labelled)
                    records.append(piece.records)
                    kept.keep(run, losses)
                    report(run.done)
                    if asked.signal:
                        break
            finally:  # `progress` may end the run by raising, and nothing that was computed is lost
                if run.done > first and losses.seen == run.done:
                    kept.keep(run, losses, now=True)
            result = Result(
                seeds=tuple(which),
                steps=run.done,
                step=losses.ends(),
                loss=losses.means(),
                weights=run.weights(),
                records=records.joined(),
                record_every=every,
                diverged=losses.diverged,
                labelled=losses.labelled(),
                interrupted=bool(asked.signal),
                seconds=time.perf_counter() - compiled,
                compile_seconds=compiled - began,
            )
    if asked.signal:
        is_kept = kept.kept_at == run.done and run.done > 0
        kept_where = f", and in {checkpoint}, from which the same call goes on" if is_kept else ""
        message = f"Stopped after {run.done:,} of {steps:,} steps: what there is is in the exception's `result`"
        raise Interrupted(f"{message}{kept_where}.", result, asked.signal)
    return result


def _check_memory(recorded: Any, seeds: int, steps: int, window: int, every: int, label: str | None) -> None:
    """Raise if what will be kept on the host does not fit; say, under `label`, how much it is if it is much."""
    needed = LossWindows.bytes_of(seeds, steps, window)
    check_fits(needed, f"The losses of {-(-steps // window):,} windows and {seeds:,} seeds", "take a longer `window`")
    needed = Records.bytes_of(recorded, seeds, steps, every)
    each = f"{in_words(bytes_of(recorded))} a step and seed"
    check_fits(needed, f"What is recorded, {each},", "record every k-th step with `record_every`, or record less of it")
    if label and needed >= MUCH:
        say(f"{label}: what is recorded will take {in_words(needed)} of memory.")


def _identity(experiment: Experiment, key: PRNGKeyArray, settings: dict[str, object]) -> str:
    """A digest of all that a run depends on: its arrays, and the program of one seed, which contains every function."""
    experiment = experiment.traced

    def whole(experiment: Experiment, key: PRNGKeyArray, zero: Int[Array, ""]) -> Any:
        return advance(experiment, *experiment.init(key), zero, zero, 1)

    compiled: Any = eqx.filter_jit(whole)
    program = compiled.lower(experiment, key, jnp.zeros((), "int32"))
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(program.as_text().encode())
    for leaf in [jax.random.key_data(key), *jax.tree.leaves(eqx.filter(experiment, eqx.is_array))]:
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()

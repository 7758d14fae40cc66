"""Train one learner over many seeds at once."""

import hashlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from recurra.engine.protocol import Engine, Members
from recurra.engine.scan import ScanEngine
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.step import APPLIED, LearningStep, Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.checkpoint import Checkpoint, CheckpointError
from recurra.training.gather import LossWindows, Records
from recurra.training.progress import progress as show_progress
from recurra.training.recording import RecordFunction, StepRecorder
from recurra.training.result import Result

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
    engine: Engine | None = None,
    checkpoint: Path | str | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Result:
    """Train `network` on `task` with `learner`, every seed at once on all cores or the GPU.

    `seeds` is how many, or which; seed s starts from `key` folded with s, and shares its weights and stream with every
    other learner trained from the same key. `optimizer` is a learning rate for plain gradient descent or any Optax
    optimizer; the recurrent weights and the readout each keep their own state of it. With several `streams` a seed
    learns from as many streams in parallel, each with a state of its own and all with the same weights, which follow
    the mean of their gradients. Losses are averaged over `window` steps (a hundredth of the run by default).

    `probes` are further learners that see the same steps and change nothing. `record` maps names to functions of an
    `Outcome` (see `recurra.record`) whose results are kept for every step. If a learner emits late, the last steps are
    missing, since their gradients did not come. `engine` runs the steps, by default `recurra.ScanEngine()`.

    With a file for `checkpoint` the run is kept there now and then, and a run killed or interrupted goes on from it;
    it is removed at the end. `progress` shows a bar, or is called with the number of steps done. Ctrl-C returns what
    there is. On the cores of one machine the same key and settings give the same bits, however an engine cuts the run
    into pieces.
    """
    probes, record = arguments.named("probes", probes), arguments.named("record", record)
    which, root = arguments.which(seeds), arguments.key_of(key)
    arguments.check(network, learner, task, steps, streams, probes, record)
    window = checks.whole_number("`window`", max(steps // 100, 1) if window is None else window)
    learners = {APPLIED: learner, **probes}
    step = LearningStep(network, learners, arguments.optimizer_of(optimizer), streams)
    recorder = StepRecorder.of(record, learners)
    experiment = Experiment(step, task, recorder)

    losses, records = LossWindows(which, window), Records(recorder.delay if recorder else 0)
    kept = _checkpoint(checkpoint, record, lambda: _identity(experiment, root, {"seeds": which, "window": window}))
    label = f"{learner.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    with _ctrl_c() as stop, show_progress(label, steps, progress) as report:
        began = time.perf_counter()
        with (engine or ScanEngine()).prepare(experiment, Members.of_seeds(root, which)) as run:
            compiled = time.perf_counter()
            kept.load(run, losses)
            if run.done > steps:
                raise CheckpointError(f"The checkpoint {checkpoint} is at step {run.done}, and `steps` is {steps}.")
            report(run.done)
            for piece in () if stop.is_set() else run.advance(steps):
                losses.append(piece.loss)
                records.append(piece.records)
                kept.keep(run, losses)
                try:
                    report(run.done)
                except BaseException:  # `progress` may end the run by raising
                    kept.keep(run, losses, now=True)
                    raise
                if stop.is_set():
                    break
            if run.done == steps:
                kept.clear()
            elif run.done:
                kept.keep(run, losses, now=True)
    return Result(
        seeds=which,
        steps=run.done,
        step=losses.ends(),
        loss=losses.means(),
        weights=run.weights(),
        records=records.joined(),
        diverged=losses.diverged,
        interrupted=stop.is_set(),
        seconds=time.perf_counter() - compiled,
        compile_seconds=compiled - began,
    )


def _checkpoint(
    path: Path | str | None, record: Mapping[str, RecordFunction], identity: Callable[[], str]
) -> Checkpoint:
    if path is None:
        return Checkpoint(None, identity)
    if record:
        raise ValueError("`checkpoint` keeps losses alone, and `record` asks for more: leave one of them out.")
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"`checkpoint` is {path}, which is a folder: add a file name, such as {path / 'run.npz'}.")
    if not path.parent.is_dir():
        raise ValueError(f"`checkpoint` is {path}, and there is no folder {path.parent}: create it first.")
    return Checkpoint(path, identity)


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


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second Ctrl-C interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = signal.getsignal(signal.SIGINT)

    def asked(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, asked)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)

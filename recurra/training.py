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

from recurra import arguments, checks
from recurra.checkpoint import Checkpoint, CheckpointError
from recurra.fleet import Fleet
from recurra.learners.base import Learner
from recurra.loop import APPLIED, Loop, Optimizer
from recurra.moment import Recorder
from recurra.network import Network
from recurra.progress import progress as show_progress
from recurra.result import Result
from recurra.schedule import advance
from recurra.tally import Losses, Records
from recurra.tasks.base import BLOCK, Task

#: the paper's learning rate, the fastest at which all of its algorithms settle
LEARNING_RATE = 1e-4
#: steps that one compiled call takes at most
CHUNK = 2**17


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
    record: Mapping[str, Recorder] | None = None,
    chunk: int = CHUNK,
    checkpoint: Path | str | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Result:
    """Train `network` on `task` with `learner`, every seed at once on all cores or the GPU.

    `seeds` is how many, or which; seed s starts from `key` folded with s, and shares its weights and stream with every
    other learner trained from the same key. `optimizer` is a learning rate for plain gradient descent or any Optax
    optimizer; the recurrent weights and the readout each keep their own state of it. With several `streams` a seed
    learns from as many streams in parallel, each with a state of its own and all with the same weights, which follow
    the mean of their gradients. Losses are averaged over `window`
    steps (a hundredth of the run by default). `probes` are further learners that see the same steps and change nothing;
    `record` maps names to functions of a `Moment` (see `recurra.record`) whose results are kept for every step; with a
    delayed learner aboard the last steps are missing, since their gradients never came. One
    call of the compiled loop takes at most `chunk` steps. With a file for `checkpoint` the run is kept there now and
    then, and a run killed or interrupted goes on from it; it is removed at the end. `progress` shows a bar, or is
    called with the number of steps done. Ctrl-C returns what there is. The same key and settings give the same bits,
    whatever `chunk` is.
    """
    probes, record = arguments.named("probes", probes), arguments.named("record", record)
    which = arguments.which(seeds)
    arguments.check(network, learner, task, steps, streams, probes, record)
    window = checks.whole_number("`window`", max(steps // 100, 1) if window is None else window)
    chunk, root = checks.whole_number("`chunk`", chunk), arguments.key_of(key)
    loop = Loop(network, {APPLIED: learner, **probes}, task, arguments.optimizer_of(optimizer), record, streams)
    loop = numbers_as_arrays(loop)

    losses, records = Losses(which, window), Records(loop.delay)
    kept = _checkpoint(checkpoint, record, lambda: _identity(loop, root, {"seeds": which, "window": window}))
    label = f"{learner.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    with _ctrl_c() as stop, show_progress(label, steps, progress) as report:
        began = time.perf_counter()
        with Fleet(loop, root, which, chunk) as fleet:
            compiled = time.perf_counter()
            done, length = kept.load(fleet, losses), max(fleet.stride, min(fleet.capacity, 2 * BLOCK))
            if done > steps:
                raise CheckpointError(f"The checkpoint {checkpoint} is at step {done} already, and `steps` is {steps}.")
            report(done)
            while done < steps and not stop.is_set():
                until = fleet.stop_at(done, min(done + length, steps))
                started = time.perf_counter()
                loss, recorded = fleet.advance(done, until)
                losses.append(loss)
                records.append(recorded)
                pace = fleet.seconds / max(time.perf_counter() - started, 1e-3)
                length = max(fleet.stride, min(fleet.capacity, int((until - done) * min(pace, 8))))
                done = until
                kept.keep(fleet, losses, done)
                try:
                    report(done)
                except BaseException:  # whoever is told may end the run
                    kept.keep(fleet, losses, done, now=True)
                    raise
            if done == steps:
                kept.clear()
            elif done:
                kept.keep(fleet, losses, done, now=True)
    return Result(
        seeds=which,
        steps=done,
        step=losses.ends(),
        loss=losses.means(),
        weights=fleet.weights(),
        records=records.joined(),
        diverged=losses.diverged,
        interrupted=stop.is_set(),
        seconds=time.perf_counter() - compiled,
        compile_seconds=compiled - began,
    )


def _checkpoint(path: Path | str | None, record: Mapping[str, Recorder], identity: Callable[[], str]) -> Checkpoint:
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


def _identity(loop: Loop, key: PRNGKeyArray, settings: dict[str, object]) -> str:
    """A digest of all that a run depends on: its arrays, and the program of one seed, in which every function is."""

    def whole(loop: Loop, key: PRNGKeyArray, zero: Int[Array, ""]) -> Any:
        carry, keys = loop.init(key)
        return advance(loop, carry, keys, zero, zero, 1)

    compiled: Any = eqx.filter_jit(whole)
    program = compiled.lower(loop, key, jnp.zeros((), "int32"))
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(program.as_text().encode())
    for leaf in [jax.random.key_data(key), *jax.tree.leaves(eqx.filter(loop, eqx.is_array))]:
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def numbers_as_arrays(loop: Loop) -> Loop:
    """Hyperparameters become arguments of the compiled program, so that another value does not compile anew."""
    loop, dtype = eqx.tree_at(lambda loop: loop.task, loop, loop.task.traced()), loop.network.cell.dtype
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if isinstance(leaf, float) else leaf, loop)


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

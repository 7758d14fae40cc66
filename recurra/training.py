"""Train one learner over many seeds at once."""

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.checkpoint import Checkpoint
from recurra.fleet import Fleet
from recurra.learners.base import Learner, check_pairing
from recurra.loop import APPLIED, Loop, Optimizer, Recorder
from recurra.network import Network
from recurra.progress import progress as show_progress
from recurra.recording import Losses, Records
from recurra.result import Result
from recurra.tasks.arrays import Arrays
from recurra.tasks.base import BLOCK, Task

#: the paper's learning rate, the fastest at which all of its algorithms settle
LEARNING_RATE = 1e-4
#: steps that one compiled call takes at most, and seconds it should last: progress and Ctrl-C stay prompt
CHUNK, CHUNK_SECONDS = 2**17, 0.5


def train(
    network: Network,
    learner: Learner,
    task: Task,
    *,
    steps: int,
    seeds: int | Sequence[int] = 1,
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
    optimizer; the recurrent weights and the readout each keep their own state of it. Losses are averaged over `window`
    steps (a hundredth of the run by default). `probes` are further learners that see the same steps and change nothing;
    `record` maps names to functions of a `Moment` (see `recurra.record`) whose results are kept for every step. One
    call of the compiled loop takes at most `chunk` steps. With a file for `checkpoint` the run is kept there now and
    then, and a run killed or interrupted goes on from it; it is removed at the end. `progress` shows a bar, or is
    called with the number of steps done. Ctrl-C returns what there is. The same key and settings give the same bits,
    whatever `chunk` is.
    """
    probes, record = dict(probes or {}), dict(record or {})
    which = _which(seeds)
    _check(network, learner, task, steps, probes, record)
    window = _whole("window", max(steps // 100, 1) if window is None else window)
    loop = Loop(network, {APPLIED: learner, **probes}, task, _optimizer(optimizer), record)
    loop = numbers_as_arrays(loop)

    losses, records = Losses(which, window), Records(loop.delay)
    kept = _checkpoint(checkpoint, loop, record, {"seeds": which, "window": window, "key": str(_key(key))})
    label = f"{learner.name}, {len(which)} seed{'s' * (len(which) > 1)}"
    with _ctrl_c() as stop, show_progress(label, steps, progress) as report:
        began = time.perf_counter()
        fleet = Fleet(loop, _key(key), which, _whole("chunk", chunk))
        compiled = time.perf_counter()
        done, length = kept.load(fleet, losses), min(fleet.capacity, 2 * BLOCK)
        report(done)
        while done < steps and not stop.is_set():
            until = min(done + length, steps)
            started = time.perf_counter()
            loss, recorded = fleet.advance(done, until)
            losses.append(loss)
            records.append(recorded)
            pace = CHUNK_SECONDS / max(time.perf_counter() - started, 1e-3)
            length = max(1, min(fleet.capacity, int((until - done) * min(pace, 8))))
            done = until
            kept.keep(fleet, losses, done)
            report(done)
    if done == steps:
        kept.clear()
    elif done:
        kept.keep(fleet, losses, done, now=True)
    fleet.close()
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


def _check(
    network: Network,
    learner: Learner,
    task: Task,
    steps: int,
    probes: Mapping[str, Learner],
    record: Mapping[str, Recorder],
) -> None:
    """Raise before anything runs if the parts do not fit together."""
    _whole("steps", steps)
    if steps >= 2**31:
        raise ValueError(f"`steps` must be below 2³¹, and is {steps}.")
    for name, expected, value in (("network", Network, network), ("learner", Learner, learner), ("task", Task, task)):
        if not isinstance(value, expected):
            raise TypeError(f"`{name}` must be a recurra {expected.__name__}, and is {value!r}.")
    for each in (learner, *probes.values()):
        check_pairing(each, network.cell)
    for what, ours, theirs in (("inputs", network.cell.n_in, task.n_in), ("outputs", network.n_out, task.n_out)):
        if ours != theirs:
            raise ValueError(f"The network has {ours} {what} and the task {theirs}: make them equal.")
    if isinstance(task, Arrays):
        task.check(network.loss, steps, network.cell.dtype)
    if APPLIED in probes:
        raise ValueError(f"A probe cannot be called {APPLIED!r}: that is the learner that trains.")
    if probes and not record:
        raise ValueError(
            "Probes leave no mark unless something is recorded of them: pass for example "
            "record={'alignments': recurra.record.alignments}."
        )
    for name, recorder in record.items():
        if not callable(recorder):
            raise TypeError(f"`record[{name!r}]` must be a function of a Moment, and is {recorder!r}.")


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{name}` must be a whole number, and is {value!r}.")
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1, and is {value}.")
    return value


def _which(seeds: int | Sequence[int]) -> tuple[int, ...]:
    which = tuple(range(_whole("seeds", seeds))) if isinstance(seeds, int) else tuple(int(seed) for seed in seeds)
    if not which:
        raise ValueError("`seeds` is empty: give at least one.")
    if len(set(which)) < len(which) or min(which) < 0:
        raise ValueError(f"`seeds` must be different whole numbers of at least 0, and are {which}.")
    return which


def _checkpoint(
    path: Path | str | None, loop: Loop, record: Mapping[str, Recorder], settings: dict[str, object]
) -> Checkpoint:
    if path is None:
        return Checkpoint(None, {})
    if record:
        raise ValueError("`checkpoint` keeps losses alone, and `record` asks for more: leave one of them out.")
    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"`checkpoint` is {path}, and there is no folder {path.parent}: create it first.")
    numbers = [float(leaf) for leaf in jax.tree.leaves(eqx.filter(loop, eqx.is_array)) if leaf.size == 1]
    return Checkpoint(path, {**settings, "loop": re.sub(r" at 0x\w+", "", str(loop)), "numbers": numbers})


def _key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    if not isinstance(key, int):
        return key
    if not 0 <= key < 2**32:
        raise ValueError(f"`key` must be in 0..2³²-1 when it is a number, and is {key}.")
    return jax.random.key(key)


def _optimizer(optimizer: Optimizer) -> Optimizer:
    if isinstance(optimizer, optax.GradientTransformation):
        return optimizer
    if checks.is_concrete_number(optimizer):
        if not 0 <= optimizer < float("inf"):
            raise ValueError(f"A learning rate must be finite and at least 0, and `optimizer` is {optimizer}.")
        return float(optimizer)
    raise TypeError(f"`optimizer` must be a learning rate or an Optax optimizer, and is {optimizer!r}.")


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

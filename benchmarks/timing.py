"""Seconds that the library and a bare loop take for the same number of steps, called in turn."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bare import ALGORITHMS
from bare.cells import CELLS as BARE_CELLS
from bare.loop import BLOCK, advance, start
from recurra.cli.bench import cell_of, prepared, settled
from recurra.engine.protocol import Run
from recurra.engine.scan import ScanEngine

#: What a careful programmer asks of the compiler: at its usual level 3 it unrolls rows of 32 numbers whole and then
#: does not vectorize them, which doubles the time of the smallest algorithms.
OPTIONS: dict = {"xla_backend_optimization_level": 2}
#: And to make small products of matrices part of the loop, where it is made of them.
PRODUCTS_IN_LOOP = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}

#: takes every seed so many steps further and returns the loss of each, (seed, step)
Runner = Callable[[], np.ndarray]
#: seconds of a call from which on it is repeated less often
LONG, FEW_REPEATS = 2.0, 3


class Setting(NamedTuple):
    """What is measured."""

    learner: str
    cell: str = "rnn"
    n: int = 32
    seeds: int = 1
    streams: int = 1
    cores: int = 1
    #: whether the library may put faster forms of learners in their place
    specialised: bool = True


class Timing(NamedTuple):
    """Medians of µs a step of one network, the ratio library / bare with its spread, and seconds to the first step."""

    steps: int
    library: float
    bare: float
    ratio: float
    least: float
    most: float
    library_compile: float
    bare_compile: float


def measure(setting: Setting, repeats: int, longest: float, one_by_one: bool) -> Timing | None:
    """Time one learner, unless a call takes longer than so many seconds.

    Pairs of calls are interleaved, so that a busy machine slows both. The bare loop may be told not to vmap seeds.
    """
    # What other processes do meanwhile does not count on one core; on several, only the clock on the wall tells.
    clock = time.process_time if setting.cores == 1 else time.perf_counter
    run, library_compile = timed(lambda: library_run(setting), clock)
    taking(run, 1)()
    few, more = (timed(taking(run, steps), clock)[1] for steps in (1, 9))  # a call costs something by itself
    if (more - few) / 8 * BLOCK > longest:
        return None
    _, steps = settled(run)
    steps = max(steps // BLOCK, 1) * BLOCK
    for _ in run.advance(-(-run.done // BLOCK) * BLOCK):  # to the end of the block
        pass
    library = taking(run, steps)
    bare, bare_compile = timed(lambda: fastest_bare_runner(setting, steps, one_by_one), clock)
    for runner in (library, bare):
        losses, seconds = timed(runner, clock)
        assert np.isfinite(losses).all(), f"{setting} diverged"
    repeats = repeats if seconds < LONG else min(repeats, FEW_REPEATS)
    pairs = []
    for i in range(repeats):
        order = (library, bare) if i % 2 == 0 else (bare, library)
        taken = {runner: timed(runner, clock)[1] for runner in order}
        pairs.append((taken[library], taken[bare]))
    ratios = [ours / theirs for ours, theirs in pairs]
    networks = setting.seeds * setting.streams
    ours, theirs = (statistics.median(column) / (steps * networks) * 1e6 for column in zip(*pairs, strict=True))
    return Timing(
        steps,
        ours,
        theirs,
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        library_compile,
        bare_compile,
    )


def library_run(setting: Setting) -> Run:
    """The library, ready to go."""
    cell, engine = cell_of(setting.cell, setting.n), ScanEngine(specialise=setting.specialised)
    return prepared(setting.learner, cell, setting.seeds, setting.streams, engine)


def taking(run: Run, steps: int) -> Runner:
    """A call that takes so many steps, as `train` does."""
    return lambda: np.concatenate([piece.loss for piece in run.advance(run.done + steps)], axis=1)


def fastest_bare_runner(setting: Setting, steps: int, one_by_one: bool = False) -> Runner:
    """A bare loop with the seeds of a core vmapped, or one after the other, and compiled as it is fastest here."""
    share = -(-setting.seeds // setting.cores)
    multiplies = setting.learner in ("kf-rtrl", "r-kf-rtrl", "r-ok") or setting.streams > 1
    ways = [OPTIONS, OPTIONS | PRODUCTS_IN_LOOP] if multiplies and setting.n <= 32 else [OPTIONS]
    runners = [
        bare_runner(setting, steps, size, options) for size in ({1} if one_by_one else {1, share}) for options in ways
    ]
    if len(runners) == 1:
        return runners[0]
    for runner in runners:
        runner()
    return min(runners, key=lambda runner: timed(runner, time.perf_counter)[1])


def bare_runner(setting: Setting, steps: int, size: int, options: dict) -> Runner:
    """A bare loop: groups of seeds, vmapped inside, on a thread for each core."""
    algorithm, make, streams = ALGORITHMS[setting.learner], BARE_CELLS[setting.cell], setting.streams
    blocks, groups = steps // BLOCK, np.array_split(np.arange(setting.seeds), -(-setting.seeds // size))
    alpha, root = jnp.asarray(1.0), jax.random.key(0)
    over = jax.vmap if size > 1 else lambda f, in_axes=0: f

    @jax.jit
    def begin(keys):
        return over(lambda key: start(algorithm, make(alpha), setting.n, key, streams))(keys)

    @jax.jit
    def go(alpha, running, keys, first):
        one = lambda running, key: advance(algorithm, make(alpha), *running, key, first, blocks, streams)
        return over(one)(running, keys)

    fold = lambda group: jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, group)
    keys = [fold(group) if size > 1 else jax.random.fold_in(root, group[0]) for group in groups]
    running = [begin(key) for key in keys]
    compiled = go.lower(alpha, running[0], keys[0], 0).compile(options)
    pool, number = ThreadPoolExecutor(setting.cores), 0

    def run() -> np.ndarray:
        nonlocal running, number
        call = lambda state, key: jax.block_until_ready(compiled(alpha, state, key, number))
        outputs = list(pool.map(call, running, keys))
        running, number = [(carry, past) for carry, past, _ in outputs], number + blocks
        return np.concatenate([np.atleast_2d(losses) for _, _, losses in outputs])

    return run


def timed(f: Callable, clock: Callable[[], float]) -> tuple:
    """What f returns, and the seconds it took."""
    began = clock()
    result = f()
    return result, clock() - began

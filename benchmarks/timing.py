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
from bare.loop import BLOCK, Algorithm, advance, start
from bare.past import KF_RTRL, R_KF_RTRL
from recurra.bench import CELLS, fleet_of, going

#: What a careful programmer asks of the compiler: at its usual level 3 it unrolls rows of 32 numbers whole and then
#: does not vectorize them, which doubles the time of the smallest algorithms.
OPTIONS: dict = {"xla_backend_optimization_level": 2}
#: And to make small products of matrices part of the loop, where it is made of them.
PRODUCTS_IN_LOOP = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}

#: takes every seed so many steps further and returns the loss of each, (seed, step)
Runner = Callable[[], np.ndarray]
FEW_STEPS = 10 * BLOCK


class Timing(NamedTuple):
    """Medians of µs a step a seed, the ratio library / bare with its spread, and seconds to the first step."""

    learner: str
    cell: str
    n: int
    seeds: int
    steps: int
    library: float
    bare: float
    ratio: float
    least: float
    most: float
    library_compile: float
    bare_compile: float


def measure(name: str, kind: str, n: int, seeds: int, repeats: int, cores: int) -> Timing:
    """Time one learner; pairs of calls are interleaved, so that a busy machine slows both."""
    # What other processes do meanwhile does not count on one core; on several, only the clock on the wall tells.
    clock = time.process_time if cores == 1 else time.perf_counter
    (begin, most_steps, seconds), library_compile = timed(lambda: library_runner(name, n, seeds, kind), clock)
    begin(FEW_STEPS)()
    steps = FEW_STEPS
    for _ in range(2):  # a short call is mostly overhead, and says little of the pace of a long one
        pace = timed(begin(steps), clock)[1] / steps
        steps = max(min(int(seconds / pace), most_steps) // BLOCK, 1) * BLOCK
    library = begin(steps)
    bare, bare_compile = timed(lambda: fastest_bare_runner(ALGORITHMS[name], n, seeds, steps, cores, kind), clock)
    for runner in (library, bare):
        assert np.isfinite(runner()).all(), f"{name} diverged"
    pairs = []
    for i in range(repeats):
        order = (library, bare) if i % 2 == 0 else (bare, library)
        seconds = {runner: timed(runner, clock)[1] for runner in order}
        pairs.append((seconds[library], seconds[bare]))
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(column) / (steps * seeds) * 1e6 for column in zip(*pairs, strict=True))
    return Timing(
        name,
        kind,
        n,
        seeds,
        steps,
        ours,
        theirs,
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        library_compile,
        bare_compile,
    )


def library_runner(name: str, n: int, seeds: int, kind: str = "rnn") -> tuple[Callable[[int], Runner], int, float]:
    """For a number of steps, a call of the compiled loop that takes them; most steps; seconds it lasts in `train`."""
    fleet = fleet_of(name, CELLS[kind](n), seeds)
    run = going(fleet)
    return lambda steps: lambda: run(steps), fleet.capacity, fleet.seconds


def fastest_bare_runner(algorithm: Algorithm, n: int, seeds: int, steps: int, cores: int, kind: str) -> Runner:
    """A bare loop with the seeds of a core vmapped, or one after the other, and compiled as it is fastest here."""
    share = -(-seeds // cores)
    ways = [OPTIONS, OPTIONS | PRODUCTS_IN_LOOP] if algorithm in (KF_RTRL, R_KF_RTRL) and n <= 32 else [OPTIONS]
    runners = [
        bare_runner(algorithm, n, seeds, steps, cores, size, kind, options) for size in {1, share} for options in ways
    ]
    if len(runners) == 1:
        return runners[0]
    for runner in runners:
        runner()
    return min(runners, key=lambda runner: timed(runner, time.perf_counter)[1])


def bare_runner(
    algorithm: Algorithm, n: int, seeds: int, steps: int, cores: int, size: int, kind: str, options: dict
) -> Runner:
    """A bare loop: groups of seeds, vmapped inside, on a thread for each core."""
    blocks, groups = steps // BLOCK, np.array_split(np.arange(seeds), -(-seeds // size))
    alpha, root = jnp.asarray(1.0), jax.random.key(0)
    over = jax.vmap if size > 1 else lambda f, in_axes=0: f

    @jax.jit
    def begin(keys):
        return over(lambda key: start(algorithm, BARE_CELLS[kind](alpha), n, key))(keys)

    @jax.jit
    def go(alpha, running, keys, first):
        cell = BARE_CELLS[kind](alpha)
        one = lambda running, key: advance(algorithm, cell, running[0], running[1], key, first, blocks)
        return over(one)(running, keys)

    fold = lambda group: jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, group)
    keys = [fold(group) if size > 1 else jax.random.fold_in(root, group[0]) for group in groups]
    running = [begin(key) for key in keys]
    compiled = go.lower(alpha, running[0], keys[0], 0).compile(options)
    pool, number = ThreadPoolExecutor(cores), 0

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

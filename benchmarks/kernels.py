"""How fast kernels are that hold a whole network each: every learner, cell and size, with every number of warps.

Run it on a machine with an NVIDIA GPU:

    python benchmarks/kernels.py --out kernels.json

It times the kernel alone, on states and rows that are all the same number: how long a step takes does not depend on
them. Programs are compiled in as many threads as there are cores. Rows that the file has already stay there, unless
they are measured again. `benchmarks/on_chip.py` times whole runs.
"""

import argparse
import functools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.on_chip.fits import padded_bytes, shapes
from recurra.engine.on_chip.fold import rounds, take
from recurra.engine.on_chip.loop import How, loop
from recurra.engine.specialise import specialised

CELLS = {"rnn": rc.RNN, "gru": rc.GRU, "lstm": rc.LSTM}
#: few networks, each with a multiprocessor to itself, and many; and the steps that are timed of each
FEW, MANY = (20, 4096), (8192, 512)
REPEATS = 3
#: what a setting is
NAMES = ("learner", "cell", "n", "warps", "count", "precision")
#: warps to try by size: for most learners, for those that multiply matrices, and for RTRL, which keeps n³ numbers
WARPS = {8: (1,), 16: (1, 2), 32: (1, 2, 4), 64: (2, 4, 8), 128: (8, 16)}
OF_PRODUCTS = {8: (1, 2), 16: (1, 2, 4), 32: (1, 2, 4), 64: (8, 16)}
OF_RTRL = {8: (1, 2), 16: (4, 8), 32: (16,)}
TRIED = {"kf-rtrl": OF_PRODUCTS, "r-kf-rtrl": OF_PRODUCTS, "rtrl": OF_RTRL}
#: cells with several gates
OF_GATES = {8: (1,), 16: (1, 2), 32: (2, 4), 64: (4, 8)}
#: kernels that take longer spill registers, and are not timed for many networks: it would take minutes
SLOW_MICROSECONDS = 40


def experiment_of(learner: str, cell: str, n: int) -> Experiment:
    """A network with two inputs and outputs on Add, with plain gradient descent."""
    network = rc.Network(CELLS[cell](2, n, dtype="float32"), 2)
    return specialised(Experiment.of(network, {"applied": rc.LEARNERS[learner]()}, 1e-4, rc.Add()).traced, "chip")


def kernel_of(experiment: Experiment, warps: int, steps: int, precision: str):
    """All steps of many networks: a function of their states and rows."""
    zero, last = jnp.zeros((), "int32"), jnp.full((), steps, "int32")
    step = functools.partial(take, experiment)
    one = lambda state, rows: loop(step, state, rows, zero, last, zero, How(warps, precision), rounds(experiment))
    return jax.jit(lambda states, rows: jax.vmap(one)(states, rows))


def compiled(setting, precision):
    """A setting with its compiled program and the seconds that compiling took, or with the error."""
    learner, cell, n, warps, (count, steps) = setting
    try:
        experiment = experiment_of(learner, cell, n)
        carry, rows = shapes(experiment)
        many = lambda leaf, *leading: jax.ShapeDtypeStruct((count, *leading, *leaf.shape[len(leading) :]), leaf.dtype)
        states = jax.tree.map(many, carry.learning)
        flowing = jax.tree.map(lambda leaf: many(leaf, steps), rows)
        began = time.perf_counter()
        program = kernel_of(experiment, warps, steps, precision).lower(states, flowing).compile()
        return setting, program, (states, flowing), time.perf_counter() - began
    except Exception as error:  # whatever it is, the other settings go on
        return setting, None, f"{type(error).__name__}: {str(error)[:200]}", 0.0


def timed(program, shapes) -> float:
    """Seconds a call takes, the least of some. What numbers there are does not matter for it."""
    number = lambda leaf: jnp.full(leaf.shape, 0.1 if leaf.dtype == jnp.float32 else 0, leaf.dtype)
    states, rows = jax.tree.map(number, shapes)
    jax.block_until_ready(program(states, rows))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(program(states, rows))
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def fastest(rows: list[dict]) -> list[dict]:
    """The table of the engine: for each learner, cell and size the fastest kernels for few networks and for many."""
    kinds = {(row["learner"], row["cell"], row["n"]): [] for row in rows}
    for row in rows:
        if "us" in row and row["precision"] == "float32":
            kinds[row["learner"], row["cell"], row["n"]].append(row)
    table = []
    for (learner, cell, n), own in kinds.items():
        few = min((row for row in own if row["count"] == FEW[0]), key=lambda row: row["us"], default=None)
        many = max((row for row in own if row["count"] == MANY[0]), key=lambda row: row["millions"], default=None)
        many = many or few  # it is slow
        if few and many:
            best = few["warps"], round(few["us"], 3), many["warps"], round(many["millions"], 2)
            carried = padded_bytes(experiment_of(learner, cell, n))
            table.append({"learner": learner, "cell": cell, "n": n, "fastest": best, "carried": carried})
    return table


def main() -> None:
    """Compile all settings at once, time them one by one, and write each result as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", default="fixed,rflo,uoro,kf-rtrl,r-kf-rtrl,kernl,dni,dni-b,e-bptt,f-bptt,rtrl")
    parser.add_argument("--cells", default="rnn")
    parser.add_argument("--sizes", default="32")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--table", type=Path, help="also write the engine's table, measured.json")
    parser.add_argument("--out", type=Path, default=Path("kernels.json"))
    given = parser.parse_args()
    settings = [
        (learner, cell, int(n), warps, counts)
        for learner in given.learners.split(",")
        for cell in given.cells.split(",")
        for n in given.sizes.split(",")
        for warps in (TRIED.get(learner, WARPS) if cell == "rnn" else OF_GATES).get(int(n), ())
        for counts in (FEW, MANY)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compiling would disturb what is timed, so it comes first
        programs = list(pool.map(functools.partial(compiled, precision=given.precision), settings))
    found, slow = json.loads(given.out.read_text()) if given.out.exists() else [], set()
    for setting, program, about, compiling in programs:
        *kind, (count, steps) = setting
        if tuple(kind) in slow:
            continue
        row = dict(zip(NAMES, (*kind, count, given.precision), strict=True))
        found = [other for other in found if any(other[name] != row[name] for name in NAMES)]  # a row is replaced
        if program is None:
            row["error"] = about
        else:
            seconds = timed(program, about)
            row |= {"us": seconds / steps * 1e6, "millions": count * steps / seconds / 1e6, "compile": compiling}
            if row["us"] > SLOW_MICROSECONDS and count == FEW[0]:
                slow.add(tuple(kind))
        found.append(row)
        print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()), flush=True)
        given.out.write_text(json.dumps(found, indent=1))
    if given.table:
        given.table.write_text("[\n" + ",\n".join(map(json.dumps, fastest(found))) + "\n]\n")


if __name__ == "__main__":
    main()

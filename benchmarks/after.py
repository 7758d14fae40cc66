"""What came after the paper: step times beside bare loops, beside braintrace and beside each other, on one core.

    python benchmarks/after.py --out bench                  all there is; what is not installed is left out
    python benchmarks/after.py --rows bare --n 32           some of it

Every row is a ratio of two or more contestants, which are called in turn, and begin in turn: see `turns`. CPU seconds
are counted, and the ratio is the median over rounds. Before that, bare loops must take the steps of the library.
`peers/braintrace_after.py` checks braintrace's. Writes after.json, and prints the table.
"""

import argparse
import functools
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: how long a call lasts, the steps that tell its pace, and the most that it can take
SECONDS, FEW_STEPS, MOST_STEPS = 0.3, 256, 2**17
#: rows of each kind: the most that a ratio may be
WANTED = {"bare": 1.10, "braintrace": 1.0, "cells": 1.0, "learners": 1.5, "layers": 1.15, "sparse": 1.0}
#: and those of which nothing is wanted
KINDS = (*WANTED, "beside")
#: of the library and of braintrace: what does the same, at which sizes and streams, and how much faster it should be
PEERS = [
    ("pp_prop, RNN", "pp_prop leaky", ((32, 1), (512, 1), (32, 64)), 1.0),
    ("SnAp-1, RNN", "SnAp-1 leaky", ((32, 1), (512, 1), (32, 64)), 1.0),
    ("RFLO, ALIF", "D_RTRL ALIF", ((100, 1), (512, 1)), 5.0),
]
SPARSE_N, DENSITY = 1024, 0.01

#: from a number of steps, a call that takes them; it is made once for a row
Run = Callable[[int], Callable[[], object]]
Runs = dict[str, Callable[[], Run]]


def main() -> None:
    """Check, measure, print, write."""
    options = parse()
    if hasattr(os, "sched_setaffinity"):  # before a package counts the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[options.core :][:1])
    import agreement
    from bare.after import AFTER
    from compare import peer_versions
    from recurra.training.provenance import machine, versions

    if "bare" in options.rows:
        agreement.check_after(list(AFTER))
    rows = []
    for kind, what, (n, streams), runs, wanted in contests(options):
        rows.append(row(runs, streams, options.repeats) | {"kind": kind, "what": what, "n": n, "streams": streams})
        if wanted is not None:
            rows[-1] |= {"wanted": wanted, "met": rows[-1]["ratio"][0] <= wanted}
        print(line(rows[-1]), flush=True)
        if options.out:  # as it is measured
            options.out.mkdir(parents=True, exist_ok=True)
            report = {"machine": machine(), "versions": versions() | peer_versions(), "rows": rows}
            (options.out / "after.json").write_text(json.dumps(report, indent=1) + "\n")


def contests(options: argparse.Namespace) -> Iterator[tuple[str, str, tuple[int, int], Runs, float | None]]:
    """Each row: its kind, what it is, its units and streams, who runs, and the ratio that is wanted, if one is.

    The ratio is that of the first to the sum of the others.
    """
    import recurra
    from pairs import PAIRS, rnn
    from recurra.cells import Sparsely

    ours = lambda cell, learner, streams=1: functools.partial(library_run, cell, learner, streams)
    paired = lambda name, n, streams: ours(PAIRS[name].cell(n, "float32", 1.0), PAIRS[name].learner, streams)
    plain = lambda n: rnn(n, "float32", 1.0)
    rflo = lambda n: ours(plain(n), recurra.RFLO())

    def rows() -> Iterator[tuple[str, str, tuple[int, int], Runs]]:
        sizes = [(n, 1) for n in options.n] + [(min(options.n), s) for s in options.streams if s > 1]
        for size in sizes:
            for name in PAIRS:
                yield "bare", name, size, {"library": paired(name, *size), "bare": bare(name, *size)}
        for name, theirs, each, _ in PEERS:
            for size in each if importlib.util.find_spec("braintrace") else ():
                yield "braintrace", name, size, {"library": paired(name, *size), "braintrace": peer(theirs, *size)}
        for n in options.n:
            for cell in (recurra.LRU(2, n, dtype="float32"), recurra.RTU(2, n, dtype="float32")):
                what = f"RTRL, {cell.name} / RFLO, RNN"
                yield "cells", what, (n, 1), {"RTRL": ours(cell, recurra.RTRL()), "RFLO": rflo(n)}
            yield "learners", "SnAp-1 / RFLO", (n, 1), {"SnAp-1": ours(plain(n), recurra.SnAp1()), "RFLO": rflo(n)}
            for one, other in ((recurra.DiagonalUORO(), recurra.UORO()), (recurra.PPProp(), recurra.RFLO())):
                pair = {learner.name: ours(plain(n), learner) for learner in (one, other)}
                yield "beside", " / ".join(pair), (n, 1), pair
            upper = recurra.RNN(n, n, dtype="float32")
            stack = ours(recurra.Stack(plain(n), upper), recurra.Layered(recurra.RFLO()))
            alone = {"lower": rflo(n), "upper": ours(upper, recurra.RFLO())}
            yield "layers", "two layers / their sum", (n, 1), {"stack": stack} | alone
        cell = recurra.RNN(2, SPARSE_N, w_rec=Sparsely(DENSITY), dtype="float32")
        for learner in (recurra.RFLO(), recurra.SnAp1()):
            what = f"{learner.name}, sparse / RFLO, dense"
            yield "sparse", what, (SPARSE_N, 1), {"sparse": ours(cell, learner), "dense": rflo(SPARSE_N)}

    times = {name: faster for name, _, _, faster in PEERS}
    for kind, what, size, runs in rows():
        if kind in options.rows:
            wanted = WANTED.get(kind)
            yield kind, what, size, runs, wanted and wanted / (times[what] if kind == "braintrace" else 1)


def row(runs: Runs, streams: int, repeats: int) -> dict[str, Any]:
    """µs a step of one network for every contestant, and the ratio of the first to the sum of the others."""
    from bare.loop import BLOCK
    from timing import timed
    from turns import called_twice, in_turn, medians

    makers = {}
    for who, make in runs.items():
        run = make()
        few = called_twice(run(FEW_STEPS))
        pace = timed(few, time.process_time)[1] / FEW_STEPS
        steps = max(int(min(SECONDS / pace, MOST_STEPS)) // BLOCK, 1) * BLOCK
        makers[who] = functools.partial(run, steps), steps * streams
    rounds, _ = in_turn(makers, repeats)
    first, *others = runs
    ratios = sorted(taken[first] / sum(taken[who] for who in others) for taken in rounds)
    return {"micros": medians(rounds), "ratio": [statistics.median(ratios), ratios[0], ratios[-1]]}


def library_run(cell: Any, learner: Any, streams: int) -> Run:
    """The library, as `train` sets it up: on the Add task, or on random rows if a cell takes more inputs."""
    import jax

    from recurra import Add, LearningStep, Network
    from recurra.engine.experiment import Experiment
    from recurra.engine.protocol import Members
    from recurra.engine.scan import ScanEngine
    from recurra.training.train import LEARNING_RATE
    from timing import taking

    task = Add() if cell.n_in == 2 else random_rows(cell.n_in)
    step = LearningStep(Network(cell, 2), learner, LEARNING_RATE, streams=streams)
    run = ScanEngine().prepare(Experiment(step, task), Members.of_seeds(jax.random.key(0), range(1)))
    return functools.partial(taking, run)


def random_rows(n_in: int) -> Any:
    """A task with so many inputs, and labels like those of the Add task."""
    import numpy as np

    from recurra import Arrays

    rng = np.random.default_rng(0)
    inputs, share = rng.standard_normal((1024, n_in)), rng.random(1024)
    return Arrays(inputs.astype("float32"), np.column_stack([share, 1 - share]).astype("float32"), repeat=True)


def bare(name: str, n: int, streams: int) -> Callable[[], Run]:
    """What makes a bare loop."""
    return functools.partial(bare_run, name, n, streams)


def bare_run(name: str, n: int, streams: int) -> Run:
    """A bare loop."""
    import jax
    import numpy as np

    from bare.after import AFTER, start
    from bare.loop import BLOCK, advance
    from timing import OPTIONS

    (algorithm, make, numbers), key = AFTER[name], jax.random.key(0)
    running = jax.jit(lambda numbers: start(algorithm, make(numbers), n, key, streams))(numbers)
    number = 0

    def taking(steps: int) -> Callable[[], np.ndarray]:
        blocks = steps // BLOCK

        @jax.jit
        def go(numbers, running, first):
            return advance(algorithm, make(numbers), *running, key, first, blocks, streams)

        compiled = go.lower(numbers, running, 0).compile(OPTIONS)

        def call() -> np.ndarray:
            nonlocal running, number
            carry, past, losses = jax.block_until_ready(compiled(numbers, running, number))
            running, number = (carry, past), number + blocks
            return np.asarray(losses)

        return call

    return taking


def peer(what: str, n: int, streams: int) -> Callable[[], Run]:
    """What makes a run of braintrace."""

    def make() -> Run:
        from peers.braintrace_after import runner

        return lambda steps: runner(what, n, steps, streams)

    return make


def line(found: dict) -> str:
    """One row of the table."""
    size = f"n={found['n']:<4} streams={found['streams']:<2}"
    micros = ", ".join(f"{who} {value:.3g}" for who, value in found["micros"].items())
    ratio, least, most = found["ratio"]
    wanted = f", wanted {found['wanted']:.2f}{'' if found['met'] else '  MISSED'}" if "wanted" in found else ""
    head = f"{found['kind']:10} {found['what']:30} {size}  {ratio:.2f} ({least:.2f}..{most:.2f})"
    return f"{head}{wanted}   µs: {micros}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=KINDS, default=KINDS, help="which rows (all)")
    parser.add_argument("--n", nargs="+", type=int, default=[32, 512], metavar="UNITS", help="how many units (32 512)")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 64], help="of bare loops, at the fewest units")
    parser.add_argument("--repeats", type=int, default=7, help="rounds (7)")
    parser.add_argument("--core", type=int, default=0, metavar="NUMBER", help="which core (0)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for after.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()

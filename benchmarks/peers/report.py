"""What every peer shares: a stopwatch, and a script that prints one JSON object.

A peer may need packages that the library does not, so each one also runs in a process of its own:

    python benchmarks/peers/torch_peer.py --n 32 512 --repeats 5 --json torch.json

CPU seconds of one core are counted, as for the library: what other processes do meanwhile hardly changes them.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

#: of a peer: for what to run, a number of units and a number of steps, a call that takes them
MakeRunner = Callable[[str, int, int], Callable[[], object]]


def micros_a_step(run: Callable[[], object], steps: int, repeats: int) -> tuple[float, list[float]]:
    """The median of µs a step, and every repeat.

    Two calls come first and do not count: braintrace compiles again in its second.
    """
    run()
    run()
    micros = []
    for _ in range(repeats):
        began = time.process_time()
        run()
        micros.append((time.process_time() - began) / steps * 1e6)
    return statistics.median(micros), micros


def usual_steps(n: int) -> int:
    """Enough that starting a call does not count, few enough that the slowest takes seconds."""
    return 4000 if n <= 64 else 400


def use_one_core() -> None:
    """To be called before a numerical package counts the cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])


def script(name: str, version: str, known: Sequence[str], make_runner: MakeRunner) -> None:
    """Measure what the command line asks for, and print it as JSON."""
    parser = argparse.ArgumentParser(description=f"µs a step of {name} on the Add task, batch 1, one core.")
    parser.add_argument("--what", nargs="+", choices=known, default=list(known), help="what to run (all)")
    parser.add_argument("--n", nargs="+", type=int, default=[32], help="units (32)")
    parser.add_argument("--steps", type=int, help="steps a call (4000, or 400 for more than 64 units)")
    parser.add_argument("--repeats", type=int, default=5, help="calls (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the object there too")
    options = parser.parse_args()
    rows = []
    for n in options.n:
        steps = options.steps or usual_steps(n)
        for what in options.what:
            micros, repeats = micros_a_step(make_runner(what, n, steps), steps, options.repeats)
            rows.append({"what": what, "n": n, "micros": micros, "repeats": repeats})
    text = json.dumps({"name": name, "version": version, "rows": rows})
    print(text)
    if options.json:
        options.json.write_text(text + "\n")

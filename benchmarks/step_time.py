"""Step times of every learner against a bare loop in plain JAX that does the same work.

    python benchmarks/step_time.py                          all learners, 1 and 20 seeds, on one core
    python benchmarks/step_time.py --cores 2                seeds split over two cores on both sides
    python benchmarks/step_time.py --learners rflo uoro     some of them
    python benchmarks/step_time.py --cell lstm              another cell: gru or lstm
    python benchmarks/step_time.py --check                  only confirm that both sides compute the same

The network has n units, of a tanh RNN if no other cell is named, and learns the Add task. A ratio is library / bare; at
most 1.10 is wanted. On one core CPU seconds are counted, which other processes hardly change; on more, seconds on the
wall. XLA_FLAGS hold for both.
"""

import argparse
import itertools
import json
import os
import platform
from pathlib import Path

WANTED = 1.10
#: the largest network of learners whose state or time grows too fast for the others' sizes
LARGEST = {"rtrl": 128, "r-ok": 128}


def main() -> None:
    """Check, measure, print."""
    options = parse()
    if hasattr(os, "sched_setaffinity"):  # before JAX counts the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])

    import agreement
    import timing
    from bare import ALGORITHMS

    unknown = set(options.learners) - set(ALGORITHMS)
    if unknown:
        raise SystemExit(f"There are no learners {sorted(unknown)}: choose from {', '.join(ALGORITHMS)}.")
    names = options.learners or list(ALGORITHMS)
    agreement.check(names, options.cell)
    if options.check:
        return

    cores = f"{options.cores} core{'s' * (options.cores > 1)}"
    print(
        f"\nµs a step a seed on {cores}, medians of {options.repeats} paired calls, each as long as `train` makes them"
    )
    print(f"XLA_FLAGS={os.environ.get('XLA_FLAGS', '')}\n")
    print(f"cell: {options.cell}")
    print("learner       n seeds  steps  library     bare  ratio  spread        compile s")
    rows = []
    for n, seeds, name in itertools.product(options.n, options.seeds, names):
        if n > LARGEST.get(name, n):
            continue
        rows.append(timing.measure(name, options.cell, n, seeds, options.repeats, options.cores))
        print(line(rows[-1]), flush=True)
    if options.json:
        setting = {"cores": options.cores, "repeats": options.repeats}
        setting["xla_flags"] = os.environ.get("XLA_FLAGS", "")
        report = {**setting, "machine": platform.machine(), "rows": [row._asdict() for row in rows]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def line(row) -> str:
    """One learner's row of the table."""
    spread = f"{row.least:.2f}..{row.most:.2f}"
    compiled = f"{row.library_compile:.1f} / {row.bare_compile:.1f}"
    mark = "" if row.ratio <= WANTED else "  slow"
    return (
        f"{row.learner:10} {row.n:4d} {row.seeds:5d} {row.steps:6d} {row.library:8.2f} {row.bare:8.2f} "
        f"{row.ratio:6.2f}  {spread:12} {compiled:>10}{mark}"
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", nargs="+", default=[], metavar="NAME", help="which learners (all)")
    parser.add_argument("--cell", choices=("rnn", "gru", "lstm"), default="rnn", help="which cell (rnn)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 20], metavar="COUNT", help="how many seeds (1 20)")
    parser.add_argument("--n", nargs="+", type=int, default=[32], metavar="UNITS", help="how many units (32)")
    parser.add_argument("--cores", type=int, default=1, help="cores to use (1)")
    parser.add_argument("--repeats", type=int, default=7, help="pairs of calls (7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table there")
    parser.add_argument("--check", action="store_true", help="only confirm that both sides compute the same")
    return parser.parse_args()


if __name__ == "__main__":
    main()

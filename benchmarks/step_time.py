"""Step times of every learner against a bare loop in plain JAX that does the same work.

    python benchmarks/step_time.py                          all learners, 1 and 20 seeds, on one core
    python benchmarks/step_time.py --cores 2                seeds split over two cores on both sides
    python benchmarks/step_time.py --learners rflo uoro     some of them
    python benchmarks/step_time.py --cell lstm --n 128      another cell: gru or lstm; another size
    python benchmarks/step_time.py --unspecialised          learners as published, no faster forms of them
    python benchmarks/step_time.py --check                  only confirm that both sides compute the same
    python benchmarks/step_time.py --all --out bench        every cell and size there is a figure of: `make floor`

The network has n units, of a tanh RNN if no other cell is named, and learns the Add task. A ratio is library / bare; at
most 1.10 is wanted. On one core CPU seconds are counted, which other processes hardly change; on more, seconds on the
wall. XLA_FLAGS hold for both. With --out each row is kept in step_time.json as it is measured, in the place of an older
one of the same setting, and drawn in ratios.svg; with --missing only what is not there is measured.
"""

import argparse
import itertools
import json
import os
from pathlib import Path

WANTED = 1.10
#: the largest network of learners whose state or time grows too fast for the others' sizes
LARGEST = {"rtrl": 128, "r-ok": 128}
#: units, seeds and streams of --all
EVERY_SIZE = [
    (32, 1, 1),
    (32, 20, 1),
    (32, 1, 64),
    (128, 1, 1),
    (128, 20, 1),
    (512, 1, 1),
    (1024, 1, 1),
    (32, 256, 1),
]
EVERY_CELL = ("rnn", "gru", "lstm")


def main() -> None:
    """Check, measure, print, keep."""
    options = parse()
    if hasattr(os, "sched_setaffinity"):  # before JAX counts the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[options.core :][: options.cores])

    import agreement
    import timing
    from bare import ALGORITHMS
    from recurra.cli.bench import fits

    unknown = set(options.learners) - set(ALGORITHMS)
    if unknown:
        raise SystemExit(f"There are no learners {sorted(unknown)}: choose from {', '.join(ALGORITHMS)}.")
    names = options.learners or list(ALGORITHMS)
    cells = options.cell or (EVERY_CELL if options.all else ("rnn",))
    sizes = EVERY_SIZE if options.all else list(itertools.product(options.n, options.seeds, options.streams))
    for cell, streams in itertools.product(cells, sorted({min(streams, 3) for _, _, streams in sizes})):
        agreement.check(names, cell, streams)
    if options.check:
        return

    kept = Kept(options.out)
    print(f"\nµs a step of one network, medians of {options.repeats} paired calls, each as long as `train` makes them")
    print(f"XLA_FLAGS={os.environ.get('XLA_FLAGS', '')}\n")
    print("learner    cell    n seeds streams  library     bare  ratio  spread        compile s")
    for cell, (n, seeds, streams), name in itertools.product(cells, sizes, names):
        setting = timing.Setting(name, cell, n, seeds, streams, options.cores, not options.unspecialised)
        if n > LARGEST.get(name, n) or not fits(name, cell, n, seeds * streams):
            continue
        if options.missing and kept.has(setting):
            continue
        found = timing.measure(setting, options.repeats, options.longest, options.one_by_one)
        print(line(setting, found), flush=True)
        kept.put(setting, found)
    kept.draw()


class Kept:
    """The rows measured so far, in a file if there is a folder for it."""

    def __init__(self, folder: Path | None):
        self.path = folder / "step_time.json" if folder else None
        self.rows = json.loads(self.path.read_text())["rows"] if self.path and self.path.exists() else []

    def draw(self) -> None:
        """A plot of all rows beside the file."""
        from ratios import plot

        shown = [row for row in self.rows if row["cores"] == 1 and row.get("specialised", True) and row["ratio"]]
        if self.path and shown:
            self.path.with_name("ratios.svg").write_text(plot(shown, WANTED))

    def has(self, setting) -> bool:
        """Whether it was measured, and did not take too long."""
        return any(self._is_of(row, setting) and row["ratio"] for row in self.rows)

    def put(self, setting, found) -> None:
        """Keep what was found, None if it would have taken too long."""
        if not self.path:
            return
        from recurra.training.provenance import machine, versions

        values = {"ratio": None} if found is None else found._asdict()
        new = setting._asdict() | {name: value and round(value, 4) for name, value in values.items()}
        self.rows = [row for row in self.rows if not self._is_of(row, setting)] + [new]
        report = {"machine": machine(), "versions": versions(), "rows": self.rows}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")  # a stop while writing loses nothing
        beside.write_text(json.dumps(report, indent=1) + "\n")
        beside.replace(self.path)

    def _is_of(self, row: dict, setting) -> bool:
        # Rows of an older file say nothing of how learners were taken: they were specialised.
        return all(row.get(name, True) == value for name, value in setting._asdict().items())


def line(setting, found) -> str:
    """One row of the table."""
    start = f"{setting.learner:10} {setting.cell:4} {setting.n:4d} {setting.seeds:5d} {setting.streams:7d}"
    if found is None:
        return f"{start}  takes too long here"
    spread = f"{found.least:.2f}..{found.most:.2f}"
    compiled = f"{found.library_compile:.1f} / {found.bare_compile:.1f}"
    mark = "" if found.ratio <= WANTED else "  slow"
    return f"{start} {found.library:8.2f} {found.bare:8.2f} {found.ratio:6.2f}  {spread:12} {compiled:>10}{mark}"


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--learners", nargs="+", default=[], metavar="NAME", help="which learners (all)")
    add("--cell", nargs="+", choices=EVERY_CELL, default=[], help="which cells (rnn, or all with --all)")
    add("--seeds", nargs="+", type=int, default=[1, 20], metavar="COUNT", help="how many seeds (1 20)")
    add("--streams", nargs="+", type=int, default=[1], metavar="COUNT", help="how many streams share weights (1)")
    add("--n", nargs="+", type=int, default=[32], metavar="UNITS", help="how many units (32)")
    add(
        "--all", action="store_true", help="every size there is a figure of, in the place of --n, --seeds and --streams"
    )
    add("--cores", type=int, default=1, help="cores to use (1)")
    add("--core", type=int, default=0, metavar="NUMBER", help="the first of them (0)")
    add("--repeats", type=int, default=7, help="pairs of calls (7)")
    add("--longest", type=float, default=15, metavar="SECONDS", help="a call that takes longer is left out (15)")
    add("--unspecialised", action="store_true", help="the library takes learners as published, in no faster form")
    add("--one-by-one", action="store_true", help="bare loops do not vmap seeds, where that compiles for too long")
    add("--out", type=Path, metavar="DIR", help="folder for step_time.json")
    add("--missing", action="store_true", help="measure only what is not there yet")
    add("--check", action="store_true", help="only confirm that both sides compute the same")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Step times beside every peer, in one process on one core: `make bench`, or

    python benchmarks/compare.py --out bench              all there is; what is not installed is left out
    python benchmarks/compare.py --n 32 --learners rflo   some of it

Contestants that do the same work are called in turn, and begin in turn, so that a busy machine slows all of them; a
ratio is the median over rounds. CPU seconds are counted, and apart from them those that it takes to prepare, which is
mostly to compile; the first of a package pays for what it shares with the next. Writes compare.json and compare.svg,
and prints the table.
"""

import argparse
import functools
import importlib.util
import json
import os
import statistics
import time
from pathlib import Path

#: peers of a learner: the module that runs them and what it calls them
PEERS = {
    "rflo": [
        ("braintrace", "peers.braintrace_peer", "D_RTRL leaky"),
        # Nothing of the library's is the same; RFLO is the nearest, as cheap and as local.
        ("braintrace", "peers.braintrace_peer", "pp_prop leaky"),
    ],
    "uoro": [("braintrace", "peers.braintrace_peer", "UORO leaky")],
    "e-bptt": [("torch", "peers.torch_peer", "nn.RNN"), ("torch", "peers.torch_peer", "nn.RNNCell")],
}
#: above this size a NumPy loop, or a learner of that cost, takes too long to wait for
LARGEST = {"rtrl": 128, "r-ok": 128}
NUMPY_LARGEST = 128
MANY = 20
#: how long a call of the library lasts, the steps that tell its pace, and the most that it can take
SECONDS, FEW_STEPS, MOST_STEPS = 0.4, 1280, 2**17


def main() -> None:
    """Measure, print, write."""
    options = parse()
    if hasattr(os, "sched_setaffinity"):  # before a package counts the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    import agreement
    import textbook_agreement
    from bare import ALGORITHMS
    from recurra.training.provenance import machine, versions

    names = options.learners or list(ALGORITHMS)
    agreement.check(names)
    textbook_agreement.check(names)
    sizes = [(name, n, 1) for n in options.n for name in names if n <= LARGEST.get(name, n)]
    # A NumPy loop has one network; libraries are also made for many that share their weights.
    sizes += [(name, min(options.n), options.streams) for name in names if name in PEERS and options.streams > 1]
    rows = []
    for size in sizes:
        rows.append(row(*size, options.repeats))
        print(line(rows[-1]), flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine(), "versions": versions() | peer_versions(), "rows": rows}
        (options.out / "compare.json").write_text(json.dumps(report, indent=1) + "\n")
        (options.out / "compare.svg").write_text(plot(rows))


def row(name: str, n: int, streams: int, repeats: int) -> dict:
    """Every contestant's µs a step of one network, and how many times longer than the library it takes."""
    import jax

    from timing import BLOCK, Setting, fastest_bare_runner, library_run, taking, timed
    from turns import in_turn, medians

    clock = time.process_time
    setting = Setting(name, n=n, streams=streams)
    few = taking(library_run(setting), FEW_STEPS)
    few()
    pace = timed(few, clock)[1] / FEW_STEPS
    jax.clear_caches()  # what was compiled for the pace is compiled once more, and that is timed
    whole = lambda steps: max(int(min(steps, MOST_STEPS)) // BLOCK, 1) * BLOCK
    steps, each = whole(SECONDS / pace), whole(SECONDS / pace / MANY)
    # by contestant: what makes a call, and the steps of a network that it takes
    makers = {
        "library": (lambda: taking(library_run(setting), steps), steps * streams),
        "bare": (lambda: fastest_bare_runner(setting, steps), steps * streams),
    }
    best = "library"
    if n <= 32 and streams == 1:
        best = f"library, {MANY} seeds"
        makers[best] = lambda: taking(library_run(setting._replace(seeds=MANY)), each), each * MANY
    makers |= others(name, n, streams)

    rounds, prepared = in_turn(makers, repeats)
    micros = medians(rounds)
    times = lambda who: [taken[who] / taken["library" if who == "bare" else best] for taken in rounds]
    ratios = {who: sorted(times(who)) for who in makers if not who.startswith("library")}
    spread = {who: [statistics.median(each), each[0], each[-1]] for who, each in ratios.items()}
    prepared.pop("bare")  # it compiles several ways to find the fastest
    return {"learner": name, "n": n, "streams": streams, "micros": micros, "ratio": spread, "prepared": prepared}


def others(name: str, n: int, streams: int) -> dict:
    """The NumPy loop and the peers that are installed: what makes a call, and the steps of a network that it takes."""
    import textbook

    makers = {}
    if n <= NUMPY_LARGEST and streams == 1:
        steps = 2000 if n <= 64 else 200
        makers["NumPy"] = functools.partial(textbook.runner, name, n, steps), steps
    for package, module, what in PEERS.get(name, []):
        if importlib.util.find_spec(package):
            steps = 400 if n > 64 or (what.startswith("UORO") and streams > 1) else 4000  # it takes seconds
            make = importlib.import_module(module).runner
            makers[f"{package} {what}"] = functools.partial(make, what, n, steps, streams), steps * streams
    return makers


def peer_versions() -> dict[str, str]:
    """Of the peers that are installed."""
    from importlib.metadata import version

    return {name: version(name) for name in ("braintrace", "torch") if importlib.util.find_spec(name)}


def line(found: dict) -> str:
    """One learner's line: µs of each contestant, and in brackets how many times the library's that is."""
    parts = [f"{found['learner']:10} n={found['n']:<4} streams={found['streams']:<2}"]
    for who, micros in found["micros"].items():
        ratio, prepared = found["ratio"].get(who), found["prepared"].get(who)
        times = f" (×{ratio[0]:.2f}, {ratio[1]:.2f}..{ratio[2]:.2f})" if ratio else ""
        parts.append(f"{who} {micros:.2f}{times}" + (f" after {prepared:.1f} s" if prepared else ""))
    return "  ".join(parts)


def plot(rows: list[dict]) -> str:
    """A dot for each contestant at the smallest size."""
    from recurra.pages import plots

    n = min(row["n"] for row in rows)
    shown = [row for row in rows if row["n"] == n and row["streams"] == 1]
    looks = {
        "NumPy": ("#8c8c8c", "s"),
        "bare": ("#1c1e21", "|"),
        "braintrace": ("#d6401f", "D"),
        "torch": ("#d39a00", "^"),
    }
    with plots.style():
        figure = plots.sheet(7.2, 0.34 * len(shown) + 1.5)
        axes = figure.subplots()
        figure.subplots_adjust(left=0.14, right=0.76, bottom=0.16, top=0.94)
        for height, found in enumerate(reversed(shown)):
            for who, micros in found["micros"].items():
                many = who.endswith("seeds")
                colour, marker = looks.get(who.split()[0], ("#1f72cc", "o"))
                label = "library, a seed of 20" if many else "PyTorch" if who.startswith("torch") else who.split()[0]
                face = "white" if who == "library" else colour
                axes.plot(micros, height, marker, color=colour, markerfacecolor=face, markersize=7, label=label)
            named = [who for who in found["micros"] if who.startswith(("braintrace", "torch"))]
            for who, rise in zip(named, (7, -12), strict=False):  # one above, the other below
                place = found["micros"][who], height
                axes.annotate(who.split()[1], place, (0, rise), textcoords="offset points", ha="center", fontsize=6.5)
        axes.set(xscale="log", xlabel=f"µs a step on one core, {n} units")
        axes.set_yticks(range(len(shown)), [plots.name(row["learner"]) for row in reversed(shown)])
        axes.grid(axis="x", color=plots.FAINT)
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        axes.legend(unique.values(), unique.keys(), loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        return plots.svg(figure, "compare")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", nargs="+", default=[], metavar="NAME", help="which learners (all)")
    parser.add_argument("--n", nargs="+", type=int, default=[32, 512], metavar="UNITS", help="how many units (32 512)")
    parser.add_argument("--streams", type=int, default=64, help="streams that share weights, beside libraries (64)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds (7)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for compare.json and compare.svg")
    return parser.parse_args()


if __name__ == "__main__":
    main()

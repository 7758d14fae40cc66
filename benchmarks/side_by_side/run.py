"""The same job in recurra, braintrace, vanilla-rtrl, PyTorch, deep-river and River, for docs/comparison.md.

    python benchmarks/side_by_side/run.py                     all that can be imported
    python benchmarks/side_by_side/run.py "PyTorch, BPTT"     some of them

Results go to docs/comparison/results.json, and from there into the table of docs/comparison.md. Rows of libraries that
cannot be imported are skipped and keep what the file has of them. So libraries that do not fit into one environment are
measured in several. vanilla-rtrl is not on PyPI: put a checkout of it into PYTHONPATH.

Every run has one core, and CPU seconds are counted. The learning rate is the best of `GRID` on a stream that is not
used again. Losses are those of the streams `SEEDS`. Where programs are compiled, a run of 20,000 steps and a longer
one, each in a fresh process, tell what a step costs and what import and compilation cost; times are the lesser of two.
Elsewhere the time of the steps is the least of the runs that are scored, and the start is import alone.
"""

import ast
import importlib
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import time
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data import stream

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "comparison.md"
RESULTS = PAGE.with_suffix("") / "results.json"
#: the lines of the page between which the table stands
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

STEPS, REPEATS = 20_000, 2
#: streams that are scored, the stream on which the learning rate is chosen, and rates to choose from
SEEDS, TUNING, GRID = (0, 1, 2), 100, (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03)
#: one core, also for libraries that start threads of their own
ONE_CORE = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


class Row(NamedTuple):
    """A script, packages whose versions are told, what `train` is given, and for compiled programs a longer run.

    `gradient` and `changes` are what the page says of its gradient, and of when the weights change.
    """

    script: str
    packages: tuple[str, ...]
    gradient: str
    changes: str = "every step"
    options: Callable[[], dict[str, Any]] = dict
    longer: int = 0


def _learner(name: str, *args: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"learner": getattr(importlib.import_module("recurra"), name)(*args)}


OURS, THEIRS = ("recurra", "jax"), ("braintrace", "brainstate", "jax")
ROWS = {
    "recurra, RTRL": Row("with_recurra", OURS, "exact", options=_learner("RTRL"), longer=10 * STEPS),
    "recurra, RTRL, row by row": Row("with_recurra_live", OURS, "exact", longer=2 * STEPS),
    "recurra, E-BPTT": Row(
        "with_recurra", OURS, "of ten steps", "every ten steps", _learner("EfficientBPTT", 10), 50 * STEPS
    ),
    "braintrace, SnAp n = 2": Row("with_braintrace", THEIRS, "exact", longer=5 * STEPS),
    "vanilla-rtrl, RTRL": Row("with_vanilla_rtrl", ("numpy",), "exact"),
    "PyTorch, BPTT": Row("with_torch", ("torch",), "of ten steps", "every ten steps"),
    "deep-river, window": Row("with_deep_river", ("deep_river", "river", "torch"), "of ten steps"),
    "River, ten lags": Row("with_river", ("river",), "exact, nothing recurrent"),
}


def lines(script: str) -> int:
    """Lines of code, without blank ones, comments and docstrings."""
    text = (HERE / f"{script}.py").read_text()
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    kept: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in ignored:
            kept.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            kept -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(kept)


def version(package: str) -> str:
    """The version of an installed package, or of one that lies in the checkout."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return importlib.import_module(package).__version__


def losses_on_known(seed: int) -> tuple[float, float]:
    """The loss over the last tenth of who knows the rule, and of who knows only how often the label is 1."""
    data = stream(seed)
    coins, label = data["x"][:, 0], data["y"]
    chance = 0.5 + 0.5 * coins[3:-4] - 0.25 * coins[:-7]
    right = np.where(label[7:] == 1, chance, 1 - chance)[-STEPS // 10 :]
    often = np.where(label == 1, 0.625, 0.375)[-STEPS // 10 :]
    return float(-np.log(right).mean()), float(-np.log(often).mean())


def child(name: str, tasks: list[tuple[int, int, float]]) -> None:
    """In a process of its own: `train` once for each (steps, seed, rate), and what it took."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    row, before = ROWS[name], time.process_time()
    module = importlib.import_module(row.script)
    imported, ran = time.process_time() - before, []
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    for steps, seed, rate in tasks:
        data, before = stream(seed, steps), time.process_time()
        loss = float(module.train(**data, rate=rate, seed=seed, **row.options()))
        ran.append({"loss": loss, "seconds": time.process_time() - before})
    # `getrusage` would tell of the process that started this one, if that was larger.
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    versions = {package: version(package) for package in row.packages}
    print("\n" + json.dumps({"import": imported, "ran": ran, "peak": int(peak) / 1024, "versions": versions}))


def called(name: str, tasks: list[tuple[int, int, float]]) -> dict[str, Any]:
    """What `child` told."""
    command = [sys.executable, "-W", "ignore", __file__, "--child", name, json.dumps(tasks)]
    done = subprocess.run(command, env={**os.environ, **ONE_CORE}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(name: str) -> dict[str, Any]:
    """Everything that the page tells of a row."""
    row = ROWS[name]
    tuning = [ran["loss"] for ran in called(name, [(STEPS, TUNING, rate) for rate in GRID])["ran"]]
    rate = GRID[np.argmin(np.nan_to_num(tuning, nan=np.inf))]
    scored = called(name, [(STEPS, seed, rate) for seed in SEEDS])
    losses = [ran["loss"] for ran in scored["ran"]]
    above = [loss - losses_on_known(seed)[0] for loss, seed in zip(losses, SEEDS, strict=True)]
    start, steps_took = times(name, rate, scored)
    return {
        "script": f"{row.script}.py",
        "lines": lines(row.script),
        "versions": scored["versions"],
        "tuning": dict(zip(map(str, GRID), tuning, strict=True)),
        "rate": rate,
        "losses": losses,
        "loss": float(np.mean(losses)),
        "above": float(np.mean(above)),
        "above_error": float(np.std(above, ddof=1) / len(above) ** 0.5),
        "start_seconds": start,
        "steps_seconds": steps_took,
        "peak_megabytes": scored["peak"],
    }


def times(name: str, rate: float, scored: dict[str, Any]) -> tuple[float, float]:
    """Seconds of import and compilation, and of the steps."""
    if not (longer := ROWS[name].longer):
        return scored["import"], min(ran["seconds"] for ran in scored["ran"])
    short = [called(name, [(STEPS, SEEDS[0], rate)]) for _ in range(REPEATS)]
    long = [called(name, [(longer, SEEDS[0], rate)]) for _ in range(REPEATS)]
    least = lambda found: min(one["ran"][0]["seconds"] for one in found)
    steps_took = STEPS * (least(long) - least(short)) / (longer - STEPS)
    return min(one["import"] for one in short) + least(short) - steps_took, steps_took


def table(results: dict[str, Any]) -> str:
    """The table of the page."""
    titles = ("", "gradient", "weights change", "loss", "above the best possible", "start, s", "20,000 steps, s")
    told = [(*titles, "memory, MB", "lines"), ("---",) * 9]
    for name, row in results["rows"].items():
        above = f"{row['above']:.3f} ± {row['above_error']:.3f}"
        seconds = (f"{row['start_seconds']:.1f}", f"{row['steps_seconds']:.2g}")
        memory = f"{row['peak_megabytes']:.0f}"
        words = (name, ROWS[name].gradient, ROWS[name].changes)
        told.append((*words, f"{row['loss']:.3f}", above, *seconds, memory, str(row["lines"])))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in told)


def rewritten(page: str, new: str) -> str:
    """The page with another table."""
    if not 0 <= page.find(BEGIN) < page.find(END):
        raise SystemExit(f"The page has no place for the table: add the lines {BEGIN} and {END}.")
    return f"{page.partition(BEGIN)[0]}{BEGIN}\n\n{new}\n\n{END}{page.partition(END)[2]}"


def main(names: list[str]) -> None:
    """Measure rows and put them into the file and the page, one after the other."""
    if unknown := set(names) - set(ROWS):
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known are {'; '.join(ROWS)}")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}
    for name in names or ROWS:
        try:
            importlib.import_module(ROWS[name].script)
        except ImportError as error:
            print(f"{name:26} skipped, since it cannot be imported here: {error}", flush=True)
            continue
        found = measured(name)
        print(f"{name:26} {found['loss']:.3f}   {found['steps_seconds']:.2f} s", flush=True)
        rule, constant = np.mean([losses_on_known(seed) for seed in SEEDS], axis=0)
        known |= {"steps": STEPS, "seeds": SEEDS, "tuning_seed": TUNING, "grid": GRID, "python": sys.version.split()[0]}
        known |= {"loss_of_rule": float(rule), "loss_of_constant": float(constant)}
        known["rows"][name] = found
        known["rows"] = {name: known["rows"][name] for name in ROWS if name in known["rows"]}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        PAGE.write_text(rewritten(PAGE.read_text(), table(known)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main(sys.argv[1:])

"""How fast the library is on this machine, and how near to what the machine can do.

A run is timed in pieces, as `train` takes them. After each piece the machine itself is measured: by a large matrix
product, or by copying as many bytes as a step goes through. A busy machine slows both, and their ratio stays.
`recurra bench` prints a row for each setting, and writes a report and a plot of step times over size for each cell.
"""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from recurra.cells import CELLS
from recurra.cells.base import Cell
from recurra.cli.output import folder_errors
from recurra.cli.stopping import keep, on_leaving, undisturbed
from recurra.cli.streams import NO_READER, complain, lost, say_lost
from recurra.engine.experiment import Experiment
from recurra.engine.hardware import bytes_of
from recurra.engine.protocol import Engine, Members, Piece, Run
from recurra.engine.scan import ScanEngine
from recurra.learners import LEARNERS
from recurra.network import Network
from recurra.saved.whole_files import held, try_place, write_whole
from recurra.step import LearningStep
from recurra.studies.settings import SettingsError
from recurra.tasks import Add
from recurra.training.provenance import machine, versions
from recurra.training.train import LEARNING_RATE

#: settings in which the states of the learner take more bytes than this in all are left out
MOST_BYTES = 600e6
#: learners whose time goes into multiplications rather than into memory
ARITHMETIC = ("rtrl", "kf-rtrl", "r-kf-rtrl")
PRODUCT = 1024
REPORT = "bench.json"
#: The first steps of a run, from which the engine learns its pace; and a number of steps that is never reached.
FEW_STEPS, ENDLESS = 32, 2**31 - 1
#: how many networks run at once
NETWORKS = attrgetter("seeds", "streams")


def cell_of(kind: str, n: int) -> Cell:
    """The cell of that name which is measured."""
    return CELLS[kind](n_in=2, n=n, dtype="float32")  # pyright: ignore[reportCallIssue]


@dataclass(frozen=True)
class StepTime:
    """One learner at one size: µs a step of one network, and the share it reaches of the machine's own rate."""

    learner: str
    cell: str
    n: int
    seeds: int
    streams: int
    micros: float
    least: float
    most: float
    compile_seconds: float
    state_bytes: int
    #: "arithmetic" against a large matrix product, or "bytes" of state and weights walked through against a copy
    bound: str
    share: float


def bench(asked: Mapping[str, Sequence[Any]], repeats: int) -> Iterator[StepTime]:
    """Measure every combination of what is asked for that fits: each is yielded when it is done."""
    axes = (asked[name] for name in ("cell", "n", "learner", "seeds", "streams"))
    for kind, n, name, seeds, streams in itertools.product(*axes):
        if fits(name, kind, n, seeds * streams):
            yield measure(name, kind, n, seeds, streams, repeats)


def fits(name: str, kind: str, n: int, networks: int) -> bool:
    """Whether the states of so many networks stay within bounds."""
    return _state_bytes(name, cell_of(kind, n)) * networks <= MOST_BYTES


def measure(name: str, kind: str, n: int, seeds: int, streams: int, repeats: int) -> StepTime:
    """One row: pieces of a run as `train` takes them, and the machine measured after each."""
    cell = cell_of(kind, n)
    size = _state_bytes(name, cell)
    own, ideal = _ideal(name, cell, size + bytes_of(jax.eval_shape(Network(cell, 2).init, jax.random.key(0))))
    began = time.perf_counter()
    with prepared(name, cell, seeds, streams) as run:
        compile_seconds = time.perf_counter() - began
        pieces, _ = settled(run)
        micros, shares = [], []
        for _ in range(repeats):
            began = time.perf_counter()
            steps = _steps(next(pieces)) * seeds * streams
            taken = (time.perf_counter() - began) / steps
            micros.append(1e6 * taken)
            shares.append(ideal * seconds(own) / taken)
    spread = statistics.median(micros), min(micros), max(micros)
    bound, share = "arithmetic" if name in ARITHMETIC else "bytes", statistics.median(shares)
    return StepTime(name, kind, n, seeds, streams, *spread, compile_seconds, size, bound, share)


def prepared(name: str, cell: Cell, seeds: int, streams: int = 1, engine: Engine | None = None) -> Run:
    """A learner on the Add task as `train` sets it up."""
    step = LearningStep(Network(cell, 2), LEARNERS[name](), LEARNING_RATE, streams=streams)
    members = Members.of_seeds(jax.random.key(0), range(seeds))
    return (engine or ScanEngine()).prepare(Experiment(step, Add()), members)


def settled(run: Run) -> tuple[Iterator[Piece], int]:
    """The pieces of a run once they no longer grow, and how many steps the last one had."""
    for _ in run.advance(run.done + FEW_STEPS):
        pass
    before, pieces = 1, run.advance(ENDLESS)
    while (steps := _steps(next(pieces))) >= 2 * before:
        before = steps
    return pieces, steps


def _steps(piece: Piece) -> int:
    return piece.stop - piece.start


def _ideal(name: str, cell: Cell, walked: int) -> tuple[Callable[[], object], float]:
    """A call that measures the machine, and the part of its time that a step would take at the same rate."""
    if name in ARITHMETIC:
        x = jnp.ones((PRODUCT, PRODUCT), "float32")
        product = jax.jit(lambda x: x @ x)
        jax.block_until_ready(product(x))
        return lambda: jax.block_until_ready(product(x)), _multiplications(name, cell) / PRODUCT**3
    source, copies = np.ones(max(walked // 4, 1), np.float32), max(int(2e8 / walked), 1)
    target = np.empty_like(source)

    def copy() -> None:
        for _ in range(copies):
            np.copyto(target, source)

    return copy, 1 / copies


def _multiplications(name: str, cell: Cell) -> float:
    """Those of the product that dominates a step as published: J M for RTRL, J B for the Kronecker factors."""
    weights = jax.eval_shape(cell.init_weights, jax.random.key(0))
    parameters, units = sum(leaf.size for leaf in jax.tree.leaves(weights)), cell.widths[0]
    states, gates = sum(cell.widths), len(weights)
    columns = {"rtrl": parameters, "kf-rtrl": gates * units, "r-kf-rtrl": units + cell.n_in + 1}[name]
    return states * units * columns


def _state_bytes(name: str, cell: Cell) -> int:
    weights = lambda: cell.init_weights(jax.random.key(0))
    return bytes_of(jax.eval_shape(lambda: LEARNERS[name]().init(cell, weights(), jax.random.key(1), 2)))


def seconds(call: Callable[[], object]) -> float:
    """The seconds that a call takes, on the wall."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_all(asked: Mapping[str, Sequence[Any]], repeats: int, out: Path | None) -> int:
    """Measure and print every combination that fits; the exit status."""
    for what, known in (("learner", LEARNERS), ("cell", CELLS)):
        if unknown := [name for name in asked[what] if name not in known]:
            raise SettingsError(f"There is no {what} {', '.join(unknown)}: choose from {', '.join(known)}.")
    for what in ("n", "seeds", "streams"):
        if min(asked[what]) < 1:
            raise SettingsError(f"`{what}` must be at least 1, and is {min(asked[what])}.")
    with _place(out) if out else nullcontext():
        print("learner    cell    n seeds streams  µs a step of one network   compile s   of the machine")
        rows: list[StepTime] = []
        for row in bench(asked, repeats):
            rows.append(row)
            _print_row(row)
            if out is None and isinstance(lost(), BrokenPipeError):  # nobody will ever see the others
                return NO_READER
        keep()
        kept = out is not None and _write_all(rows, out)
    say_lost(repeat=not kept)
    return 0 if kept or out is None else 1


def _print_row(row: StepTime) -> None:
    spread = f"{row.micros:10.2f} ({row.least:.2f}..{row.most:.2f})"
    share = f"{row.share:4.0%} of its {row.bound}"
    print(
        f"{row.learner:10} {row.cell:4} {row.n:4} {row.seeds:5} {row.streams:7}  {spread:26} "
        f"{row.compile_seconds:6.1f}   {share}",
        flush=True,
    )


@contextmanager
def _place(directory: Path) -> Iterator[None]:
    """Have the folder's report to oneself; a SettingsError, before anything is measured, if it cannot be written."""
    with ExitStack() as stack:
        on_leaving(stack.close)
        with folder_errors(directory), undisturbed():
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(held(directory / REPORT))
            try_place(directory / REPORT)
        yield


def _write_all(rows: Sequence[StepTime], directory: Path) -> bool:
    """The report, and the plots; whether it worked."""
    report = {"machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}
    files = {REPORT: json.dumps(report, indent=1) + "\n"}
    for kind in dict.fromkeys(row.cell for row in rows):
        files[f"bench-{kind}.svg"] = _plot([row for row in rows if row.cell == kind])
    for name, text in files.items():
        try:
            write_whole(directory / name, lambda file, text=text: file.write(text.encode()))
        except OSError as error:
            complain(f"{directory / name} could not be written: {error.strerror or error}. The rows are above.")
            return False
    print(f"\nbench.json and plots are in {directory}.")
    return True


def _plot(rows: Sequence[StepTime]) -> str:
    from recurra.pages import plots  # which needs an extra

    of_count = itertools.groupby(sorted(rows, key=NETWORKS), NETWORKS)
    panels = {count: list(own) for count, own in of_count}
    sizes = sorted({row.n for row in rows})
    with plots.style():
        figure = plots.sheet(3.1 * len(panels) + 2.2, 4.2)
        figure.subplots_adjust(left=0.1, right=0.86 - 0.02 * (3 - len(panels)), bottom=0.14, top=0.9)
        found = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, ((seeds, streams), own) in zip(found, panels.items(), strict=True):
            for name in dict.fromkeys(row.learner for row in own):
                line = [(row.n, row.micros) for row in own if row.learner == name]
                axes.plot(*zip(*line, strict=True), label=plots.name(name), **plots.line_style(name, 1))
            title = f"{seeds} seed{'s' * (seeds > 1)}" + f" × {streams} streams" * (streams > 1)
            axes.set(xscale="log", yscale="log", xlabel="units", title=title)
            axes.set_xticks(sizes, [str(n) for n in sizes], minor=False)
            axes.minorticks_off()
        found[0].set_ylabel("µs a step of one network")
        found[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7.5)
        return plots.svg(figure, "bench")

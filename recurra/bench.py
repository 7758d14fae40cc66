"""How fast the library is on this machine, and how near to what the machine can do.

Every call of a learner is followed by one of the machine's own measure, a large matrix product or a walk through as
many bytes, so that a busy machine slows both and their ratio stays.
"""

import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from recurra import cells, plots
from recurra.cells.base import Cell
from recurra.fleet import Fleet
from recurra.learners import LEARNERS
from recurra.loop import APPLIED, Loop
from recurra.machine import bytes_of, machine, versions
from recurra.network import Network
from recurra.tasks import Add
from recurra.tasks.base import BLOCK
from recurra.training import CHUNK, LEARNING_RATE, numbers_as_arrays

CELLS: dict[str, Callable[[int], Cell]] = {
    "rnn": lambda n: cells.RNN(n_in=2, n=n, dtype="float32"),
    "gru": lambda n: cells.GRU(n_in=2, n=n, dtype="float32"),
    "lstm": lambda n: cells.LSTM(n_in=2, n=n, dtype="float32"),
}
#: the largest network of learners that others outgrow, in bytes of state of one seed
MOST_BYTES = 600e6
#: bound by multiplications rather than by memory
ARITHMETIC = ("rtrl", "kf-rtrl", "r-kf-rtrl")
PRODUCT = 1024


@dataclass(frozen=True)
class Row:
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


def bench(
    names: Sequence[str],
    kinds: Sequence[str],
    sizes: Sequence[int],
    seeds: Sequence[int],
    streams: Sequence[int],
    repeats: int,
    tell: Callable[[Row], None],
) -> list[Row]:
    """Measure every combination that fits, telling of each as it is done."""
    rows = []
    for kind, n, name, count, width in itertools.product(kinds, sizes, names, seeds, streams):
        if fits(name, kind, n, count * width):
            rows.append(measure(name, kind, n, count, width, repeats))
            tell(rows[-1])
    return rows


def fits(name: str, kind: str, n: int, networks: int) -> bool:
    """Whether the states of so many networks stay within bounds."""
    return _state_bytes(name, CELLS[kind](n)) * networks <= MOST_BYTES


def measure(name: str, kind: str, n: int, seeds: int, streams: int, repeats: int) -> Row:
    """Calls of the compiled loop as `train` makes them, each followed by the machine's own measure."""
    cell = CELLS[kind](n)
    began = time.perf_counter()
    with fleet_of(name, cell, seeds, streams) as fleet:
        compile_seconds = time.perf_counter() - began
        run = going(fleet)
        whole = lambda steps: max(min(steps, fleet.capacity) // fleet.stride, 1) * fleet.stride
        few = whole(2 * BLOCK if n <= 64 else 16)
        run(few)
        pace = seconds(lambda: run(few)) / few
        steps = whole(int(fleet.seconds / pace))
        size = _state_bytes(name, cell)
        own, ideal = _ideal(name, cell, size + bytes_of(jax.eval_shape(Network(cell, 2).init, jax.random.key(0))))
        networks = seeds * streams
        pairs = [(seconds(lambda: run(steps)) / (steps * networks), seconds(own)) for _ in range(repeats)]
    micros = [1e6 * taken for taken, _ in pairs]
    share = statistics.median(ideal * machine_time / taken for taken, machine_time in pairs)
    spread = statistics.median(micros), min(micros), max(micros)
    bound = "arithmetic" if name in ARITHMETIC else "bytes"
    return Row(name, kind, n, seeds, streams, *spread, compile_seconds, size, bound, share)


def fleet_of(name: str, cell: Cell, seeds: int, streams: int = 1) -> Fleet:
    """A learner on the Add task as `train` sets it up: numbers are arguments of the compiled program."""
    loop = Loop(Network(cell, 2), {APPLIED: LEARNERS[name]()}, Add(), LEARNING_RATE, {}, streams)
    return Fleet(numbers_as_arrays(loop), jax.random.key(0), tuple(range(seeds)), CHUNK)


def going(fleet: Fleet) -> Callable[[int], np.ndarray]:
    """Takes so many steps from where it is, and returns each one's loss, (seed, step)."""
    done = 0

    def run(steps: int) -> np.ndarray:
        nonlocal done
        loss, _ = fleet.advance(done, done + steps)
        done += steps
        return loss

    return run


def _ideal(name: str, cell: Cell, walked: int) -> tuple[Callable[[], object], float]:
    """The machine's own measure, and which part of it a step would take at that rate."""
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
    """Of the one product that dominates a step as published: J M for RTRL, J B for the Kronecker factors."""
    weights = jax.eval_shape(cell.init_weights, jax.random.key(0))
    parameters, units = sum(leaf.size for leaf in jax.tree.leaves(weights)), cell.widths[0]
    states, gates = sum(cell.widths), len(weights)
    columns = {"rtrl": parameters, "kf-rtrl": gates * units, "r-kf-rtrl": units + cell.n_in + 1}[name]
    return states * units * columns


def _state_bytes(name: str, cell: Cell) -> int:
    weights = lambda: cell.init_weights(jax.random.key(0))
    return bytes_of(jax.eval_shape(lambda: LEARNERS[name]().init(cell, weights(), jax.random.key(1), 2)))


def seconds(call: Callable[[], object]) -> float:
    """On the clock on the wall."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def write(rows: Sequence[Row], directory: Path) -> None:
    """`bench.json`, and a plot of step times over size for each cell."""
    directory.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "versions": versions(), "rows": [asdict(row) for row in rows]}
    (directory / "bench.json").write_text(json.dumps(report, indent=1) + "\n")
    for kind in dict.fromkeys(row.cell for row in rows):
        (directory / f"bench-{kind}.svg").write_text(_plot([row for row in rows if row.cell == kind]))


def _networks(row: Row) -> tuple[int, int]:
    return row.seeds, row.streams


def _counted(seeds: int, streams: int) -> str:
    return f"{seeds} seed{'s' * (seeds > 1)}" + f" × {streams} streams" * (streams > 1)


def _plot(rows: Sequence[Row]) -> str:
    with plots.style():
        counts = sorted({_networks(row) for row in rows})
        figure = plots.sheet(3.1 * len(counts) + 2.2, 4.2)
        panels = figure.subplots(1, len(counts), squeeze=False, sharey=True)[0]
        figure.subplots_adjust(left=0.1, right=0.86 - 0.02 * (3 - len(counts)), bottom=0.14, top=0.9)
        for axes, count in zip(panels, counts, strict=True):
            for name in dict.fromkeys(row.learner for row in rows):
                own = [row for row in rows if row.learner == name and _networks(row) == count]
                line = [(row.n, row.micros) for row in own]
                if line:
                    axes.plot(*zip(*line, strict=True), label=plots.name(name), **plots.line_style(name, 1))
            axes.set(
                xscale="log",
                yscale="log",
                xlabel="units",
                title=f"{count[0]} seed{'s' * (count[0] > 1)}" + f" × {count[1]} streams" * (count[1] > 1),
            )
            axes.set_xticks(sizes := sorted({row.n for row in rows}), [str(n) for n in sizes], minor=False)
            axes.minorticks_off()
        panels[0].set_ylabel("µs a step of one network")
        panels[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=7.5)
        return plots.svg(figure, "bench")

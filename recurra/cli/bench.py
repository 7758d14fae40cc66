"""How fast the library is on this machine, and how near to what the machine can do.

A run is timed in pieces, as `train` takes them. After each piece the machine itself is measured: by a large matrix
product, or by copying as many bytes as a step goes through. A busy machine slows both, and their ratio stays.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from recurra import cells
from recurra.cells.base import Cell
from recurra.engine.experiment import Experiment
from recurra.engine.hardware import bytes_of
from recurra.engine.protocol import Engine, Members, Piece, Run
from recurra.engine.scan import ScanEngine
from recurra.learners import LEARNERS
from recurra.network import Network
from recurra.step import APPLIED, LearningStep
from recurra.tasks import Add
from recurra.training.train import LEARNING_RATE

CELLS: dict[str, Callable[[int], Cell]] = {
    "rnn": lambda n: cells.RNN(n_in=2, n=n, dtype="float32"),
    "gru": lambda n: cells.GRU(n_in=2, n=n, dtype="float32"),
    "lstm": lambda n: cells.LSTM(n_in=2, n=n, dtype="float32"),
}
#: settings in which the states of the learner take more bytes than this in all are left out
MOST_BYTES = 600e6
#: learners whose time goes into multiplications rather than into memory
ARITHMETIC = ("rtrl", "kf-rtrl", "r-kf-rtrl")
PRODUCT = 1024
#: The first steps of a run, from which the engine learns its pace; and a number of steps that is never reached.
FEW_STEPS, ENDLESS = 32, 2**31 - 1


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
) -> Iterator[Row]:
    """Measure every combination that fits: a row for each, when it is done."""
    for kind, n, name, count, width in itertools.product(kinds, sizes, names, seeds, streams):
        if fits(name, kind, n, count * width):
            yield measure(name, kind, n, count, width, repeats)


def fits(name: str, kind: str, n: int, networks: int) -> bool:
    """Whether the states of so many networks stay within bounds."""
    return _state_bytes(name, CELLS[kind](n)) * networks <= MOST_BYTES


def measure(name: str, kind: str, n: int, seeds: int, streams: int, repeats: int) -> Row:
    """One row: pieces of a run as `train` takes them, and the machine measured after each."""
    cell = CELLS[kind](n)
    size = _state_bytes(name, cell)
    own, ideal = _ideal(name, cell, size + bytes_of(jax.eval_shape(Network(cell, 2).init, jax.random.key(0))))
    began = time.perf_counter()
    with prepared(name, cell, seeds, streams) as run:
        compile_seconds = time.perf_counter() - began
        pieces, _ = settled(run)
        pairs = [(_seconds_a_step(pieces) / (seeds * streams), seconds(own)) for _ in range(repeats)]
    micros = [1e6 * taken for taken, _ in pairs]
    share = statistics.median(ideal * machine_time / taken for taken, machine_time in pairs)
    spread = statistics.median(micros), min(micros), max(micros)
    bound = "arithmetic" if name in ARITHMETIC else "bytes"
    return Row(name, kind, n, seeds, streams, *spread, compile_seconds, size, bound, share)


def prepared(name: str, cell: Cell, seeds: int, streams: int = 1, engine: Engine | None = None) -> Run:
    """A learner on the Add task as `train` sets it up."""
    step = LearningStep(Network(cell, 2), {APPLIED: LEARNERS[name]()}, LEARNING_RATE, streams)
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


def _seconds_a_step(pieces: Iterator[Piece]) -> float:
    began = time.perf_counter()
    piece = next(pieces)
    return (time.perf_counter() - began) / _steps(piece)


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

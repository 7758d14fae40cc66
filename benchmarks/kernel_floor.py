"""How near kernels are to what the chip can do: instructions, operations, bytes and latency of one step of learning.

It needs no GPU, but the `triton` package, whose compiler and tools read the machine code:

    pip install triton
    python benchmarks/kernel_floor.py fixed:rnn:32:1 rflo:rnn:32:1 kf-rtrl:rnn:32:4

A setting is learner:cell:n:warps. JAX 0.11 lowers kernels only where there is a GPU; JAX 0.10 does it anywhere.

What the columns say:

- registers of a thread, and bytes of a thread that did not fit into them (spilled);
- instructions of one warp in one step;
- cycles by issue alone: if no instruction waited for a result of memory, of another thread or of tanh and the like;
- cycles simulated: one warp that has the multiprocessor to itself, and waits as its instructions say;
- µs at 1.98 GHz: the simulated cycles as time, a floor for few networks;
- operations: floating-point operations of all warps in one step, also on padding and where threads do the same work,
  and without those of the tensor cores;
- bytes: inputs, labels and random numbers read in one step, and the loss written;
- together: networks that the registers of a multiprocessor hold at once;
- millions: network-steps a second if every scheduler of the chip issued an instruction in every cycle, a bound for many
  networks.

What the model leaves out: conflicts between threads in shared memory, the fetching of instructions, and warps that wait
for other warps. A branch is walked through on all its sides, and a loop inside a step once. `LATENCY` is set by hand.
The `triton` package is another version of the compiler than the one inside JAX.
"""

import argparse

import jax
import numpy as np

from kernels import experiment_of, kernel_of
from machine_code import THREADS, loop_of, triton_text
from recurra.engine.on_chip.fits import shapes
from recurra.engine.on_chip.padding import padded_shape
from recurra.tasks.base import BLOCK

SETTINGS = (
    "fixed:rnn:32:1", "fixed:rnn:32:4", "rflo:rnn:32:1", "uoro:rnn:32:1", "kernl:rnn:32:1", "kernl:rnn:32:4",
    "dni:rnn:32:1", "dni:rnn:32:4", "kf-rtrl:rnn:32:1", "kf-rtrl:rnn:32:2", "kf-rtrl:rnn:32:4", "r-kf-rtrl:rnn:32:2",
    "r-kf-rtrl:rnn:32:4",
)  # fmt: skip
#: an H200: cycles in a microsecond, and its multiprocessors with the schedulers of each
MEGAHERTZ, MULTIPROCESSORS, SCHEDULERS = 1980, 132, 4
#: registers of a multiprocessor, the step in which a thread is given them, and the most programs it holds
REGISTERS, REGISTER_STEP, MOST_PROGRAMS = 65536, 8, 32
STEPS, NETWORKS = 1024, 20
HEAD = (
    "learner", "cell", "n", "warps", "registers", "spilled bytes", "instructions", "cycles, issue", "cycles, simulated",
    "µs", "operations", "bytes", "together", "millions",
)  # fmt: skip


def row_of(learner: str, cell: str, n: int, warps: int, precision: str) -> tuple:
    """One row of the table."""
    experiment = experiment_of(learner, cell, n)
    carry, rows = shapes(experiment)
    many = lambda leaf, *leading: jax.ShapeDtypeStruct((NETWORKS, *leading, *leaf.shape[len(leading) :]), leaf.dtype)
    states = jax.tree.map(many, carry.learning)
    flowing = jax.tree.map(lambda leaf: many(leaf, STEPS), rows)
    loop = loop_of(triton_text(kernel_of(experiment, warps, STEPS, precision), states, flowing), warps)
    read = sum(np.prod(padded_shape(leaf.shape[1:]), dtype=int) * leaf.dtype.itemsize for leaf in jax.tree.leaves(rows))
    assert all(len(leaf) == BLOCK for leaf in jax.tree.leaves(rows))
    cycles, count = loop.latency(), len(loop.body)
    given = -(-loop.registers // REGISTER_STEP) * REGISTER_STEP * THREADS * warps
    together = min(MOST_PROGRAMS, REGISTERS // given)
    millions = MULTIPROCESSORS * SCHEDULERS * MEGAHERTZ / (count * warps)
    played = count, loop.issue, cycles, f"{cycles / MEGAHERTZ:.2f}"
    work = warps * loop.operations, read + 4, together, f"{millions:.0f}"
    return learner, cell, n, warps, loop.registers, loop.spilled, *played, *work


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("settings", nargs="*", default=SETTINGS, metavar="learner:cell:n:warps")
    parser.add_argument("--precision", default="float32")
    given = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n{'|---' * len(HEAD)}|", flush=True)
    for setting in given.settings:
        learner, cell, n, warps = setting.split(":")
        row = row_of(learner, cell, int(n), int(warps), given.precision)
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()

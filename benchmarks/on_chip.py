"""Network-steps a second against the number of networks: kernels on chip, compiled loops on the GPU, and the cores.

Run it on a machine with an NVIDIA GPU:

    python benchmarks/on_chip.py --out on_chip.json

Each run is a whole one, as `recurra.train` has it: inputs are drawn, losses averaged and copied to the host. Compiling
is left out.
"""

import argparse
import json
import time
from pathlib import Path

import jax

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from recurra.training.provenance import machine, versions

COUNTS = (1, 4, 20, 132, 1024, 8192, 65536)
#: networks beyond which the cores only take longer
MOST_ON_CORES = 1024
#: the least seconds that are measured, and the steps of a window
SECONDS, WINDOW = 0.5, 1024


def places() -> dict[str, tuple]:
    """The contestants: an engine, a device and the most networks."""
    gpu, cores = jax.devices("gpu")[0], jax.devices("cpu")[0]
    return {
        "on chip": (rc.OnChipEngine(), gpu, COUNTS[-1]),
        "compiled loops, GPU": (rc.ScanEngine(), gpu, COUNTS[-1]),
        "compiled loops, cores": (rc.ScanEngine(), cores, MOST_ON_CORES),
    }


def pace(engine, learner: str, n: int, count: int) -> float:
    """Microseconds a step of all networks, once the pieces of the run are as long as they get."""
    network = rc.Network(rc.RNN(2, n, dtype="float32"), 2)
    experiment = Experiment.of(network, {"applied": rc.LEARNERS[learner]()}, 1e-4, rc.Add())
    with engine.prepare(experiment, Members.of_seeds(jax.random.key(0), range(count)), WINDOW) as run:
        began, start, longest = None, 0, 0
        for piece in run.advance(2**30):
            now, length = time.perf_counter(), piece.stop - piece.start
            if began is None and length <= longest:
                began, start = now, run.done
            elif began is not None and now - began >= SECONDS:
                break
            longest = max(longest, length)
        return (now - began) / (run.done - start) * 1e6


def main() -> None:
    """Measure one after the other, and write each as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", default="rflo")
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--out", type=Path, default=Path("on_chip.json"))
    given = parser.parse_args()
    rows = []
    for learner in given.learners.split(","):
        for name, (engine, device, most) in places().items():
            for count in COUNTS:
                if count <= most:
                    with jax.default_device(device):
                        us = pace(engine, learner, given.n, count)
                    rows.append({"learner": learner, "n": given.n, "place": name, "networks": count, "us": us})
                    print(f"{learner} {name} {count:,}: {us:.3g} µs, {count / us:.4g} million a second", flush=True)
                    report = {"machine": machine(), "versions": versions(), "rows": rows}
                    given.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""How long the paper's loss curves take on one machine with a GPU: every learner but r-OK, both tasks, both α.

    python benchmarks/paper_curves.py --out curves [--seeds 20] [--steps 1000000]

Curves run as `recurra reproduce` runs them, several at a time: while one is on the GPU, others compile. RTRL has no
fast kernel. Its curves on Add take the cores meanwhile, and those on Mimic compiled loops on the GPU. Writes the
curves, and how long each took.
"""

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import jax
import numpy as np

from recurra.training.provenance import machine, versions
from recurra_paper.experiments.losses import LossCurve
from recurra_paper.setup import LEARNERS

#: curves that are on their way at the same time
TOGETHER = 6


def is_on_cores(curve: LossCurve) -> bool:
    """Whether a curve takes the cores, and leaves the GPU to the others."""
    return curve.learner == "rtrl" and curve.task == "add"


def run(curve: LossCurve, folder: Path) -> dict:
    """One curve, and the seconds it took; its file holds the losses."""
    began = time.perf_counter()
    place = jax.default_device(jax.devices("cpu")[0]) if is_on_cores(curve) else nullcontext()
    checkpoint = folder / f"{curve.name.replace('/', '-')}.safetensors"
    with place:
        arrays = curve.run(checkpoint, lambda _: None)
    checkpoint.unlink(missing_ok=True)
    np.savez(folder / f"{curve.name.replace('/', '-')}.npz", **arrays)
    took, last = time.perf_counter() - began, float(np.nanmean(arrays["loss"][:, -10:]))
    print(f"{curve.name}: {took:.1f} s, final loss {last:.4f}", flush=True)
    return {"name": curve.name, "seconds": took, "final": last}


def main() -> None:
    """All curves; the slowest ones start first."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("curves"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in LEARNERS if name != "r-ok"]
    curves = [
        LossCurve(task, alpha, name, given.seeds, given.steps)
        for name in names
        for task in ("add", "mimic")
        for alpha in ("1", "0.5")
    ]
    began = time.perf_counter()
    with ThreadPoolExecutor(1) as on_cores, ThreadPoolExecutor(TOGETHER) as on_gpu:
        pool = lambda curve: on_cores if is_on_cores(curve) else on_gpu
        going = [pool(curve).submit(run, curve, given.out) for curve in curves]
        rows = [each.result() for each in going]
    took = time.perf_counter() - began
    report = {"machine": machine(), "versions": versions(), "seconds": took, "curves": rows}
    (given.out / "curves.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"{len(curves)} curves of {given.seeds} seeds and {given.steps:,} steps: {took:.0f} s")


if __name__ == "__main__":
    main()

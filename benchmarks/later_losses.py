"""Final losses of learners that came after the paper, on its tasks and at its scale: 20 seeds, a million steps.

    python benchmarks/later_losses.py --out docs/learners/later_losses.csv

The set-up is that of the reproduction: 32 tanh units, plain gradient descent, both tasks and both α, the same keys.
Rows that the file has already are not run again.
"""

import argparse
import csv
import tempfile
import time
from pathlib import Path

from recurra_paper.experiments.losses import LossCurve

LEARNERS = ("pp-prop", "e-prop-3", "edge-bptt", "bp-lambda-local", "truncated-ok")
COLUMNS = ("task", "alpha", "learner", "steps", "seed", "final_loss", "diverged")


def losses(curve: LossCurve) -> list[dict]:
    """The mean over the last tenth of a run, for each seed."""
    with tempfile.TemporaryDirectory() as folder:
        arrays = curve.run(Path(folder) / "run.safetensors", lambda _: None)
    last, diverged = arrays["loss"][:, -10:].mean(axis=1), arrays["diverged"] >= 0  # of a hundred windows
    kind = {"task": curve.task, "alpha": curve.alpha, "learner": curve.learner, "steps": curve.steps}
    seeds = zip(last.tolist(), diverged.tolist(), strict=True)
    return [{**kind, "seed": n, "final_loss": loss, "diverged": gone} for n, (loss, gone) in enumerate(seeds)]


def main() -> None:
    """One curve after the other; each is written as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("later_losses.csv"))
    given = parser.parse_args()
    rows = list(csv.DictReader(given.out.open())) if given.out.exists() else []
    if {int(row["steps"]) for row in rows} - {given.steps} or max(
        (int(row["seed"]) for row in rows), default=0
    ) >= given.seeds:
        raise SystemExit(f"{given.out} has rows of another scale: give another file, or the same --steps and --seeds.")
    for learner in given.learners.split(","):
        for task, alpha in (("add", "1"), ("mimic", "1"), ("add", "0.5"), ("mimic", "0.5")):
            if (task, alpha, learner) in {(row["task"], row["alpha"], row["learner"]) for row in rows}:
                continue
            began = time.perf_counter()
            rows += losses(LossCurve(task, alpha, learner, given.seeds, given.steps))
            print(f"{learner} {task} {alpha}: {time.perf_counter() - began:.0f} s", flush=True)
            with given.out.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()

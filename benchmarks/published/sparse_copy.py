"""SnAp-1 and SnAp-2 on copy with a sparse network and an update at every step, beside RTRL, RFLO and UORO.

    python benchmarks/published/sparse_copy.py --out FOLDER

Published: Menick, Elsen, Evci, Osindero, Simonyan & Graves, "Practical Real Time Recurrent Learning with a Sparse
Approximation", ICLR 2021. We had the abstract and no more. It says that SnAp-1 "substantially outperforms other RTRL
approximations with comparable costs such as Unbiased Online Recurrent Optimization", and that for highly sparse
networks SnAp-2 "can outperform backpropagation through time in terms of learning speed when updates are done online".
From memory of the paper, not checked against its text: minibatches of 16, Adam, binary strings, a curriculum that makes
strings longer, sparsities of 75 % to 98 %, GRUs among the cells.

Here: a GRU of 64 units that each hear 4, which is a sparsity of 93.75 %; strings of 1 to 8 bits; 16 streams; Adam, rate
1e-3, at every step that has a label; 60,000 steps. With an update at every step BPTT is truncated to a step, and is
`Immediate`. The loss is in bits for each bit of the string, in the last tenth of the run; 1 is chance.

Criteria, set before the first full run:
 1. SnAp-1 is below UORO and below `Immediate`, each by more than 3 standard errors.
 2. SnAp-2 is below SnAp-1, by more than 2 standard errors.
 3. SnAp-2 is nearer to RTRL than to SnAp-1.
 4. SnAp-1 is below RFLO, by more than 2 standard errors.

The number of steps was chosen after a look at one seed of SnAp-1, SnAp-2 and RFLO over 10,000 steps.

What differs: no curriculum, so the loss at one range of lengths stands for the length that is reached. Input weights
are dense. The places of recurrent weights are the same for all gates and all seeds.
"""

import math
from typing import Any

from reproducing import Report, interval, options

import recurra as rc
from recurra.cells.initial import Sparsely

UNITS, HEARD, STREAMS, RATE, LENGTH = 64, 4, 16, 1e-3, 8
LEARNERS = {
    "rtrl": rc.RTRL(),
    "snap-2": rc.SnAp(order=2),
    "snap-1": rc.SnAp1(),
    "rflo": rc.RFLO(),
    "uoro": rc.UORO(),
    "immediate": rc.Immediate(),
}


def main() -> None:
    asked = options(__doc__, list(LEARNERS))
    units, streams, length, steps, seeds = (8, 2, 2, 200, 2) if asked.quick else (UNITS, STREAMS, LENGTH, 60_000, 5)
    seeds = asked.seeds or seeds
    task = rc.Copy(length=length, varied=True)
    about = {"units": units, "heard": HEARD, "streams": streams, "rate": RATE, "length": length, "steps": steps}
    report = Report(
        "sparse_copy", asked.out, "Menick et al. 2021, abstract; curves without numbers", about, asked.quick
    )
    cell = rc.GRU(task.n_in, units, w_rec=Sparsely(HEARD / units), dtype="float32")
    found: dict[str, dict[str, Any]] = {}
    for name in asked.only:
        result = rc.train(
            rc.Network(cell, task.n_out),
            LEARNERS[name],
            task,
            steps=steps,
            seeds=seeds,
            streams=streams,
            optimizer=rc.Adam(RATE),
            progress=False,
        )
        found[name] = interval(result.final_loss() / math.log(2))
        curve = (result.loss[:, :: max(len(result.step) // 20, 1)] / math.log(2)).round(4).tolist()
        seconds = result.seconds + result.compile_seconds
        report.add(name, {"bits": found[name], "curve": curve, "seconds": seconds})
    judge(report, found)


def judge(report: Report, found: dict[str, dict[str, Any]]) -> None:
    """Hold the results against the criteria."""
    mean = lambda name: found[name]["mean"]

    def below(criterion: str, low: str, highs: list[str], errors: float) -> None:
        if {low, *highs} <= found.keys():
            gaps = [(mean(high) - mean(low)) / math.hypot(found[low]["sem"], found[high]["sem"]) for high in highs]
            why = ", ".join(f"{high} {gap:+.1f} standard errors above" for high, gap in zip(highs, gaps, strict=True))
            report.judge(criterion, min(gaps) > errors, why)

    below("1 SnAp-1 before UORO and Immediate", "snap-1", ["uoro", "immediate"], 3)
    below("2 SnAp-2 before SnAp-1", "snap-2", ["snap-1"], 2)
    if {"rtrl", "snap-1", "snap-2"} <= found.keys():
        nearer = abs(mean("snap-2") - mean("rtrl")) < abs(mean("snap-2") - mean("snap-1"))
        report.judge("3 SnAp-2 is near RTRL", nearer, f"{mean('rtrl'):.3g}, {mean('snap-2'):.3g}, {mean('snap-1'):.3g}")
    below("4 SnAp-1 before RFLO", "snap-1", ["rflo"], 2)


if __name__ == "__main__":
    main()

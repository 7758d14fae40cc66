"""LRU trained with exact RTRL on the copy task, beside BPTT and truncated gradients.

    python benchmarks/published/lru_copy.py --out FOLDER

Published: Zucchet, Meier, Schug, Mujika & Sacramento, "Online learning of long-range dependencies", NeurIPS 2023. The
settings are those of NicolasZucchet/Online-learning-LR-dependencies: experiments/table1_lru.yaml and figure2_AB.yaml,
online_lru/dataloaders/copy.py and train_helpers.py. We had no access to the paper's table of numbers, and their network
has gated layers around the recurrent one. So what is tested is the claim, on one LRU of 64 units and a linear readout:
traces make online learning as good as BPTT, and gradients that are truncated to a step fall behind.

20 steps with 7 random bits each, 7 empty steps, a marker, and 20 steps at which the bits are due: 48 steps. 50 streams,
one update of Adam after each sequence, along the mean over the 20 steps; the recurrent weights have half the rate, and
the rate falls along a cosine. The best of three rates is taken for each learner (their grid has six, 1e-3 to 3.2e-2).

  rtrl       their online_full
  bptt       their bptt: a gradient for each whole sequence
  truncated  their online_1truncated: `Immediate`
  spatial    their online_spatial: as that, and λ does not learn

Criteria, set before the first full run, for the cross-entropy of a bit in the last tenth of a run (log 2 is chance):
 1. RTRL is within 2 standard errors of BPTT, or within 0.005: with weights that stand still within a sequence both
    have the same gradient, and only rounding differs.
 2. The loss of `truncated` is at least 1.25 times that of RTRL, and more than 3 standard errors above it.
 3. So is that of `spatial`.

What differs: one layer, no encoder, no gated layer, no dropout, no skip; sequences are new all the time in place of
20,000 that come back, and there are 2,000 updates in place of 10,000.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from reproducing import Report, every, interval, options, per_part

import recurra as rc
from recurra.cells.lru import LRU
from recurra.losses import Loss
from recurra.tasks.episodes import Underway, lay_out, none_yet, slots

UNITS, STREAMS, RATES = 64, 50, (1e-3, 4e-3, 1.6e-2)
PARTS = ("rtrl", "bptt", "truncated", "spatial")


class Pattern(NamedTuple):
    bits: Any


class BitCopy(rc.Task):
    """`length` rows of random bits, `pad` empty rows, a marker, and `length` rows at which the bits are due."""

    length: int = 20
    pad: int = 7
    bits: int = 7

    @property
    def n_in(self) -> int:
        return self.bits + 1

    @property
    def n_out(self) -> int:
        return self.bits

    @property
    def steps(self) -> int:
        return 2 * self.length + self.pad + 1

    def check(self, loss: Loss, steps: int, streams: int, dtype) -> None:
        if not isinstance(loss, rc.SigmoidCrossEntropy):
            raise ValueError(f"Labels of BitCopy are bits: use SigmoidCrossEntropy, and not {loss!r}.")

    def init(self, key, dtype) -> Underway:
        return none_yet(Pattern(jnp.zeros((self.length, self.bits), bool)))

    def block(self, state: Underway, key, number, dtype) -> tuple[rc.Rows, Underway]:
        drawn = slots(self, self.steps, self.steps)
        bits = jax.random.bernoulli(key, 0.5, (drawn, self.length, self.bits))
        pattern, t, state = lay_out(state, Pattern(bits), self.steps)
        row = lambda at: jnp.take_along_axis(pattern.bits, at[:, None, None], axis=1, mode="clip")[:, 0]
        marked = self.length + self.pad
        due = t > marked
        shown = jnp.where((t < self.length)[:, None], row(t), False)
        x = jnp.concatenate([shown, (t == marked)[:, None]], axis=1).astype(dtype)
        label = jnp.where(due[:, None], row(t - marked - 1), False).astype(dtype)
        return rc.Rows(x, label, due, t == 0), state


def optimizer(part: str, task: BitCopy, rate: float, updates: int) -> optax.GradientTransformation:
    """Adam after each sequence. BPTT has one gradient of the recurrent weights for each; others one a labelled step."""
    falling = lambda rate: optax.adam(optax.cosine_decay_schedule(rate, updates))
    cell = falling(rate / 2)
    if part == "spatial":
        names = lambda weights: tuple(
            jax.tree.map(lambda _, name=name: "still" if name in ("nu", "omega") else "moves", gate)
            for name, gate in zip(LRU.gates, weights, strict=True)
        )
        cell = optax.multi_transform({"moves": cell, "still": optax.set_to_zero()}, names)
    return per_part(cell if part == "bptt" else every(task.length, cell), every(task.length, falling(rate)))


def main() -> None:
    asked = options(__doc__, PARTS)
    task = BitCopy(2, 1, 2) if asked.quick else BitCopy()
    units, streams, updates, seeds = (4, 2, 20, 2) if asked.quick else (UNITS, STREAMS, 2_000, asked.seeds or 5)
    rates = RATES[:1] if asked.quick else RATES
    about = {"task": repr(task), "units": units, "streams": streams, "rates": rates, "updates": updates, "seeds": seeds}
    source = "NicolasZucchet/Online-learning-LR-dependencies, experiments/table1_lru.yaml; a claim, no number"
    report = Report("lru_copy", asked.out, source, about, asked.quick)
    network = rc.Network(LRU(task.n_in, units, dtype="float32"), task.n_out, loss=rc.SigmoidCrossEntropy())
    learners = {"rtrl": rc.RTRL(), "bptt": rc.EfficientBPTT(T=task.steps)}
    best: dict[str, dict[str, Any]] = {}
    for part in asked.only:
        for rate in rates:
            result = rc.train(
                network,
                learners.get(part, rc.Immediate()),
                task,
                steps=updates * task.steps,
                seeds=seeds,
                streams=streams,
                optimizer=optimizer(part, task, rate, updates),
                progress=False,
            )
            loss = interval(result.final_loss() / task.bits)
            seconds = result.seconds + result.compile_seconds
            report.add(f"{part} {rate:g}", {"loss": loss, "seconds": seconds})
            if part not in best or (loss["mean"] or math.inf) < (best[part]["mean"] or math.inf):
                best[part] = loss | {"rate": rate}
    for part, loss in best.items():
        report.add(part, {"loss": loss})
    judge(report, best)


def judge(report: Report, best: dict[str, dict[str, Any]]) -> None:
    """Hold the results against the criteria."""
    errors = lambda part: (
        (best[part]["mean"] - best["rtrl"]["mean"]) / max(math.hypot(best[part]["sem"], best["rtrl"]["sem"]), 1e-9)
    )
    values = lambda part: (
        f"{best[part]['mean']:.4g} and {best['rtrl']['mean']:.4g}, {errors(part):+.1f} standard errors"
    )
    if {"rtrl", "bptt"} <= best.keys():
        near = abs(best["bptt"]["mean"] - best["rtrl"]["mean"]) <= 0.005 or abs(errors("bptt")) <= 2
        report.judge("1 RTRL is BPTT", near, values("bptt"))
    for number, part in ((2, "truncated"), (3, "spatial")):
        if {"rtrl", part} <= best.keys():
            behind = best[part]["mean"] >= 1.25 * best["rtrl"]["mean"] and errors(part) > 3
            report.judge(f"{number} {part} falls behind", behind, values(part))


if __name__ == "__main__":
    main()

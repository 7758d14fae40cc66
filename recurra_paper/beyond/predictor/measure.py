"""How well alignment predicts loss: defined here, once.

    alignment(w)   of a learner: the cosine between its gradients summed over w steps and the exact ones summed over
                   the same steps, averaged over windows. Exact is what faces as the learner does: RTRL for the past,
                   F-BPTT for the future
    loss           of a learner: its mean over the last tenth of training; a seed that diverged has learnt nothing
    ρ(w)           of a condition: Spearman's rank correlation over the approximate learners of alignment(w) and minus
                   the loss. It is 1 if of any two learners the better aligned one ends with the lower loss
    overall        the mean of ρ(w) over the conditions of a task, then over the tasks, so that both count alike

Conditions in which RTRL is not ahead of fixed W beyond doubt are left out: nothing has been learnt there.

What varies? Seeds, for one. Drawing them anew, with replacement, says how well ρ is known for *these* learners (the
bootstrap). A mean of each seed's own ρ would not do: noise in the losses draws that towards zero. But to predict is to
say something about a learner that has not been tried. For that the learners are the sample, and they are the same in
every condition, so that conditions are not independent. The jackknife leaves out one learner at a time, in all
conditions at once, and takes the error from how much the result moves. With eight learners it is large. It is not even
large enough where learners are akin, as UORO and R-KF-RTRL are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from recurra_paper.analysis import Estimate, mean, rank_correlations, scored
from recurra_paper.beyond.predictor.runs import APPROXIMATE, CONDITIONS, gradients_name, loss_name
from recurra_paper.claims.base import Data, Undecided, arrays
from recurra_paper.setup import kind_of

#: the exact learner of each facing
EXACT = {"past": "rtrl", "future": "f-bptt"}
#: A rank correlation from which on alignment counts as predictive: it orders six pairs in ten as the loss does.
PREDICTIVE = 0.3
#: draws of the bootstrap
DRAWS = 2_000
#: the least number of steps in a window that counts as long
LONG = 10_000


@dataclass(frozen=True)
class Measured:
    """Alignment and loss of every approximate learner in one condition, at the seeds of either kind of run."""

    learners: tuple[str, ...]
    windows: Int[np.ndarray, " W"]
    alignment: Float[np.ndarray, "compared L W"]
    loss: Float[np.ndarray, "seeds L"]
    #: fixed W's loss less RTRL's, and RTRL's
    gap: Float[np.ndarray, " seeds"]
    rtrl: Float[np.ndarray, " seeds"]

    @property
    def learnt(self) -> bool:
        """Whether RTRL is ahead of fixed W, at 95 % confidence."""
        return bool(mean(self.gap).interval()[0] > 0)

    def only(self, learners: Sequence[str]) -> "Measured":
        """The same of some learners."""
        rows = [self.learners.index(learner) for learner in learners]
        taken = self.alignment[:, rows], self.loss[:, rows]
        return Measured(tuple(learners), self.windows, *taken, self.gap, self.rtrl)

    def at(self, window: int) -> Float[np.ndarray, "compared L"]:
        """The alignments of one window."""
        return self.alignment[..., list(self.windows).index(window)]

    def rho(self, window: int) -> float:
        """ρ(w), of alignments and losses that are averaged over seeds."""
        return float(rank_correlations(self.at(window).mean(axis=0)[None], -self.loss.mean(axis=0)[None])[0])


def measured(data: Data, condition: str) -> Measured:
    """What was found in a condition; raises `Undecided` where something is missing."""
    found = arrays(data, gradients_name(condition))
    compared = [str(learner) for learner in found["learners"]]
    learners = tuple(learner for learner in APPROXIMATE if learner in compared)
    rows = [compared.index(learner) for learner in learners]
    exact = [compared.index(EXACT[kind_of(learner).facing]) for learner in learners]
    alignment = np.asarray(found["window_cosine"], float)[:, rows, exact]
    fixed = arrays(data, loss_name(condition, "fixed"))
    final = lambda learner: scored(arrays(data, loss_name(condition, learner)), fixed)
    loss, rtrl = np.stack([final(learner) for learner in learners], axis=1), final("rtrl")
    if not np.isfinite(alignment).all():
        raise Undecided(f"Not decided: in {gradients_name(condition)} a learner never emitted.")
    return Measured(learners, np.asarray(found["windows"]), alignment, loss, final("fixed") - rtrl, rtrl)


def collected(data: Data) -> dict[str, Measured]:
    """Every condition that was run."""
    run = [condition for condition in CONDITIONS if gradients_name(condition) in data]
    return {condition: measured(data, condition) for condition in run}


def comparable(found: Mapping[str, Measured]) -> dict[str, Measured]:
    """The conditions in which something was learnt, with the learners that all of them share."""
    learnt = {condition: m for condition, m in found.items() if m.learnt}
    shared = [learner for learner in APPROXIMATE if all(learner in m.learners for m in learnt.values())]
    return {condition: m.only(shared) for condition, m in learnt.items()}


def longest(found: Mapping[str, Measured]) -> int:
    """The longest window that all conditions share."""
    return min(int(m.windows[-1]) for m in found.values())


def balanced(found: Mapping[str, Float[np.ndarray, " B"]]) -> Float[np.ndarray, " B"]:
    """The mean over the conditions of a task, then over tasks."""
    by_task: dict[str, list[np.ndarray]] = {}
    for condition, values in found.items():
        by_task.setdefault(CONDITIONS[condition].task, []).append(values)
    return np.mean([np.mean(each, axis=0) for each in by_task.values()], axis=0)


def overall(found: Mapping[str, Measured], window: int) -> float:
    """The mean of ρ over the conditions of a task, then over tasks."""
    return float(balanced({name: np.array([m.rho(window)]) for name, m in found.items()})[0])


def over_seeds(found: Mapping[str, Measured], window: int) -> Estimate:
    """The overall ρ with its bootstrap error: seeds are the sample.

    Losses and alignments are each drawn from as many seeds as they have. A seed has the same weights and data in every
    run, so that all that has the same number of seeds shares its draws; different numbers are drawn apart. Means of n
    seeds that are drawn with replacement vary too little, so that their distance from the mean itself is taken times
    √(n / (n - 1)). Degrees of freedom: the smallest number of seeds, less one.
    """
    counts = sorted({len(values) for m in found.values() for values in (m.alignment, m.loss)})
    if counts[0] < 2:
        return Estimate(overall(found, window), float("nan"), 0.0)
    rng = np.random.default_rng(0)
    drawn = {n: rng.integers(n, size=(DRAWS, n)) for n in counts}

    def again(values: Float[np.ndarray, "seeds L"]) -> Float[np.ndarray, "B L"]:
        n, center = len(values), values.mean(axis=0)
        return center + np.sqrt(n / (n - 1)) * (values[drawn[n]].mean(axis=1) - center)

    each = balanced({name: rank_correlations(again(m.at(window)), -again(m.loss)) for name, m in found.items()})
    return Estimate(overall(found, window), float(np.std(each)), counts[0] - 1.0)


def over_learners(found: Mapping[str, Measured], window: int, less: int | None = None) -> Estimate:
    """The overall ρ, or how far it exceeds that of the window `less`: learners are the sample.

    The error is that of the jackknife, which leaves out one learner at a time.
    """
    count = len(next(iter(found.values())).learners)
    kept = np.array([[i for i in range(count) if i != left_out] for left_out in range(count)])

    def without(window: int) -> np.ndarray:
        rows = {name: (m.at(window).mean(axis=0)[kept], -m.loss.mean(axis=0)[kept]) for name, m in found.items()}
        return balanced({name: rank_correlations(*pair) for name, pair in rows.items()})

    value, each = overall(found, window), without(window)
    if less is not None:
        value, each = value - overall(found, less), each - without(less)
    error = float(np.sqrt((count - 1) / count * ((each - each.mean()) ** 2).sum()))
    return Estimate(value, error, count - 1.0)

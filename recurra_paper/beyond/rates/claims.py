"""What the paper says about learning rates and configurations, and whether patience makes up for a biased gradient."""

from collections.abc import Callable

import numpy as np

from recurra_paper.analysis import Estimate, less, mean, relative
from recurra_paper.beyond.grids import RATED, Condition, grid_losses, grid_name, rates_of
from recurra_paper.beyond.rates.usable import grid_gap, long_loss, own_losses, own_name, spacing
from recurra_paper.claims.base import ERROR_RATE, Claim, Data, Part, Undecided, arrays, known_gap
from recurra_paper.claims.rule import GAPS, More, NoMore, Within
from recurra_paper.setup import LEARNING_RATE, TASK_NAMES, TASKS, shown

NAME = "rates"
OTHERS = tuple(x for x in RATED if x != "fixed")
#: the smallest difference of widths that matters: one step of the grid
DECADES = 0.5

UNITS = "in gaps, fixed W's loss less RTRL's, both at their best rates"
#: what an interval does that shows no difference
NONE = f"contains zero and no difference as large as {GAPS} gaps"
CAPPED = "A final loss above that of an untrained network counts as that, and so does a run that diverged."


def at_rate(data: Data, rate: float) -> dict[tuple[str, str], Estimate]:
    """How far each learner is ahead of fixed W at a rate, in gaps, on both tasks."""
    found = {}
    for task in TASKS:
        on, gap = Condition(task), grid_gap(data, task)
        fixed = grid_losses(data, on, "fixed")[:, position(rates_of(data, on), rate)]
        for x in OTHERS:
            ours = grid_losses(data, on, x)[:, position(rates_of(data, on, x), rate)]
            found[task, x] = relative(less(fixed, ours), gap)
    return found


def position(rates: np.ndarray, rate: float) -> int:
    """Where a rate stands in a grid."""
    near = np.flatnonzero(np.isclose(rates, rate, rtol=1e-6))
    if not len(near):
        raise Undecided(f"Not decided: no run has a learning rate of {rate:g}.")
    return int(near[0])


def diverged(data: Data, task: str, learner: str, rate: float) -> int:
    """At how many seeds a learner diverged."""
    on = Condition(task)
    run = arrays(data, grid_name(on, learner))
    return int((np.asarray(run["diverged"])[0, 0, position(rates_of(data, on, learner), rate)] >= 0).sum())


def stable(data: Data) -> list[Part]:
    """Nobody diverges at the paper's rate, or ends behind fixed W."""
    lost = sum(diverged(data, task, x, LEARNING_RATE) for task in TASKS for x in RATED)
    counted = Part("runs that diverged", Estimate(float(lost), 0.0, 0.0), Within(0.0, 0.0), sampled=False)
    return [counted] + [
        Part(f"{shown(x)} ahead of fixed W on {TASK_NAMES[task]}, in gaps", ahead, NoMore(GAPS))
        for (task, x), ahead in at_rate(data, LEARNING_RATE).items()
    ]


def fastest(data: Data) -> list[Part]:
    """Somebody fails at the next larger rate."""
    above = [rate for rate in rates_of(data, Condition(TASKS[0])) if rate > LEARNING_RATE * 1.01]
    if not above:
        raise Undecided("Not decided: no larger learning rate was run.")
    rate = float(min(above))
    ahead = at_rate(data, rate)
    confidence = 1 - ERROR_RATE / len(ahead)
    behind = {}
    for pair, e in ahead.items():
        low, high = e.interval(confidence)
        behind[pair] = "holds" if diverged(data, *pair, rate) else More(GAPS).judge(-high, -low)
    failed = [pair for pair, status in behind.items() if status == "holds"]
    unknown = [pair for pair, status in behind.items() if status == "not decided"]
    in_words = lambda pairs: ", ".join(f"{shown(x)} on {TASK_NAMES[task]}" for task, x in pairs)
    if not failed and unknown:
        raise Undecided(f"Not decided: at a rate of {rate:g} nobody fails beyond doubt; open: {in_words(unknown)}.")
    note = f"({in_words(failed)})" if failed else ""
    name = f"learners and tasks that fail at a rate of {rate:g}"
    count = Part(name, Estimate(float(len(failed)), 0.0, 0.0), Within(low=1.0), sampled=False, note=note)
    worst = min(ahead, key=lambda pair: ahead[pair].value)
    return [count, Part(f"{in_words([worst])} ahead of fixed W, in gaps", ahead[worst], None)]


def space(data: Data) -> list[Part]:
    """Decades of their own rates over which the updates of DNI and of KeRNL help."""
    fixed = own_losses(data, "fixed")[1][:, 0]
    if arrays(data, own_name("fixed"))["step"][-1] != arrays(data, "rates/long/rtrl")["step"][-1]:
        raise Undecided("Not decided: RTRL was not run for as many steps.")
    gap = float(known_gap(less(fixed, long_loss(data, "rtrl"))).mean())

    def decades(learner: str, without: bool) -> np.ndarray:
        own, losses = own_losses(data, learner)
        tried = own > 0
        bound = fixed if not without else np.minimum(fixed, losses[:, ~tried][:, 0])
        helps = losses[:, tried] < bound[:, None] - GAPS * gap
        return helps.sum(axis=1) * spacing(own[tried])

    ours, theirs = decades("dni", True), decades("kernl", True)
    return [
        Part("decades in which DNI's updates improve it, less KeRNL's", mean(ours - theirs), More(DECADES)),
        *(Part(f"decades, {shown(x)}", mean(decades(x, True)), None) for x in ("dni", "kernl")),
        *(Part(f"decades ahead of fixed W, {shown(x)}", mean(decades(x, False)), None) for x in ("dni", "kernl")),
    ]


def patience(data: Data) -> list[Part]:
    """How far the slow learners stay behind RTRL, which had a tenth of their steps."""
    rtrl = long_loss(data, "rtrl")
    gap = known_gap(long_loss(data, "fixed") - rtrl)

    def part(learner: str, relation: More | None) -> Part:
        steps = [int(arrays(data, f"rates/long/{x}")["step"][-1]) for x in (learner, "rtrl")]
        name = f"{shown(learner)} after {steps[0]:,} steps behind RTRL after {steps[1]:,}, in gaps"
        return Part(name, relative(long_loss(data, learner) - rtrl, gap), relation)

    more = [x for x in ("kernl", "dni-b", "uoro") if f"rates/long/{x}" in data]
    return [part("rflo", More(GAPS)), *(part(x, None) for x in more)]


def _claim(id: str, text: str, where: str, criterion: str, parts: Callable[[Data], list[Part]]) -> Claim:
    return Claim(id, text, where, criterion, parts, NAME)


CLAIMS = [
    _claim(
        "rates-stable",
        "At a learning rate of 1e-4 every algorithm converges to a stable performance.",
        "Setup",
        "On Add and Mimic, α = 1, every learner but r-OK. No run of any learner or of fixed W diverges, and each "
        "learner's final loss is no "
        f"worse than fixed W's at the same rate, paired by seed, {UNITS}. {CAPPED} Holds if no run diverges and every "
        f"interval, of fixed W's loss less the learner's, lies above zero or {NONE}; does not hold if a run diverges "
        "or any interval lies below zero.",
        stable,
    ),
    _claim(
        "rates-fastest",
        "1e-4 is the fastest learning rate at which all algorithms converge.",
        "Setup",
        "At the next larger rate of the grid, half a decade above, at least one learner fails on Add or Mimic, α = 1. "
        "A learner fails if a run of it diverges, or if its final loss less fixed W's at that rate, paired by seed, "
        f"{UNITS}, has an interval above zero, at 95 % confidence corrected for all learners and tasks. {CAPPED} That "
        "fixed W itself diverges is no failure. Holds if any learner fails; does not hold if every interval lies below "
        f"zero or {NONE}.",
        fastest,
    ),
    _claim(
        "rates-space",
        "There is a larger space of configurations in which DNI's numerical updates improve it than in which KeRNL's "
        "do.",
        "Add task",
        "Add, α = 1. The rate with which DNI fits its predictor, and KeRNL its kernel, is varied over a half-decade "
        "grid. Updates improve a learner at a rate if its final loss is lower than fixed W's and lower than its own "
        f"without updates, a rate of zero, by more than {GAPS} gaps; the gap is fixed W's loss less RTRL's after as "
        "many steps. Every such rate counts as one step of the grid, in decades: DNI's less KeRNL's, paired by seed. "
        f"Holds if the interval lies above zero; does not hold if it lies below, or contains zero and nothing as large "
        f"as {DECADES} decades. Decades in which each is ahead of fixed W alone are reported.",
        space,
    ),
    _claim(
        "rates-patience",
        "Ten times as many steps do not bring RFLO to RTRL's loss on Add.",
        "Discussion (open question)",
        "Add, α = 1: RFLO's final loss less RTRL's after a tenth of the steps (full profile: 10,000,000 and 1,000,000, "
        "at 1e-4), paired by seed, in gaps, fixed W's final loss less RTRL's. Holds if the interval lies above zero; "
        f"does not hold if it lies below, or {NONE}. {CAPPED}",
        patience,
    ),
]

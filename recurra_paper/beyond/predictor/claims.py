"""What was expected of alignment as a predictor, and how the data decide it."""

from collections.abc import Mapping

from recurra_paper.analysis import mean
from recurra_paper.beyond.predictor.measure import (
    LONG,
    PREDICTIVE,
    Measured,
    collected,
    comparable,
    longest,
    over_learners,
    over_seeds,
)
from recurra_paper.beyond.predictor.runs import CONDITIONS, HORIZON
from recurra_paper.claims.base import Claim, Data, Part, Undecided
from recurra_paper.claims.rule import More, Within
from recurra_paper.setup import TASKS

FIGURE = "predictor"
SINGLE = 1
#: fewer learners have no rank correlation worth the name
FEWEST = 4


def conditions(data: Data) -> tuple[dict[str, Measured], str]:
    """The conditions that count, and in words those that do not."""
    found = collected(data)
    kept = comparable(found)
    missing = [task for task in TASKS if not any(CONDITIONS[name].task == task for name in kept)]
    if not found or missing:
        gaps = [
            f"{CONDITIONS[name].title}: {mean(m.gap).value:.2g} ± {mean(m.gap).error:.1g}" for name, m in found.items()
        ]
        known = f" (fixed W's loss less RTRL's: {'; '.join(gaps)})" if gaps else ""
        raise Undecided(
            f"Not decided: there is no condition of {' and of '.join(map(str.capitalize, missing or TASKS))} that was "
            f"run and in which RTRL is ahead of fixed W beyond doubt{known}."
        )
    learners = next(iter(kept.values())).learners
    if len(learners) < FEWEST:
        raise Undecided(f"Not decided: {len(learners)} learners were compared, and it takes {FEWEST}.")
    out = [CONDITIONS[name].title for name in found if name not in kept]
    return kept, f"Left out, since RTRL is not ahead of fixed W: {'; '.join(out)}." if out else ""


def reported(found: Mapping[str, Measured], window: int) -> list[Part]:
    """Each condition's rank correlation; they decide nothing."""

    def part(name: str, m: Measured) -> Part:
        estimate = over_learners({name: m}, window)
        return Part(f"ρ at w = {window:,}, {CONDITIONS[name].title} (learners are the sample)", estimate, None)

    return [part(name, m) for name, m in found.items()]


def single(data: Data) -> list[Part]:
    """ρ at single steps, with seeds as the sample."""
    found, note = conditions(data)
    general = over_learners(found, SINGLE)
    return [
        Part("mean ρ at single steps", over_seeds(found, SINGLE), Within(high=PREDICTIVE), note=note),
        Part("mean ρ at single steps, with learners as the sample", general, None),
        *reported(found, SINGLE),
    ]


def long_windows(data: Data) -> tuple[dict[str, Measured], int, str]:
    """The conditions that count, the longest window they share, and what is left out."""
    found, note = conditions(data)
    window = longest(found)
    if window < LONG:
        raise Undecided(
            f"Not decided: the longest windows have {window:,} steps, and the claim is about {LONG:,} or more."
        )
    return found, window, note


def summed(data: Data) -> list[Part]:
    """ρ over the longest windows, with learners as the sample."""
    found, window, note = long_windows(data)
    general = over_learners(found, window)
    return [
        Part(f"mean ρ at w = {window:,}", general, More(PREDICTIVE), note=note),
        Part(f"mean ρ at w = {window:,}, with seeds as the sample", over_seeds(found, window), None),
        *reported(found, window),
    ]


def gained(data: Data) -> list[Part]:
    """ρ over the longest windows less ρ at single steps, with learners as the sample."""
    found, window, note = long_windows(data)
    more = over_learners(found, window, less=SINGLE)
    return [Part(f"mean ρ at w = {window:,} less mean ρ at single steps", more, More(PREDICTIVE), note=note)]


RHO = (
    "ρ is Spearman's rank correlation, over the approximate learners, of alignment with the exact gradient of the same "
    "facing and minus the final loss; its mean is taken over the conditions of a task, then over the two tasks. For "
    f"what faces the future F-BPTT is taken as exact, which on Mimic it is up to its horizon of {HORIZON} steps. "
    "Conditions in which RTRL is not ahead of fixed W at 95 % confidence are left out."
)
OVER_LEARNERS = (
    f"{RHO} Windows are the longest that all conditions share, {LONG:,} steps or more. Learners are the sample: the "
    "95 % interval is that of a jackknife over them."
)
ABOVE = (
    f"Holds if the interval lies above zero; fails if it lies below, or if it holds zero and nothing further than "
    f"{PREDICTIVE} from it."
)

CLAIMS = [
    Claim(
        "predictor-single",
        "At single steps, alignment with the exact gradient does not predict which learners end with lower losses.",
        "Gradient similarity (iv)",
        f"{RHO} Holds if the 95 % interval lies below {PREDICTIVE}, from where on six pairs of "
        f"learners in ten are ordered as their losses are; fails if it lies above {PREDICTIVE}. Seeds are the sample, "
        "since this is said of the paper's learners: a bootstrap draws the seeds of training and those of the "
        "comparison of gradients, which are fewer, each from their own number, and the smallest number, less one, is "
        "that of the degrees of freedom.",
        single,
        FIGURE,
    ),
    Claim(
        "predictor-summed",
        "Summed over many steps, alignment does predict which learners end with lower losses.",
        "Discussion (open question)",
        f"{OVER_LEARNERS} The quantity is mean ρ over these windows. {ABOVE}",
        summed,
        FIGURE,
    ),
    Claim(
        "predictor-gain",
        "Alignment summed over many steps predicts better than alignment at single steps.",
        "Discussion (open question)",
        f"{OVER_LEARNERS} The quantity is mean ρ over these windows less mean ρ at single steps. {ABOVE}",
        gained,
        FIGURE,
    ),
]

"""What was expected of learners at their best rates, before the grids were run.

A trial at a smaller scale was known: on Mimic RFLO and KeRNL tied with RTRL at best rates, KF-RTRL was 0.20 gaps behind
and UORO 0.65, and at 1e-4 UORO had its best rate on Add while RTRL's was 300 times as large. So were the grids of
`rates` with six seeds and 250,000 steps of plain descent at α = 1. What was not known: Adam, α = 0.5, a million steps,
and judging by other seeds than those that rates are tuned on.
"""

from collections.abc import Callable

from recurra_paper.analysis import less, relative
from recurra_paper.beyond.best_rates.measure import at_best, at_rate, behind, best_rate, gap
from recurra_paper.beyond.grids import AT_MOST, Condition
from recurra_paper.claims.base import Claim, Data, Part
from recurra_paper.claims.rule import GAPS, Alike, More, Relation
from recurra_paper.setup import ALPHAS, LEARNING_RATE, TASKS, shown

NAME = "best_rates"
LEADERS, LOCAL = ("rtrl", "f-bptt", "kf-rtrl"), ("rflo", "kernl")
NOISY = ("uoro", "r-kf-rtrl", "kf-rtrl")
WORDS = {"descent": "plain descent", "adam": "Adam"}

UNITS = (
    "Every learner at its best of nine rates from 1e-5 to 0.1, found on the even seeds; final losses of the odd seeds, "
    f"paired, at both alphas, in gaps: fixed W's loss less RTRL's, each at its best rate. {GAPS} gaps matter. A final "
    f"loss above that of an untrained network counts as that. RTRL has {AT_MOST['rtrl']} seeds, the others 64."
)
AHEAD = f"{UNITS} Holds if every interval lies above zero; does not hold if any lies below, or shows no difference."
TIED = f"{UNITS} Holds if every interval lies within {GAPS} of zero; does not hold if any lies beyond."


def compared(task: str, optimizer: str, *pairs: tuple[str, str], relation: Relation) -> Callable[[Data], list[Part]]:
    """How far the first of each pair is behind the second, at both alphas."""

    def part(data: Data, alpha: str, x: str, y: str) -> Part:
        condition = Condition(task, alpha, optimizer)
        rates = ", ".join(f"{shown(each)} at {best_rate(data, condition, each):g}" for each in (x, y))
        name = f"{shown(x)} behind {shown(y)} on {task.capitalize()}, alpha = {alpha}, {WORDS[optimizer]}, in gaps"
        return Part(name, behind(data, condition, x, y), relation, note=f"({rates})")

    return lambda data: [part(data, alpha, *pair) for alpha in ALPHAS for pair in pairs]


def behind_their_best(data: Data) -> list[Part]:
    """What each learner loses at the paper's rate."""

    def part(condition: Condition, x: str) -> Part:
        d = less(at_rate(data, condition, x, LEARNING_RATE), at_best(data, condition, x))
        where = f"{condition.task.capitalize()}, alpha = {condition.alpha}"
        note = f"(its best rate is {best_rate(data, condition, x):g})"
        name = f"{shown(x)} at {LEARNING_RATE:g} behind itself at its best rate on {where}, in gaps"
        return Part(name, relative(d, gap(data, condition)), More(GAPS), note=note)

    conditions = [Condition(task, alpha) for task in TASKS for alpha in ALPHAS]
    return [part(condition, x) for condition in conditions for x in (*LEADERS, *LOCAL, "dni")]


def _claims(optimizer: str) -> list[Claim]:
    how = WORDS[optimizer]
    tie = [(x, "rtrl") for x in LOCAL]
    noisy = [(x, "rflo") for x in NOISY]
    lead = [(x, y) for x in (*LOCAL, "dni") for y in LEADERS]
    return [
        Claim(
            f"best-{optimizer}-mimic-local",
            f"At best rates of {how} RFLO and KeRNL learn Mimic as well as RTRL.",
            "Not in the paper; its order on Mimic is another",
            TIED,
            compared("mimic", optimizer, *tie, relation=Alike(GAPS)),
            NAME,
        ),
        Claim(
            f"best-{optimizer}-mimic-noisy",
            f"At best rates of {how} UORO, R-KF-RTRL and KF-RTRL learn Mimic worse than RFLO.",
            "Not in the paper; its order on Mimic is another",
            AHEAD,
            compared("mimic", optimizer, *noisy, relation=More(GAPS)),
            NAME,
        ),
        Claim(
            f"best-{optimizer}-add-lead",
            f"At best rates of {how} RTRL, F-BPTT and KF-RTRL learn Add better than RFLO, KeRNL and DNI.",
            "Add task: the paper's order, which it found at 1e-4",
            AHEAD,
            compared("add", optimizer, *lead, relation=More(GAPS)),
            NAME,
        ),
    ]


CLAIMS = [
    *_claims("descent"),
    *_claims("adam"),
    Claim(
        "best-paper-rate",
        f"At {LEARNING_RATE:g} RTRL, F-BPTT, KF-RTRL, RFLO, KeRNL and DNI are behind what they reach at best rates.",
        "Setup",
        f"{UNITS} Plain descent, both tasks. Holds if every interval lies above zero; does not hold if any lies below, "
        "or shows no difference.",
        behind_their_best,
        NAME,
    ),
]

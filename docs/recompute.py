"""Judge the page's paired claims again, from its files alone: python docs/recompute.py [docs/reproduction]

It reads every seed's numbers from data/*.csv and the verdicts from claims.json, and shares no code with the library.
Each part of a claim that compares losses, alignments or gains, or learners by them, is computed anew, with its interval
and its status; then the claim's status follows from its parts. Anything that differs is printed, and the exit status
is 1.
"""

import csv
import itertools
import json
import math
import operator
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

LEARNER = r"[\w()-]+(?: \(released\)| W)?"
RENAMED = {"dni(b)": "dni-b", "kernl (released)": "kernl-released", "fixed w": "fixed"}
#: mean cosines with RTRL in the paper, and within which factor of them one more seed of ours should lie
STATED = {("uoro", "add"): 0.043, ("uoro", "mimic"): 0.084, ("r-kf-rtrl", "add"): 0.05, ("r-kf-rtrl", "mimic"): 0.092}
FACTOR = 1.5
#: a tenth of what knowing the first coin of Add is worth, in nats
WORTH = 0.1 * (0.661563 - 0.519167)
#: and of what knowing both is worth
BOTH = 0.1 * (0.661563 - 0.454454)
#: Table 1 of the paper: facing, indices of the tensor, stochastic, numerical
AXES = {
    "rtrl": ("past", "kij", False, False),
    "uoro": ("past", "k ij", True, False),
    "kf-rtrl": ("past", "j ki", True, False),
    "r-kf-rtrl": ("past", "i kj", True, False),
    "r-ok": ("past", "lj lki", True, True),
    "kernl": ("past", "ki ij", False, True),
    "rflo": ("past", "ki ij", False, False),
    "e-bptt": (None, None, False, False),
    "f-bptt": ("future", None, False, False),
    "dni": ("future", "li", False, True),
    "dni-b": ("future", "li", False, True),
}
#: the learners of the paper's figures of losses and of alignments
NINE = ("rtrl", "uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl", "f-bptt", "dni", "dni-b")
EIGHT = ("rtrl", "f-bptt", "uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl", "dni")
SIX = ("uoro", "kf-rtrl", "r-kf-rtrl", "rflo", "kernl", "dni")
CONDITIONS = (("add", "1"), ("add", "0.5"), ("mimic", "1"), ("mimic", "0.5"))


def learner(name: str) -> str:
    """The name of a learner in the files."""
    return RENAMED.get(name.lower(), name.lower())


class Tables:
    """Every seed's final losses, gains and mean alignments."""

    def __init__(self, folder: Path, losses: str = "final_losses.csv"):
        self.losses = self._read(folder / losses, ("task", "alpha", "learner"), "final_loss")
        self.starts = self._read(
            folder / "final_losses_by_initialization.csv", ("initialization", "learner"), "final_loss"
        )
        self.cosines = self._read(folder / "mean_alignments.csv", ("task", "alpha", "learner", "other"), "mean_cosine")

    @staticmethod
    def _read(path: Path, keys: tuple[str, ...], value: str) -> dict[tuple[str, ...], np.ndarray]:
        found: dict[tuple[str, ...], list[float]] = {}
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault(tuple(row[key] for key in keys), []).append(float(row[value]))
        return {key: np.array(values) for key, values in found.items()}

    def loss(self, task: str, alpha: str, name: str) -> np.ndarray:
        return self.losses[task.lower(), alpha, learner(name)]

    def gap(self, task: str, alpha: str) -> np.ndarray:
        return less(self.loss(task, alpha, "fixed"), self.loss(task, alpha, "rtrl"))

    def cosine(self, task: str, x: str, y: str, alpha: str = "1") -> np.ndarray:
        pair = (task, alpha, learner(x), learner(y))
        return self.cosines[pair] if pair in self.cosines else self.cosines[task, alpha, learner(y), learner(x)]


def less(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The difference at the seeds that both have."""
    seeds = min(len(x), len(y))
    return x[:seeds] - y[:seeds]


def over_seeds(x: np.ndarray) -> tuple[float, float, int]:
    """Mean, standard error and degrees of freedom."""
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x))), len(x) - 1


def in_gaps(difference: np.ndarray, gap: np.ndarray) -> tuple[float, float, int]:
    """A ratio of means; its error is that of its linearization. The gap may be known at more seeds."""
    ratio, fewer = float(difference.mean() / gap.mean()), min(len(difference), len(gap))
    each = np.zeros(max(len(difference), len(gap)))
    each[: len(difference)] += (difference - difference.mean()) / len(difference)
    each[: len(gap)] -= ratio * (gap - gap.mean()) / len(gap)
    error = math.sqrt((each @ each) * fewer / (fewer - 1)) / abs(gap.mean())
    return ratio, error, fewer - 1


def further(tables: Tables, task: str, alpha: str, other: str, near: str, x: str, y: str) -> tuple[float, float, int]:
    """How much further one learner is from a second than two more are from each other, in gaps."""
    seeds = min(len(tables.loss(task, alpha, name)) for name in (other, near, x, y))
    away = tables.loss(task, alpha, other)[:seeds] - tables.loss(task, alpha, near)[:seeds]
    inside = tables.loss(task, alpha, x)[:seeds] - tables.loss(task, alpha, y)[:seeds]
    difference = math.copysign(1, away.mean()) * away - math.copysign(1, inside.mean()) * inside
    return in_gaps(difference, tables.gap(task, alpha))


def along_axes(tables: Tables, of: str) -> tuple[float, float, int]:
    """The correlation of distances on the axes with other distances, and its jackknife over learners."""
    names = NINE if of == "losses" else EIGHT

    def apart(x: str, y: str, task: str, alpha: str) -> float:
        if of == "losses":
            unit = tables.gap(task, alpha).mean()
            return abs(tables.loss(task, alpha, x).mean() / unit - tables.loss(task, alpha, y).mean() / unit)
        return 1 - tables.cosine(task, x, y).mean()

    def r(kept: tuple[str, ...]) -> float:
        pairs = list(itertools.combinations(kept, 2))
        axes = [sum(map(operator.ne, AXES[x], AXES[y])) for x, y in pairs]
        conditions = CONDITIONS if of == "losses" else (("add", "1"), ("mimic", "1"))
        return np.mean([np.corrcoef(axes, [apart(*pair, *c) for pair in pairs])[0, 1] for c in conditions])

    each = np.array([r(names[:i] + names[i + 1 :]) for i in range(len(names))])
    return float(r(names)), math.sqrt((len(names) - 1) * each.var()), len(names) - 1


def permuted(tables: Tables) -> tuple[float, float]:
    """The mean rank correlation of alignment at single steps and performance over the six learners, and its p-value."""
    found = []
    for task, alpha in CONDITIONS:
        exact = {x: "f-bptt" if x == "dni" else "rtrl" for x in SIX}
        cosine = [tables.cosine(task, x, exact[x], alpha).mean() for x in SIX]
        found.append([stats.rankdata(v) for v in (cosine, [-tables.loss(task, alpha, x).mean() for x in SIX])])
    rho = lambda order: np.mean([np.corrcoef(x, y[list(order)])[0, 1] for x, y in found])
    value = rho(range(len(SIX)))
    every = np.array([rho(order) for order in itertools.permutations(range(len(SIX)))])
    return float(value), float(np.mean(np.abs(every) >= abs(value) - 1e-9))


def estimate(tables: Tables, part: str) -> tuple[float, float, int] | None:
    """Value, standard error and degrees of freedom of a part, by its name; None if it is of another kind."""
    if found := re.fullmatch(rf"({LEARNER}) behind ({LEARNER}) on (\w+), alpha = ([\d.]+), after .*", part):
        x, y, task, alpha = found.groups()
        return in_gaps(less(tables.loss(task, alpha, x), tables.loss(task, alpha, y)), tables.gap(task, alpha))
    cluster = (
        rf"({LEARNER})'s distance from ({LEARNER}) less that of ({LEARNER}) from ({LEARNER}), (\w+), alpha = (.+?), .*"
    )
    if found := re.fullmatch(cluster, part):
        *names, task, alpha = found.groups()
        return further(tables, task, alpha, *names)
    if found := re.fullmatch(r"correlation r of distances on the axes and of (losses|gradients), .*", part):
        return along_axes(tables, found[1])
    if found := re.fullmatch(rf"loss of ({LEARNER}) on Add at alpha = 0.5 less that at 1, in nats", part):
        return over_seeds(less(tables.loss("add", "0.5", found[1]), tables.loss("add", "1", found[1])))
    if found := re.fullmatch(rf"({LEARNER}) relatively (\w+) on Mimic, alpha = ([\d.]+), in gaps", part):
        x, word, alpha = found.groups()
        sign, each = (1 if word == "worse" else -1), []
        for task in ("mimic", "add"):
            d = less(tables.loss(task, alpha, x), tables.loss(task, alpha, "rtrl"))
            gap = tables.gap(task, alpha)[: len(d)]
            each.append((d.mean() / gap.mean(), (d - d.mean() / gap.mean() * gap) / gap.mean()))
        (mimic, parts_of_mimic), (add, parts_of_add) = each
        _, error, dof = over_seeds(parts_of_mimic - parts_of_add)
        return float(sign * (mimic - add)), error, dof
    if found := re.fullmatch(rf"cosine of ({LEARNER}) with (.+) less that of ({LEARNER}) with (.+), (\w+)", part):
        a, b, c, d, task = found.groups()
        return over_seeds(tables.cosine(task, a, b) - tables.cosine(task, c, d))
    if found := re.fullmatch(rf"mean cosine of ({LEARNER}) with RTRL over the paper's [\d.]+, (\w+)", part):
        x, task = found.groups()
        value, error, dof = over_seeds(tables.cosine(task, x, "rtrl") / STATED[learner(x), task])
        return value, error * math.sqrt(dof + 2), dof
    if found := re.fullmatch(rf"mean cosine of ({LEARNER}) with (.+), (\w+)", part):
        x, y, task = found.groups()
        return over_seeds(tables.cosine(task, x, y))
    gain = lambda init: tables.starts[init, "fixed"] - tables.starts[init, "rflo"]
    if found := re.fullmatch(r"RFLO below the readout alone, (\w+), in nats", part):
        return over_seeds(gain(found[1]))
    if found := re.fullmatch(r"RFLO's gain: (\w+) less (\w+), in nats", part):
        return over_seeds(gain(found[1]) - gain(found[2]))
    if any(words in part for words in ("behind", "cosine of", "in nats", "relatively", "'s distance from")):
        raise SystemExit(f"No rule for the part {part!r}.")
    return None


def status(low: float, high: float, claimed: str, matters: float) -> str:
    """The page's rule for a difference, or for a number that should lie from one number to another."""
    if found := re.fullmatch(r"([-\d.]+) to ([-\d.]+)", claimed):
        least, most = (1 / FACTOR, FACTOR) if float(found[2]) == FACTOR else map(float, found.groups())
        inside, outside = least <= low and high <= most, high < least or low > most
        return "holds" if inside else "does not hold" if outside else "not decided"
    small = -matters < low and high < matters
    if claimed.startswith("within"):
        far = low >= matters or high <= -matters
        return "holds" if small else "does not hold" if far else "not decided"
    if low > 0:
        return "holds"
    if high < 0:
        return "does not hold"
    if claimed == "not below zero":
        return "holds" if low > -matters else "not decided"
    return "does not hold" if small else "not decided"


def matters(part: dict[str, Any]) -> float:
    """The smallest difference that matters for a part."""
    if part["part"].endswith("in nats"):
        return BOTH if "alpha" in part["part"] else WORTH
    margin = re.search(r"within ([\d.]+)", part["claimed"])
    return float(margin[1]) if margin else 0.1


def whole(statuses: list[str]) -> str:
    """The status of all parts together."""
    failed, held = "does not hold" in statuses, all(each == "holds" for each in statuses)
    return "does not hold" if failed else "holds" if held else "not decided"


def check(folder: Path) -> tuple[int, list[str]]:
    """How many parts were computed again, and what differs."""
    claims = json.loads((folder / "claims.json").read_text())
    count, wrong = judge(Tables(folder / "data"), {claim["id"]: claim for claim in claims})
    again = {f"{claim['id']} by fresh seeds": claim["fresh"] for claim in claims if "fresh" in claim}
    if again:
        more, differ = judge(Tables(folder / "data", "fresh_final_losses.csv"), again)
        count, wrong = count + more, wrong + differ
    return count, wrong


def judge(tables: Tables, verdicts: dict[str, dict]) -> tuple[int, list[str]]:
    """How many parts of these verdicts were computed again, and what differs."""
    wrong, count = [], 0
    for name, verdict in verdicts.items():
        details, known = verdict["details"], {}
        for part in details.get("parts", ()):
            reading = known.setdefault(part.get("reading", ""), [])
            if "status" not in part:
                continue
            if part["part"].startswith("mean rank correlation"):
                value, p = permuted(tables)
                judged = "does not hold" if p <= 0.05 else "not decided"
                said, close = f"p = {p:.3g}", np.allclose([value, p], [part["number"], part["p"]], rtol=1e-6)
            elif (found := estimate(tables, part["part"])) is not None:
                value, error, dof = found
                half = float(stats.t.ppf((1 + details["confidence"]) / 2, dof)) * error
                judged = status(value - half, value + half, part["claimed"], matters(part))
                said = f"± {error:.2g}"
                close = np.allclose([value, error], [part["number"], part["uncertainty"]], rtol=1e-6, atol=1e-9)
            else:
                reading.append(part["status"])
                continue
            count += 1
            if not close or judged != part["status"]:
                wrong.append(f"{name}: {part['part']}: {value:.6g} {said}, {judged}")
            reading.append(judged)
        wholes = {whole(statuses) for statuses in known.values() if statuses}
        found = "not decided" if len(wholes) > 1 else wholes.pop() if wholes else verdict["status"]
        if found != verdict["status"]:
            wrong.append(f"{name}: {found}, and the page says {verdict['status']}")
    return count, wrong


def main() -> int:
    """Check a folder; 1 if anything differs."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "reproduction"
    count, wrong = check(folder)
    print(*wrong, f"{count} parts computed again, {len(wrong)} differences.", sep="\n")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())

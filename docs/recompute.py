"""Judge the page's paired claims again, from its files alone: python docs/recompute.py [docs/reproduction]

It reads every seed's numbers from data/*.csv and the verdicts from claims.json, and shares no code with the library.
Each part of a claim that compares losses, alignments or gains is computed anew, with its interval and its status; then
the claim's status follows from its parts. Anything that differs is printed, and the exit status is 1.
"""

import csv
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
from scipy import stats

LEARNER = r"[\w()-]+(?: \(released\)| W)?"
RENAMED = {"dni(b)": "dni-b", "kernl (released)": "kernl-released", "fixed w": "fixed"}
#: mean cosines with RTRL in the paper
STATED = {("uoro", "add"): 0.043, ("uoro", "mimic"): 0.084, ("r-kf-rtrl", "add"): 0.05, ("r-kf-rtrl", "mimic"): 0.092}
#: a tenth of what knowing the first coin of Add is worth, in nats
WORTH = 0.1 * (0.661563 - 0.519167)


def learner(name: str) -> str:
    """The name of a learner in the files."""
    return RENAMED.get(name.lower(), name.lower())


class Tables:
    """Every seed's final losses, gains and mean alignments."""

    def __init__(self, folder: Path):
        self.losses = self._read(folder / "final_losses.csv", ("task", "alpha", "learner"), "final_loss")
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
        return self.loss(task, alpha, "fixed") - self.loss(task, alpha, "rtrl")

    def cosine(self, task: str, x: str, y: str) -> np.ndarray:
        pair = (task, "1", learner(x), learner(y))
        return self.cosines[pair] if pair in self.cosines else self.cosines[task, "1", learner(y), learner(x)]


def over_seeds(x: np.ndarray) -> tuple[float, float, int]:
    """Mean, standard error and degrees of freedom."""
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x))), len(x) - 1


def in_gaps(difference: np.ndarray, gap: np.ndarray) -> tuple[float, float, int]:
    """A ratio of means; its error is that of its linearization."""
    ratio = float(difference.mean() / gap.mean())
    _, error, dof = over_seeds((difference - ratio * gap) / gap.mean())
    return ratio, error, dof


def estimate(tables: Tables, part: str) -> tuple[float, float, int] | None:
    """Value, standard error and degrees of freedom of a part, by its name; None if it is of another kind."""
    if found := re.fullmatch(rf"({LEARNER}) behind ({LEARNER}) on (\w+), alpha = ([\d.]+), after .*", part):
        x, y, task, alpha = found.groups()
        return in_gaps(tables.loss(task, alpha, x) - tables.loss(task, alpha, y), tables.gap(task, alpha))
    if found := re.fullmatch(rf"({LEARNER}) relatively (\w+) on Mimic, alpha = ([\d.]+), in gaps", part):
        x, word, alpha = found.groups()
        sign, each = (1 if word == "worse" else -1), []
        for task in ("mimic", "add"):
            d, gap = tables.loss(task, alpha, x) - tables.loss(task, alpha, "rtrl"), tables.gap(task, alpha)
            each.append((d.mean() / gap.mean(), (d - d.mean() / gap.mean() * gap) / gap.mean()))
        (mimic, parts_of_mimic), (add, parts_of_add) = each
        _, error, dof = over_seeds(parts_of_mimic - parts_of_add)
        return float(sign * (mimic - add)), error, dof
    if found := re.fullmatch(rf"cosine of ({LEARNER}) with (.+) less that of ({LEARNER}) with (.+), (\w+)", part):
        a, b, c, d, task = found.groups()
        return over_seeds(tables.cosine(task, a, b) - tables.cosine(task, c, d))
    if found := re.fullmatch(rf"the paper's mean cosine of ({LEARNER}) with RTRL less ours, (\w+)", part):
        x, task = found.groups()
        value, error, dof = over_seeds(tables.cosine(task, x, "rtrl"))
        return STATED[learner(x), task] - value, error * math.sqrt(dof + 2), dof
    if found := re.fullmatch(rf"mean cosine of ({LEARNER}) with (.+), (\w+)", part):
        x, y, task = found.groups()
        return over_seeds(tables.cosine(task, x, y))
    gain = lambda init: tables.starts[init, "fixed"] - tables.starts[init, "rflo"]
    if found := re.fullmatch(r"RFLO below the readout alone, (\w+), in nats", part):
        return over_seeds(gain(found[1]))
    if found := re.fullmatch(r"RFLO's gain: (\w+) less (\w+), in nats", part):
        return over_seeds(gain(found[1]) - gain(found[2]))
    if any(word in part for word in ("behind", "cosine", "in nats", "relatively")):
        raise SystemExit(f"No rule for the part {part!r}.")
    return None


def status(low: float, high: float, claimed: str, matters: float) -> str:
    """The page's rule for a difference, or for a number that should lie in a prediction interval."""
    if claimed.startswith("zero inside"):
        return ("holds" if (high - low) / 2 <= matters else "not decided") if low <= 0 <= high else "does not hold"
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


def check(folder: Path) -> tuple[int, list[str]]:
    """How many parts were computed again, and what differs."""
    tables, wrong, count = Tables(folder / "data"), [], 0
    for claim in json.loads((folder / "claims.json").read_text()):
        details, known = claim["details"], []
        for part in details.get("parts", ()):
            found = estimate(tables, part["part"])
            if found is None or "status" not in part:
                known.append(part.get("status"))
                continue
            count += 1
            value, error, dof = found
            half = float(stats.t.ppf((1 + details["confidence"]) / 2, dof)) * error
            margin = re.search(r"within ([\d.]+)", part["claimed"])
            stated = [number for (x, task), number in STATED.items() if claim["id"] == f"align-{x}-{task}"]
            matters = stated[0] if stated else WORTH if "nats" in part["part"] else float(margin[1]) if margin else 0.1
            judged = status(value - half, value + half, part["claimed"], matters)
            close = np.allclose([value, error], [part["number"], part["uncertainty"]], rtol=1e-6, atol=1e-9)
            if not close or judged != part["status"]:
                wrong.append(f"{claim['id']}: {part['part']}: {value:.6g} ± {error:.2g}, {judged}")
            known.append(judged)
        deciding = [each for each in known if each]
        if deciding:
            failed, held = "does not hold" in deciding, all(each == "holds" for each in deciding)
            whole = "does not hold" if failed else "holds" if held else "not decided"
            if whole != claim["status"]:
                wrong.append(f"{claim['id']}: {whole}, and the page says {claim['status']}")
    return count, wrong


def main() -> int:
    """Check a folder; 1 if anything differs."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "reproduction"
    count, wrong = check(folder)
    print(*wrong, f"{count} parts computed again, {len(wrong)} differences.", sep="\n")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())

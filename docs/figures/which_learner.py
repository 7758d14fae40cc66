"""The two figures of the page "Which learner?": the choice, and what learners reach for what they cost.

python docs/figures/which_learner.py         writes both SVGs beside this file

Numbers come from the files of the measurements. Colours are of middle brightness, and the background is transparent, so
that both can be read on light and on dark pages. Both are narrow, so that they can be read on a phone.
"""

import csv
import json
import math
import statistics
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
DOCS = HERE.parent
INK = "#798088"
BLUE, ORANGE, GREEN, RED = "#3f8ccb", "#cc7a1d", "#3aa676", "#cf5b6e"
mpl.rcParams.update({"svg.hashsalt": "recurra", "font.size": 12})
mpl.rcParams.update(
    dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
)

#: a question, and what to take if the answer is yes: its name, why, and its colour
CHOICE = [
    ("Are units that do not\nhear each other fine?", "RTRL", "on RTU, LRU, MinGRU:\nexact and cheap", BLUE),
    ("Must the rule be local\n(chips, brains, spikes)?", "RFLO", "on spiking units\nit is e-prop", GREEN),
    (
        "Is a gradient every T\nsteps soon enough, and\nT as long as the past\nthat matters?",
        *("E-BPTT", "exact within\nT steps", BLUE),
    ),
    ("At most about\n100 units?", "RTRL", "exact, n³ numbers", BLUE),
    ("Do only the last few\nsteps matter, or is noise\nworse than bias?", "SnAp-1", "biased, no noise", GREEN),
    ("Can you pay n³\ntime a step?", "KF-RTRL", "unbiased, less noise", ORANGE),
]
LAST = ("UORO or Diagonal-UORO", "unbiased, much noise: small rates, many steps", ORANGE)


def box(ax: Axes, x: float, y: float, width: float, height: float, colour: str, filled: bool) -> None:
    """A box around a centre."""
    place = (x - width / 2, y - height / 2)
    inside = (*mpl.colors.to_rgb(colour), 0.16) if filled else "none"
    style = "round,pad=0,rounding_size=0.09"
    ax.add_patch(FancyBboxPatch(place, width, height, style, fc=inside, ec=colour, lw=1.8 if filled else 1.0))


def arrow(ax: Axes, a: tuple[float, float], b: tuple[float, float], text: str, beside: tuple[float, float]) -> None:
    """An arrow with a word."""
    ax.add_patch(FancyArrowPatch(a, b, arrowstyle="-|>", mutation_scale=12, color=INK, lw=1.3, shrinkA=0, shrinkB=0))
    x, y = (a[0] + b[0]) / 2 + beside[0], (a[1] + b[1]) / 2 + beside[1]
    ax.text(x, y, text, ha="center", va="center", fontsize=11)


def choice() -> Figure:
    """One question below the other, what to take beside each. A unit is an inch."""
    heights = [0.3 + 0.19 * max(question.count("\n") + 1, 3) for question, *_ in CHOICE]
    gap, left, right, total = 0.3, 2.2, 1.86, 4.5
    figure = plt.figure(figsize=(total, sum(heights) + gap * len(CHOICE) + 0.75))
    ax = figure.add_axes((0, 0, 1, 1))
    y = 0.0
    for (question, name, why, colour), height in zip(CHOICE, heights, strict=True):
        y -= height / 2
        box(ax, left / 2, y, left, height, INK, filled=False)
        ax.text(left / 2, y, question, ha="center", va="center", fontsize=11.5, linespacing=1.2)
        box(ax, total - right / 2, y, right, 0.87, colour, filled=True)
        ax.text(total - right / 2, y + 0.22, name, ha="center", va="center", fontsize=14, weight="bold", color=colour)
        ax.text(total - right / 2, y - 0.16, why, ha="center", va="center", fontsize=10.5, linespacing=1.15)
        arrow(ax, (left, y), (total - right, y), "yes", (-0.03, 0.12))
        y -= height / 2 + gap
        arrow(ax, (left / 2, y + gap), (left / 2, y), "no", (0.2, 0.03))
    name, why, colour = LAST
    box(ax, total / 2, y - 0.34, total, 0.68, colour, filled=True)
    ax.text(total / 2, y - 0.2, name, ha="center", va="center", fontsize=14, weight="bold", color=colour)
    ax.text(total / 2, y - 0.48, why, ha="center", va="center", fontsize=10.5)
    ax.set(xlim=(-0.03, total + 0.03), ylim=(y - 0.71, 0.03), aspect="equal")
    ax.axis("off")
    return figure


def rows(file: str) -> list[dict[str, str]]:
    """A file of measurements."""
    return list(csv.DictReader((DOCS / file).read_text(encoding="utf-8").splitlines()))


def losses(task: str) -> dict[str, tuple[float, float]]:
    """Final loss at α = 1 and its standard error, for each learner: 20 seeds, a million steps."""
    found: dict[str, list[float]] = {}
    for row in rows("reproduction/data/final_losses.csv"):
        if (row["task"], row["alpha"]) == (task, "1"):
            found.setdefault(row["learner"], []).append(float(row["final_loss"]))
    after = {
        row["learner"]: (float(row["value"]), float(row["standard_error"]))
        for row in rows("unexplored/data/unexplored.csv")
        if (row["where"].lower(), row["quantity"]) == (task, "final loss")
    }
    return after | {k: (statistics.mean(v), statistics.stdev(v) / math.sqrt(len(v))) for k, v in found.items()}


def shares(task: str) -> dict[str, tuple[float, float]]:
    """Which share of what RTRL gains over fixed W a learner gains, and its standard error, in percent."""
    found = losses(task)
    fixed, gap = found["fixed"][0], found["fixed"][0] - found["rtrl"][0]
    return {learner: (100 * (fixed - loss) / gap, 100 * error / gap) for learner, (loss, error) in found.items()}


def micros() -> dict[str, float]:
    """µs a step with 32 units, on one core. Two were measured beside others: see performance.md."""
    found = json.loads((DOCS / "performance" / "compare.json").read_text(encoding="utf-8"))["rows"]
    times = {row["learner"]: row["micros"]["library"] for row in found if (row["n"], row["streams"]) == (32, 1)}
    return times | {"snap-1": 1.12 * times["rflo"], "diagonal-uoro": 2.92 * times["uoro"]}


#: colour and marker of each kind
KINDS = {
    "exact, or exact within T": (BLUE, "s"),
    "unbiased, with noise": (ORANGE, "o"),
    "biased, without noise": (GREEN, "^"),
    "credit is predicted": (RED, "D"),
}
#: name, kind, and where the name stands in both panels: points to the right and up
POINTS = {
    "rtrl": ("RTRL", 0, (-4, 10), (-4, 10)),
    "e-bptt": ("E-BPTT", 0, (-28, -1), (-26, 8)),
    "f-bptt": ("F-BPTT", 0, (-27, -6), (10, 11)),
    "kf-rtrl": ("KF-RTRL", 1, (18, 10), (31, -7)),
    "r-ok": ("r-OK", 1, (5, -13), (5, -13)),
    "uoro": ("UORO", 1, (-24, 0), (-24, 0)),
    "r-kf-rtrl": ("R-KF-RTRL", 1, (38, -3), (38, 0)),
    "diagonal-uoro": ("Diagonal-UORO", 1, (49, 1), (49, 0)),
    "rflo": ("RFLO", 2, (-22, 0), (-22, -3)),
    "snap-1": ("SnAp-1", 2, (27, 2), (28, -3)),
    "kernl": ("KeRNL", 2, (27, 0), (3, -15)),
    "dni": ("DNI", 3, (19, 0), (-18, 4)),
    "dni-b": ("DNI(b)", 3, (26, 0), (-25, -7)),
}


def reached() -> Figure:
    """What learners gain against the time of a step, on both tasks."""
    figure, panels = plt.subplots(2, 1, figsize=(4.6, 6.9), sharex=True)
    times = micros()
    for ax, task, title, low in zip(
        panels,
        ("add", "mimic"),
        ("Add: coins 6 and 10 steps ago", "Mimic: about 5 steps matter"),
        (40, 75),
        strict=True,
    ):
        found = shares(task)
        ax.axhline(100, color=INK, lw=0.8, ls=(0, (4, 3)))
        for learner, (name, kind, *places) in POINTS.items():
            colour, marker = list(KINDS.values())[kind]
            share, error = found[learner]
            ax.errorbar(times[learner], share, error, color=colour, marker=marker, ms=7, lw=1.4)
            place = places[panels.tolist().index(ax)]
            ax.annotate(
                name,
                (times[learner], share),
                place,
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=10.5,
                color=colour,
            )
        ax.set(xscale="log", xlim=(0.12, 22), ylim=(low, 107), ylabel="gained, % of RTRL's gain")
        ax.set_title(title, fontsize=12, color=INK)
        ax.set_xticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    panels[1].set_xlabel("µs a step, 32 units, one core")
    keys = [plt.Line2D([], [], color=c, marker=m, ls="", ms=7, label=name) for name, (c, m) in KINDS.items()]
    figure.legend(
        handles=keys,
        loc="lower center",
        ncols=2,
        frameon=False,
        fontsize=10.5,
        labelcolor=INK,
        columnspacing=1,
        handletextpad=0.2,
    )
    figure.subplots_adjust(left=0.15, right=0.98, top=0.955, bottom=0.155, hspace=0.17)
    return figure


def main() -> None:
    """Write both figures."""
    for name, figure in {"which-learner": choice(), "gain-and-cost": reached()}.items():
        figure.savefig(HERE / f"{name}.svg", transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()

"""The tables of these pages, written anew from the learners' metadata and from the measured losses.

python docs/learners/make_tables.py          rewrites them
python docs/learners/make_tables.py --check  only says whether one of them is out of date
"""

import csv
import dataclasses
import math
import re
import statistics
import sys
from pathlib import Path

import recurra as rc
from recurra.cli.tables import printed

HERE = Path(__file__).parent
LOSSES = HERE.parent / "reproduction" / "data" / "final_losses.csv"
LATER = HERE / "later_losses.csv"
UNEXPLORED = HERE.parent / "unexplored" / "data" / "unexplored.csv"
CONDITIONS = [("add", "1"), ("add", "0.5"), ("mimic", "1"), ("mimic", "0.5")]


def table(*lines: tuple[str, ...]) -> str:
    """A header and rows."""
    header, *rows = lines
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ("---",) * len(header), *rows))


def formula(text: str) -> str:
    """Letters with indices as formulas."""
    letters = {"ahat": "\\widehat{a}{}", "δ": "\\delta", "Σ": "\\sum"}
    written = lambda found: f"${letters.get(found[1], found[1])}_{{{found[2]}}}$"
    return re.sub(r"(ahat|[A-ZδΣ])_(\w+)", written, text)


def overview() -> str:
    """The table of all learners."""
    rows = []
    for name, algorithm, facing, tensor, update, memory, time, cells in printed()[1:]:
        in_python = f"`{rc.LEARNERS[name].__name__}`"
        rows.append((f"[{algorithm}]({name}.md)", in_python, facing, formula(tensor), update, memory, time, cells))
    return table(("learner", "`rc.`", "facing", "tensor", "update", "memory", "time", "cells"), *rows)


def facts(name: str) -> str:
    """What the metadata say of one learner."""
    _, _, facing, tensor, update, memory, time, cells = next(row for row in printed() if row[0] == name)
    rows = [
        ("in Python, on the command line", f"`rc.{rc.LEARNERS[name].__name__}`, `{name}`"),
        ("facing", {"past": "the past", "future": "the future"}.get(facing, "neither")),
        ("tensor", formula(tensor)),
        ("update", update),
        ("memory", memory),
        ("time a step", time),
        ("cells", cells),
    ]
    return table(("", rc.LEARNERS[name].about.name), *rows)


def mean(values: list[float], digits: int = 3) -> str:
    """Mean ± standard error."""
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values) / math.sqrt(len(values)):.{digits}f}"


def measured(name: str) -> str:
    """Final losses beside those of RTRL and of the readout alone."""
    losses: dict[tuple[str, str, str], list[float]] = {}
    lines = [line for file in (LOSSES, LATER) for line in csv.DictReader(file.read_text(encoding="utf-8").splitlines())]
    for row in lines:
        losses.setdefault((row["task"], row["alpha"], row["learner"]), []).append(float(row["final_loss"]))
    more = {
        (row["where"].lower(), row["learner"]): f"{float(row['value']):.3f} ± {float(row['standard_error']):.3f}"
        for row in csv.DictReader(UNEXPLORED.read_text(encoding="utf-8").splitlines())
        if row["quantity"] == "final loss"
    }

    def cell(task: str, alpha: str, learner: str) -> str:
        if (task, alpha, learner) in losses:
            return mean(losses[task, alpha, learner])
        return more.get((task, learner), "not measured") if alpha == "1" else "not measured"

    shown = dict.fromkeys(["rtrl", name, *(["kernl-released"] if name == "kernl" else []), "fixed"])
    called = {kind.about.id: kind.about.name for kind in rc.LEARNERS.values()}
    called["kernl-released"] = "KeRNL, `late_perturbation=True`"
    bold = lambda text, learner: f"**{text}**" if learner == name else text
    rows = [(bold(called[learner], learner), *(cell(*each, learner) for each in CONDITIONS)) for learner in shown]
    return table(("final loss", *(f"{task.title()}, α = {alpha}" for task, alpha in CONDITIONS)), *rows)


PARTS = {"learners": lambda _: overview(), "facts": facts, "measured": measured}


def rewritten(text: str, name: str) -> str:
    """A page with its tables as they are now."""
    for part, make in PARTS.items():
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        place = re.compile(f"{begin}\n.*?{end}", re.DOTALL)
        if place.search(text):
            new = f"{begin}\n\n{make(name)}\n\n{end}"
            text = place.sub(lambda _, new=new: new, text)
    return text


def wrong_defaults(text: str, name: str) -> list[str]:
    """Hyperparameters whose row is missing from a page, or has another default."""
    found = []
    for field in dataclasses.fields(rc.LEARNERS[name]):
        default = field.default
        default = (
            f"rc.noise.{default.__name__}" if callable(default) and hasattr(default, "__name__") else f"{default!r}"
        )
        if not re.search(rf"\| `{field.name}` \| `(rc\.)?{re.escape(default)}` \|", text):
            found.append(f"{name}.md: `{field.name}` must have a row with the default `{default}`")
    return found


def main() -> None:
    """Rewrite or check every page."""
    wrong = []
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        new = rewritten(text, page.stem)
        wrong += wrong_defaults(text, page.stem) if page.stem in rc.LEARNERS else []
        if new != text and "--check" in sys.argv:
            wrong.append(f"{page.name} is out of date: run python docs/learners/make_tables.py")
        elif new != text:
            page.write_text(new, encoding="utf-8")
    wrong += [f"{name} has no page" for name in rc.LEARNERS if not (HERE / f"{name}.md").exists()]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()

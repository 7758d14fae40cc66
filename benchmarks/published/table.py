"""The table of docs/published.md, from the files of docs/published: python benchmarks/published/table.py docs/published

Verdicts are those that the scripts gave: the mean, or its ratio, with its 95 % interval lies within the margin that the
script states, outside of it, or it cannot be told. The summary asks of all errors together whether ours are higher.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy import stats

NAMES = {"snap-1": "SnAp-1", "sk-rtrl": "SK-RTRL, r = 4", "rtrl": "RTRL", "kf-rtrl": "KF-RTRL", "uoro": "UORO"}
SERIES = {"henon": "Hénon", "mackey-glass": "Mackey-Glass", "lorenz": "Lorenz"}


def read(folder: Path) -> dict[str, Any]:
    """The results of all chaotic series."""
    files = [json.loads((folder / f"{name}.json").read_text()) for name in ("chaotic_series", "chaotic_series-sk-rtrl")]
    return {key: files[0][key] | files[1][key] for key in ("results", "cosines")}


def number(value: float, error: float | None = None) -> str:
    """A number without its leading zero, to two digits of its error, or to three digits."""
    digits = 3 if not error else max(1 - math.floor(math.log10(error)), 2)
    text = f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error else "")
    return text.replace("0.", ".").replace("-", "−")


def span(interval: list[float], digits: int) -> str:
    """An interval of ratios or differences."""
    low, high = (f"{edge:.{digits}f}".replace("-", "−") for edge in interval)
    return f"{low} to {high}"


def rows(folder: Path) -> Iterator[str]:
    """The rows of the table: errors, then cosines, then SK-RTRL along the way."""
    found = read(folder)
    for name, title in NAMES.items():
        for series, place in SERIES.items():
            result = found["results"][f"{series} {name}"]
            verdict = result["verdict"]
            theirs = number(verdict["published"]["mean"], verdict["published"]["sem"])
            ours = number(result["error"]["mean"], result["error"]["sem"])
            told = f"{verdict['ratio']:.2f} ({span(verdict['interval'], 2)})"
            yield f"| {title}, {place}, error | {theirs} | {ours} | {told} | {said(verdict)} |"
    for name, verdict in sorted(found["cosines"].items(), key=lambda pair: list(NAMES).index(pair[0])):
        yield of_difference(f"{NAMES[name]}, cosine with RTRL's gradient", verdict, None)
    early = found["results"]["henon sk-rtrl"]
    for key in ("cosine", "error"):
        yield of_difference(
            f"SK-RTRL, r = 4, Hénon, steps 500 to 2,500, {key}",
            early[f"early_verdict_{key}"],
            early[f"early_{key}"]["sem"],
        )


def of_difference(title: str, verdict: dict[str, Any], sem: float | None) -> str:
    """A row of something that is compared by its difference; `sem` is our standard error, where there is one."""
    there = verdict["published"]["mean"]
    told = f"{verdict['difference']:+.3f} ({span(verdict['interval'], 3)})".replace("-", "−")
    theirs, ours = number(there, verdict["published"]["sem"]), number(there + verdict["difference"], sem)
    return f"| {title} | {theirs} | {ours} | {told} | {said(verdict)} |"


def said(verdict: dict[str, Any]) -> str:
    """The verdict; what lies outside stands out."""
    return "**outside**" if verdict["verdict"] == "outside" else verdict["verdict"]


def summary(folder: Path) -> str:
    """Whether our errors are higher, all together: the mean of differences in standard errors, if independent."""
    z = []
    for result in read(folder)["results"].values():
        if "verdict" in result:
            ours, theirs = result["error"], result["verdict"]["published"]
            z.append((ours["mean"] - theirs["mean"]) / math.hypot(ours["sem"], theirs["sem"]))
    mean, higher = sum(z) / len(z), sum(each > 0 for each in z)
    p = 2 * stats.norm.sf(abs(mean) * math.sqrt(len(z)))
    return f"{higher} of {len(z)} errors are higher than the published ones (mean z = {mean:+.2f}, p = {p:.3f})"


if __name__ == "__main__":
    print(*rows(Path(sys.argv[1])), summary(Path(sys.argv[1])), sep="\n")

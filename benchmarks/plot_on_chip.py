"""A plot of on_chip.json: network-steps a second against the number of networks, for each engine and device.

python benchmarks/plot_on_chip.py on_chip.json --out docs/performance
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from recurra.pages import plots

#: colour and marker of each place of `on_chip.py`
LOOKS = {
    "on chip": ("#1f72cc", "o"),
    "compiled loops, GPU": ("#d6401f", "s"),
    "compiled loops, cores": ("#1c1e21", "^"),
}
#: the least distance of two labels at the ends of lines, as a ratio
APART = 2.6


def plot(rows: Sequence[dict]) -> str:
    """A panel for each learner and size, a line for each place."""
    kinds = list(dict.fromkeys((row["learner"], row["n"]) for row in rows))
    with plots.style():
        figure = plots.sheet(3.4 * len(kinds) + 2.2, 3.8)
        panels = figure.subplots(1, len(kinds), squeeze=False, sharex=True, sharey=True)[0]
        width = figure.get_figwidth()
        figure.subplots_adjust(left=0.75 / width, right=1 - 1.6 / width, bottom=0.14, top=0.9, wspace=0.1)
        for axes, (learner, n) in zip(panels, kinds, strict=True):
            own = [row for row in rows if (row["learner"], row["n"]) == (learner, n)]
            ends = {}
            for place, (colour, marker) in LOOKS.items():
                here = sorted((row for row in own if row["place"] == place), key=lambda row: row["networks"])
                if here:
                    points = [point(row) for row in here]
                    axes.plot(*zip(*points, strict=True), marker, color=colour, linestyle="-", markersize=5)
                    ends[place] = points[-1][1]
            if axes is panels[-1]:
                label(axes, ends)
            axes.set(xscale="log", yscale="log", xlabel="networks", title=f"{plots.name(learner)}, {n} units")
            axes.grid(color=plots.FAINT, linewidth=0.5)
        panels[0].set_ylabel("network-steps a second")
        return plots.svg(figure, "on-chip")


def point(row: dict) -> tuple[float, float]:
    """Networks, and network-steps a second."""
    return row["networks"], row["networks"] / row["us"] * 1e6


def label(axes, ends: dict[str, float]) -> None:
    """The name of each place beside the plot, at the height where its line ends, or below the one above it."""
    above = float("inf")
    for place, height in sorted(ends.items(), key=lambda end: -end[1]):
        above = min(height, above / APART)
        name, where = place.replace(", ", ",\n"), axes.get_yaxis_transform()
        axes.text(1.03, above, name, color=LOOKS[place][0], transform=where, va="center", fontsize=8)


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", type=Path, help="what benchmarks/on_chip.py wrote")
    parser.add_argument("--out", type=Path, default=Path("docs/performance"), help="folder for on-chip.svg")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "on-chip.svg").write_text(plot(json.loads(given.rows.read_text())["rows"]) + "\n")


if __name__ == "__main__":
    main()

"""The picture of the architecture page: the rooms of the library, from the import contract in pyproject.toml.

python docs/figures/rooms.py         writes rooms.svg beside this file

Colours are of middle brightness, and the background is transparent, so that it can be read on light and dark pages.
"""

import tomllib
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

HERE = Path(__file__).parent
INK, BLUE, ORANGE, GREEN, RED = "#798088", "#3f8ccb", "#cc7a1d", "#3aa676", "#cf5b6e"
#: the stories of the house: a colour and a title for neighbouring rooms
STORIES = {
    RED: ("for people", ("cli", "studies", "pages")),
    ORANGE: ("many steps", ("river", "places", "public", "training", "online", "saved", "engine")),
    GREEN: ("one step", ("tasks", "step", "network", "losses")),
    BLUE: ("the algebra", ("learners", "cells", "linalg", "native", "programs", "checks")),
}


def layers() -> list[str]:
    """The rooms from the top to the bottom, as the first contract has them."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    return [room.strip("()") for room in project["tool"]["importlinter"]["contracts"][0]["layers"]]


def picture() -> Figure:
    """A box for each room, one below the other; what stands beside the library is above all of them."""
    mpl.rcParams.update({"svg.hashsalt": "recurra", "font.size": 12, "text.color": INK})
    rooms = layers()
    height, width = 0.34, 4.4
    figure = plt.figure(figsize=(width, height * (len(rooms) + 2.4)))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(-height * (len(rooms) + 0.4), 2 * height))
    ax.axis("off")

    def room(name: str, y: float, colour: str) -> None:
        inside = (*mpl.colors.to_rgb(colour), 0.16)
        style = "round,pad=0,rounding_size=0.06"
        ax.add_patch(FancyBboxPatch((1.5, y - 0.13), 2.0, 0.26, style, fc=inside, ec=colour, lw=1.3))
        ax.text(2.5, y, name, ha="center", va="center", family="monospace", fontsize=10.5)

    room("recurra_paper", 1.2 * height, INK)
    for story, (title, members) in STORIES.items():
        places = [-height * rooms.index(name) for name in members if name in rooms]
        for name in members:
            if name in rooms:
                room(name, -height * rooms.index(name), story)
        ax.text(1.3, sum(places) / len(places), title, ha="right", va="center", color=story)
    missing = set(rooms) - {name for _, members in STORIES.values() for name in members}
    if missing:
        raise ValueError(f"The picture has no place for {', '.join(sorted(missing))}: add them to STORIES.")
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.3}
    ax.annotate("", (3.85, -height * (len(rooms) - 1)), (3.85, 0.1), arrowprops=arrow)
    ax.text(3.97, -height * len(rooms) / 2, "imports", rotation=270, va="center", ha="left")
    return figure


if __name__ == "__main__":
    picture().savefig(HERE / "rooms.svg", transparent=True, metadata={"Date": None})

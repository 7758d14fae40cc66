"""An agent learns its way through a maze

At the entrance a light points to the side where the reward lies (green). Five steps later, at the junction, nothing is
to be seen of it, and the agent has to turn. It is an actor and a critic on recurrent trace units, and learns with RTRL
at every step of one life: no batches, no replay.

Each row is a film of one episode: two begin in the first steps of its life, two after 40,000 steps. An arrow is what
the agent does, and its colour is what it expects, from -1 (red) over nothing (white) to 1 (blue). In the beginning it
expects little and runs into walls, for which it is punished. In the end it expects the reward from the first step on,
a little less for every step that is still to be walked, and turns to the right side.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import Normalize

import recurra as rc

LENGTH, FRAMES, FILMS = 5, 6, 2
maze = rc.rl.TMaze(length=LENGTH)
cell = rc.RTU(n_in=maze.n_in, n=24)
agent = rc.rl.AC(cell, rc.RTRL(), maze.actions, rc.Adam(1e-3), gamma=0.95, lamda=0.9)

newborn = rc.rl.live(agent, maze, steps=1, progress=False)
grown = rc.rl.live(agent, maze, steps=40_000, progress=False)
print(f"mean return: {newborn.returns[0].sum():.2f} before, {grown.last_return()[0]:.2f} after")

ARROWS = {0: (0.62, 0.0), 1: (0.0, 0.62), 2: (0.0, -0.62)}  # forward, left, right
colours, scale = plt.get_cmap("RdBu"), Normalize(-1, 1)


def episodes(life):
    """The first frames of the next few episodes, as lists of steps of a scene."""
    scene = rc.rl.watch(agent, maze, life.stage_of(0), steps=400, key=3)
    begins = np.append(0, np.flatnonzero(scene.ends) + 1)
    begins = begins[scene.states.place[np.minimum(begins, 399)] == 0][1 : FILMS + 1]
    ends = [np.flatnonzero(scene.ends[begin:])[0] + begin for begin in begins]
    return scene, [range(begin, min(end + 1, begin + FRAMES)) for begin, end in zip(begins, ends, strict=True)]


def frame(ax, scene, step):
    """The maze at one step: corridor, junction, light, and the agent with what it does and expects."""
    side, place = scene.states.side[step], scene.states.place[step]
    squares = [(x, 0) for x in range(LENGTH + 1)] + [(LENGTH, 1), (LENGTH, -1)]
    for x, y in squares:
        good = (x, y) == (LENGTH, 1 - 2 * side)
        look = {"facecolor": "#b7dfc4" if good else "#f1f2f4", "edgecolor": "#c9ccd1"}
        ax.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
    if place == 0:
        ax.plot(0, 0.95 - 1.9 * side, marker="^" if side == 0 else "v", color="#e0a200", markersize=8)
    ax.plot(place, 0, "o", markersize=11, color=colours(scale(scene.outputs[step, 0])), markeredgecolor="black")
    dx, dy = ARROWS[int(scene.actions[step])]
    arrow = {"arrowstyle": "-|>", "color": "black", "lw": 1.2}
    ax.annotate("", (place + 1.9 * dx, 1.9 * dy), (place + 0.5 * dx, 0.5 * dy), arrowprops=arrow)
    if scene.rewards[step]:
        ax.text(LENGTH / 2, -1.5, f"{scene.rewards[step]:+.1f}", ha="center", va="center", fontsize=9)
    ax.set(xlim=(-0.7, LENGTH + 0.9), ylim=(-1.75, 1.75))


fig, axes = plt.subplots(2 * FILMS, FRAMES, figsize=(12, 5), layout="constrained")
for life, name, rows in ((newborn, "first steps", axes[:FILMS]), (grown, "after 40,000 steps", axes[FILMS:])):
    scene, films = episodes(life)
    for row, film in zip(rows, films, strict=False):
        for ax, step in zip(row, film, strict=False):
            frame(ax, scene, step)
    rows[0, 0].text(-1.6, -2.2, name, rotation=90, va="center", ha="center", fontsize=9)
for ax in axes.ravel():
    ax.set_aspect("equal")
    ax.axis("off")
plt.show()

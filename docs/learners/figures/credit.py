"""Drawings of learners that predict credit or carry it back through time, of layers, and of the two facings."""

from blocks import (
    BLUE,
    GHOST,
    GREEN,
    INK,
    ORANGE,
    arrow,
    block,
    cube,
    diagonal,
    drawing,
    grid,
    kept,
    say,
)
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle


def predictor(ax: Axes, x: float = 0, y: float = 0) -> None:
    """A map from features to credit."""
    grid(ax, x, y + 1.1, 4, 1, ORANGE)
    say(ax, x + 0.28, y - 1.2, "$c_i$")
    say(ax, x + 1.15, y + 0.55, "$\\approx$", 20)
    grid(ax, x + 1.8, y + 1.1, 4, 7, BLUE)
    say(ax, x + 3.7, y - 1.2, "$A_{li}$")
    grid(ax, x + 6.1, y + 1.9, 7, 1, GREEN)
    for text, row in (("$a$", 1.5), ("$y^*$", 4.5), ("1", 6)):
        ax.text(x + 6.85, y + 2.18 - row * 0.55, text, ha="left", va="center", fontsize=14)
    say(ax, x + 6.4, y - 2.0, "$\\tilde a_l$")


@drawing("dni")
def _(ax: Axes) -> None:
    predictor(ax)
    say(ax, 3.4, 2.9, "a linear map predicts the credit $c$", 13)


@drawing("bp-lambda")
def _(ax: Axes) -> None:
    grid(ax, 0, 1.1, 4, 7, BLUE)
    say(ax, 1.9, -1.3, "$A_{li}$")
    say(ax, 4.75, 0.5, "and", 14)
    block(ax, cube((4, 4, 5)), (8.6, 1.2), ORANGE)
    say(ax, 8.8, -2.5, "$E_{kli}$, as large as $M$")


@drawing("bp-lambda-local")
def _(ax: Axes) -> None:
    grid(ax, 0, 1.1, 4, 7, BLUE)
    say(ax, 1.9, -1.3, "$A_{li}$")
    say(ax, 4.75, 0.5, "and", 14)
    grid(ax, 5.7, 1.1, 4, 7, ORANGE)
    say(ax, 7.6, -1.3, "$E_{li}$, within units")


@drawing("e-prop-3")
def _(ax: Axes) -> None:
    kept(ax, diagonal())
    say(ax, 0.2, -3.6, "$\\delta_{ki}\\,B_{ij}$")
    say(ax, 3.7, -0.3, "and", 14)
    grid(ax, 4.8, 0.6, 4, 7, ORANGE)
    say(ax, 6.9, -1.8, "$A_{li}$ predicts $c$")


def steps(ax: Axes, inside: range, every: range, y: float = 0, colour: str = BLUE) -> None:
    """Steps in time; those inside are filled."""
    for t in every:
        filled = t in inside
        ax.add_patch(
            Rectangle((t, y), 0.8, 1.1, fc=colour if filled else "none", ec="#2f3b46" if filled else GHOST, lw=1.0)
        )


@drawing("e-bptt")
def _(ax: Axes) -> None:
    steps(ax, range(3, 7), range(-1, 7))
    arrow(ax, (6.8, -0.45), (3.0, -0.45), ORANGE)
    say(ax, 4.9, -1.0, "credit goes back once, after $T$ steps", 13)
    say(ax, 4.9, 1.65, "segment of $T$ steps", 13)
    say(ax, 0.9, 1.65, "forgotten", 13)


@drawing("f-bptt")
def _(ax: Axes) -> None:
    steps(ax, range(2, 7), range(-1, 7))
    for back in range(1, 5):
        arrow(ax, (6.4, 1.1), (6.4 - back, 1.1), ORANGE, 0.5)
    say(ax, 4.4, 2.75, "each new loss extends the credit of the last $T$ steps", 12)
    arrow(ax, (2.4, -0.1), (2.4, -0.95), BLUE)
    say(ax, 2.4, -1.35, "complete: a gradient leaves", 13)


@drawing("edge-bptt")
def _(ax: Axes) -> None:
    steps(ax, range(3, 7), range(3, 7))
    arrow(ax, (6.8, -0.45), (2.4, -0.45), ORANGE)
    kept(ax, diagonal(), (-1.2, 0.3))
    say(ax, -1.1, -3.3, "a trace $B_{ij}$ stands\nfor all earlier steps", 13)
    say(ax, 4.9, 1.65, "segment of $T$ steps", 13)
    say(ax, 5.0, -1.0, "credit goes back", 13)


@drawing("layered")
def _(ax: Axes) -> None:
    for x, name in ((0, "layer 1"), (6.4, "layer 2")):
        kept(ax, cube((3, 3, 3)), (x, 0), BLUE if x == 0 else ORANGE, (3, 3, 3))
        say(ax, x + 0.1, -2.6, name, 14)
    arrow(ax, (4.4, 0.2), (2.4, 0.2), INK)
    say(ax, 3.4, 0.75, "credit", 13)


@drawing("facing")
def _(ax: Axes) -> None:
    names = ["t-2", "t-1", "t", "t+1", "t+2"]
    for y, title, colour in (
        (0, "past facing: one loss, all earlier uses of the weights", BLUE),
        (-5.2, "future facing: one use of the weights, all later losses", ORANGE),
    ):
        say(ax, 5.4, y + 3.4, title, 12.5)
        for s, name in enumerate(names):
            x = s * 2.7
            uses = s <= 2 if y == 0 else s == 2
            loses = s == 2 if y == 0 else s >= 2
            say(ax, x, y, f"$w({name})$", 12.5, color=colour if uses else INK)
            say(ax, x, y + 2.6, f"$L({name})$", 12.5, color=colour if loses else INK)
            ax.add_patch(Circle((x, y + 1.3), 0.33, fc="none", ec=INK, lw=1.4))
            if s:
                arrow(ax, (x - 2.33, y + 1.3), (x - 0.36, y + 1.3), INK, lw=1.1)
        path = [(0, 2), (1, 2), (2, 2)] if y == 0 else [(2, 2), (2, 3), (2, 4)]
        for a, b in path:
            up = [(2.7 * a, y + 0.3), (2.7 * a, y + 1.3), (2.7 * b, y + 1.3), (2.7 * b, y + 2.15)]
            ax.plot(*zip(*up, strict=True), color=colour, lw=2.6, alpha=0.9, solid_joinstyle="round")
        for s in [2] if y == 0 else [2, 3, 4]:
            arrow(ax, (2.7 * s, y + 1.8), (2.7 * s, y + 2.4), colour, lw=2.2)

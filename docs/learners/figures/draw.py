"""The drawings of the learners' pages: what each of them keeps of the influence tensor.

python docs/learners/figures/draw.py         writes every SVG beside this file

A block of cells is the tensor M[k, i, j]. Three directions mean the same in all drawings: k goes down, i to the lower
left, j to the lower right. Colours are of middle brightness, and the background is transparent, so that the drawings
can be read on light and on dark pages.
"""

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle

HERE = Path(__file__).parent
N = 4
K, I, J = (0.0, 0.78), (-0.62, -0.36), (0.72, -0.30)
INK, GHOST = "#7f8790", "#8f969e"
BLUE, ORANGE, GREEN, RED = "#3f8ccb", "#d98324", "#3aa676", "#cf5b6e"
Cell = tuple[float, float, float]
Place = tuple[float, float]

mpl.rcParams.update(
    {
        "svg.hashsalt": "recurra",
        "font.size": 13,
        "text.color": INK,
        "mathtext.fontset": "dejavusans",
        "figure.figsize": (4.6, 2.7),
    }
)


def at(cell: Cell, origin: Place = (0, 0)) -> Place:
    """Where a corner (k, i, j) lies on the page."""
    return tuple(o + cell[0] * k + cell[1] * i + cell[2] * j for o, k, i, j in zip(origin, K, I, J, strict=True))


def shade(colour: str, by: float) -> tuple[float, ...]:
    """The colour, darker or lighter."""
    rgb = mpl.colors.to_rgb(colour)
    return tuple(min(1.0, c * by) if by <= 1 else c + (1 - c) * (by - 1) for c in rgb)


def block(ax: Axes, cells: Iterable[Cell], origin: Place = (0, 0), colour: str = BLUE) -> None:
    """Solid cells, the hindmost first."""
    for k, i, j in sorted(cells, key=sum):
        corner = lambda a, b, c, k=k, i=i, j=j: at((k + a, i + b, j + c), origin)
        faces = {
            1.25: [(1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1)],
            1.0: [(0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)],
            0.8: [(0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)],
        }
        for light, corners in faces.items():
            face = [corner(*each) for each in corners]
            ax.add_patch(Polygon(face, fc=shade(colour, light), ec="#2f3b46", lw=0.7, joinstyle="round"))


def outline(ax: Axes, shape: Cell = (N, N, N), origin: Place = (0, 0), front: bool = True) -> None:
    """The edges of a block whose cells are not kept: those that lie before the cells, or behind them."""
    corners = [tuple(s * e for s, e in zip(shape, each, strict=True)) for each in product((0, 1), repeat=3)]
    for a, b in product(corners, corners):
        differs = [x != y for x, y in zip(a, b, strict=True)]
        if sum(differs) == 1 and a < b:
            hidden = (0.0, 0.0, 0.0) in (tuple(map(float, a)), tuple(map(float, b)))
            if hidden != front:
                (x0, y0), (x1, y1) = at(a, origin), at(b, origin)
                dash = (0, (3, 2)) if hidden else "-"
                ax.plot([x0, x1], [y0, y1], color=GHOST, lw=1.0, ls=dash, zorder=0.5 if hidden else 2)


def kept(ax: Axes, cells: Iterable[Cell], origin: Place = (0, 0), colour: str = BLUE, shape: Cell = (N, N, N)) -> None:
    """Cells inside the outline of the whole tensor."""
    outline(ax, shape, origin, front=False)
    block(ax, cells, origin, colour)
    outline(ax, shape, origin)


def letters(ax: Axes, origin: Place = (0, 0), shape: Cell = (N, N, N)) -> None:
    """k, i and j beside the edges of a block."""
    k, i, j = shape
    for text, cell, (dx, dy) in (
        ("k", (k / 2, i, 0), (-0.38, 0.0)),
        ("i", (0, i / 2, 0), (0, 0)),
        ("j", (0, i, j / 2), (-0.12, -0.45)),
    ):
        if text == "i":
            cell, (dx, dy) = (0, i / 2, j), (0.35, -0.35)
        x, y = at(cell, origin)
        ax.text(x + dx, y + dy, f"${text}$", ha="center", va="center", fontsize=15)


def cube(shape: Cell = (N, N, N)) -> list[Cell]:
    """All cells of a block."""
    return list(product(*map(range, shape)))


def say(ax: Axes, x: float, y: float, text: str, size: float = 15, **more: object) -> None:
    """Words, centred."""
    ax.text(x, y, text, ha="center", va="center", fontsize=size, **more)


def beside(ax: Axes, text: str, size: float = 15) -> None:
    """Words to the right of a block."""
    ax.text(3.5, 0.3, text, ha="left", va="center", fontsize=size)


def diagonal() -> list[Cell]:
    """The cells with k = i. Places count k from below."""
    return [(N - 1 - i, i, j) for i in range(N) for j in range(N)]


DRAWINGS: dict[str, Callable[[Axes], None]] = {}


def drawing(name: str) -> Callable[[Callable[[Axes], None]], Callable[[Axes], None]]:
    """Register a drawing under the name of its file."""

    def register(f: Callable[[Axes], None]) -> Callable[[Axes], None]:
        DRAWINGS[name] = f
        return f

    return register


def whole(ax: Axes, cells: Iterable[Cell], text: str, colour: str = BLUE) -> None:
    """Some cells of the tensor, and words beside it."""
    kept(ax, cells, colour=colour)
    letters(ax)
    beside(ax, text)


@drawing("influence")
def _(ax: Axes) -> None:
    kept(ax, [])
    block(ax, [(2, 3, 1)], colour=ORANGE)
    letters(ax)
    x, y = at((2.5, 4, 1.5))
    ax.annotate(
        "one cell $M_{kij}$:\nhow far the weight\nfrom unit $j$ to unit $i$\nhas moved unit $k$",
        (x, y),
        (3.5, 0.3),
        ha="left",
        va="center",
        fontsize=13,
        arrowprops={"arrowstyle": "-", "color": INK, "lw": 1.2, "shrinkB": 3},
    )


@drawing("rtrl")
def _(ax: Axes) -> None:
    whole(ax, cube(), "all of $M_{kij}$\n$n^3$ numbers")


@drawing("fixed")
def _(ax: Axes) -> None:
    whole(ax, [], "nothing")


@drawing("diagonal")
def _(ax: Axes) -> None:
    whole(ax, diagonal(), "$\\delta_{ki}\\,B_{ij}$\nthe cells with $k=i$\n$n^2$ numbers")


@drawing("immediate")
def _(ax: Axes) -> None:
    kept(ax, diagonal(), colour=GREEN)
    letters(ax)
    beside(ax, "$\\delta_{ki}\\,D_i\\,\\hat a_j$\nonly this step's\nshare, from\ntwo vectors")


@drawing("snap-n")
def _(ax: Axes) -> None:
    pairs = {(0, 0), (1, 1), (2, 2), (3, 3), (2, 0), (0, 1), (3, 1), (1, 3)}
    whole(
        ax,
        [(N - 1 - k, i, j) for k, i in pairs for j in range(N)],
        "$P_{ki}\\,M_{kij}$\npairs $(k, i)$ such\nthat $i$ reaches $k$\nin $n-1$ steps",
    )


def vector(axis: int) -> list[Cell]:
    """Cells along one direction."""
    return [tuple(m if a == axis else 0 for a in range(3)) for m in range(N)]


def matrix(*axes: int) -> list[Cell]:
    """Cells over two directions."""
    return [c for c in cube() if all(c[a] == 0 for a in range(3) if a not in axes)]


def factors(
    ax: Axes, first: str, second: str, sign: str, names: tuple[str, str], before: str = "", more: str = ""
) -> None:
    """Two blocks and a sign between them; each block is given by its letters among k, i, j."""
    index = {"k": 0, "i": 1, "j": 2}
    x = 0.0
    for axes, colour, name in ((first, BLUE, names[0]), (second, ORANGE, names[1])):
        cells = matrix(*(index[a] for a in axes))
        points = [at((k + a, i + b, j + c)) for k, i, j in cells for a, b, c in product((0, 1), repeat=3)]
        low, high = min(p[0] for p in points), max(p[0] for p in points)
        bottom, top = min(p[1] for p in points), max(p[1] for p in points)
        origin = (x - low, -(bottom + top) / 2)
        block(ax, cells, origin, colour)
        say(ax, x + (high - low) / 2, -(top - bottom) / 2 - 0.62, name)
        x += high - low + 0.45
        if colour == BLUE:
            say(ax, x + 0.15, 0, sign, 22)
            x += 0.75
    if before:
        say(ax, -1.0, -0.1, before, 24)
    if more:
        say(ax, x / 2 - 0.4, 2.75, more, 13)


@drawing("uoro")
def _(ax: Axes) -> None:
    factors(ax, "k", "ij", "$\\otimes$", ("$A_k$", "$B_{ij}$"))


@drawing("kf-rtrl")
def _(ax: Axes) -> None:
    factors(ax, "j", "ki", "$\\otimes$", ("$A_j$", "$B_{ki}$"))


@drawing("r-kf-rtrl")
def _(ax: Axes) -> None:
    factors(ax, "i", "kj", "$\\otimes$", ("$A_i$", "$B_{kj}$"))


@drawing("r-ok")
def _(ax: Axes) -> None:
    factors(ax, "j", "ki", "$\\otimes$", ("$A_{lj}$", "$B_{lki}$"), before="$\\sum_{l=1}^{r}$")


@drawing("kernl")
def _(ax: Axes) -> None:
    factors(ax, "ki", "ij", "$\\cdot$", ("$A_{ki}$", "$B_{ij}$"), more="both have the index $i$")


@drawing("column-uoro")
def _(ax: Axes) -> None:
    factors(ax, "kj", "ij", "$\\cdot$", ("$A_{kj}$", "$B_{ij}$"), more="both have the index $j$")


@drawing("receiver-uoro")
def _(ax: Axes) -> None:
    factors(ax, "ki", "kj", "$\\cdot$", ("$A_{ki}$", "$B_{kj}$"), more="both have the index $k$")


@drawing("pp-prop")
def _(ax: Axes) -> None:
    outline(ax, front=False)
    block(ax, [cell for cell in diagonal() if cell[2] == 0])
    outline(ax)
    block(ax, vector(2), (4.9, 0.6), ORANGE)
    say(ax, 6.1, -1.35, "$X_j$")
    say(ax, 3.6, 0.2, "$\\cdot$", 24)
    letters(ax)
    say(ax, 6.2, 2.2, "$F_i$ on the cells $k=i$,\ntimes $X_j$: two vectors", 13)


@drawing("diagonal-uoro")
def _(ax: Axes) -> None:
    kept(ax, diagonal())
    say(ax, 3.75, -0.2, "+", 22)
    block(ax, vector(0), (5.5, -1.3), GREEN)
    say(ax, 7.2, -0.2, "$\\otimes$", 20)
    block(ax, matrix(1, 2), (10.7, 0.9), ORANGE)
    say(ax, 0.2, -3.6, "$\\delta_{ki}\\,B_{ij}$")
    say(ax, 5.6, -3.6, "$A_k$")
    say(ax, 10.9, -3.6, "$C_{ij}$")


@drawing("sk-rtrl")
def _(ax: Axes) -> None:
    kept(ax, diagonal())
    say(ax, 4.7, -0.3, "$+\\,\\sum_{l}$", 18)
    block(ax, vector(0), (7.4, -1.3), GREEN)
    say(ax, 9.1, -0.2, "$\\otimes$", 20)
    block(ax, matrix(1, 2), (12.6, 0.9), ORANGE)
    say(ax, 0.2, -3.6, "$\\delta_{ki}\\,B_{ij}$")
    say(ax, 7.5, -3.6, "$L_{lk}$")
    say(ax, 12.8, -3.6, "$R_{lij}$")


def grid(ax: Axes, x: float, y: float, rows: int, columns: int, colour: str, size: float = 0.55) -> None:
    """A flat matrix."""
    for r, c in product(range(rows), range(columns)):
        ax.add_patch(Rectangle((x + c * size, y - r * size), size, size, fc=colour, ec="#2f3b46", lw=0.7))


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


def arrow(ax: Axes, a: Place, b: Place, colour: str = INK, bend: float = 0.0, lw: float = 1.6) -> None:
    """An arrow."""
    style = f"arc3,rad={bend}"
    ax.add_patch(
        FancyArrowPatch(
            a, b, connectionstyle=style, arrowstyle="-|>", mutation_scale=13, color=colour, lw=lw, shrinkA=2, shrinkB=2
        )
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
            ax.add_patch(plt.Circle((x, y + 1.3), 0.33, fc="none", ec=INK, lw=1.4))
            if s:
                arrow(ax, (x - 2.33, y + 1.3), (x - 0.36, y + 1.3), INK, lw=1.1)
        path = [(0, 2), (1, 2), (2, 2)] if y == 0 else [(2, 2), (2, 3), (2, 4)]
        for a, b in path:
            up = [(2.7 * a, y + 0.3), (2.7 * a, y + 1.3), (2.7 * b, y + 1.3), (2.7 * b, y + 2.15)]
            ax.plot(*zip(*up, strict=True), color=colour, lw=2.6, alpha=0.9, solid_joinstyle="round")
        for s in [2] if y == 0 else [2, 3, 4]:
            arrow(ax, (2.7 * s, y + 1.8), (2.7 * s, y + 2.4), colour, lw=2.2)


def main() -> None:
    """Write all drawings."""
    for name, draw in DRAWINGS.items():
        figure, ax = plt.subplots(figsize=(4.6, 3.9) if name == "facing" else (4.6, 2.7))
        draw(ax)
        ax.set_aspect("equal")
        ax.autoscale_view()
        ax.axis("off")
        figure.savefig(
            HERE / f"{name}.svg", transparent=True, bbox_inches="tight", pad_inches=0.05, metadata={"Date": None}
        )
        plt.close(figure)


if __name__ == "__main__":
    main()

"""What the drawings are made of: blocks of cells, flat matrices, arrows and words."""

from collections.abc import Callable, Iterable
from itertools import product

import matplotlib as mpl

mpl.use("svg")
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle

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


def vector(axis: int) -> list[Cell]:
    """Cells along one direction."""
    return [tuple(m if a == axis else 0 for a in range(3)) for m in range(N)]


def matrix(*axes: int) -> list[Cell]:
    """Cells over two directions."""
    return [c for c in cube() if all(c[a] == 0 for a in range(3) if a not in axes)]


def grid(ax: Axes, x: float, y: float, rows: int, columns: int, colour: str, size: float = 0.55) -> None:
    """A flat matrix."""
    for r, c in product(range(rows), range(columns)):
        ax.add_patch(Rectangle((x + c * size, y - r * size), size, size, fc=colour, ec="#2f3b46", lw=0.7))


def arrow(ax: Axes, a: Place, b: Place, colour: str = INK, bend: float = 0.0, lw: float = 1.6) -> None:
    """An arrow."""
    style = f"arc3,rad={bend}"
    ax.add_patch(
        FancyArrowPatch(
            a, b, connectionstyle=style, arrowstyle="-|>", mutation_scale=13, color=colour, lw=lw, shrinkA=2, shrinkB=2
        )
    )


#: what draws a file, by the name of the file
DRAWINGS: dict[str, Callable[[Axes], None]] = {}


def drawing(name: str) -> Callable[[Callable[[Axes], None]], Callable[[Axes], None]]:
    """Register a drawing under the name of its file."""

    def register(f: Callable[[Axes], None]) -> Callable[[Axes], None]:
        DRAWINGS[name] = f
        return f

    return register

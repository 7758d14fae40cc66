"""Drawings of what learners that face the past keep of the influence tensor."""

from collections.abc import Iterable
from itertools import product

from blocks import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    Cell,
    N,
    at,
    beside,
    block,
    cube,
    diagonal,
    drawing,
    kept,
    letters,
    matrix,
    outline,
    say,
    vector,
)
from matplotlib.axes import Axes


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

"""How the layers of a stack come by their credit δ_l: three choices for `Layered`.

Credit first enters at some layers, and then may go on to the layers below, within the same step. Where it enters may
depend on all that is known of the step. Where it goes on is linear in it.
"""

import abc
from itertools import chain

import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.initial import random_feedback
from recurra.cells.stack import Stack
from recurra.cells.tick import Tick
from recurra.linalg import add, matvec, vecmat


class HandingDown(checks.Part):
    """A way in which layers come by their credit."""

    @abc.abstractmethod
    def init(self, stack: Stack, key: PRNGKeyArray, n_out: int) -> PyTree[Array]:
        """What is drawn once and then stays, such as random matrices."""

    @abc.abstractmethod
    def entering(self, tick: Tick, stack: Stack, fixed: PyTree) -> Credit:
        """The credit of the stack's state that comes from outside."""

    @abc.abstractmethod
    def arriving(self, stack: Stack, weights: tuple[Weights, ...], trace: PyTree, c: Credit) -> tuple[Credit, ...]:
        """δ_l for each layer, where credit c entered; linear in c."""


class ThroughLayers(HandingDown):
    """δ_L = cbar,   δ_{l-1} = δ_l ∂a_l/∂x_l, exact within the step (OSTL, Bohnstingl et al. 2020).

    Layers that the readout sees have their own cbar besides.

    >>> rc.Layered(rc.RFLO(), handed=rc.ThroughLayers()).name
    'Layered RFLO'
    """

    def init(self, stack: Stack, key: PRNGKeyArray, n_out: int) -> None:
        return None

    def entering(self, tick: Tick, stack: Stack, fixed: PyTree) -> Credit:
        return tick.cbar

    def arriving(self, stack: Stack, weights: tuple[Weights, ...], trace: PyTree, c: Credit) -> tuple[Credit, ...]:
        return stack.handed_down(weights, trace, c)


class RandomTargets(HandingDown):
    """δ_L = cbar,   δ_l = y* B_l below the top, with B_l ~ N(0, 1/√n_out) (OSTTP, Ortner et al. 2023).

    Lower layers hear the label y* alone, so no layer waits for another. Layers that the readout sees have their own
    cbar besides. An error or credit given in the place of a label reaches only what the readout sees.

    >>> rc.Layered(rc.RFLO(), handed=rc.RandomTargets()).name
    'Layered RFLO'
    """

    def init(self, stack: Stack, key: PRNGKeyArray, n_out: int) -> tuple[Float[Array, "n_out _"] | None, ...]:
        *lower, _ = stack.cells
        keys = jax.random.split(key, len(stack.cells))
        draw = lambda key, cell: random_feedback(key, n_out, cell.shown_width, stack.dtype)
        return (*map(draw, keys[:-1], lower), None)

    def entering(self, tick: Tick, stack: Stack, fixed: PyTree) -> Credit:
        random = lambda B, cell: (None,) * len(cell.widths) if B is None else cell.credit_shown(vecmat(tick.label, B))
        return tuple(map(add, tick.cbar, chain.from_iterable(map(random, fixed, stack.cells))))

    def arriving(self, stack: Stack, weights: tuple[Weights, ...], trace: PyTree, c: Credit) -> tuple[Credit, ...]:
        return stack.by_layer(c)


class LocalLosses(HandingDown):
    """δ_l = dL(G_l a_l, y*)/da_l, with a fixed readout G_l ~ N(0, 1/√n_l) (DECOLLE, Kaiser et al. 2020).

    Every layer, also the top one, learns to make its own random readout right, under the network's loss. The network's
    readout learns from what it sees, and gives no credit. It needs labels: an error or credit in their place is unused.

    >>> rc.Layered(rc.RFLO(), handed=rc.LocalLosses()).name
    'Layered RFLO'
    """

    def init(self, stack: Stack, key: PRNGKeyArray, n_out: int) -> tuple[Float[Array, "n_out _"] | None, ...]:
        keys = jax.random.split(key, len(stack.cells))
        sizes = (cell.shown_width for cell in stack.cells)
        return tuple(jax.random.normal(k, (n_out, n), stack.dtype) / n**0.5 for k, n in zip(keys, sizes, strict=True))

    def entering(self, tick: Tick, stack: Stack, fixed: PyTree) -> Credit:
        if tick.loss is None:
            raise ValueError("LocalLosses needs the network's loss, and this Tick has none: give it `loss`.")

        def local(G: Array, cell: Cell, a: State) -> Credit:
            _, error = tick.loss(matvec(G, cell.show(a)), tick.label)
            return cell.credit_shown(vecmat(error, G))

        return tuple(chain.from_iterable(map(local, fixed, stack.cells, stack.by_layer(tick.state))))

    def arriving(self, stack: Stack, weights: tuple[Weights, ...], trace: PyTree, c: Credit) -> tuple[Credit, ...]:
        return stack.by_layer(c)

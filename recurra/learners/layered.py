"""Layer-wise learning of a stack: online spatio-temporal learning and its relatives (Bohnstingl et al. 2020)."""

import dataclasses
from typing import NamedTuple

import jax
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, LazyWeights, Weights
from recurra.cells.stack import Stack
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing
from recurra.learners.following import check_given_credit
from recurra.learners.handing_down import HandingDown, ThroughLayers
from recurra.learners.rtrl import RTRL
from recurra.linalg import zeros_like


class Layers(NamedTuple):
    """What each layer's learner keeps, the traces of the latest step, and what is fixed in handing down credit."""

    M: tuple[PyTree, ...]
    trace: PyTree
    fixed: PyTree[Array]


class Layered(PastFacing):
    """M_l = J_l M_l + Mbar_l and gradient = δ_l M_l, for each layer l of a stack by itself.

    Within a step credit reaches all layers, in the way that `handed` chooses. What a weight did to the *past* of the
    layers above its own is left out. With RTRL this is OSTL: it costs what the layers cost, and it is exact for the
    top layer, and below layers without memory. `learner` is any past-facing learner, or a tuple with one for each
    layer.
    """

    learner: PastFacing | tuple[PastFacing, ...] = RTRL()
    handed: HandingDown = ThroughLayers()

    about = About("layered", "Layered", "M_kij of each layer", memory="n³", time="n⁴", layers=True)

    def __check_init__(self) -> None:
        learners = self.learner if isinstance(self.learner, tuple) else (self.learner,)
        if not learners:
            raise ValueError("`learner` of Layered is an empty tuple: give one learner for each layer, or one for all.")
        for learner in learners:
            check_given_credit("Layered", learner)
        if not isinstance(self.handed, HandingDown):
            raise TypeError(
                "`handed` of Layered must be ThroughLayers(), RandomTargets() or LocalLosses(), and is "
                f"{self.handed!r:.100}."
            )

    @property
    def uses_given_credit(self) -> bool:
        return isinstance(self.handed, ThroughLayers)

    @property
    def name(self) -> str:
        learners = self.learner if isinstance(self.learner, tuple) else (self.learner,)
        return f"Layered {', '.join(each.name for each in learners)}"

    def each(self, cell: Cell) -> tuple[PastFacing, ...]:
        """The learner of every layer."""
        return self.learner if isinstance(self.learner, tuple) else (self.learner,) * len(stack(cell).cells)

    def check(self, cell: Cell) -> None:
        from recurra.learners import check_pairing

        if not isinstance(cell, Stack):
            itself = type(self.learner[0] if isinstance(self.learner, tuple) else self.learner).__name__
            raise TypeError(
                f"Layered is for the layers of a recurra.Stack, and {cell.name} is a single one: use {itself} itself."
            )
        learners = self.each(cell)
        if len(learners) != len(cell.cells):
            raise ValueError(
                f"`learner` of Layered has {len(learners)} learners, and the stack {len(cell.cells)} layers: give one "
                "for each layer, or a single one for all."
            )
        for number, (learner, layer) in enumerate(zip(learners, cell.cells, strict=True)):
            try:
                check_pairing(learner, layer)
            except (TypeError, ValueError) as error:
                raise type(error)(f"Layer {number} of the stack cannot learn: {error}") from None

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Layers:
        cells = stack(cell).cells
        *keys, key_fixed = jax.random.split(key, len(cells) + 1)
        layers = zip(self.each(cell), cells, weights, keys, strict=True)
        M = tuple(learner.init(layer, w, own, n_out) for learner, layer, w, own in layers)
        no_trace = jax.tree.map(lambda rows: rows[0], cell.no_traces(weights, 1))
        return Layers(M, no_trace, self.handed.init(stack(cell), key_fixed, n_out))

    def noise(self, cell: Cell, key: PRNGKeyArray, steps: int) -> tuple[PyTree[Array], ...] | None:
        cells = stack(cell).cells
        layers = zip(self.each(cell), cells, jax.random.split(key, len(cells)), strict=True)
        drawn = tuple(learner.noise(layer, own, steps) for learner, layer, own in layers)
        return drawn if jax.tree.leaves(drawn) else None

    def step(self, tick: Tick, state: Layers, noise: PyTree) -> tuple[LazyWeights, Layers]:
        cbar = self.handed.entering(tick, stack(tick.cell), state.fixed)
        return super().step(dataclasses.replace(tick, cbar=cbar), state, noise)

    def advance(self, tick: Tick, state: Layers, noise: PyTree) -> Layers:
        noise = (None,) * len(state.M) if noise is None else noise
        layers = zip(self.each(tick.cell), self._ticks(tick), state.M, noise, strict=True)
        return Layers(tuple(learner.advance(own, M, nu) for learner, own, M, nu in layers), tick.trace, state.fixed)

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Layers) -> LazyWeights:
        delta = self.handed.arriving(stack(cell), weights, state.trace, c)
        layers = zip(self.each(cell), stack(cell).cells, weights, delta, state.M, strict=True)
        return tuple(learner.contract(layer, w, d, M) for learner, layer, w, d, M in layers)

    def forget(self, cell: Cell, state: Layers) -> Layers:
        layers = zip(self.each(cell), stack(cell).cells, state.M, strict=True)
        M = tuple(learner.forget(layer, own) for learner, layer, own in layers)
        return Layers(M, zeros_like(state.trace), state.fixed)

    def _ticks(self, tick: Tick) -> list[Tick]:
        """The step as each layer sees it."""
        cell = stack(tick.cell)
        delta = self.handed.arriving(cell, tick.weights, tick.trace, tick.cbar)
        layers = zip(
            cell.cells,
            tick.weights,
            cell.by_layer(tick.before),
            cell.by_layer(tick.state),
            tick.trace,
            delta,
            strict=True,
        )
        return [
            dataclasses.replace(tick, cell=layer, weights=w, before=before, state=after, trace=trace, cbar=cbar)
            for layer, w, before, after, trace, cbar in layers
        ]


def stack(cell: Cell) -> Stack:
    """The cell, typed as a stack."""
    assert isinstance(cell, Stack)
    return cell

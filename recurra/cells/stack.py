"""Several recurrent layers as one cell: in the same step, each layer receives what the layer below it shows.

    a_l(t) = f_l(a_l(t-1), x_l(t)),     x_1(t) = x(t),     x_{l+1}(t) = what layer l shows of a_l(t)

The derivatives follow by composition. With J_l and Mbar_l of a layer alone, credit first goes down through the layers
within the step, and then each layer uses its own:

    δ_l = c_l + δ_{l+1} ∂a_{l+1}/∂x_{l+1}       c J = (δ_l J_l),     c Mbar = (δ_l Mbar_l)
    u_l = J_l v_l + ∂a_l/∂x_l u_{l-1}           J v = (u_l)

So any learner that takes any cell learns with a stack, and is as exact as with a single layer.
"""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import KeyPath
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.base import Cell, Credit, Influence, LazyWeights, State, Tangent, Weights
from recurra.cells.influence import WHOLE
from recurra.linalg import add, total


class Stack(Cell):
    """Layers from the lowest to the top: `Stack(RNN(2, 16), GRU(16, 8))`. A layer is any cell, also another stack.

    The readout sees the top layer, or with `skip` all layers. The state holds the variables of all layers one after
    the other; weights and traces are tuples with an entry for each layer.

    A layer whose inputs are not what the layer below shows is a ValueError.

    >>> cell = rc.Stack(rc.RNN(n_in=2, n=16), rc.GRU(n_in=16, n=8))
    >>> cell.widths, cell.shown_width
    ((16, 8), 8)
    """

    cells: tuple[Cell, ...]
    skip: bool = False

    def __init__(self, *cells: Cell, skip: bool = False):
        self.cells = cells
        self.skip = skip
        checks.flag(self, "skip")
        if not cells:
            raise TypeError(
                "Stack has no layers: give it cells, as recurra.Stack(recurra.RNN(2, 8), recurra.GRU(8, 4))."
            )
        for number, cell in enumerate(cells):
            if not isinstance(cell, Cell):
                raise TypeError(
                    f"Layer {number} of Stack must be a recurra cell, and is {cell!r:.100}: wrap an Equinox cell with "
                    "recurra.GeneralCell."
                )
        for number, (below, above) in enumerate(pairwise(cells), 1):
            shown, heard = (below.shown_width, below.dtype), (above.n_in, above.dtype)
            if shown != heard:
                raise ValueError(
                    f"Layer {number} of Stack, {above.name}, takes {heard[0]} inputs of {heard[1]}, and layer "
                    f"{number - 1}, {below.name}, shows {shown[0]} of {shown[1]}: they must be the same."
                )

    @staticmethod
    def fitting(cells: Sequence[Cell], skip: bool = False) -> "Stack":
        """A stack of these layers, each with as many inputs as the layer below it shows.

        >>> rc.Stack.fitting([rc.RNN(n_in=2, n=16), rc.GRU(n_in=1, n=8)]).cells[1].n_in
        16
        """
        lowest, *others = cells
        layers = [lowest]
        for cell in others:
            layers.append(_with_inputs(cell, layers[-1].shown_width))
        return Stack(*layers, skip=skip)

    @property
    def n_in(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The inputs of the lowest layer."""
        return self.cells[0].n_in

    @property
    def dtype(self) -> jnp.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The type of numbers, which all layers share."""
        return self.cells[0].dtype

    @property
    def widths(self) -> tuple[int, ...]:
        return _joined([cell.widths for cell in self.cells])

    @property
    def shown(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        numbers = self.by_layer(tuple(range(len(self.widths))))
        seen = [tuple(own[p] for p in cell.shown) for cell, own in zip(self.cells, numbers, strict=True)]
        return _joined(seen) if self.skip else seen[-1]

    def show(self, a: Tangent) -> Float[Array, "shown *k"]:
        seen = [cell.show(own) for cell, own in zip(self.cells, self.by_layer(a), strict=True)]
        return jnp.concatenate(seen) if self.skip else seen[-1]

    def credit_shown(self, c: Float[Array, " shown"]) -> Credit:
        *lower, top = self.cells
        if not self.skip:
            return (*(None for cell in lower for _ in cell.widths), *top.credit_shown(c))
        parts = jnp.split(c, np.cumsum([cell.shown_width for cell in lower]))
        return _joined([cell.credit_shown(part) for cell, part in zip(self.cells, parts, strict=True)])

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(cell.smooth for cell in self.cells)

    def by_layer(self, variables: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """What there is for each state variable, such as a state or credit, as a tuple for each layer."""
        rest = iter(variables)
        return tuple(tuple(next(rest) for _ in cell.widths) for cell in self.cells)

    def init_weights(self, key: PRNGKeyArray) -> tuple[Weights, ...]:
        keys = jax.random.split(key, len(self.cells))
        return tuple(cell.init_weights(own) for cell, own in zip(self.cells, keys, strict=True))

    @property
    def converts(self) -> bool:
        return any(cell.converts for cell in self.cells)

    def applied(self, weights: tuple[Weights, ...]) -> tuple[Weights, ...]:
        return tuple(cell.applied(own) for cell, own in zip(self.cells, weights, strict=True))

    def labels(self, weights: tuple[Weights, ...]) -> tuple[PyTree[str], ...]:
        each = enumerate(zip(self.cells, weights, strict=True))
        return tuple(jax.tree.map(lambda name, l=l: f"{l}.{name}", cell.labels(w)) for l, (cell, w) in each)

    def place(self, path: KeyPath) -> str:
        layer, *within = path
        return f"[{layer.idx}]{self.cells[layer.idx].place(tuple(within))}"

    def init_state(self) -> State:
        return _joined([cell.init_state() for cell in self.cells])

    def forward(
        self, weights: tuple[Weights, ...], a: State, x: Float[Array, " n_in"]
    ) -> tuple[State, tuple[Any, ...]]:
        states, traces = [], []
        for cell, w, own in zip(self.cells, weights, self.by_layer(a), strict=True):
            state, trace = cell.forward(w, own, x)
            x = cell.show(state)
            states.append(state)
            traces.append(trace)
        return _joined(states), tuple(traces)

    def differing(self, trace: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(cell.differing(own) for cell, own in zip(self.cells, trace, strict=True))

    def handed_down(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], c: Credit) -> tuple[Credit, ...]:
        """δ_l, the credit of each layer's own state: what it has in c, and what comes from the layer above."""
        *lower, delta = self.by_layer(c)
        deltas = []
        for l in range(len(lower), 0, -1):
            of_input = self.cells[l].pull_input(weights[l], trace[l], delta)
            deltas.append(_after(of_input, delta))
            delta = tuple(map(add, lower[l - 1], self.cells[l - 1].credit_shown(of_input)))
        return (delta, *reversed(deltas))

    def push(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], v: Tangent) -> Tangent:
        own = [
            cell.push(w, each, part)
            for cell, w, each, part in zip(self.cells, weights, trace, self.by_layer(v), strict=True)
        ]
        return self._carried_up(weights, trace, own)

    def pull(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], c: Credit) -> State:
        each = zip(self.cells, weights, trace, self.handed_down(weights, trace, c), strict=True)
        return _joined([cell.pull(w, own, delta) for cell, w, own, delta in each])

    def deposit(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], c: Credit) -> tuple[LazyWeights, ...]:
        each = zip(self.cells, weights, trace, self.handed_down(weights, trace, c), strict=True)
        return tuple(cell.deposit(w, own, delta) for cell, w, own, delta in each)

    def push_input(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], v: Float[Array, "n_in *k"]) -> Tangent:
        lowest = self.cells[0].push_input(weights[0], trace[0], v)
        return self._carried_up(weights, trace, [lowest, *[None] * (len(self.cells) - 1)])

    def pull_input(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], c: Credit) -> Float[Array, " n_in"]:
        return self.cells[0].pull_input(weights[0], trace[0], self.handed_down(weights, trace, c)[0])

    def no_influence(self, weights: tuple[Weights, ...]) -> Influence:
        return WHOLE.nothing(self, weights)

    def add_immediate(self, weights: tuple[Weights, ...], trace: tuple[Any, ...], M: Influence) -> Influence:
        return WHOLE.add_immediate(self, weights, trace, M)

    def contract(self, weights: tuple[Weights, ...], c: Credit, M: Influence) -> tuple[Weights, ...]:
        return WHOLE.contract(self, weights, c, M)

    def _carried_up(
        self, weights: tuple[Weights, ...], trace: tuple[Any, ...], own: Sequence[Tangent | None]
    ) -> Tangent:
        """Tangents of the layers' states, where `own` are those that do not come from the layer below; None is zero."""
        tangents, shown = [], None
        for cell, w, each, u in zip(self.cells, weights, trace, own, strict=True):
            through = None if shown is None else cell.push_input(w, each, shown)
            both = [tangent for tangent in (u, through) if tangent is not None]
            tangents.append(tuple(map(total, *both)))
            shown = cell.show(tangents[-1])
        return _joined(tangents)


def _with_inputs(cell: Cell, n_in: int) -> Cell:
    """The cell, for so many inputs."""
    if cell.n_in == n_in:
        return cell
    if isinstance(cell, Stack):
        return Stack.fitting([_with_inputs(cell.cells[0], n_in), *cell.cells[1:]], cell.skip)
    return dataclasses.replace(cell, n_in=n_in)  # pyright: ignore[reportArgumentType]


def _after(of_input: Float[Array, " n_in"], delta: Credit) -> Credit:
    """The credit of a layer, not before that of its input is known.

    A layer's weights are read for the credit of its input, and then change with its own. If they could change first,
    the compiler would copy them in every step. It forgets an `optimization_barrier` before it chooses an order. What is
    added is a zero whatever the credit of the input is, also where that is infinite or nan. Only the sign of the zero
    depends on it, which is enough for the compiler.
    """
    zero = jnp.where(of_input[0] > 0, 0.0, -0.0).astype(of_input.dtype)
    return tuple(None if u is None else u + zero for u in delta)


def _joined(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(each for part in parts for each in part)

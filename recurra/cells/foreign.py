"""Cells made of a user's own step: a function, or a module of Equinox or Flax.

`cell_of` reads the step (`recurra.cells.reading`). If it acts on one unit at a time, the cell is a `ReadCell`, which
serves every learner. Otherwise it is a `GeneralCell`, which remembers the line that stood in the way.

The parameters stay the user's. A `ReadCell` computes its gates from them. Where every weight of a gate is a parameter
and every parameter one weight, the two are the same numbers in another order: then gates are what is trained, and
`parameters` puts them into the user's order. Elsewhere, such as with tied or normalised weights, the parameters are
trained, the gates follow from them at each step, and gradients are carried back through that map.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import KeyPath
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, State, Tangent, Weights
from recurra.cells.gates import Gates
from recurra.cells.general import GeneralCell
from recurra.cells.reading import NotUnitwise
from recurra.cells.step import Step, StepCell
from recurra.cells.unitwise import UnitwiseCell
from recurra.linalg import dense

#: how close what was read comes to the step at a random point, relative to the largest number
CLOSE = {8: 1e-10, 4: 1e-3, 2: 1e-1}
#: the carry and the input at which they are compared, from random ones: the first at which most numbers are finite
POINTS = (lambda v: v, jnp.abs, lambda v: -jnp.abs(v), lambda v: 0.1 * v, lambda v: 0.1 * jnp.abs(v))


class ReadCell(StepCell, UnitwiseCell):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A unit-wise cell that was read from a user's step. `recurra.cell_of` makes it.

    Its weights are gates, or the user's parameters if gates are not the same numbers in another order. `parameters`
    returns the user's parameters of weights or of gradients, `carry` the user's carry of a state, and `state` the
    state of a carry.

    >>> step = lambda p, h, x: jnp.tanh(p["W"] @ h + p["U"] @ x)
    >>> params = {"W": jnp.eye(8), "U": jnp.ones((8, 2))}
    >>> cell = rc.cell_of(step, params, carry=jnp.zeros(8), x=jnp.zeros(2))
    >>> weights = cell.init_weights(jax.random.key(0))
    >>> cell.parameters(weights)["U"].shape
    (8, 2)
    """

    first: PyTree[Array]
    params: PyTree[Array]
    step: Step = eqx.field(static=True)
    n_in: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    dtype: jnp.dtype = eqx.field(static=True)
    #: the leaves of the carry that the readout sees; None for what the step returns beside the carry
    shows: tuple[int, ...] | None = eqx.field(static=True)
    is_smooth: bool = eqx.field(static=True)

    w_rec: ClassVar[Any] = None
    is_read: ClassVar[bool] = True

    @property
    def states(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many state variables a unit holds."""
        return len(self.step.reading.variables) + (self.step.reading.derive is not None)

    @property
    def listens(self) -> tuple[tuple[bool, bool, bool], ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """For each gate, which sources it listens to, as (rec, inp, bias)."""
        return self.step.reading.listens

    @property
    def first_bias(self) -> tuple[float, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Biases start as the user's parameters say, and not with these."""
        return (0.0,) * len(self.listens)

    @property
    def gates(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """A gate is called by the parameters that its weights are, such as "W+U", or by a number."""
        return self.step.gates

    @property
    def variables(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of the carried leaves; "heard" is what gates hear, where that is a function of these."""
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(self.first)]
        names = [f"carry{paths[leaf]}" for leaf, _ in self.step.reading.variables]
        told = [name if names.count(name) == 1 else f"{name}, {i}" for i, name in enumerate(names)]
        return tuple(told if self.step.reading.derive is None else ["heard", *told])

    @property
    def shown(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The state variables that the readout sees, by number."""
        return tuple(number for number, _ in self._seen)

    def show(self, a: Tangent) -> Float[Array, "shown *k"]:
        """What the readout sees, in the order of the user's carry, which need not be that of units."""
        order, seen = self._order, Cell.show(self, a)
        return seen if order is None else seen[np.argsort(order)]

    def credit_shown(self, c: Float[Array, " shown"]) -> Credit:
        return Cell.credit_shown(self, c if self._order is None else c[self._order])

    @property
    def _seen(self) -> tuple[tuple[int, np.ndarray], ...]:
        return self.step.reading.shown(self.shows, jax.tree.leaves(self.first))

    @property
    def _order(self) -> np.ndarray | None:
        """Where the entries of the shown variables stand in what is shown; None if one after the other."""
        order = np.concatenate([places for _, places in self._seen])
        return None if np.array_equal(order, np.arange(len(order))) else order

    def unit(self, a: State, z: State) -> State:
        return self.step.reading.unit(a, z)

    def init_state(self) -> State:
        return self.state(self.first)

    def state(self, carry: PyTree) -> State:
        """The state of a carry."""
        return self.step.reading.state(jax.tree.leaves(carry))

    def carry(self, a: State) -> PyTree:
        """The carry of a state."""
        leaves, structure = jax.tree.flatten(self.first)
        return jax.tree.unflatten(structure, self.step.reading.carry(a, leaves))

    @property
    def converts(self) -> bool:
        return self.step.order is None

    def init_weights(self, key: PRNGKeyArray) -> Weights:
        return self.weights_of(self.params if self.step.init is None else self.step.init(key))

    def applied(self, weights: Weights) -> Gates:
        return self.step.reading.weights(weights) if self.converts else weights

    def weights_of(self, params: PyTree) -> Weights:
        params = self.learned(params)
        return params if self.converts else self.step.reading.weights(params)

    def credit_of(self, c: PyTree) -> Credit:
        leaves = self.step.of_carry("credit", c)
        own = [
            None if leaves[leaf] is None else jnp.reshape(leaves[leaf], -1)[places]
            for leaf, places in self.step.reading.variables
        ]
        return tuple(own) if self.step.reading.derive is None else (None, *own)

    def parameters(self, weights: PyTree) -> PyTree:
        if self.converts:
            return weights
        flat = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(weights)])
        return ravel_pytree(self.params)[1](flat[self.step.order])

    def labels(self, weights: Weights) -> PyTree[str]:
        return StepCell.labels(self, weights) if self.converts else UnitwiseCell.labels(self, weights)

    def place(self, path: KeyPath) -> str:
        return Cell.place(self, path) if self.converts else UnitwiseCell.place(self, path)


def cell_of(
    thing: Any,
    params: PyTree = None,
    *,
    carry: PyTree,
    x: PyTree,
    init: Callable[[PRNGKeyArray], PyTree] | None = None,
    shown: int | tuple[int, ...] | None = None,
    smooth: bool = True,
    unitwise: bool | None = None,
) -> ReadCell | GeneralCell:
    """A cell from a step of your own: a function, or a recurrent cell of Equinox or Flax.

    `thing` is one of these:

    - a function `step(params, carry, x)`, with its `params`;
    - an Equinox module, or another callable tree of arrays, called as `module(x, carry)`;
    - a cell of Flax NNX, called as `cell(carry, x)`;
    - a cell of Flax Linen, called as `cell.apply(params, carry, x)`. `params` are the variables that its `init`
      returned; without them each seed draws its own.

    It returns the next carry, or a pair of that and anything else. `carry` is the carry before the first step, and `x`
    an example of an input, or the number of its entries. All may be trees of arrays, of one floating-point type. A cell
    of recurra takes the input as one vector.

    Where the step acts on one unit at a time, given sums of weights times a carried variable and the input, the cell is
    a `recurra.cells.ReadCell`, which every learner for unit-wise cells takes. Otherwise it is a
    `recurra.GeneralCell`, whose `why` tells what stood in the way and on which line. With `unitwise=True` that is a
    TypeError, and with `unitwise=False` the step is not read.

    All seeds start from the same parameters, unless `init` draws them from a key. Every floating-point array of them is
    learned, and of the variables of Linen the collection "params". The readout sees those leaves of the carry that
    `shown` numbers. By default it sees what the step returns beside the carry, such as the h of a cell of Flax, and
    else the first leaf. With `smooth=False` the step has surrogate derivatives, like a spiking cell.

    A step that cannot be called in this way is a TypeError. There is a warning where a step returns something beside
    the carry that is no part of it, such as a normalised h, and `shown` is not given: it is left out.

    >>> import equinox as eqx
    >>> cell = rc.cell_of(eqx.nn.GRUCell(2, 8, key=jax.random.key(0)), carry=jnp.zeros(8), x=2)
    >>> type(cell).__name__, cell.n, len(cell.gates)
    ('ReadCell', 8, 4)
    >>> network = rc.Network(cell, n_out=2)
    >>> result = rc.train(network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200, seeds=2)
    """
    step = Step(thing, params, carry, x, init)
    leaves = _shown_leaves(step, shown)
    if unitwise is False:
        return GeneralCell(step, None, leaves, smooth)
    try:
        reading = step.reading
        beside = () if shown is not None else reading.beside
        if not beside and shown is None:
            _warn_of_what_is_left_out(step)
        cell: Any = ReadCell(  # pyright reads fields of base classes as its first arguments
            first=step.carry, params=step.params, step=step, n_in=step.n_in, n=reading.n, dtype=step.dtype,
            shows=None if beside else leaves, is_smooth=smooth,
        )  # fmt: skip
        _check_agreement(cell)
        return cell
    except NotUnitwise as error:
        if unitwise:
            raise TypeError(f"The step of {step.name} is not unit-wise: {error}.") from None
        if shown is None:
            _warn_of_what_is_left_out(step)
        return GeneralCell(step, str(error), leaves, smooth)


def _shown_leaves(step: Step, shown: Any) -> tuple[int, ...]:
    """The leaves of the carry that the readout sees."""
    if shown is None:
        return step.beside or (0,)
    count = len(jax.tree.leaves(step.carry))
    shows = (shown,) if isinstance(shown, int) else tuple(shown)
    is_leaf = lambda each: isinstance(each, int) and not isinstance(each, bool) and 0 <= each < count
    if not shows or not all(map(is_leaf, shows)) or len(set(shows)) < len(shows):
        raise ValueError(
            f"`shown` must be numbers of leaves of the carry, each once, from 0 to {count - 1}, and is {shown!r}."
        )
    return shows


def _warn_of_what_is_left_out(step: Step) -> None:
    """A warning where the step returns something beside the carry that is no part of it."""
    if step.beside is None:
        first = jax.tree_util.keystr(jax.tree_util.tree_leaves_with_path(step.carry)[0][0])
        warnings.warn(
            f"What {step.name} returns beside its carry is no part of the carry, and is left out: a readout or a head "
            f"sees carry{first}. Compute the rest in the head, or add it to the carry; `shown=0` says that this is "
            "what you want.",
            stacklevel=3,
        )


def _check_agreement(cell: ReadCell) -> None:
    """Raise `NotUnitwise` unless the cell is its step at a random point, in value and in all derivatives."""
    step, keys = cell.step, jax.random.split(jax.random.key(0), 4)
    flat_params, of_params = ravel_pytree(step.params)
    flat_carry, of_carry = ravel_pytree(step.carry)
    kinds = zip(keys, (flat_params.size, flat_carry.size, cell.n_in), strict=False)
    noise, carry, x = (jax.random.normal(key, (size,), cell.dtype) for key, size in kinds)
    c = tuple(jax.random.normal(key, (cell.n,), cell.dtype) for key in jax.random.split(keys[3], cell.states))
    compared = jax.jit(lambda p, carry, x: _of_step_and_cell(cell, of_params(p), of_carry(carry), x, c))
    for scale, at in itertools.product((0.1, 0.0), POINTS):
        both = compared(flat_params + scale * noise, at(carry), at(x))
        there, here = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(each)]) for each in both)
        if all(np.isfinite(leaf).mean() > 0.5 for leaf in jax.tree.leaves(both[0]) if leaf.size):
            scale = np.max(np.abs(there), initial=1.0, where=np.isfinite(there))
            if not np.allclose(here, there, rtol=0.0, atol=CLOSE[cell.dtype.itemsize] * scale, equal_nan=True):
                raise NotUnitwise("was read, and what was read differs from it at a random point; please report this")
            return
    raise NotUnitwise("is finite at none of the points at which what was read could be compared with it")


def _of_step_and_cell(cell: ReadCell, params: PyTree, carry: PyTree, x: Array, c: State) -> tuple[Any, Any]:
    """The next state, what is shown of it, and credit c carried back: of the step, and by the methods of the cell."""
    step = cell.step
    next_state = lambda *point: cell.state(step(*point))
    state, pull = jax.vjp(next_state, params, carry, x)
    after = step.returned(params, carry, x)
    leaves = jax.tree.leaves(after[1])[:1] if cell.shows is None else [jax.tree.leaves(after)[i] for i in cell.shows]
    there = state, jnp.concatenate([jnp.ravel(leaf) for leaf in leaves]), pull(c)
    weights, to_params = jax.vjp(step.reading.weights, params)
    a, to_carry = jax.vjp(cell.state, carry)
    state, trace = cell.forward(weights, a, x)
    deposit, before = dense(cell.deposit(weights, trace, c)), cell.pull(weights, trace, c)
    pulled = *to_params(deposit), *to_carry(before), cell.pull_input(weights, trace, c)
    return there, (state, cell.show(state), pulled)

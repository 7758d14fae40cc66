"""Cells made of a user's own step: a function, or a module of Equinox or Flax.

`cell_of` reads the step (`recurra.cells.reading`). If it acts on one unit at a time, the cell is a `ReadCell`, which
serves every learner. Otherwise it is a `GeneralCell`, which remembers the line that stood in the way.

The parameters stay the user's. A `ReadCell` computes its gates from them. Where every weight of a gate is a parameter
and every parameter one weight, the two are the same numbers in another order: then gates are what is trained, and
`parameters` puts them into the user's order. Elsewhere, such as with tied or normalised weights, the parameters are
trained, the gates follow from them at each step, and gradients are carried back through that map.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import KeyPath
from jaxtyping import Array, PRNGKeyArray, PyTree

from recurra.cells.base import Cell, Credit, State, Weights
from recurra.cells.gates import Gates, Sources
from recurra.cells.general import GeneralCell
from recurra.cells.reading import NotUnitwise
from recurra.cells.step import Step, StepCell
from recurra.cells.unitwise import UnitwiseCell

#: how close what was read comes to the step at a random point, relative to the largest number
CLOSE = {8: 1e-10, 4: 1e-3, 2: 1e-1}


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
    shows: tuple[int, ...] = eqx.field(static=True)
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
        """Gates are numbered in the order in which the step reaches them."""
        return tuple(map(str, range(len(self.listens))))

    @property
    def variables(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The names of the carried leaves; "heard" is what gates hear, where that is a function of these."""
        paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(self.first)]
        names = [f"carry{paths[leaf]}" for leaf, _ in self.step.reading.variables]
        told = [name if names.count(name) == 1 else f"{name}, {i}" for i, name in enumerate(names)]
        return tuple(told if self.step.reading.derive is None else ["heard", *told])

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
        return Cell.labels(self, weights) if self.converts else UnitwiseCell.labels(self, weights)

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
        derived = reading.derive is not None
        rows = enumerate(reading.variables, start=derived)
        rows = sorted((leaf, int(places[0]), number) for number, (leaf, places) in rows)
        cell: Any = ReadCell(  # pyright reads fields of base classes as its first arguments
            first=step.carry, params=step.params, step=step, n_in=step.n_in, n=reading.n, dtype=step.dtype,
            shows=beside or tuple(number for each in leaves for leaf, _, number in rows if leaf == each),
            is_smooth=smooth,
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

    def near(key: PRNGKeyArray, tree: PyTree, scale: float) -> PyTree:
        flat, unravel = ravel_pytree(tree)
        return unravel(flat + scale * jax.random.normal(key, flat.shape, flat.dtype))

    point = (
        near(keys[0], step.params, 0.1),
        near(keys[1], step.carry, 1.0),
        near(keys[2], jnp.zeros(cell.n_in, cell.dtype), 1.0),
    )

    def of_step(params: PyTree, carry: PyTree) -> State:
        return cell.state(step(params, carry, point[2]))

    def of_cell(params: PyTree, carry: PyTree) -> State:
        weights, ahat = step.reading.weights(params), cell.state(carry)
        ahat = Sources(ahat[0], point[2], jnp.ones(1, cell.dtype))
        heard = lambda gate: [w @ u for w, u in zip(gate, ahat, strict=True) if w is not None]
        z = tuple(functools.reduce(jnp.add, heard(gate)) for gate in weights)
        return cell.unit(cell.state(carry), z)

    def with_derivatives(f: Callable, params: PyTree, carry: PyTree) -> Any:
        value, pull = jax.vjp(f, params, carry)
        return value, pull(tuple(near(keys[3], v, 1.0) for v in value))

    both = [jax.jit(lambda *given, f=f: with_derivatives(f, *given))(*point[:2]) for f in (of_step, of_cell)]
    if not jax.tree.leaves(both):
        return
    there, here = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(each)]) for each in both)
    scale = np.max(np.abs(there), initial=1.0, where=np.isfinite(there))
    if not np.allclose(here, there, rtol=0.0, atol=CLOSE[cell.dtype.itemsize] * scale, equal_nan=True):
        raise NotUnitwise("was read, and what was read differs from it at a random point; please report this")

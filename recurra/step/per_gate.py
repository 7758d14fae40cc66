"""Optimizers for single gates: rates of time constants are usually smaller than those of weights."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import optax
from jaxtyping import PyTree

from recurra.cells.base import Cell
from recurra.network import Readout
from recurra.step.optimizers import Described, Optimizer, checked_optimizer, rule_of

#: stands for all arrays that have no optimizer of their own
REST = ""


def _gates_of_arrays(cell: Cell | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(cell, tuple):
        return cell
    if not isinstance(cell, Cell):
        raise TypeError(f"PerGate takes a recurra cell first, and it is {cell!r}.")
    names: list[str] = []
    label = lambda key: names.extend(jax.tree.leaves(cell.labels(cell.init_weights(key))))
    jax.eval_shape(label, jax.random.key(0))  # traced, so that no weights are drawn
    return tuple(names)


def _each_checked(gates: Mapping[str, Optimizer]) -> dict[str, Optimizer]:
    if not isinstance(gates, Mapping):
        raise TypeError(
            f'`gates` of PerGate must be a dictionary such as {{"nu": recurra.Adam(1e-4)}}, and is {gates!r:.100}.'
        )
    return {name: checked_optimizer(optimizer) for name, optimizer in gates.items()}


class PerGate(Described):
    """An optimizer for some gates of a cell, by their names, and `rest` for all others and for the readout.

    Each may be a rate, a described optimizer or one of Optax's. They know nothing of each other: `clip` of one limits
    the gradient of its own gate. Settings vary in a sweep by their paths, such as "optimizer.gates.nu.learning_rate".

    Of the cell only `arrays` is kept: the gate that each array of its weights belongs to.

    A gate that the cell does not have is a ValueError.

    >>> cell, slow = rc.LRU(n_in=2, n=8), rc.Adam(1e-4)
    >>> rc.PerGate(cell, rc.Adam(1e-3), {"nu": slow, "omega": slow}).arrays
    ('b_re', 'b_im', 'nu', 'omega', 'gamma')
    """

    arrays: tuple[str, ...] = eqx.field(static=True, converter=_gates_of_arrays)
    rest: Optimizer = eqx.field(converter=checked_optimizer)
    gates: dict[str, Optimizer] = eqx.field(converter=_each_checked)

    def __check_init__(self) -> None:
        for name in self.gates:
            if name not in self.arrays:
                known = ", ".join(dict.fromkeys(self.arrays))
                raise ValueError(f"PerGate has an optimizer for {name!r}, and the gates of the cell are {known}.")

    def __hash__(self) -> int:
        return hash((self.arrays, *jax.tree.leaves(self)))  # the generated one would stumble over the dictionary

    def built(self) -> optax.GradientTransformation:
        each = {REST: self.rest, **self.gates}

        # Optax would call a tree of weights that can be called, such as a module, so it is given lists of arrays.
        def over(tree: PyTree) -> Any:
            names = self._names(tree)
            return optax.multi_transform({name: _built(each[name]) for name in names}, names)

        def init(params: PyTree) -> PyTree:
            return over(params).init(jax.tree.leaves(params))

        def update(updates: PyTree, state: PyTree, params: PyTree | None = None) -> tuple[PyTree, PyTree]:
            arrays, structure = jax.tree.flatten(updates)
            weights = None if params is None else jax.tree.leaves(params)
            arrays, state = over(updates).update(arrays, state, weights)
            return jax.tree.unflatten(structure, arrays), state

        return optax.GradientTransformation(init, update)

    def _names(self, tree: PyTree) -> list[str]:
        """For each array the name of its optimizer."""
        count = len(jax.tree.leaves(tree))
        if isinstance(tree, Readout):
            return [REST] * count
        if count != len(self.arrays):
            raise ValueError(
                f"PerGate was made for a cell with {len(self.arrays)} arrays of weights, and this one has {count}: "
                "make it with the cell of the network."
            )
        return [name if name in self.gates else REST for name in self.arrays]


def _built(optimizer: Any) -> optax.GradientTransformation:
    rule = rule_of(optimizer)
    return optax.sgd(optimizer) if rule is None else rule

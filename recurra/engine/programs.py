"""Many experiments, and the few compiled programs that serve them.

The numbers of an experiment are arguments of its program: rates, leaks, lags. All else is part of the program: classes,
functions, shapes. So two experiments share a program if they differ in numbers alone, and they are then members of one
run.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from recurra.engine.experiment import Experiment
from recurra.tasks.base import Task


class SharedProgram(NamedTuple):
    """Experiments that share a program.

    `rows` tells which of the given ones they are, and `experiment` is the first. `numbers` has its structure, with an
    array of NumPy's (experiment, ...) in the place of every number and None elsewhere.
    """

    experiment: PyTree[Experiment]
    rows: list[int]
    numbers: PyTree

    def of(self, at: Sequence[int], rows: list[int]) -> "SharedProgram":
        """The same program for some of its experiments, those at these places, which are called `rows` there."""
        return SharedProgram(self.experiment, rows, self.numbers_of(at))

    def numbers_of(self, rows: Sequence[int] | np.ndarray) -> PyTree:
        """The numbers of these of its experiments, as `Members` takes them."""
        at = np.asarray(rows)
        return jax.tree.map(lambda leaf: leaf[at], self.numbers)


def programs(experiments: Sequence[PyTree[Experiment]]) -> list[SharedProgram]:
    """The programs that serve these experiments, or trees of experiments, in the order in which they come up.

    A number on its own always counts as one that may differ, so that it does not matter for the program which of them
    do. An array, such as the rows of a task, counts only where it does differ: it may be large.
    """
    tasks: dict[int, Task] = {}

    def countable(experiment: Experiment) -> Experiment:
        """The experiment with its whole numbers as arrays, where no shape depends on them."""
        task = experiment.task
        if id(task) not in tasks:  # most experiments share one
            tasks[id(task)] = task.traced()
        return dataclasses.replace(experiment, task=tasks[id(task)])

    flat = [jax.tree.flatten(jax.tree.map(countable, each, is_leaf=_is_experiment)) for each in experiments]
    alike: dict[Any, list[int]] = {}
    for row, (leaves, structure) in enumerate(flat):
        alike.setdefault((structure, *map(_fixed, leaves)), []).append(row)
    return [_program(experiments[rows[0]], [flat[row] for row in rows], rows) for rows in alike.values()]


def _program(first: PyTree[Experiment], flat: list[tuple[list, Any]], rows: list[int]) -> SharedProgram:
    traced = jax.tree.map(lambda each: each.traced, first, is_leaf=_is_experiment)
    leaves, structure = jax.tree.flatten(traced)
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    stacked = [_stacked(column, like) for column, like in zip(columns, leaves, strict=True)]
    return SharedProgram(first, rows, jax.tree.unflatten(structure, stacked))


def _stacked(column: tuple, like: Any) -> Any:
    """One number of all experiments, (experiment, ...); None where it is no number, or an array that all share."""
    if not eqx.is_array(like):
        return None
    if like.ndim and all(leaf is column[0] or np.array_equal(leaf, column[0]) for leaf in column[1:]):
        return None
    return np.stack([np.asarray(leaf) for leaf in column]).astype(like.dtype)


def _fixed(leaf: Any) -> Any:
    """What a program must know of a leaf: the shape and type of a number, or all of it."""
    if isinstance(leaf, np.ndarray | jax.Array):
        return leaf.shape, leaf.dtype
    return float if isinstance(leaf, float) else leaf


def _is_experiment(node: Any) -> bool:
    return isinstance(node, Experiment)

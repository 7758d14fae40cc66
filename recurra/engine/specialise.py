"""Faster forms of learners, with the same gradients, for the cells and platforms where they are faster."""

import equinox as eqx

from recurra.cells.base import Cell
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.experiment import Experiment
from recurra.engine.late_rflo import LateRFLO
from recurra.engine.lazy_rtrl import LazyRTRL
from recurra.learners import RFLO, RTRL
from recurra.learners.base import Learner

#: the products of a unit-wise cell that faster forms write in their own way
PLAIN = [
    (name, getattr(UnitwiseCell, name))
    for name in ("push", "pull", "deposit", "no_influence", "add_immediate", "contract", "gate_credit", "seen_columns")
]


def specialised(experiment: Experiment, platform: str) -> Experiment:
    """The experiment with the fastest form of every learner on this platform."""
    step = experiment.step
    learners = {name: fastest(learner, step.network.cell, platform) for name, learner in step.learners.items()}
    is_dict = lambda node: isinstance(node, dict)
    return eqx.tree_at(lambda each: each.step.learners, experiment, learners, is_leaf=is_dict)


def fastest(learner: Learner, cell: Cell, platform: str) -> Learner:
    """The learner itself, or what gives the same gradients faster. What a user's subclass changes stays as it is."""
    if not isinstance(cell, UnitwiseCell) or any(getattr(type(cell), name) is not method for name, method in PLAIN):
        return learner
    # On a GPU the many small products of the lazy form take longer than the large one.
    if type(learner) is RTRL and platform == "cpu":
        return LazyRTRL()
    if type(learner) is RFLO and len(cell.read) < cell.states:
        return LateRFLO()
    return learner

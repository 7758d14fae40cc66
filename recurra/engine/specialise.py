"""Faster forms of learners, with the same gradients, for the cells and platforms where they are faster."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from recurra.cells.base import Cell
from recurra.cells.stack import Stack
from recurra.cells.structure import seen_by
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.blockwise_rtrl import BlockwiseRTRL
from recurra.engine.experiment import Experiment
from recurra.engine.late_rflo import LateRFLO
from recurra.engine.lazy_rtrl import LazyRTRL
from recurra.engine.shared_rflo import SharedRFLO
from recurra.learners import RFLO, RTRL
from recurra.learners.base import Learner, PastFacing
from recurra.learners.layered import Layered

#: the products of a unit-wise cell that faster forms write in their own way
PLAIN = [
    (name, getattr(UnitwiseCell, name))
    for name in ("push", "pull", "deposit", "no_influence", "add_immediate", "contract", "gate_credit", "seen_columns")
]


def specialised(experiment: Experiment, platform: str) -> Experiment:
    """The experiment with the fastest form of every learner on this platform: "cpu", "gpu", or "chip" in a kernel."""
    step = experiment.step
    of = lambda learner: fastest(learner, step.network.cell, platform, step.streams)
    forms = {name: of(learner) for name, learner in step.learners.items()}
    return _with_learners(experiment, forms)


def numbers_for(special: Experiment, numbers: PyTree) -> PyTree:
    """The numbers of members, laid out for the experiment in its fastest form. Such forms have no numbers."""
    if numbers is None:
        return None
    own, forms = numbers.step.learners, special.step.learners
    return _with_learners(numbers, {name: _fitting(own[name], form) for name, form in forms.items()})


def _fitting(own: Any, form: Any) -> Any:
    """The numbers of a learner, laid out for its fastest form."""
    if type(own) is not type(form):
        return jax.tree.map(lambda _: None, form)
    if not isinstance(form, Layered) or not isinstance(form.learner, tuple):
        return own
    given = own.learner if isinstance(own.learner, tuple) else (own.learner,) * len(form.learner)
    return dataclasses.replace(own, learner=tuple(map(_fitting, given, form.learner)))


def _with_learners(experiment: Experiment, learners: dict[str, Learner]) -> Experiment:
    return eqx.tree_at(lambda each: each.step.learners, experiment, learners, is_leaf=lambda node: type(node) is dict)


def fastest(learner: Learner, cell: Cell, platform: str, streams: int = 1) -> Learner:
    """The learner itself, or what gives the same gradients faster. What a user's subclass changes stays as it is."""
    if type(learner) is Layered and type(cell) is Stack:
        given = learner.each(cell)
        forms = [fastest(own, layer, platform, streams) for own, layer in zip(given, cell.cells, strict=True)]
        kept = lambda own, form: form if isinstance(form, PastFacing) and not form.period else own
        each = tuple(map(kept, given, forms))
        return Layered(each, learner.handed)
    if not isinstance(cell, UnitwiseCell) or any(getattr(type(cell), name) is not method for name, method in PLAIN):
        return learner
    if type(learner) is RTRL and not cell.is_recurrent:  # then J = H
        return fastest(RFLO(), cell, platform, streams)
    # On a GPU the many small products of the lazy form take longer than the large one.
    if type(learner) is RTRL and platform in ("cpu", "chip") and cell.places is None:
        return LazyRTRL() if platform == "cpu" else BlockwiseRTRL()
    if type(learner) is RFLO and cell.shared is not None:
        return SharedRFLO()
    if type(learner) is RFLO and len(cell.read) < cell.states:
        return LateRFLO()
    # The compiler for cores computes H anew in every loop that reads it, unless it is carried from step to step. That
    # pays where all of H is such work. With several streams it is slower.
    if type(learner) is RFLO and platform == "cpu" and streams == 1 and _leaks_are_learned(cell):
        return LateRFLO()
    return learner


def _leaks_are_learned(cell: UnitwiseCell) -> bool:
    """Whether H is a function of the weights alone, whatever the state and the input, as that of an LRU."""
    weights = jax.eval_shape(cell.init_weights, jax.random.key(0))
    leaks = lambda weights, a, x: cell.forward(weights, a, x)[1].H
    program = jax.make_jaxpr(leaks)(weights, cell.init_state(), jnp.zeros(cell.n_in, cell.dtype))
    seen = set().union(*seen_by(program.jaxpr))
    return bool(seen) and seen <= set(range(len(jax.tree.leaves(weights))))

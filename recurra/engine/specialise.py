"""Which faster forms of learners run, for the cells and platforms where they are faster: see `forms.py`.

A form keeps other numbers than the learner it stands for. A state that leaves an engine in such a form is therefore
tagged with it (`InForm`). Nobody else reads the tag: an engine that is given the state goes on with the same form, and
so with the same bits, also half-way through a span of steps.
"""

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from recurra.cells.base import Cell
from recurra.cells.stack import Stack
from recurra.cells.unitwise import UnitwiseCell
from recurra.engine.experiment import Experiment, Start, with_learners
from recurra.engine.forms import FORMS, BlockwiseRTRL, LateRFLO, LazyRTRL, OwnRTRL, SharedRFLO
from recurra.learners import RFLO, RTRL
from recurra.learners.base import Learner, PastFacing
from recurra.learners.layered import Layered
from recurra.programs import seen_by
from recurra.step import LearningState, LearningStep

#: the products of a unit-wise cell that faster forms write in their own way
PLAIN = [
    (name, getattr(UnitwiseCell, name))
    for name in ("push", "pull", "deposit", "no_influence", "add_immediate", "contract", "gate_credit", "seen_columns")
]

#: the platforms for which there are forms: "chip" is the inside of a GPU kernel
PLATFORMS = ("cpu", "gpu", "chip")


class InForm(eqx.Module):
    """The state of a learner as a faster form of the learner keeps it. Only engines read it."""

    form: Learner = eqx.field(static=True)
    state: PyTree


def in_form(experiment: Experiment, start: Start | None, platform: str | None) -> tuple[Experiment, Start | None]:
    """The experiment as it runs, and what its members start from, without tags.

    States that it starts from decide the form of their learners. Otherwise learners have the fastest form on this
    platform; with None they stay as they are.
    """
    if not isinstance(start, LearningState):
        return experiment if platform is None else specialised(experiment, platform), start
    step, learners = adopted(experiment.step, start.learners)
    return _with_step(experiment, step), start._replace(learners=learners)


def specialised(experiment: Experiment, platform: str) -> Experiment:
    """The experiment with the fastest form of every learner on this platform."""
    return _with_step(experiment, specialised_step(experiment.step, platform))


def _with_step(experiment: Experiment, step: LearningStep) -> Experiment:
    return eqx.tree_at(lambda each: each.step, experiment, step)


def specialised_step(step: LearningStep, platform: str) -> LearningStep:
    """The step with the fastest form of every learner on this platform."""
    of = lambda learner: fastest(learner, step.network.cell, platform, step.streams)
    return with_learners(step, {name: of(learner) for name, learner in step.learners.items()})


def tagged(step: LearningStep, states: Mapping[str, PyTree]) -> dict[str, PyTree]:
    """The states of all learners of a step, tagged where the learner is a faster form of a published one."""
    tag = lambda learner, state: InForm(learner, state) if _is_form(learner) else state
    return {name: tag(step.learners[name], state) for name, state in states.items()}


def _is_form(learner: Learner) -> bool:
    if isinstance(learner, Layered) and isinstance(learner.learner, tuple):
        return any(map(_is_form, learner.learner))
    return isinstance(learner, FORMS)


def adopted(step: LearningStep, states: Mapping[str, PyTree]) -> tuple[LearningStep, dict[str, PyTree]]:
    """The step with every learner in the form that its state is tagged with, and the states without their tags.

    A form that is none of the learner's is a ValueError.
    """
    forms = dict(step.learners)
    for name, state in states.items():
        if name not in forms or not isinstance(state, InForm):
            continue
        of = lambda platform, learner=forms[name]: fastest(learner, step.network.cell, platform, step.streams)
        if state.form not in map(of, PLATFORMS):
            raise ValueError(
                f"The state of the learner {name!r} was made by {state.form!r}, which does not stand for "
                f"{forms[name]!r} here: start from a state of the same network, learner and number of streams."
            )
        forms[name] = state.form
    untagged = {name: state.state if isinstance(state, InForm) else state for name, state in states.items()}
    return with_learners(step, forms), untagged


def numbers_for(special: Experiment, numbers: PyTree) -> PyTree:
    """The numbers of members, laid out for the experiment in its fastest form. Such forms have no numbers."""
    if numbers is None:
        return None
    own, forms = numbers.step.learners, special.step.learners
    fitting = {name: _fitting(own[name], form) for name, form in forms.items()}
    return _with_step(numbers, with_learners(numbers.step, fitting))


def _fitting(own: Any, form: Any) -> Any:
    """The numbers of a learner, laid out for its fastest form."""
    if type(own) is not type(form):
        return jax.tree.map(lambda _: None, form)
    if not isinstance(form, Layered) or not isinstance(form.learner, tuple):
        return own
    given = own.learner if isinstance(own.learner, tuple) else (own.learner,) * len(form.learner)
    return dataclasses.replace(own, learner=tuple(map(_fitting, given, form.learner)))


def fastest(learner: Learner, cell: Cell, platform: str, streams: int = 1) -> Learner:
    """The learner itself, or what gives the same gradients faster. What a user's subclass changes stays as it is."""
    if type(learner) is Layered and type(cell) is Stack:
        given = learner.each(cell)
        forms = [fastest(own, layer, platform, streams) for own, layer in zip(given, cell.cells, strict=True)]
        kept = lambda own, form: form if isinstance(form, PastFacing) and not form.period else own
        each = tuple(map(kept, given, forms))
        return learner if all(map(operator.is_, each, given)) else Layered(each, learner.handed)
    if not isinstance(cell, UnitwiseCell) or any(getattr(type(cell), name) is not method for name, method in PLAIN):
        return learner
    if type(learner) is RTRL and not cell.is_recurrent:  # then J = H
        form = fastest(RFLO(), cell, platform, streams)
        return OwnRTRL() if type(form) is RFLO else form  # a state of RFLO's would not tell that it is none of RTRL's
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
    leaks = lambda weights, a, x: cell.forward(cell.applied(weights), a, x)[1].H
    program = jax.make_jaxpr(leaks)(weights, cell.init_state(), jnp.zeros(cell.n_in, cell.dtype))
    seen = set().union(*seen_by(program.jaxpr))
    return bool(seen) and seen <= set(range(len(jax.tree.leaves(weights))))

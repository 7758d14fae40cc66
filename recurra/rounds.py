"""What is done after a round of steps, not at every one: a loop over rounds costs less than a branch in each step."""

import math
from collections.abc import Callable

import jax
from jaxtyping import Array, Int, PyTree

from recurra.learners.base import SPAN, Intermittent, emits_in_rounds
from recurra.loop import APPLIED, Carry, Loop, descend


def period(loop: Loop) -> int:
    """The steps of a round, 0 if nothing is done after one."""
    applied = loop.learners[APPLIED]
    emission = (applied.T,) if emits_in_rounds(applied) else ()
    return math.gcd(*emission, *(SPAN for _ in loop.deferring))


def end_round(loop: Loop, carry: Carry, t: Int[Array, ""], is_whole: bool = False) -> Carry:
    """What is due once all steps before t are taken; a loop may know that its round was whole."""

    def where_due(every: int, f: Callable[[PyTree], PyTree], now: PyTree) -> PyTree:
        if is_whole and every == period(loop):
            return f(now)
        return jax.lax.cond(t % every == 0, f, lambda now: now, now)

    if loop.deferring:
        waiting = {name: carry.learners[name] for name in loop.deferring}
        folded = where_due(SPAN, lambda states: _fold(loop, carry, states), waiting)
        carry = carry._replace(learners=carry.learners | folded)
    applied = loop.learners[APPLIED]
    if emits_in_rounds(applied):
        now = carry.weights.cell, carry.optimizers[0]
        cell, optimizer = where_due(applied.T, lambda now: _emit(loop, applied, carry, *now), now)
        weights = carry.weights._replace(cell=cell)
        carry = carry._replace(weights=weights, optimizers=(optimizer, carry.optimizers[1]))
    return carry


def _fold(loop: Loop, carry: Carry, states: PyTree) -> PyTree:
    """The states of deferring learners, with no step waiting."""

    def fold_all(name: str, states: PyTree) -> PyTree:
        fold = lambda state: loop.deferring[name].fold(loop.network.cell, carry.weights.cell, state)
        if loop.streams == 1:
            return fold(states)

        def fold_one(i: Array, states: PyTree) -> PyTree:
            old = jax.tree.map(lambda rows: rows[i], states)
            put = lambda rows, before, after: rows if after is before else rows.at[i].set(after)
            return jax.tree.map(put, states, old, fold(old))

        # One after the other and in place, so that what a stream carries stays in a core's cache until it is folded.
        return jax.lax.fori_loop(0, loop.streams, fold_one, states)

    return {name: fold_all(name, state) for name, state in states.items()}


def _emit(loop: Loop, learner: Intermittent, carry: Carry, weights: PyTree, optimizer: PyTree) -> tuple[PyTree, PyTree]:
    """The recurrent weights and their optimizer's state, after the gradient of the round."""
    cell, streams = loop.network.cell, loop.streams
    found = loop.over_streams(lambda state: learner.credits(cell, weights, state))(carry.learners[APPLIED])
    if streams > 1:  # the mean over streams is part of the sum over steps
        found = jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[2:]), found)
    traces, credit = found
    gradient = cell.deposit_all(weights, traces, jax.tree.map(lambda c: c / streams, credit))
    return descend(loop.optimizer, gradient, optimizer, weights)

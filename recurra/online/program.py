"""The compiled loop over rows, one for all uses.

A single row goes through the same program as many: a loop of as many rows as there are, at most `ROWS` a call. So it
makes no difference to a bit how a stream is cut. Programs are kept for the process, and models that differ in numbers
alone share one.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.engine.compiling import multiplies_small, options_for
from recurra.engine.hardware import core_device
from recurra.online.packing import Packing
from recurra.online.step import OnlineState, OnlineStep
from recurra.step import GivenCredit, GivenError

#: the most rows that one call takes
ROWS = 64


class Kind(NamedTuple):
    """What is done with a row, in this order: "observe", "learn", "told"; and what stands for its label."""

    actions: tuple[str, ...]
    target: type = jax.Array


class Layout(NamedTuple):
    """The numbers of a row, for each stream: inputs, label, and whether it is there."""

    streams: int
    n_in: int
    n_label: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """That of the rows of a call. After the last row comes how many there are."""
        return ROWS + 1, self.streams, self.n_in + self.n_label + 1


def no_outs(step: OnlineStep) -> Float[Array, "rows_and_one numbers"]:
    """What came of each row: predictions, and 1 where all is finite. The last row tells it of the state after all."""
    learning = step.learning
    return jnp.zeros((ROWS + 1, learning.streams * step.n_out + 1), learning.network.cell.dtype)


#: Takes packed arrays and rows, and returns packed arrays. What is packed are outs, numbers of the step, and the state.
Program = Callable[..., tuple[Array, ...]]


def program_of(step: OnlineStep, packing: Packing, kind: Kind) -> Program:
    """The program for models of this structure."""
    leaves, structure = jax.tree.flatten(eqx.filter(step, eqx.is_array, inverse=True))
    return _program(tuple(leaves), structure, packing, kind)


@functools.lru_cache(maxsize=256)
def _program(leaves: tuple, structure: Any, packing: Packing, kind: Kind) -> Program:
    fixed = jax.tree.unflatten(structure, leaves)
    network = fixed.learning.network
    n_label = sum(network.cell.widths) if kind.target is GivenCredit else fixed.n_out
    layout = Layout(fixed.learning.streams, fixed.n_in, n_label)

    def run(*arguments: Array) -> tuple[Array, ...]:
        *packed, rows = arguments

        def all_rows(running: tuple) -> tuple:
            outs, numbers, state = packing.unpack(running[0])
            step = eqx.combine(numbers, fixed)

            def one(i: Array, running: tuple[OnlineState, Array]) -> tuple[OnlineState, Array]:
                state, output, is_fine = _taken(step, kind, layout, running[0], rows[i])
                out = jnp.concatenate([output.reshape(-1), is_fine.astype(outs.dtype)[None]])
                return state, jax.lax.dynamic_update_slice(running[1], out[None], (i, jnp.int32(0)))

            state, outs = jax.lax.fori_loop(0, rows[ROWS, 0, 0].astype("int32"), one, (state, outs))
            after = packing.pack((outs, numbers, state))
            # What is not finite in the state may not have reached an output yet.
            is_fine = packing.is_finite(after).astype(outs.dtype)
            return packing.put_first(after, ROWS, is_fine), jnp.ones((), bool)

        if not packing.is_small:
            return all_rows((tuple(packed), None))[0]
        # A loop of one pass: the compiler makes one kernel of a small loop, and so packing is part of it.
        return jax.lax.while_loop(lambda running: ~running[1], all_rows, (tuple(packed), jnp.zeros((), bool)))[0]

    with jax.default_device(core_device()):
        rows = jax.ShapeDtypeStruct(layout.shape, network.cell.dtype)
        traced = jax.jit(run).trace(*_packed_shapes(packing), rows)
        small, few = multiplies_small(traced.jaxpr.jaxpr), "told" in kind.actions  # only the first rows are told of
        options: Any = options_for("cpu", runs_once=few, products_in_loop=small)
    return jax.jit(run, compiler_options=options or None)


def _packed_shapes(packing: Packing) -> tuple[Any, ...]:
    shapes = [jax.ShapeDtypeStruct(s, d) for s, d in zip(packing.shapes, packing.dtypes, strict=True)]
    return jax.eval_shape(packing.pack, jax.tree.unflatten(packing.structure, shapes))


def _taken(
    step: OnlineStep, kind: Kind, layout: Layout, state: OnlineState, row: Float[Array, "streams numbers"]
) -> tuple[OnlineState, Array, Array]:
    """One row: the next state, the prediction, and whether everything in and about it is finite."""
    cells = row[0] if layout.streams == 1 else row
    x, y, present = cells[..., : layout.n_in], cells[..., layout.n_in : -1], cells[..., -1] > 0
    output = jnp.zeros((*cells.shape[:-1], step.n_out), row.dtype)
    is_fine = jnp.all(jnp.isfinite(row))
    if kind.actions == ("observe", "learn"):
        state = state._replace(delayed=step.queue.caught_up(state.delayed))
    for action in kind.actions:
        if action == "observe":
            state, output = step.observe(state, x)
        elif action == "told":
            state = step.told(state, y, present)
        else:
            state, outcome = step.learn(state, _target(step, kind, y), present)
            is_fine &= jnp.all(jnp.isfinite(outcome.output))
    return state, output, is_fine & jnp.all(jnp.isfinite(output))


def _target(step: OnlineStep, kind: Kind, y: Array) -> Any:
    if kind.target is GivenError:
        return GivenError(y)
    if kind.target is GivenCredit:
        edges = [
            sum(step.learning.network.cell.widths[: p + 1]) for p in range(len(step.learning.network.cell.widths) - 1)
        ]
        return GivenCredit(tuple(jnp.split(y, edges, axis=-1)))
    return y

"""A loop that is one kernel: what goes from step to step stays on the chip, in registers.

A kernel takes its rows from memory one step ahead, so that a step does not wait for them. Under `jax.vmap` each member
of the batch is a program of its own in the kernel, and members neither wait for each other nor share anything.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.triton as triton
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from recurra.engine.on_chip.padding import cut, pad, padded_shape
from recurra.engine.on_chip.program import carry_out

#: what a step returns: the next state, and what is kept of it
Stepped = tuple[PyTree[Array], PyTree[Array]]
#: one step from (state, row, number of the step)
Step = Callable[[PyTree, PyTree, Int[Array, ""]], Stepped]


class How(NamedTuple):
    """How a kernel is built: the warps of 32 threads that share a network, and whether it is only played on a CPU."""

    warps: int = 1
    interpret: bool = False


def loop(
    step: Step,
    state: PyTree[Array],
    rows: PyTree[Array],
    first: Int[Array, ""],
    last: Int[Array, ""],
    before: Int[Array, ""],
    how: How,
) -> Stepped:
    """Steps first..last-1 on rows, which have a leading axis over steps and begin with step `before`.

    Returns the state after them, and what is kept of each step, with a leading axis as long as that of the rows. It is
    filled from its beginning; what comes after the last step is undefined.
    """
    capacity, (leaves, structure) = len(jax.tree.leaves(rows)[0]), jax.tree.flatten(state)
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
    program, (_, kept) = jax.make_jaxpr(step, return_shape=True)(state, row, first)
    # All arrays that the step uses come from memory: a kernel has none of its own.
    taken, flowing, kept_leaves = [*program.consts, *leaves], jax.tree.leaves(rows), jax.tree.leaves(kept)

    def kernel(bounds: Any, *refs: Any) -> None:
        each, parts = iter(refs), (taken, flowing, leaves, kept_leaves)
        taken_refs, flowing_refs, state_refs, kept_refs = ([next(each) for _ in part] for part in parts)
        first, last, before = (bounds[i] for i in range(3))
        values = [_flagged(ref[...], like) for ref, like in zip(taken_refs, taken, strict=True)]
        constants, start = values[: len(program.consts)], values[len(program.consts) :]
        read = lambda t: [_flagged(ref[t - before], like) for ref, like in zip(flowing_refs, flowing, strict=True)]

        def one(t: Array, running: Any) -> Any:
            state, row = running
            following = read(jnp.minimum(t + 1, before + (capacity - 1)))
            found = carry_out(program, *state, *row, t, constants=constants)
            for ref, value in zip(kept_refs, found[len(leaves) :], strict=True):
                ref[t - first] = _unflagged(value)
            return found[: len(leaves)], following

        end, _ = jax.lax.fori_loop(first, last, one, (start, read(first)))
        for ref, value in zip(state_refs, end, strict=True):
            ref[...] = _unflagged(value)

    results = [_result(leaf) for leaf in leaves] + [_result(leaf, capacity) for leaf in kept_leaves]
    options = {} if how.interpret else {"compiler_params": triton.CompilerParams(num_warps=how.warps, num_stages=1)}
    call = pl.pallas_call(kernel, out_shape=results, interpret=how.interpret, name="steps", **cast(Any, options))
    inputs = [pad(_unflagged(jnp.asarray(leaf))) for leaf in taken]
    found = call(jnp.stack([first, last, before]), *inputs, *(pad(_unflagged(leaf), skip=1) for leaf in flowing))
    shapes = [leaf.shape for leaf in leaves] + [(capacity, *leaf.shape) for leaf in kept_leaves]
    whole = [
        _flagged(cut(new, shape), like) for new, shape, like in zip(found, shapes, leaves + kept_leaves, strict=True)
    ]
    return (
        jax.tree.unflatten(structure, whole[: len(leaves)]),
        jax.tree.unflatten(jax.tree.structure(kept), whole[len(leaves) :]),
    )


def _result(leaf: Any, *leading: int) -> jax.ShapeDtypeStruct:
    """What a kernel returns for a leaf."""
    kind = "int32" if leaf.dtype == bool else leaf.dtype
    return jax.ShapeDtypeStruct((*leading, *padded_shape(leaf.shape)), kind)


def _unflagged(array: Array) -> Array:
    """Flags as numbers, for a kernel's memory holds no flags."""
    return array.astype("int32") if array.dtype == bool else array


def _flagged(array: Array, like: Any) -> Array:
    return array != 0 if like.dtype == bool else array

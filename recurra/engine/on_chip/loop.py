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
from recurra.engine.on_chip.products import products_in
from recurra.engine.on_chip.program import carry_out

#: what a step returns: the next state, and what is kept of it
Stepped = tuple[PyTree[Array], PyTree[Array]]
#: one step from (state, row, number of the step)
Step = Callable[[PyTree, PyTree, Int[Array, ""]], Stepped]


class Rounds(NamedTuple):
    """What is done to the state after every so many steps, counted from step 0, by a function of it and the step.

    It is also called after the last step of all, and tells by the number of the step whether a round has ended there.
    """

    length: int
    end: Callable[[PyTree, Int[Array, ""]], PyTree]


class How(NamedTuple):
    """How a kernel is built: the warps of 32 threads that share a network, and one of `products.PRECISIONS`.

    With `interpret` Pallas' interpreter runs it on a CPU.
    """

    warps: int = 1
    precision: str = "float32"
    interpret: bool = False


def loop(
    step: Step,
    state: PyTree[Array],
    rows: PyTree[Array],
    first: Int[Array, ""],
    last: Int[Array, ""],
    before: Int[Array, ""],
    how: How,
    rounds: Rounds | None = None,
) -> Stepped:
    """Steps first..last-1 on rows, which have a leading axis over steps and begin with step `before`.

    Returns the state after them, and what is kept of each step, with a leading axis as long as that of the rows. It is
    filled from its beginning; what comes after the last step is undefined.
    """
    chunk, (leaves, structure) = len(jax.tree.leaves(rows)[0]), jax.tree.flatten(state)
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), rows)
    program, (_, kept) = jax.make_jaxpr(step, return_shape=True)(state, row, first)
    ending = None if rounds is None else jax.make_jaxpr(rounds.end)(state, first)
    # All arrays that the programs use come from memory: a kernel has none of its own.
    own, ends = program.consts, [] if ending is None else ending.consts
    taken, flowing, kept_leaves = [*own, *ends, *leaves], jax.tree.leaves(rows), jax.tree.leaves(kept)

    def kernel(bounds: Any, *refs: Any) -> None:
        each, parts = iter(refs), (taken, flowing, leaves, kept_leaves)
        taken_refs, flowing_refs, state_refs, kept_refs = ([next(each) for _ in part] for part in parts)
        first, last, before = (bounds[i] for i in range(3))
        values = [_flagged(ref[...], like) for ref, like in zip(taken_refs, taken, strict=True)]
        constants, values = values[: len(own)], values[len(own) :]
        of_ending, start = values[: len(ends)], values[len(ends) :]
        read = lambda i: [_flagged(ref[i], like) for ref, like in zip(flowing_refs, flowing, strict=True)]

        def one(t: Array, running: Any) -> Any:
            state, row = running
            following = read(jnp.minimum(t - before + 1, chunk - 1))  # in this order it stays below 2³¹
            found = carry_out(program, *state, *row, t, constants=constants)
            for ref, value in zip(kept_refs, found[len(leaves) :], strict=True):
                ref[t - first] = _unflagged(value)
            return found[: len(leaves)], following

        def one_round(k: Array, running: Any) -> Any:
            assert rounds is not None
            until = last - jnp.maximum(last - k * rounds.length - rounds.length, 0)  # it stays below 2³¹
            state, row = jax.lax.fori_loop(jnp.maximum(first, k * rounds.length), until, one, running)
            return carry_out(ending, *state, until, constants=of_ending), row

        if rounds is None:
            bounds_of_loop, body = (first, last), one
        else:
            bounds_of_loop, body = (first // rounds.length, (last - 1) // rounds.length + 1), one_round
        end, _ = jax.lax.fori_loop(*bounds_of_loop, body, (start, read(first - before)))
        for ref, value in zip(state_refs, end, strict=True):
            ref[...] = _unflagged(value)

    def traced(*refs: Any) -> None:
        with products_in(how.precision):
            kernel(*refs)

    results = [_result(leaf) for leaf in leaves] + [_result(leaf, chunk) for leaf in kept_leaves]
    options = {} if how.interpret else {"compiler_params": triton.CompilerParams(num_warps=how.warps, num_stages=1)}
    call = pl.pallas_call(traced, out_shape=results, interpret=how.interpret, name="steps", **cast(Any, options))
    inputs = [pad(_unflagged(jnp.asarray(leaf))) for leaf in taken]
    found = call(jnp.stack([first, last, before]), *inputs, *(pad(_unflagged(leaf), skip=1) for leaf in flowing))
    shapes = [leaf.shape for leaf in leaves] + [(chunk, *leaf.shape) for leaf in kept_leaves]
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

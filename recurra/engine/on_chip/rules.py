"""How each operation of a traced program is written inside a kernel: elementwise operations, sums and shapes.

A rule takes padded arrays and returns padded arrays. It knows the shapes without padding from the `Site`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from recurra.engine.on_chip.padding import Shape, counted, padded_shape, places
from recurra.programs import ELEMENTWISE

#: entries of the largest array that a rule may need on the way: 256 kB, as many as a multiprocessor's registers
LARGEST = 2**16

#: elementwise operations that the compiler of kernels does not take
UNLOWERED = {
    "round", "erf", "erfc", "lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac", "igamma_grad_a",
    "regularized_incomplete_beta", "random_gamma", "bessel_i0e", "bessel_i1e", "complex", "real",
    "imag", "conj", "mulhi", "eq_to", "lt_to", "le_to", "reduce_precision", "name", "device_put",
    "sharding_constraint", "layout_constraint", "pvary",
}  # fmt: skip


class UnsupportedError(NotImplementedError):
    """An operation that has no rule. Its text is the end of a sentence: what a program does that a kernel cannot."""


def check_size(shape: Shape) -> None:
    """Raise if an array that a rule needs on the way is far larger than what registers hold."""
    if math.prod(shape) > LARGEST:
        raise UnsupportedError(
            f"needs an array of shape {shape} on the way, and a kernel has room for {LARGEST:,} entries"
        )


class Site(NamedTuple):
    """Where a rule is applied: an operation with its parameters, and what it takes and gives, without padding."""

    primitive: Any
    params: dict[str, Any]
    taken: Sequence[Any]
    given: Sequence[Any]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.given[0].shape


#: what an operation takes or gives: a padded array, or a number of NumPy's that stands in the program
Value = Any
#: results of an operation, one or several
Results = Value | Sequence[Value]
RULES: dict[str, Callable[..., Results]] = {}


def rule(*names: str) -> Callable[[Callable[..., Results]], Callable[..., Results]]:
    """Register a rule for these operations."""

    def register(f: Callable[..., Results]) -> Callable[..., Results]:
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


@rule(*ELEMENTWISE - UNLOWERED)
def _elementwise(site: Site, *operands: Value) -> Array:
    return site.primitive.bind(*operands, **site.params)


@rule("stop_gradient", "copy", "copy_p", "optimization_barrier")
def _unchanged(site: Site, *operands: Value) -> Results:
    return operands


@rule("select_n")
def _select_n(site: Site, which: Value, *cases: Value) -> Array:
    if not site.shape:  # the compiler of kernels takes a number whose type is weak for a flag, as `which` is one
        cases = tuple(jax.lax.convert_element_type(case, site.given[0].dtype) for case in cases)
    return jax.lax.select_n(jnp.broadcast_to(which, cases[0].shape), *cases)


@rule("iota")
def _iota(site: Site) -> Array:
    return jax.lax.broadcasted_iota(site.params["dtype"], padded_shape(site.shape), site.params["dimension"])


@rule("broadcast_in_dim")
def _broadcast_in_dim(site: Site, operand: Value) -> Array:
    return jax.lax.broadcast_in_dim(operand, padded_shape(site.shape), site.params["broadcast_dimensions"])


@rule("squeeze")
def _squeeze(site: Site, operand: Value) -> Array:
    """A sum over axes of size 1 leaves each entry with its thread. A change of shape might move it."""
    return without(operand, site.params["dimensions"])


def without(operand: Value, axes: Sequence[int]) -> Array:
    """The array without axes of size 1."""
    return total(operand, axes)


def total(array: Value, axes: Sequence[int], keepdims: bool = False) -> Array:
    """The sum over some axes, of the array's own type; for flags, whether there is one."""
    if array.dtype == bool:
        return total(array.astype("int32"), axes, keepdims) > 0
    return jnp.sum(array, axis=tuple(axes), dtype=array.dtype, keepdims=keepdims)


@rule("transpose")
def _transpose(site: Site, operand: Value) -> Array:
    return jax.lax.transpose(operand, site.params["permutation"])


@rule("reduce_sum")
def _reduce_sum(site: Site, operand: Value) -> Array:
    return _reduced(site, operand, total, 0)


@rule("reduce_max")
def _reduce_max(site: Site, operand: Value) -> Results:
    if operand.dtype == bool:
        return _reduce_or(site, operand)
    return _reduced(site, operand, jnp.max, _extreme(operand.dtype, -1))


@rule("reduce_min")
def _reduce_min(site: Site, operand: Value) -> Results:
    if operand.dtype == bool:
        return _reduce_and(site, operand)
    return _reduced(site, operand, jnp.min, _extreme(operand.dtype, 1))


@rule("reduce_or")
def _reduce_or(site: Site, operand: Value) -> Results:
    return _reduced(site, operand.astype("int32"), jnp.max, 0) > 0


@rule("reduce_and")
def _reduce_and(site: Site, operand: Value) -> Results:
    return _reduced(site, operand.astype("int32"), jnp.min, 1) > 0


@rule("argmax", "argmin")
def _argmax(site: Site, operand: Value) -> Array:
    axis, sign = int(site.params["axes"][0]), -1 if site.primitive.name == "argmax" else 1
    operand = operand.astype("int32") if operand.dtype == bool else operand
    masked = counted(operand, site.taken[0].shape, (axis,), _extreme(operand.dtype, sign))
    best = (jnp.max if sign < 0 else jnp.min)(masked, axis=axis, keepdims=True)
    chosen = (masked == best) | (masked != masked)  # the first nan, if there is one
    first = jnp.where(chosen, places(masked.shape, axis), jnp.int32(masked.shape[axis]))
    return jnp.min(first, axis=axis).astype(site.params["index_dtype"])


def _reduced(site: Site, operand: Value, reduce: Callable[..., Array], neutral: Any) -> Array:
    axes = tuple(map(int, site.params["axes"]))
    return reduce(counted(operand, site.taken[0].shape, axes, neutral), axes)


def _extreme(dtype: Any, sign: int) -> Any:
    """The largest number of a type, or with a negative sign the smallest."""
    if jnp.issubdtype(dtype, jnp.floating):
        return sign * np.inf
    return getattr(jnp.iinfo(dtype), "max" if sign > 0 else "min")


@rule("reshape")
def _reshape(site: Site, operand: Value) -> Array:
    """Axes that are joined or cut keep their order only if all but the first of them have no padding."""
    before, after = site.taken[0].shape, site.shape
    for joined, cut in _groups(before, after):
        inner = [size for size in (*joined[1:], *cut[1:]) if size & (size - 1)]
        if inner and (len(joined), len(cut)) != (1, 1):
            raise UnsupportedError(f"reshapes axes {joined} to {cut}, and {inner[0]} is no power of two")
    return operand.reshape(padded_shape(after))


def _groups(before: Shape, after: Shape) -> list[tuple[Shape, Shape]]:
    """The shortest stretches of axes of two shapes that hold equally many entries; axes of size 1 are left out."""
    left, right = ([size for size in shape if size > 1] for shape in (before, after))
    groups: list[tuple[Shape, Shape]] = []
    while left and right:
        joined, cut = [left.pop(0)], [right.pop(0)]
        while math.prod(joined) != math.prod(cut):
            (joined if math.prod(joined) < math.prod(cut) else cut).append(
                (left if math.prod(joined) < math.prod(cut) else right).pop(0)
            )
        groups.append((tuple(joined), tuple(cut)))
    return groups

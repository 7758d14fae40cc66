"""Reading a traced program (a jaxpr): which operations act elementwise, and what each result is computed from.

An operation that is not listed here is unknown, and a reader refuses it with its name. So an operation that is new to
JAX is never taken for one that it is not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

#: Operations of which each entry of a result depends on the same entry of each argument alone. An argument may also be
#: a single number. Some names are those of other versions of JAX.
ELEMENTWISE = {
    # arithmetic
    "add", "add_any", "sub", "mul", "mulhi", "div", "rem", "neg", "sign", "abs", "max", "min", "clamp", "square",
    "one_minus_square", "sqrt", "rsqrt", "cbrt", "pow", "integer_pow", "floor", "ceil", "round", "nextafter",
    # functions of analysis
    "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma", "zeta",
    "igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta", "random_gamma",
    "bessel_i0e", "bessel_i1e",
    # complex numbers
    "complex", "real", "imag", "conj",
    # comparisons, choices and bits
    "eq", "ne", "lt", "le", "gt", "ge", "eq_to", "lt_to", "le_to", "is_finite", "select_n", "not", "and", "or", "xor",
    "shift_left", "shift_right_logical", "shift_right_arithmetic", "population_count", "clz",
    # the same numbers in another type, or marked
    "convert_element_type", "bitcast_convert_type", "reduce_precision", "stop_gradient", "copy", "copy_p", "name",
    "optimization_barrier", "device_put", "sharding_constraint", "layout_constraint", "pvary",
}  # fmt: skip

#: Operations that move or sum entries, but return a vector as it is where the result has the vector's own shape.
RESHAPING = {
    "broadcast_in_dim", "broadcast_to", "reshape", "squeeze", "expand_dims", "transpose", "slice", "dynamic_slice",
    "concatenate", "split", "tile", "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or",
    "reduce_xor",
}  # fmt: skip

#: Operations that run a program of their own once on all their arguments.
CALLS = {
    "jit", "pjit", "call", "core_call", "closed_call", "composite", "custom_jvp_call", "custom_vjp_call",
    "custom_vmap_call", "remat", "remat2", "checkpoint",
}  # fmt: skip


def subprograms(equation: Any) -> Iterator[Jaxpr]:
    """The programs that an operation of a traced program runs: a loop's body, a conditional's branches."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each


def seen_by(program: Jaxpr, counts: Callable[[Any, Any], bool] = lambda equation, var: True) -> list[set[int]]:
    """For each output of a program the inputs it is computed from; only through results of operations that count."""
    sources = {var: {i} for i, var in enumerate(program.invars)}
    seen = lambda var: set() if isinstance(var, Literal) else sources.get(var, set())
    for equation in program.eqns:
        together = set().union(*map(seen, equation.invars))
        sources |= {var: together for var in equation.outvars if counts(equation, var)}
    return [seen(var) for var in program.outvars]


def has_derivative(equation: Any, var: Any) -> bool:
    """Whether a result of an operation may have a derivative: not that of `stop_gradient`, nor of a comparison."""
    return equation.primitive.name != "stop_gradient" and jnp.issubdtype(var.aval.dtype, jnp.inexact)


def mixing(program: Any, vectors: set[Any]) -> str | None:
    """The first operation that is not known to keep the entries of these vectors apart; None if all of them do."""
    for equation in program.eqns:
        taken = [var for var in equation.invars if not isinstance(var, Literal) and var in vectors]
        if not taken:
            continue
        name, shapes = equation.primitive.name, {var.aval.shape for var in equation.outvars}
        is_known = name in ELEMENTWISE or name in RESHAPING or name in CALLS or name in ("cond", "linear_call")
        programs = list(subprograms(equation))
        is_read = programs or name in ELEMENTWISE or name in RESHAPING  # what runs a program is known by it alone
        if not is_known or not is_read or shapes != {taken[0].aval.shape}:
            return name
        for inner in programs:
            arguments = zip(inner.invars, equation.invars[-len(inner.invars) :], strict=True)
            if found := mixing(inner, {var for var, outside in arguments if outside in taken}):
                return found
        vectors = vectors | set(equation.outvars)
    return None

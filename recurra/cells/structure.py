"""What a unit's equations read, and where their derivatives vary: found from their program, not declared by cells."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Array, Float

from recurra.cells.base import State

#: derivatives by output and variable, vectors over units; None where a derivative is zero at all times
Blocks = tuple[tuple[Float[Array, " _"] | None, ...], ...]
Unit = Callable[[State, State], State]

#: operations that mix units, or change their order, without changing the shape
MIXING = {
    "sort", "rev", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "dot_general", "fft",
    "conv_general_dilated", "gather", "scatter", "scatter-add", "scatter_add", "scatter-sub", "scatter_sub",
    "scatter-mul", "scatter_mul", "scatter-min", "scatter_min", "scatter-max", "scatter_max", "dynamic_update_slice",
    "triangular_solve", "custom_linear_solve", "while", "scan", "top_k", "approx_top_k", "pad", "reduce_window",
    "reduce_window_sum", "reduce_window_min", "reduce_window_max", "pure_callback", "io_callback",
}  # fmt: skip


def local_derivatives(unit: Unit, a: State, z: State) -> tuple[State, Blocks, Blocks]:
    """The next state, H = da'/da with z fixed, and D = da'/dz.

    Each derivative is a vector over units. It is None where it is always zero. An entry of H has length 1 where it is
    the same number for all units at all times, such as the leak of a plain RNN.
    """
    variables = (*a, *z)
    f = lambda variables: unit(variables[: len(a)], variables[len(a) :])
    reads = seen_by(jax.make_jaxpr(f)(variables).jaxpr, _has_derivative)
    differs = _differs(f, variables)
    anywhere = tuple(jnp.zeros(1, v.dtype) for v in variables)
    along = functools.cache(lambda i, is_here: _along(f, i, variables if is_here else anywhere))

    def block(p: int, i: int) -> Array | None:
        is_vector = i >= len(a) or differs(p, i)
        return along(i, is_vector)[1][p] if i in reads[p] else None

    rows = [tuple(block(p, i) for i in range(len(variables))) for p in range(len(reads))]
    H, D = (tuple(row[part] for row in rows) for part in (slice(len(a)), slice(len(a), None)))
    return along(len(a), True)[0], H, D


def constant_leaks(unit: Unit, a: State, z: State) -> set[tuple[int, int]]:
    """The pairs (p, q) of which H[p][q] is one number that never differs."""
    differs = _differs(lambda variables: unit(variables[: len(a)], variables[len(a) :]), (*a, *z))
    return {(p, q) for p in range(len(a)) for q in range(len(a)) if not differs(p, q)}


def shared_variable(unit: Unit, a: State, z: State) -> int | None:
    """The state variable through which alone gates act, if it is a leaky sum of them with one leak for all units.

    It reads no other variable, and others read its new value, but neither its old one nor a gate. So it responds alike
    in all units, at all times, such as a membrane potential without its reset.
    """
    f = lambda variables: unit(variables[: len(a)], variables[len(a) :])
    program, differs = jax.make_jaxpr(f)((*a, *z)).jaxpr, _differs(f, (*a, *z))
    reads, gates = seen_by(program, _has_derivative), set(range(len(a), len(a) + len(z)))
    anywhere = tuple(jnp.zeros(1, v.dtype) for v in (*a, *z))

    def is_shared(p: int) -> bool:
        if p not in reads[p] or reads[p] - gates != {p} or any(differs(p, i) for i in reads[p]):
            return False
        sum_itself = program.outvars[p]
        beside = seen_by(program, lambda equation, var: var is not sum_itself and _has_derivative(equation, var))
        leak = jax.eval_shape(lambda at: _along(f, p, at)[1][p], anywhere)
        return leak.shape == (1,) and not any(seen & (gates | {p}) for q, seen in enumerate(beside) if q != p)

    return next(filter(is_shared, range(len(a))), None)


def _differs(f: Callable[[State], State], variables: State) -> Callable[[int, int], bool]:
    """Whether the derivative of output p in variable i depends on any variable."""
    slopes = lambda variables: [_along(f, i, variables)[1] for i in range(len(variables))]
    seen = seen_by(jax.make_jaxpr(slopes)(variables).jaxpr)  # by variable, then by output
    outputs = len(seen) // len(variables)
    return lambda p, i: bool(seen[i * outputs + p])


def _along(f: Callable[[State], State], i: int, at: State) -> tuple[State, State]:
    """f at the point `at`, and its elementwise derivatives in variable i."""
    return jax.jvp(lambda v: f((*at[:i], v, *at[i + 1 :])), (at[i],), (jnp.ones_like(at[i]),))


def variables_read(unit: Unit, a: State, z: State) -> set[int]:
    """The state variables that `unit` reads directly, not through the gates, and with a derivative.

    One that it reads through `jax.lax.stop_gradient` or a comparison alone is not among them.
    """
    return set().union(*seen_by(jax.make_jaxpr(lambda *a: unit(a, z))(*a).jaxpr, _has_derivative))


def check_unit(name: str, unit: Unit, a: State, z: State) -> None:
    """Raise unless `unit` returns a state like the one it takes and acts on one unit at a time."""
    try:
        program, after = jax.make_jaxpr(unit, return_shape=True)(a, z)
    except jax.errors.TracerArrayConversionError as error:
        raise TypeError(
            f"`unit` of {name} must be written with jax.numpy, and calls a function of NumPy's: use jax.numpy.tanh in "
            "the place of numpy.tanh, for example."
        ) from error
    except Exception as error:
        raise TypeError(
            f"`unit` of {name} could not be called with {len(a)} state variables and {len(z)} gates, each a vector "
            f"over units: {error}"
        ) from error
    shapes = lambda state: [(v.shape, str(v.dtype)) for v in state]
    if not isinstance(after, tuple) or shapes(after) != shapes(a):
        found = shapes(after) if isinstance(after, tuple) else type(after).__name__
        raise TypeError(f"`unit` of {name} must return a state like the one it takes, {shapes(a)}: it returns {found}.")
    if mixing := _mixing(program.jaxpr, set(program.jaxpr.invars)):
        raise TypeError(
            f"`unit` of {name} must act on one unit at a time, elementwise, and uses {mixing!r}, which mixes units: "
            "write the cell as an Equinox module and wrap it with recurra.GeneralCell."
        )
    check_forwards(f"`unit` of {name}", program.jaxpr)


def check_forwards(what: str, program: Jaxpr) -> None:
    """Raise if a program cannot be differentiated forwards."""
    if any(equation.primitive.name.startswith("custom_vjp") for equation in _equations(program)):
        raise TypeError(
            f"{what} is differentiated forwards, and a function in it has a derivative of its own for going backwards "
            "only (jax.custom_vjp): write that derivative with jax.custom_jvp."
        )


def _equations(program: Jaxpr) -> Iterator[Any]:
    for equation in program.eqns:
        yield equation
        for part in subprograms(equation):
            yield from _equations(part)


def seen_by(program: Jaxpr, counts: Callable[[Any, Any], bool] = lambda equation, var: True) -> list[set[int]]:
    """For each output of a program the inputs it is computed from; only through results of operations that count."""
    sources = {var: {i} for i, var in enumerate(program.invars)}
    seen = lambda var: set() if isinstance(var, Literal) else sources.get(var, set())
    for equation in program.eqns:
        together = set().union(*map(seen, equation.invars))
        sources |= {var: together for var in equation.outvars if counts(equation, var)}
    return [seen(var) for var in program.outvars]


def _has_derivative(equation: Any, var: Any) -> bool:
    """Whether a result of an operation may have a derivative: not that of `stop_gradient`, nor of a comparison."""
    return equation.primitive.name != "stop_gradient" and jnp.issubdtype(var.aval.dtype, jnp.inexact)


def _mixing(program: Any, units: set[Any]) -> str | None:
    """The first operation that does not act on one unit at a time, if there is one; `units` are vectors over units."""
    for equation in program.eqns:
        taken = [var for var in equation.invars if not isinstance(var, Literal) and var in units]
        if not taken:
            continue
        shapes = {var.aval.shape for var in equation.outvars}
        if equation.primitive.name in MIXING or shapes != {taken[0].aval.shape}:
            return equation.primitive.name
        for inner in subprograms(equation):
            arguments = zip(inner.invars, equation.invars[-len(inner.invars) :], strict=True)
            found = _mixing(inner, {var for var, outside in arguments if outside in taken})
            if found:
                return found
        units |= set(equation.outvars)
    return None


def subprograms(equation: Any) -> Iterator[Jaxpr]:
    """The programs that an operation of a traced program runs: a loop's body, a conditional's branches."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each

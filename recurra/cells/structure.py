"""What a unit's equations read, and where their derivatives vary: found from their program, not declared by cells."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr
from jaxtyping import Array, Float

from recurra.cells.base import State
from recurra.programs import has_derivative, mixing, seen_by, subprograms

#: derivatives by output and variable, vectors over units; None where a derivative is zero at all times
Blocks = tuple[tuple[Float[Array, " _"] | None, ...], ...]
Unit = Callable[[State, State], State]


def local_derivatives(unit: Unit, a: State, z: State) -> tuple[State, Blocks, Blocks]:
    """The next state, H = da'/da with z fixed, and D = da'/dz.

    Each derivative is a vector over units. It is None where it is always zero. An entry of H has length 1 where it is
    the same number for all units at all times, such as the leak of a plain RNN.
    """
    variables = (*a, *z)
    f = lambda variables: unit(variables[: len(a)], variables[len(a) :])
    reads = seen_by(jax.make_jaxpr(f)(variables).jaxpr, has_derivative)
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
    reads, gates = seen_by(program, has_derivative), set(range(len(a), len(a) + len(z)))
    anywhere = tuple(jnp.zeros(1, v.dtype) for v in (*a, *z))

    def is_shared(p: int) -> bool:
        if p not in reads[p] or reads[p] - gates != {p} or any(differs(p, i) for i in reads[p]):
            return False
        sum_itself = program.outvars[p]
        beside = seen_by(program, lambda equation, var: var is not sum_itself and has_derivative(equation, var))
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
    return set().union(*seen_by(jax.make_jaxpr(lambda *a: unit(a, z))(*a).jaxpr, has_derivative))


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
    if operation := mixing(program.jaxpr, set(program.jaxpr.invars)):
        raise TypeError(
            f"`unit` of {name} must act on one unit at a time, elementwise, and uses {operation!r}, which mixes units "
            "or is not known to keep them apart: write the cell as a function and pass it to recurra.cell_of. "
            "If the operation acts elementwise, say so once with "
            f"recurra.programs.ELEMENTWISE.add({operation!r})."
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
    """All operations of a program, also those of the programs that they run."""
    for equation in program.eqns:
        yield equation
        for part in subprograms(equation):
            yield from _equations(part)

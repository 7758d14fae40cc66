"""What a unit's equations depend on, and how: found from their program, so that a cell need not write it down."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array, Float

from recurra.cells.base import State

#: derivatives by output and variable, vectors over units
Blocks = tuple[tuple[Float[Array, " _"] | None, ...], ...]


def elementwise_derivatives(f: Callable[[State], State], at: State) -> tuple[State, Blocks]:
    """f there, and its elementwise derivatives, [output][variable]; None where they are zero at all times."""
    along = lambda i: lambda v: f((*at[:i], v, *at[i + 1 :]))
    pairs = [jax.jvp(along(i), (v,), (jnp.ones_like(v),)) for i, v in enumerate(at)]
    tangents = zip(*(tangent for _, tangent in pairs), strict=True)
    kept = lambda row, seen: tuple(v if i in seen else None for i, v in enumerate(row))
    return pairs[0][0], tuple(map(kept, tangents, seen_by(f, at)))


def seen_by(f: Callable[[State], State], at: State) -> list[set[int]]:
    """For each output the variables it is computed from."""
    program = jax.make_jaxpr(f)(at).jaxpr
    sources = {var: {i} for i, var in enumerate(program.invars)}
    seen = lambda var: set() if isinstance(var, Literal) else sources.get(var, set())
    for equation in program.eqns:
        together = set().union(*map(seen, equation.invars))
        sources |= dict.fromkeys(equation.outvars, together)
    return [seen(var) for var in program.outvars]

"""How many operations a step takes, counted in its traced program.

The compiled program's own analysis counts the body of a loop once, however often it runs, and a branch not at all where
it can tell that it is not taken; both hide what backpropagation through time costs.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr


def operations(f: Callable[..., Any], *arguments: Any, branch: Callable[[list[float]], float] = max) -> float:
    """The operations of f at these arguments, which may be shapes. `branch` chooses among the counts of branches."""
    return _count(jax.make_jaxpr(f)(*arguments).jaxpr, branch)


def _count(jaxpr: Jaxpr, branch: Callable[[list[float]], float]) -> float:
    return float(sum(_count_one(equation, branch) for equation in jaxpr.eqns))


def _count_one(equation: Any, branch: Callable[[list[float]], float]) -> float:
    parts = jax.tree.leaves(equation.params, is_leaf=lambda part: isinstance(part, ClosedJaxpr | Jaxpr))
    programs = [part.jaxpr if isinstance(part, ClosedJaxpr) else part for part in parts]
    inner = [_count(program, branch) for program in programs if isinstance(program, Jaxpr)]
    name = equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        length = np.prod([equation.invars[0].aval.shape[i] for i in contracted])
        return float(2 * equation.outvars[0].aval.size * length)
    if name == "scan":
        return float(equation.params["length"] * sum(inner))
    if name == "cond":
        return branch(inner)
    if inner:
        return float(sum(inner))
    return float(sum(v.aval.size for v in equation.outvars if np.issubdtype(v.aval.dtype, np.floating)))

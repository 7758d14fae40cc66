"""How programs are compiled. For small networks the usual choices of the compiler for CPUs are not the fastest.

At its usual level 3 it unrolls rows of some 32 numbers whole and then does not vectorize them; at level 2 they stay
loops, and are vectorized. A product of matrices is a call of a library, which may share it among threads; products so
small that calling takes longer than multiplying are better compiled into the loop around them, but only those: larger
ones would be several times slower there.
"""

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
from jax.extend.core import ClosedJaxpr, Jaxpr

#: The largest product of an m × k and a k × n matrix that the compiler can make part of a loop well.
SMALL_M, SMALL_K, SMALL_N = 32, 128, 128
_INTO_THE_LOOP = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}


@functools.cache
def compiled(f: Callable, platform: str, level: int, products_in_loop: bool = False) -> Callable:
    """f, compiled when it is called; arguments that are not arrays are static. What a user has set stays."""
    chosen = "xla_backend_optimization_level" in os.environ.get("XLA_FLAGS", "")
    options: dict[str, Any] = {} if chosen else {"xla_backend_optimization_level": level}
    options |= _INTO_THE_LOOP if products_in_loop else {}
    passed_on: Any = {"compiler_options": options} if platform == "cpu" and options else {}  # to jax.jit
    return eqx.filter_jit(f, **passed_on)


def has_small_products(program: Jaxpr) -> bool:
    """Whether every product of two matrices in a traced program is small."""
    products = (each for each in program.eqns if each.primitive.name == "dot_general")
    within = (part for each in program.eqns for part in inside(each))
    return all(map(_is_small, products)) and all(map(has_small_products, within))


def inside(equation: Any) -> Iterator[Jaxpr]:
    """The programs that an operation of a traced program runs: a loop's body, a conditional's branches."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each


def _is_small(product: Any) -> bool:
    (contracted, _), (batch, _) = product.params["dimension_numbers"]
    shapes = [variable.aval.shape for variable in (*product.invars, *product.outvars)]
    size = lambda shape, axes: functools.reduce(lambda total, axis: total * shape[axis], axes, 1)
    k, times = size(shapes[0], contracted), size(shapes[0], batch)
    m, n = (size(shape, range(len(shape))) // (k * times) for shape in shapes[:2])
    return min(m, n) == 1 or (m <= SMALL_M and k <= SMALL_K and n <= SMALL_N)

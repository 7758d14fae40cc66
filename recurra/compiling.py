"""How programs are compiled. For small networks the usual choices of the compiler are not the fastest.

At its usual level 3 for CPUs it unrolls rows of some 32 numbers whole and then does not vectorize them; at level 2 they
stay loops, and are vectorized. A product of matrices is a call of a library, which may share it among threads; products
so small that calling takes longer than multiplying are better compiled into the loop around them, but only those:
larger ones would be several times slower there. A GPU runs kernels one after the other unless it is allowed to run
side by side those that do not wait for each other.
"""

import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from recurra.machine import core

#: The largest product of an m × k and a k × n matrix that the compiler can make part of a loop well.
SMALL_M, SMALL_K, SMALL_N = 32, 128, 128
_INTO_THE_LOOP = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}
_ON_CORES = {"xla_backend_optimization_level": 2}
#: What runs once may take longer to compile than to run.
_ONCE_ON_CORES = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
_ON_GPU = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}


@functools.cache
def compiled(f: Callable, platform: str, runs_once: bool = False, products_in_loop: bool = False) -> Callable:
    """f, compiled when it is called; arguments that are not arrays are static. What a user has set stays."""
    on_cores = (_ONCE_ON_CORES if runs_once else _ON_CORES) | (_INTO_THE_LOOP if products_in_loop else {})
    wanted = {"cpu": on_cores, "gpu": _ON_GPU}.get(platform, {})
    flags = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in wanted.items() if name not in flags and _is_known(name, value)}
    passed_on: Any = {"compiler_options": options} if options else {}  # to jax.jit

    def call(*arguments: Any) -> Any:
        return jax.jit(_of_parts(f), static_argnums=_STATIC)(*_parted(arguments))

    call.__name__ = call.__qualname__ = f.__name__  # the program's, in profiles
    return eqx.filter_jit(call, **passed_on)  # it makes errors of `eqx.error_if` readable


@functools.cache
def _is_known(option: str, value: Any) -> bool:
    """Whether this version of the compiler has an option: they come and go, and it is fast enough without."""
    try:
        with jax.default_device(core()):
            jax.jit(lambda: 0, compiler_options={option: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        return False
    return True


def traced(f: Callable, *arguments: Any) -> tuple[Jaxpr, Any]:
    """The program of f at these arguments, and the shapes it returns; it is not traced again when it is compiled."""
    found = jax.jit(_of_parts(f), static_argnums=_STATIC).trace(*_parted(arguments))
    return found.jaxpr.jaxpr, found.out_info


def _parted(arguments: tuple) -> tuple[Any, tuple, Any]:
    """The arrays of all arguments, and all else they have."""
    arrays, others = eqx.partition(arguments, eqx.is_array)
    leaves, structure = jax.tree.flatten(others)
    return arrays, tuple(leaves), structure


#: the parts that can be hashed, and are part of the program
_STATIC = (1, 2)


@functools.cache
def _of_parts(f: Callable) -> Callable:
    """f, of its parted arguments: one function for all that trace or compile f, so that they share what is traced."""

    def whole(arrays: Any, leaves: tuple, structure: Any) -> Any:
        return f(*eqx.combine(arrays, jax.tree.unflatten(structure, leaves)))

    return whole


def multiplies_small(program: Jaxpr) -> bool:
    """Whether a traced program multiplies matrices, not only in a branch now and then, and all of them are small."""
    products = list(_products(program, rare=False))
    return all(is_small for is_small, _ in products) and not all(rare for _, rare in products)


def _products(program: Jaxpr, rare: bool) -> Iterator[tuple[bool, bool]]:
    """Of every product of two matrices, whether it is small, and whether it is in a branch."""
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            m, k, n = _size(equation)
            if min(m, n) > 1:
                yield m <= SMALL_M and k <= SMALL_K and n <= SMALL_N, rare
        for part in inside(equation):
            yield from _products(part, rare or equation.primitive.name == "cond")


def inside(equation: Any) -> Iterator[Jaxpr]:
    """The programs that an operation of a traced program runs: a loop's body, a conditional's branches."""
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each


def _size(product: Any) -> tuple[int, int, int]:
    """m, k and n of a product of an m × k and a k × n matrix, or of a batch of them."""
    (contracted, _), (batch, _) = product.params["dimension_numbers"]
    left, right = (variable.aval.shape for variable in product.invars)
    k = math.prod(left[axis] for axis in contracted)
    each = max(k * math.prod(left[axis] for axis in batch), 1)
    return math.prod(left) // each, k, math.prod(right) // each

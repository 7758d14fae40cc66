"""How programs are compiled. For small networks the usual choices of the compiler are not the fastest.

On CPUs there are two choices. At its usual level 3 the compiler unrolls rows of about 32 numbers and then does not
vectorize them; at level 2 they stay loops, and are vectorized. A product of matrices is usually a call of a library.
For small products the call takes longer than the multiplication, and they are compiled into the loop around them.
Larger products would be several times slower there.

A GPU runs the kernels of a step one after the other. An option lets it run kernels at the same time that do not wait
for each other.

All of this is set for each program by itself. One setting cannot be: see `one_kernel`.
"""

import functools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import Jaxpr

from recurra.engine.hardware import core_device
from recurra.engine.tuning import LONG, SMALL_K, SMALL_M, SMALL_N
from recurra.programs import subprograms

_INTO_THE_LOOP = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_experimental_ynn_fusion_type": ""}
_ON_CORES = {"xla_backend_optimization_level": 2}
#: For programs that run once: they may take longer to compile than to run.
_ONCE_ON_CORES = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
_ON_GPU = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}


@functools.cache
def compiled(f: Callable, platform: str, runs_once: bool = False, products_in_loop: bool = False) -> Callable:
    """f, compiled when it is called. Arguments that are not arrays are static."""
    options = options_for(platform, runs_once, products_in_loop)
    passed_on: Any = {"compiler_options": options} if options else {}  # to jax.jit

    def call(*arguments: Any) -> Any:
        return jitted(f)(*arguments)

    call.__name__ = call.__qualname__ = f.__name__  # the name in profiles
    return eqx.filter_jit(call, **passed_on)  # it makes errors of `eqx.error_if` readable


def options_for(platform: str, runs_once: bool = False, products_in_loop: bool = False) -> dict[str, Any]:
    """The options of a program. What is set in XLA_FLAGS is left alone."""
    on_cores = (_ONCE_ON_CORES if runs_once else _ON_CORES) | (_INTO_THE_LOOP if products_in_loop else {})
    wanted = {"cpu": on_cores, "gpu": _ON_GPU}.get(platform, {})
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in wanted.items() if name not in flags and _is_known(name, value)}


@functools.cache
def _is_known(option: str, value: Any) -> bool:
    """Whether this version of the compiler has an option. Options come and go, and an unknown one is an error."""
    try:
        with jax.default_device(core_device()):
            jax.jit(lambda: 0, compiler_options={option: value}).lower().compile()
    except jax.errors.JaxRuntimeError as error:
        if "INVALID_ARGUMENT" not in str(error):
            raise
        return False
    return True


def traced(f: Callable, *arguments: Any) -> tuple[Jaxpr, Any]:
    """The program of f at these arguments, and the shapes it returns; it is not traced again when it is compiled."""
    found = _jit(f).trace(*_parted(arguments))
    return found.jaxpr.jaxpr, found.out_info


def jitted(f: Callable) -> Callable:
    """f, for use inside other programs. It is traced once for arguments of the same shapes, wherever it is called."""
    return lambda *arguments: _jit(f)(*_parted(arguments))


def _jit(f: Callable) -> Any:
    return jax.jit(_of_parts(f), static_argnums=_STATIC)


def _parted(arguments: tuple) -> tuple[Any, tuple, Any]:
    """The arguments in three parts: arrays, all other leaves, and their structure."""
    arrays, others = eqx.partition(arguments, eqx.is_array)
    leaves, structure = jax.tree.flatten(others)
    return arrays, tuple(leaves), structure


#: the places of the other leaves and the structure, which can be hashed and are part of the program
_STATIC = (1, 2)


@functools.cache
def _of_parts(f: Callable) -> Callable:
    """f as a function of the three parts. It is made once for each f, so that tracing and compiling share one trace."""

    def whole(arrays: Any, leaves: tuple, structure: Any) -> Any:
        return f(*eqx.combine(arrays, jax.tree.unflatten(structure, leaves)))

    whole.__name__ = whole.__qualname__ = f.__name__
    return whole


def multiplies_small(program: Jaxpr) -> bool:
    """Whether a traced program multiplies matrices, all of them small, and at least once outside of a branch."""
    products = list(_products(program))
    return all(map(_is_small, (size for size, _ in products))) and not all(rare for _, rare in products)


def calls_products(program: Jaxpr) -> bool:
    """Whether a traced program multiplies matrices outside of branches in calls of a library."""
    return not multiplies_small(program) and not all(rare for _, rare in _products(program))


def has_long_loops(program: Jaxpr) -> bool:
    """Whether one operation of a traced program is a loop over `LONG` numbers or more.

    It is a sum of so many numbers, or a product of matrices that has so many and is compiled into the loop over steps.
    """
    sums = (equation.invars[0].aval.size // max(equation.outvars[0].aval.size, 1) for equation in _sums(program))
    products = (m * n for (m, _, n), _ in _products(program)) if multiplies_small(program) else ()
    return max([*sums, *products], default=0) >= LONG


def loops_in_step(program: Jaxpr) -> bool:
    """Whether a traced program has a loop of known length, other than in a branch: the loop over steps has none."""
    return any(equation.primitive.name == "scan" and not rare for equation, rare in _operations(program))


def _operations(program: Jaxpr, rare: bool = False) -> Iterator[tuple[Any, bool]]:
    """All operations of a program, also those of the programs that they run, and whether they are in a branch.

    A choice by the platform is no branch.
    """
    for equation in program.eqns:
        yield equation, rare
        is_branch = equation.primitive.name == "cond" and not equation.params.get("branches_platforms")
        for part in subprograms(equation):
            yield from _operations(part, rare or is_branch)


def _sums(program: Jaxpr) -> Iterator[Any]:
    """The sums of a program that are not in a branch."""
    return (equation for equation, rare in _operations(program) if equation.primitive.name == "reduce_sum" and not rare)


def _products(program: Jaxpr) -> Iterator[tuple[tuple[int, int, int], bool]]:
    """The m, k and n of every product of two matrices, and whether it is in a branch."""
    for equation, rare in _operations(program):
        if equation.primitive.name == "dot_general":
            size = m, _, n = _size(equation)
            if min(m, n) > 1:
                yield size, rare


def _is_small(size: tuple[int, int, int]) -> bool:
    """Whether a product of matrices of these sizes is compiled into the loop that it is in."""
    m, k, n = size
    return m <= SMALL_M and k <= SMALL_K and n <= SMALL_N


def _size(product: Any) -> tuple[int, int, int]:
    """m, k and n of a product of an m × k and a k × n matrix, or of a batch of them."""
    (contracted, _), (batch, _) = product.params["dimension_numbers"]
    left, right = (variable.aval.shape for variable in product.invars)
    k = math.prod(left[axis] for axis in contracted)
    each = max(k * math.prod(left[axis] for axis in batch), 1)
    return math.prod(left) // each, k, math.prod(right) // each

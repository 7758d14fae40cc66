"""Reading a traced program (a jaxpr): which operations act elementwise, what each result is computed from, and where it
was written.

An operation that is not listed here is unknown, and a reader refuses it with its name. So an operation that is new to
JAX is never taken for one that it is not.
"""

import functools
import importlib.util
import linecache
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

#: Operations of which each entry of a result depends on the same entry of each argument alone. An argument may also be
#: a single number. Some names are those of other versions of JAX.
ELEMENTWISE = {
    # arithmetic
    "add", "add_any", "sub", "mul", "mulhi", "div", "rem", "neg", "sign", "abs", "max", "min", "clamp", "square",
    "one_minus_square", "sqrt", "rsqrt", "cbrt", "pow", "integer_pow", "floor", "ceil", "round", "nextafter",
    # functions of analysis
    "exp", "exp2", "expm1", "log", "log2", "log1p", "polynomial", "logistic", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv", "lgamma", "digamma",
    "polygamma", "zeta", "igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta", "random_gamma",
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


def closed(program: Any) -> Any:
    """A part of an operation as a program with its constants, which some versions of JAX keep apart."""
    return program if hasattr(program, "consts") else ClosedJaxpr(program, ())


def called(equation: Any) -> Any:
    """The program that an operation of `CALLS` runs."""
    return closed(next(each for each in equation.params.values() if isinstance(each, ClosedJaxpr | Jaxpr)))


class LoopParts(NamedTuple):
    """The body of a `scan`; how many values it closes over, and how many go from one pass to the next."""

    body: Any
    fixed: int
    carried: int


def loop_parts(params: Any) -> LoopParts:
    """The parts of a `scan` with these parameters."""
    if "num_consts" in params:
        return LoopParts(closed(params["jaxpr"]), params["num_consts"], params["num_carry"])
    fixed, carried, *_ = (len(part) for part in params["ft_in"].unpack())  # newer versions of JAX
    return LoopParts(closed(params["jaxpr"]), fixed, carried)


def form_for(params: Any, platforms: tuple[str | None, ...]) -> int:
    """Which of the forms of a computation, a `platform_index`, is the first of these; None is that for any platform."""
    forms = [("",) if form is None else form for form in params["platforms"]]
    names = ["" if name is None else name for name in platforms]
    return next(i for name in names for i, form in enumerate(forms) if name in form)


#: Those of them that are nothing but their program, so that it may stand in their place.
WRITTEN_OUT = {"jit", "pjit", "call", "core_call", "closed_call", "remat", "remat2", "checkpoint"}

#: Packages whose lines are not a user's. What is written in the first group is never shown.
LIBRARIES = (("jax", "jaxlib", "equinox", "jaxtyping", "beartype", "recurra"), ("flax", "optax"))

#: as much of a line is shown
LONGEST = 120


class Line(NamedTuple):
    """A line of somebody's code."""

    file: str
    number: int

    @property
    def text(self) -> str:
        """The line itself, as much as is shown of it; empty if there is no such file."""
        text = linecache.getline(self.file, self.number).strip()
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

    def __str__(self) -> str:
        text = self.text
        return f"line {self.number} of {Path(self.file).name}" + (f", `{text}`" if text else "")


class Operation(NamedTuple):
    """An operation of a flat program: its results are numbered, and its arguments are such numbers or literals."""

    equation: Any
    arguments: tuple[int | Literal, ...]
    results: tuple[int, ...]
    line: Line | None

    @property
    def name(self) -> str:
        """What JAX calls it."""
        return self.equation.primitive.name

    def bind(self, *values: Any) -> list[Any]:
        """The results for these values."""
        primitive = self.equation.primitive
        parameters = primitive.get_bind_params(self.equation.params)
        functions, parameters = parameters if isinstance(parameters, tuple) else ((), parameters)  # before JAX 0.10.2
        found = primitive.bind(*functions, *values, **parameters)
        return list(found) if primitive.multiple_results else [found]


class Flat(NamedTuple):
    """A program without calls, and without what its outputs do not need."""

    operations: list[Operation]
    inputs: list[int]
    constants: dict[int, Any]
    outputs: list[int | Literal]


def flat(
    program: ClosedJaxpr,
    wanted: int,
    calls: Collection[str] = WRITTEN_OUT,
    platforms: tuple[str | None, ...] = (),
    libraries: tuple[tuple[str, ...], ...] = LIBRARIES,
) -> Flat:
    """The program with all calls written out, without the operations that the first `wanted` outputs do not need.

    `calls` are the operations that are written out. With `platforms` a choice between forms of a computation is made
    as well, by `form_for`. Lines are those of code outside the `libraries`.
    """
    operations: list[Operation] = []
    constants: dict[int, Any] = {}
    chosen: dict[int, int] = {}
    chosen_by = lambda each: chosen.get(each) if isinstance(each, int) else None
    count = iter(range(10**9))

    def written(jaxpr: Jaxpr, names: dict[Any, Any], within: Line | None, call: str | None) -> list[Any]:
        refer = lambda var: var if isinstance(var, Literal) else names[var]
        for equation in jaxpr.eqns:
            arguments = tuple(map(refer, equation.invars))
            line = _line_of(equation, within, call, libraries)
            inner = called(equation) if equation.primitive.name in calls and any(subprograms(equation)) else None
            if equation.primitive.name == "cond" and (branch := chosen_by(arguments[0])) is not None:
                inner, arguments = closed(equation.params["branches"][branch]), arguments[1:]
            if inner is not None:
                own: dict[Any, Any] = dict(zip(inner.jaxpr.invars, arguments, strict=True))
                for var, value in zip(inner.jaxpr.constvars, inner.consts, strict=True):
                    own[var] = next(count)
                    constants[own[var]] = value
                results = written(inner.jaxpr, own, line, equation.params.get("name"))
            else:
                results = [next(count) for _ in equation.outvars]
                if equation.primitive.name == "platform_index" and platforms:
                    chosen[results[0]] = form_for(equation.params, platforms)
                operations.append(Operation(equation, arguments, tuple(results), line))
            names |= dict(zip(equation.outvars, results, strict=True))
        return list(map(refer, jaxpr.outvars))

    jaxpr = program.jaxpr
    names = {var: next(count) for var in (*jaxpr.constvars, *jaxpr.invars)}
    constants |= {names[var]: value for var, value in zip(jaxpr.constvars, program.consts, strict=True)}
    inputs = [names[var] for var in jaxpr.invars]
    outputs = written(jaxpr, names, None, None)
    needed, kept = {each for each in outputs[:wanted] if isinstance(each, int)}, []
    for operation in reversed(operations):
        if needed & set(operation.results):
            needed |= {each for each in operation.arguments if isinstance(each, int)}
            kept.append(operation)
    return Flat(kept[::-1], inputs, constants, outputs)


def _line_of(equation: Any, within: Line | None, call: str | None, libraries: Any) -> Line | None:
    """The line of a user's code that an operation comes from, as far as JAX tells.

    JAX keeps the program of a function that it has traced before, with the lines that called it then. So below a call
    only the lines of the called function itself are trusted, and else the line `within` which the call stands counts.
    """
    try:
        frames = [(each.file_name, each.line_num, each.function_name) for each in equation.source_info.traceback.frames]
    except AttributeError:  # a version of JAX that keeps its lines elsewhere
        return within
    for skipped in (sum(libraries, ()), libraries[0]):
        folders = tuple(filter(None, map(_folder_of, skipped)))
        for file, number, function in frames:
            if not file.startswith((*folders, "<")):
                is_own = call is None or function.rpartition(".")[2] == call
                return Line(file, number) if is_own or within is None else within
    return within


@functools.cache
def _folder_of(package: str) -> str | None:
    found = importlib.util.find_spec(package)
    return None if found is None or not found.origin else f"{Path(found.origin).parent}/"


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

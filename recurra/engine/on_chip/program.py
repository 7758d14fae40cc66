"""A traced program, carried out operation by operation inside a kernel."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Array

from recurra.engine.on_chip import moves, products  # noqa: F401 (both register rules)
from recurra.engine.on_chip.padding import padded_shape
from recurra.engine.on_chip.rules import RULES, Results, Site, UnsupportedError, rule
from recurra.programs import CALLS

#: Which of several forms of a computation a kernel takes, the best first; None is the form for any platform. JAX has
#: forms for Mosaic, another compiler of kernels, that gather nothing: a diagonal is a product with the unit matrix.
PLATFORMS = ("mosaic", "cuda", None)


def carry_out(program: Any, *arguments: Any, constants: Sequence[Any] | None = None) -> list[Any]:
    """The results of a traced program, whose arguments and results are padded; also its constants, where given."""
    own = [_own(value) for value in program.consts] if constants is None else constants
    known: dict[Any, Any] = dict(zip(program.jaxpr.constvars, own, strict=True))
    known |= zip(program.jaxpr.invars, arguments, strict=True)
    read = lambda var: _number(var) if isinstance(var, Literal) else known[var]
    for equation in needed(program.jaxpr):
        site = Site(
            equation.primitive,
            equation.params,
            [var.aval for var in equation.invars],
            [var.aval for var in equation.outvars],
        )
        found = _apply(site, *map(read, equation.invars))
        results = found if isinstance(found, list | tuple) else [found]
        known |= zip(equation.outvars, results, strict=True)
    return [read(var) for var in program.jaxpr.outvars]


def needed(program: Jaxpr) -> list[Any]:
    """The operations of a program that its results need."""
    wanted, kept = {var for var in program.outvars if not isinstance(var, Literal)}, []
    for equation in reversed(program.eqns):
        if wanted.isdisjoint(equation.outvars) and not equation.effects:
            continue
        kept.append(equation)
        wanted |= {var for var in equation.invars if not isinstance(var, Literal)}
    return kept[::-1]


def _apply(site: Site, *operands: Any) -> Results:
    if site.primitive.name not in RULES:
        raise UnsupportedError(f"uses {site.primitive.name!r}, which has no form inside a kernel")
    return RULES[site.primitive.name](site, *operands)


def _number(literal: Any) -> Any:
    return np.asarray(literal.val, literal.aval.dtype)[()]


def _own(constant: Any) -> Any:
    """What a program inside another holds. Of the outer one, a kernel takes arrays as arguments."""
    if np.shape(constant):
        raise UnsupportedError("keeps an array inside a function with its own `jit`. Hand it over as an argument")
    return np.asarray(constant)[()]


def _closed(program: Any) -> Any:
    """A part of an operation as a program with its constants, which some versions of JAX keep apart."""
    return program if hasattr(program, "consts") else ClosedJaxpr(program, ())


@rule(*CALLS)
def _call(site: Site, *operands: Any) -> Results:
    inner = next(site.params[name] for name in ("jaxpr", "call_jaxpr", "call", "fun_jaxpr") if name in site.params)
    return carry_out(_closed(inner), *operands)


@rule("platform_index")
def _platform_index(site: Site) -> Any:
    forms = [("",) if form is None else form for form in site.params["platforms"]]
    names = ["" if name is None else name for name in PLATFORMS]
    return [next(i for name in names for i, form in enumerate(forms) if name in form)]


@rule("cond")
def _cond(site: Site, which: Any, *operands: Any) -> Results:
    branches = [_closed(branch) for branch in site.params["branches"]]
    if isinstance(which, int):  # known now: a choice between platforms
        return carry_out(branches[which], *operands)
    run = lambda branch: lambda *operands: carry_out(branch, *operands)
    return jax.lax.switch(which, [run(branch) for branch in branches], *operands)


@rule("while")
def _while(site: Site, *operands: Any) -> Results:
    goes_on, body = (_closed(site.params[name]) for name in ("cond_jaxpr", "body_jaxpr"))
    if goes_on.jaxpr.outvars[0].aval.shape:
        raise UnsupportedError("has a while loop whose length differs between streams")
    of_test, of_body = site.params["cond_nconsts"], site.params["body_nconsts"]
    test, fixed, start = operands[:of_test], operands[of_test : of_test + of_body], operands[of_test + of_body :]
    again = lambda state: carry_out(goes_on, *test, *state)[0]
    return jax.lax.while_loop(again, lambda state: carry_out(body, *fixed, *state), list(start))


@rule("scan")
def _scan(site: Site, *operands: Any) -> Results:
    """A loop whose rows, and what it returns for each of them, are arrays in registers."""
    body, fixed, start, rows = scan_parts(site, operands)
    length, count = site.params["length"], len(start)
    blank = [jnp.zeros(padded_shape(aval.shape), aval.dtype) for aval in site.given[count:]]

    def one(k: Array, running: Any) -> Any:
        state, kept = running
        i = length - 1 - k if site.params["reverse"] else k
        state, new = _in_two(carry_out(body, *fixed, *state, *(moves.row(each, length, i) for each in rows)), count)
        return state, [moves.with_row(each, i, row) for each, row in zip(kept, new, strict=True)]

    state, kept = jax.lax.fori_loop(jnp.int32(0), jnp.int32(length), one, (list(start), blank))
    return [*state, *kept]


def scan_parts(site: Site, operands: Sequence[Any]) -> tuple[Any, Sequence[Any], Sequence[Any], Sequence[Any]]:
    """The body of a loop, what it closes over, its first state and its rows."""
    params = site.params
    if "num_consts" in params:
        fixed, state = params["num_consts"], params["num_carry"]
    else:  # newer versions of JAX
        fixed, state, *_ = (len(part) for part in params["ft_in"].unpack())
    return _closed(params["jaxpr"]), operands[:fixed], operands[fixed : fixed + state], operands[fixed + state :]


def _in_two(values: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    return values[:count], values[count:]

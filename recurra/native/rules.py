"""Elementwise operations as expressions of C; and the register of all operations that can be written.

A rule takes the writer, the operation and its operands, and returns the results. An operation without a rule is
refused with its name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from recurra.native.statements import Writer
from recurra.native.values import TYPES, NotWrittenError, Value, View, combined, number


class COperation(NamedTuple):
    """An operation: its name and parameters, and the shapes and types of its operands and results."""

    name: str
    params: dict[str, Any]
    taken: Sequence[Any]
    given: Sequence[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return shape_of(self.given[0])

    @property
    def dtype(self) -> str:
        """The type of the first result."""
        return dtype_of(self.given[0])


@dataclass(frozen=True, eq=False)
class ComplexValue:
    """A complex number as its real and imaginary part."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """That of both parts."""
        return self.re.shape


Results = Value | ComplexValue | Sequence[Value | ComplexValue]
Rule = Callable[..., Results]
RULES: dict[str, Rule] = {}
#: operations whose operands may be expressions: they compute each entry once
FUSING: set[str] = set()


def rule(*names: str, fuses: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for these operations."""

    def register(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, f))
        if fuses:
            FUSING.update(names)
        return f

    return register


def is_key(aval: Any) -> bool:
    """Whether a value is a key of JAX's, which has two words."""
    return str(aval.dtype).startswith("key<")


def shape_of(aval: Any) -> tuple[int, ...]:
    """A value's shape; a key's words have an axis."""
    if is_key(aval) and "fry" not in str(aval.dtype):
        raise NotWrittenError(f"keys of type {aval.dtype}")
    return (*map(int, aval.shape), 2) if is_key(aval) else tuple(map(int, aval.shape))


def dtype_of(aval: Any) -> str:
    """A value's type."""
    return "uint32" if is_key(aval) else str(aval.dtype)


#: what an operation is on numbers of floating point, {0} and {1} being its arguments; "m" before a name: of <math.h>
_FLOAT = {
    "add": "({0} + {1})", "add_any": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "neg": "(-{0})", "eq": "({0} == {1})", "ne": "({0} != {1})", "lt": "({0} < {1})", "le": "({0} <= {1})",
    "gt": "({0} > {1})", "ge": "({0} >= {1})",
}  # fmt: skip
#: functions of <math.h>
_MATH = {
    "rem": "fmod", "abs": "fabs", "sqrt": "sqrt", "cbrt": "cbrt", "floor": "floor", "ceil": "ceil", "pow": "pow",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log1p": "log1p", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "lgamma": "lgamma", "nextafter": "nextafter",
}  # fmt: skip
#: functions of our own
_OWN = {
    "max": "larger", "min": "smaller", "sign": "sign", "square": "square", "logistic": "logistic", "rsqrt": "rsqrt",
    "erf_inv": "erf_inv", "one_minus_square": "one_minus_square",
}  # fmt: skip
#: functions of our own in single precision, in the place of those of <math.h>, which compute one number at a time
_QUICK = {"tanh": "tanh32", "logistic": "logistic32"}
_WHOLE = {
    **_FLOAT,
    "rem": "({0} % {1})", "abs": "({0} < 0 ? -{0} : {0})", "max": "({0} > {1} ? {0} : {1})",
    "min": "({0} < {1} ? {0} : {1})", "sign": "(({0} > 0) - ({0} < 0))", "and": "({0} & {1})", "or": "({0} | {1})",
    "xor": "({0} ^ {1})", "not": "(~{0})", "square": "({0} * {0})",
    "shift_left": "({1} < 32 ? {0} << {1} : 0)", "shift_right_logical": "({1} < 32 ? {0} >> {1} : 0)",
    "shift_right_arithmetic": "({0} >> {1})",
}  # fmt: skip
_FLAGS = {
    "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} ^ {1})", "not": "(!{0})", "eq": "({0} == {1})",
    "ne": "({0} != {1})", "max": "({0} | {1})", "min": "({0} & {1})", "lt": "({0} < {1})", "gt": "({0} > {1})",
    "le": "({0} <= {1})", "ge": "({0} >= {1})",
}  # fmt: skip


def is_float(dtype: str) -> bool:
    """Whether numbers of this type are written as REAL."""
    return dtype.startswith("float")


def math(name: str, dtype: str) -> str:
    """A function of <math.h> for numbers of this type."""
    return f"{name}f" if dtype == "float32" else name


def spread(value: Value, shape: tuple[int, ...]) -> Value:
    """A number, or an array with axes of size 1, as an array of this shape."""
    if value.shape == shape:
        return value
    own = value.shape or (1,) * len(shape)

    def wide(leaf: View) -> View:
        strides = leaf.strides if leaf.shape else (0,) * len(shape)
        along = tuple(0 if n == 1 else stride for n, stride in zip(own, strides, strict=True))
        return View(leaf.storage, shape, along, leaf.dtype, leaf.offset, leaf.moves)

    return Value(shape, value.dtype, value.template, tuple(map(wide, value.leaves)))


def apply(template: str, site: COperation, *operands: Value) -> Value:
    """An expression of the operands' entries; a plain number or operand where it is no more than that."""
    known = _known(site, operands)
    if known is not None:
        return spread(known, site.shape) if known.dtype == site.dtype else known
    return combined(template, site.shape, site.dtype, [spread(each, site.shape) for each in operands])


#: what may be computed before the program runs
_PLAIN = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


def plain(value: Value) -> Any:
    """The number that a literal is; None for what is none, or not finite."""
    text = (value.literal or "").strip("()").rstrip("fuUL")
    try:
        return np.dtype(value.dtype).type(float(text) if is_float(value.dtype) else int(text))
    except ValueError:
        return None


def _known(site: COperation, operands: Sequence[Value]) -> Value | None:
    """What an operation returns where literals tell: sums of literals, products with 1, and choices."""
    numbers = [plain(each) for each in operands]
    if site.name == "select_n" and numbers[0] is not None and len(operands) == 3:
        return operands[1 + int(numbers[0])]
    if site.name in _PLAIN and all(each is not None for each in numbers):
        with np.errstate(all="ignore"):
            return Value((), site.dtype, number(_PLAIN[site.name](*numbers), site.dtype))
    if site.name == "mul" and is_float(site.dtype):
        for each, other in zip(numbers, reversed(operands), strict=True):
            if each == 1:
                return other
    return None


@rule("complex", fuses=True)
def _complex(writer: Writer, site: COperation, re: Value, im: Value) -> ComplexValue:
    return ComplexValue(*(spread(writer.kept(each), site.shape) for each in (re, im)))


@rule("real", "imag", fuses=True)
def _part(writer: Writer, site: COperation, operand: ComplexValue) -> Value:
    return operand.re if site.name == "real" else operand.im


def _exponential(writer: Writer, operand: ComplexValue) -> ComplexValue:
    """exp(a + i b) = exp(a) (cos b + i sin b)."""
    size = writer.kept(
        combined(f"{math('exp', operand.re.dtype)}({{0}})", operand.shape, operand.re.dtype, [operand.re])
    )
    part = lambda name: writer.kept(
        combined(
            f"({{0}} * {math(name, operand.im.dtype)}({{1}}))", operand.shape, operand.im.dtype, [size, operand.im]
        )
    )
    return ComplexValue(part("cos"), part("sin"))


@rule(*{*_FLOAT, *_MATH, *_OWN, *_WHOLE, *_FLAGS}, fuses=True)
def _elementwise(writer: Writer, site: COperation, *operands: Any) -> Value | ComplexValue:
    if isinstance(operands[0], ComplexValue):
        if site.name != "exp":
            raise NotWrittenError(f"{site.name!r} of complex numbers")
        return _exponential(writer, operands[0])
    dtype = operands[0].dtype
    if is_float(dtype):
        if site.name in _FLOAT:
            template = _FLOAT[site.name]
        elif dtype == "float32" and site.name in _QUICK:
            template = f"{writer.helper(_QUICK[site.name])}({{0}})"
        elif site.name in _MATH:
            arguments = ", ".join(f"{{{i}}}" for i in range(len(operands)))
            template = f"{math(_MATH[site.name], dtype)}({arguments})"
        elif site.name in _OWN:
            arguments = ", ".join(f"{{{i}}}" for i in range(len(operands)))
            template = f"{writer.helper(_OWN[site.name])}({arguments})"
        else:
            raise NotWrittenError(f"{site.name!r} of numbers of type {dtype}")
    else:
        known = _FLAGS if dtype == "bool" else _WHOLE
        if site.name not in known:
            raise NotWrittenError(f"{site.name!r} of numbers of type {dtype}")
        template = known[site.name]
        operands = tuple(map(writer.kept, operands))  # they may stand there twice
    return apply(template, site, *operands)


@rule("stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "pvary", "device_put", fuses=True)
def _unchanged(writer: Writer, site: COperation, *operands: Value) -> Results:
    return operands


@rule("reduce_precision", fuses=True)
def _reduce_precision(writer: Writer, site: COperation, operand: Value) -> Value:
    kept = (site.params["exponent_bits"], site.params["mantissa_bits"])
    if kept not in ((8, 23), (11, 52)):
        raise NotWrittenError(f"'reduce_precision' to {kept[1]} bits")
    return operand


@rule("is_finite", fuses=True)
def _is_finite(writer: Writer, site: COperation, operand: Value) -> Value:
    return apply("(isfinite({0}) != 0)", site, operand)


@rule("round", fuses=True)
def _round(writer: Writer, site: COperation, operand: Value) -> Value:
    name = "rint" if "EVEN" in str(site.params["rounding_method"]).upper() else "round"
    return apply(f"{math(name, operand.dtype)}({{0}})", site, operand)


@rule("integer_pow", fuses=True)
def _integer_pow(writer: Writer, site: COperation, operand: Value) -> Value:
    power = int(site.params["y"])
    if power == 2:
        return apply(f"{writer.helper('square')}({{0}})", site, operand)
    return apply(f"{writer.helper('power')}({{0}}, {power})", site, operand)


@rule("clamp", fuses=True)
def _clamp(writer: Writer, site: COperation, low: Value, operand: Value, high: Value) -> Value:
    if is_float(operand.dtype):
        larger, smaller = writer.helper("larger"), writer.helper("smaller")
        return apply(f"{smaller}({larger}({{1}}, {{0}}), {{2}})", site, low, operand, high)
    kept = map(writer.kept, (low, operand, high))
    return apply("({1} < {0} ? {0} : {1} > {2} ? {2} : {1})", site, *kept)


@rule("select_n", fuses=True)
def _select_n(writer: Writer, site: COperation, which: Value, *cases: Value) -> Value:
    if len(cases) == 2:
        return apply("({0} ? {2} : {1})", site, which, *cases)
    which = writer.kept(which)
    text = f"{{{len(cases)}}}"
    for i in reversed(range(len(cases) - 1)):
        text = f"{{0}} == {i} ? {{{i + 1}}} : {text}"
    return apply(f"({text})", site, which, *cases)


@rule("convert_element_type", fuses=True)
def _convert(writer: Writer, site: COperation, operand: Value) -> Value:
    before, after = operand.dtype, site.dtype
    if before == after:
        return operand
    if after not in TYPES:
        raise NotWrittenError(f"numbers of type {after}")
    if (known := plain(operand)) is not None:
        return Value(operand.shape, after, number(known, after))
    if {before, after} == {"float32", "float64"}:
        raise NotWrittenError("numbers of float32 and float64 side by side")
    if after == "bool":
        return apply("({0} != 0)", site, operand)
    return apply(f"({TYPES[after]})({{0}})", site, operand)


@rule("bitcast_convert_type", fuses=True)
def _bitcast(writer: Writer, site: COperation, operand: Value) -> Value:
    before, after = operand.dtype, site.dtype
    if {before, after} <= {"int32", "uint32"}:
        return apply(f"({TYPES[after]}){{0}}", site, operand)
    names = {
        ("uint32", "float32"): "float_of_bits",
        ("uint64", "float64"): "float_of_bits",
    }
    if (before, after) not in names:
        raise NotWrittenError(f"'bitcast_convert_type' from {before} to {after}")
    return apply(f"{writer.helper(names[before, after])}({{0}})", site, operand)


def constant(value: Any, aval: Any) -> Value:
    """A number that stands in the program."""
    dtype = dtype_of(aval)
    return Value((), dtype, number(np.asarray(value), dtype))

"""Reading a unit-wise cell out of the program of any step(params, carry, x).

    step  =  unit(a, z)       z[g] = Σ_source W[g].source ahat.source       W = weights(params)

Every value of the program is one of three kinds:

    known     computed from parameters and constants alone
    affine    a sum of known coefficients times a source, and a known offset. A source is an input, or what is carried
    local     anything else. It must act on one unit at a time

Whatever is nonlinear seals the affine values that it takes: these are the gates, and what follows is the unit. Which
entry of a local value belongs to which unit is found by following entries: where two of them meet in one operation,
they belong to one unit. So it does not matter whether gates are stacked, interleaved or apart.

All gates that hear the network hear one vector, a[0]. It is a carried variable, or a function of carried variables such
as tanh(v), which then becomes a state variable of its own (`recurra.cells.lanes`).

A step that is not of this form is a `NotUnitwise` error, which tells the line at which that shows.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import PyTree

from recurra.cells.affine import MOVES, Affine, Known, Source, applied, linear_in, moved_in
from recurra.programs import ELEMENTWISE, Operation, flat, mixing

#: functions with a derivative of their own, which counts in the place of that of their program
WITH_DERIVATIVE = "custom_jvp_call"
#: the unit of an entry that is the same for all units, and of one that reaches no carried value
ANY, NONE = -1, -2

#: where a value stands in the program: its number, or an operation and the position of an argument that has none
Name = int | tuple[Any, int]


class NotUnitwise(Exception):  # noqa: N818  (what it says of a step)
    """A step that cannot be read as a unit: what in it is of another form, and where that is written."""

    def __init__(self, why: str, operation: Operation | None = None):
        line = operation.line if operation else None
        super().__init__(f"it {why}" if line is None else f"{line}, {why}")


class LocalValue:
    """A value that acts on one unit at a time.

    `units` has for each entry the unit it belongs to, as they are counted while reading. `keys` tell which entries are
    equal, for values that are computed from carried ones alone; they are None for others.
    """

    def __init__(self, shape: tuple[int, ...], units: np.ndarray, keys: np.ndarray | None = None):
        self.shape, self.units, self.keys = shape, units, keys


class Variable(LocalValue):
    """A leaf of the carry."""

    leaf: int


class Gate(LocalValue):
    """A value that was sealed."""

    name: Name


class Elementwise(LocalValue):
    """The result of an elementwise operation."""

    operation: Operation
    arguments: list[LocalValue | Known]


class Moved(LocalValue):
    """Entries of other values; `places` counts through all of them."""

    arguments: list[LocalValue]
    places: np.ndarray


class Reader:
    """Follows a program from its parameters, carry and input to the next carry; arguments are examples of them."""

    def __init__(self, step: Callable, params: PyTree, carry: PyTree, x: PyTree, follows_beside: bool = False):
        program = jax.make_jaxpr(step)(params, carry, x)
        weights, self.leaves, inputs = (jax.tree.leaves(tree) for tree in (params, carry, x))
        self.dtype = self.leaves[0].dtype
        self.sizes = [math.prod(leaf.shape) for leaf in self.leaves]
        self.flat = flat(program, len(self.leaves) + follows_beside)
        names = iter(self.flat.inputs)
        self._params = [next(names) for _ in weights]
        #: what the step returns beside the carry
        self.beside = self.flat.outputs[len(self.leaves)] if follows_beside else None

        self._roots, self._keys = np.zeros(0, int), dict[Any, int]()
        self._first_mixed: NotUnitwise | None = None
        self.widths: dict[Source, int] = {}
        self.gates: dict[Name, Gate] = {}
        #: carried values that met weights: by what they are, and by where they did
        self.sources: dict[Source, tuple[LocalValue, Operation]] = {}
        self._heard: dict[Name, Affine] = {}
        #: the operations on known and affine values
        self._linear: list[tuple[int, Operation]] = []
        self.values: dict[int, Any] = {name: Known(value, False) for name, value in self.flat.constants.items()}
        self.values |= {name: Known(value, True) for name, value in zip(self._params, weights, strict=True)}
        self.variables = [self._variable(leaf) for leaf in range(len(self.leaves))]
        self.values |= dict(zip(names, self.variables, strict=False))
        for i, (name, leaf) in enumerate(zip(self.flat.inputs[-len(inputs) :], inputs, strict=True)):
            source = "input", i
            self.widths[source] = math.prod(leaf.shape)
            self.values[name] = Affine({source: np.arange(self.widths[source]).reshape(leaf.shape)}, None)
        self.inputs = list(self.widths)
        for place, operation in enumerate(self.flat.operations):
            arguments = [value_of(each, self.values) for each in operation.arguments]
            results = self._follow(place, operation, arguments)
            self.values |= dict(zip(operation.results, results, strict=True))
        self.after = [self._gate_of("carry", i, value_of(each, self.values)) for i, each in enumerate(self._outputs)]
        made_by = {name: operation for operation in self.flat.operations for name in operation.results}
        for name, before, after in zip(self._outputs, self.variables, self.after, strict=True):
            self._joined(before.units, after.units, made_by.get(name) if isinstance(name, int) else None)

    @property
    def _outputs(self) -> Sequence[int | Literal]:
        return self.flat.outputs[: len(self.leaves)]

    # One operation.

    def _follow(self, place: int, operation: Operation, arguments: list[Any]) -> Sequence[Any]:
        """The results of an operation, which is the one at this place of the program."""
        if all(isinstance(each, Known) for each in arguments):
            self._linear.append((place, operation))
            depends = any(each.depends for each in arguments)
            return [Known(value, depends) for value in operation.bind(*(each.value for each in arguments))]
        self._check_types(operation)
        if (same := _unchanged(operation, arguments)) is not None:
            if isinstance(same, Affine):
                self._linear.append((place, operation))
            return [same]
        if self._meets_weights(operation, arguments):
            hear = lambda i, each: self._hear(place, i, operation, each) if isinstance(each, LocalValue) else each
            arguments = [hear(i, each) for i, each in enumerate(arguments)]
        is_local = any(isinstance(each, LocalValue) for each in arguments)
        if not is_local and (linear := linear_in(operation, arguments)):
            self._linear.append((place, operation))
            return applied(operation, arguments, linear, self.widths)
        if is_elementwise(operation):
            sealed = [
                each if isinstance(each, Known) and not each.depends else self._gate_of(place, i, each)
                for i, each in enumerate(arguments)
            ]
            return [self._computed(operation, sealed)]
        if operation.name in MOVES and is_local:
            return self._moved(place, operation, arguments)
        raise NotUnitwise(self._why(operation, arguments), operation)

    def _meets_weights(self, operation: Operation, arguments: list[Any]) -> bool:
        """Whether carried values are multiplied with weights here, or put beside an input that will be."""
        local = [each for each in arguments if isinstance(each, LocalValue)]
        if not local or len(local) == len(arguments) or any(each.keys is None for each in local):
            return False
        has_known = any(isinstance(each, Known) for each in arguments)
        return operation.name == "concatenate" or (operation.name == "dot_general" and has_known)

    def _hear(self, place: int, i: int, operation: Operation, value: LocalValue) -> Affine:
        """A carried value as entries of a source."""
        assert value.keys is not None
        if (kind := operation.equation.invars[i].aval.dtype) != self.dtype:
            raise NotUnitwise(
                f"multiplies weights with a carried value in {kind}, and the carry is of {self.dtype}", operation
            )
        number = {key: i for i, key in enumerate(dict.fromkeys(value.keys.tolist()))}
        source: Source = "carried", tuple(number)
        self.widths[source] = len(number)
        self.sources.setdefault(source, (value, operation))
        picked = np.array([number[key] for key in value.keys.tolist()]).reshape(value.shape)
        self._heard[place, i] = heard = Affine({source: picked}, None)
        return heard

    def _check_types(self, operation: Operation) -> None:
        """Raise where the step computes with complex numbers, or with fewer digits than the carry has."""
        for kind in _types(operation):
            if jnp.issubdtype(kind, jnp.complexfloating):
                raise NotUnitwise("computes with complex numbers", operation)
            if jnp.issubdtype(kind, jnp.floating) and kind.itemsize < self.dtype.itemsize:
                raise NotUnitwise(f"computes in {kind}, and the carry is of {self.dtype}", operation)

    def _gate_of(self, place: Any, i: int, value: Any) -> LocalValue:
        """A value as a local one: what is known or affine becomes a gate."""
        if isinstance(value, LocalValue):
            return value
        where = self._outputs[i] if place == "carry" else self.flat.operations[place].arguments[i]
        name = where if isinstance(where, int) and (place, i) not in self._heard else (place, i)
        if name not in self.gates:
            shape = np.shape(value.value) if isinstance(value, Known) else value.shape
            size = math.prod(shape)
            is_shared = size == 1 and max(self.sizes) > 1
            self.gates[name] = gate = Gate(shape, np.full(1, ANY) if is_shared else self._new_units(size))
            gate.name = name
        return self.gates[name]

    def _variable(self, leaf: int) -> Variable:
        keys = sum(self.sizes[:leaf]) + np.arange(self.sizes[leaf])
        variable = Variable(self.leaves[leaf].shape, self._new_units(self.sizes[leaf]), keys)
        variable.leaf = leaf
        return variable

    def _computed(self, operation: Operation, arguments: list[Any]) -> Elementwise:
        shape = operation.equation.outvars[0].aval.shape
        units = np.full(math.prod(shape), ANY)
        for each in arguments:
            if isinstance(each, LocalValue):
                units = self._joined(units, entries(each.units, each.shape, shape), operation)
        found = Elementwise(shape, units)
        found.operation, found.arguments = operation, arguments
        told = [_told_of_entries(each, shape) for each in arguments]
        if all(each is not None for each in told):
            rows = zip(*cast(Any, told), strict=True)
            about, first = about_operation(operation), sum(self.sizes)
            found.keys = np.array([self._keys.setdefault((about, row), first + len(self._keys)) for row in rows], int)
        return found

    def _moved(self, place: int, operation: Operation, arguments: list[Any]) -> list[Moved]:
        """What an operation makes of local values that it puts at other places."""
        which = moved_in(operation)
        others = {i: each for i, each in enumerate(arguments) if i not in which}
        if any(not isinstance(each, Known) or each.depends for each in others.values()):
            raise NotUnitwise(f"chooses entries by what it has computed (`{operation.name}`)", operation)
        parts = [self._gate_of(place, i, arguments[i]) for i in which]
        ends = np.cumsum([0, *(each.units.size for each in parts)])
        with jax.ensure_compile_time_eval():
            numbers = [jnp.arange(a, b).reshape(each.shape) for a, b, each in zip(ends, ends[1:], parts, strict=False)]
            given = dict(zip(which, numbers, strict=True)) | {i: each.value for i, each in others.items()}
            results = [np.asarray(each) for each in operation.bind(*(given[i] for i in range(len(arguments))))]
        units, keys = np.concatenate([each.units for each in parts]), [each.keys for each in parts]
        together: Any = None if any(each is None for each in keys) else np.concatenate(cast(Any, keys))
        found = []
        for result in results:
            at = result.reshape(-1)
            moved = Moved(result.shape, units[at], None if together is None else together[at])
            moved.arguments, moved.places = parts, at
            found.append(moved)
        return found

    def _why(self, operation: Operation, arguments: list[Any]) -> str:
        """What in an operation is not of the form of a unit."""
        if operation.name == "dot_general":
            if not any(isinstance(each, Known) for each in arguments):
                return "multiplies values with each other that this step has computed, across units"
            if not any(isinstance(each, LocalValue) and self._reaches_carry(each) for each in arguments):
                return "multiplies weights with a nonlinear function of the input"
            return "multiplies weights with what this step has already computed from weights"
        if operation.name in ("scan", "while", "cond"):
            return f"runs a loop or a branch (`{operation.name}`)"
        if operation.name.startswith("custom_vjp"):
            return (
                "uses a derivative for going backwards only (`jax.custom_vjp`); one for both ways is `jax.custom_jvp`"
            )
        return f"mixes units: `{operation.name}` is not known to act on each of them alone"

    def _reaches_carry(self, value: Any) -> bool:
        """Whether something is computed from what is carried."""
        if isinstance(value, Gate):
            return "carried" in {kind for kind, _ in getattr(self.sealed_now(value.name), "coefficients", ())}
        return isinstance(value, Variable) or any(map(self._reaches_carry, getattr(value, "arguments", ())))

    # Which entries belong to one unit.

    def _new_units(self, count: int) -> np.ndarray:
        units = np.arange(len(self._roots), len(self._roots) + count)
        self._roots = np.concatenate([self._roots, units])
        return units

    def roots(self, units: np.ndarray) -> np.ndarray:
        """The units, each by the least number of all that it was joined with."""
        while not np.array_equal(up := np.where(units == ANY, ANY, self._roots[units]), units):
            units = up
        return units

    def _joined(self, units: np.ndarray, others: np.ndarray, operation: Operation | None) -> np.ndarray:
        """The units of entries that meet in an operation, entry by entry."""
        units, others = self.roots(units), self.roots(others)
        differing = np.flatnonzero((units != others) & (units != ANY) & (others != ANY))
        for a, b in zip(units[differing].tolist(), others[differing].tolist(), strict=True):
            a, b = sorted(int(self.roots(np.array(each))) for each in (a, b))
            self._roots[b] = a
        if len(differing) and operation and not self._first_mixed and self._has_mixed():
            self._first_mixed = NotUnitwise("combines entries of different units, such as neighbours", operation)
        return np.where(units == ANY, others, units)

    def _has_mixed(self) -> bool:
        return any(len(np.unique(self.roots(each.units))) < each.units.size for each in self.variables)

    def numbered(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function from units, as they are counted while reading, to 0, 1, 2 and so on in the order of the carry."""
        values = [*(value for value, _ in self.sources.values()), *self.variables]
        first = list(dict.fromkeys(self.roots(values[0].units).tolist()))
        for each in self.variables:  # one that meets no other: its units may stand beside those of others in any order
            own = list(dict.fromkeys(self.roots(each.units).tolist()))
            if len(own) == len(first) and not set(own) & set(first):
                self._joined(np.array(own), np.array(first), None)
        order = np.concatenate([self.roots(value.units) for value in self.variables])
        number = {root: i for i, root in enumerate(dict.fromkeys(order.tolist()))}
        if self._first_mixed and (len(number) == 1 or any(size % len(number) for size in self.sizes)):
            raise self._first_mixed
        number[ANY] = ANY
        return lambda units: np.array([number.get(root, NONE) for root in self.roots(units).tolist()], int)

    # The gates.

    def sealed_now(self, name: Name) -> Any:
        """What a gate is sealed from, for the parameters of the example."""
        return self._sealed_in(self.values, name)

    def _sealed_in(self, values: dict[int, Any], name: Name) -> Any:
        if isinstance(name, int):
            return values[name]
        place, i = name
        if name in self._heard:
            return self._heard[name]
        return value_of(self._outputs[i] if place == "carry" else self.flat.operations[place].arguments[i], values)

    def sealed(self, params: PyTree) -> dict[Name, Any]:
        """What all gates are sealed from, for other parameters than those of the example."""
        values = self.values | {n: Known(v, True) for n, v in zip(self._params, jax.tree.leaves(params), strict=True)}
        for place, operation in self._linear:
            given = enumerate(operation.arguments)
            arguments: list[Any] = [self._heard.get((place, i)) or value_of(each, values) for i, each in given]
            if (same := _unchanged(operation, arguments)) is not None:
                found = [same]
            elif not all(isinstance(each, Known) for each in arguments):
                found = applied(operation, arguments, linear_in(operation, arguments), self.widths)
            elif any(each.depends for each in arguments):
                found = [Known(value, True) for value in operation.bind(*(each.value for each in arguments))]
            else:
                continue
            values |= dict(zip(operation.results, found, strict=True))
        return {name: self._sealed_in(values, name) for name in self.gates}


def value_of(name: int | Literal, values: dict[int, Any]) -> Any:
    """The value of that number, or of a literal."""
    return Known(np.asarray(name.val, cast(Any, name.aval).dtype), False) if isinstance(name, Literal) else values[name]


def entries(array: Any, shape: tuple[int, ...], wanted: tuple[int, ...]) -> np.ndarray:
    """The entries of a value of this shape, as an elementwise operation takes them whose result has another one.

    Axes of length 1 are repeated.
    """
    return np.broadcast_to(np.reshape(array, shape), wanted).reshape(-1)


def _told_of_entries(value: Any, shape: tuple[int, ...]) -> list[Any] | None:
    """What tells the entries of an argument from others: keys of a local value, numbers of a known one."""
    if not isinstance(value, LocalValue):
        return [("number", each) for each in entries(np.asarray(value.value), np.shape(value.value), shape).tolist()]
    return None if value.keys is None else entries(value.keys, value.shape, shape).tolist()


def is_elementwise(operation: Operation) -> bool:
    """Whether an operation is known to act on each entry alone, and its derivative too."""
    if operation.name in ELEMENTWISE:
        return len(operation.results) == 1
    given = [var.aval for var in operation.equation.invars]
    shapes = {aval.shape for aval in (*given, *(var.aval for var in operation.equation.outvars))}
    is_float = all(jnp.issubdtype(aval.dtype, jnp.floating) for aval in given)
    if operation.name != WITH_DERIVATIVE or not is_float or len(shapes - {()}) > 1 or len(operation.results) != 1:
        return False
    values = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in given]
    both = lambda values, along: jax.jvp(lambda *given: operation.bind(*given)[0], values, along)
    program = jax.make_jaxpr(both)(values, values).jaxpr
    return mixing(program, {var for var in program.invars if var.aval.shape}) is None


def about_operation(operation: Operation) -> Any:
    """What tells an operation from others."""
    parameters = tuple(sorted(operation.equation.params.items()))
    try:
        hash(parameters)
    except TypeError:
        return operation.name, id(operation.equation)
    return operation.name, parameters


def _types(operation: Operation) -> set[Any]:
    """The types of an operation's arguments and results."""
    return {cast(Any, var.aval).dtype for var in (*operation.equation.invars, *operation.equation.outvars)}


def _unchanged(operation: Operation, arguments: Sequence[Any]) -> Any:
    """The argument that is the result as it is: of a copy, and of a sum with zeros. None if there is none."""
    if operation.name in ("convert_element_type", "copy", "copy_p", "name"):
        return arguments[0] if len(_types(operation)) == 1 else None
    if operation.name not in ("add", "sub"):
        return None
    is_zero = [isinstance(each, Known) and not each.depends and not np.asarray(each.value).any() for each in arguments]
    kept = [0] if is_zero[1] else [1] if is_zero[0] and operation.name == "add" else []
    shape = operation.equation.outvars[0].aval.shape
    return next((arguments[i] for i in kept if operation.equation.invars[i].aval.shape == shape), None)

"""The unit of a step that was read: local values laid out as vectors over units, and the gates that they take."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from recurra.cells.affine import Affine, Known, multiplied_out
from recurra.cells.base import State
from recurra.cells.gates import Gates, Sources
from recurra.cells.reading import (
    ANY,
    NONE,
    WITH_DERIVATIVE,
    Elementwise,
    Gate,
    LocalValue,
    Moved,
    NotUnitwise,
    Reader,
    Variable,
    about_operation,
    entries,
)
from recurra.programs import Operation

SEVERAL_SOURCES = "multiplies weights with one carried variable, and another line does so with another one"
UNITS_DIFFER = "has units that differ: some of them hold, hear or compute something else than the others"


class Reading(NamedTuple):
    """A step as a unit-wise cell."""

    n: int
    n_in: int
    listens: tuple[tuple[bool, bool, bool], ...]
    #: for each state variable a leaf of the carry, and its entries in the order of units; not for one that is derived
    variables: tuple[tuple[int, np.ndarray], ...]
    #: a[0] from the carried variables, where it is not one of them
    derive: Callable[[State], Array] | None
    #: the state variables that the step returns beside the carry, by number, and where the entries of each stand there;
    #: none if it returns something else
    beside: tuple[tuple[int, np.ndarray], ...]
    unit: Callable[[State, State], State]
    weights: Callable[[PyTree], Gates]

    def state(self, carry: Sequence[Any]) -> State:
        """The state of a carry, which is given as its leaves."""
        own = tuple(jnp.reshape(carry[leaf], -1)[places] for leaf, places in self.variables)
        return own if self.derive is None else (self.derive(own), *own)

    def shown(self, leaves: Sequence[int] | None, like: Sequence[Any]) -> tuple[tuple[int, np.ndarray], ...]:
        """The state variables that make up these leaves of the carry, by number, and where the entries of each stand.

        Entries are counted through all of these leaves, which are like those in `like`. None stands for what the step
        returns beside the carry.
        """
        if leaves is None:
            return self.beside
        found, end = [], 0
        for wanted in leaves:
            each = enumerate(self.variables, start=self.derive is not None)
            own = [(number, end + places) for number, (leaf, places) in each if leaf == wanted]
            found += sorted(own, key=lambda variable: int(variable[1][0]))
            end += math.prod(like[wanted].shape)
        return tuple(found)

    def carry(self, a: State, like: Sequence[Any]) -> list[Array]:
        """The leaves of the carry of a state, in the shapes of those in `like`."""
        found = [jnp.zeros(math.prod(leaf.shape), leaf.dtype) for leaf in like]
        for (leaf, places), v in zip(self.variables, a[len(a) - len(self.variables) :], strict=True):
            found[leaf] = found[leaf].at[places].set(v)
        return [v.reshape(leaf.shape) for v, leaf in zip(found, like, strict=True)]


def read(step: Callable, params: PyTree, carry: PyTree, x: PyTree) -> Reading:
    """The step as a unit-wise cell, from examples of its arguments; a `NotUnitwise` error if it is none.

    `step` returns the next carry, or that and something else. All arrays are of one floating-point type.
    """
    if len(jax.tree.leaves(jax.eval_shape(step, params, carry, x))) > len(jax.tree.leaves(carry)):
        try:  # the readout sees what stands beside the carry, if that is of the state
            found = _Lanes(Reader(step, params, carry, x, follows_beside=True)).reading()
            if found.beside:
                return found
        except NotUnitwise:
            pass
    return _Lanes(Reader(step, params, carry, x)).reading()


class _Constant(NamedTuple):
    """A number that is the same for all units."""

    value: Any


class _Instruction(NamedTuple):
    """An elementwise operation on vectors over units, which stand in slots. Other arguments are constants."""

    operation: Operation
    arguments: tuple[int | _Constant, ...]
    slot: int

    def run(self, slots: dict[int, Any]) -> Array:
        """The result for what stands in the slots."""
        given = zip(self.arguments, (var.aval.dtype for var in self.operation.equation.invars), strict=True)
        values = [each.value if isinstance(each, _Constant) else slots[each].astype(type) for each, type in given]
        shape = np.broadcast_shapes(*(np.shape(value) for value in values))
        if self.operation.name != WITH_DERIVATIVE:
            return self.operation.bind(*(jnp.broadcast_to(value, shape) for value in values))[0]
        # Its program is for arrays of one shape, which holds the vector, or as many copies of it as have room.
        wanted = [var.aval.shape for var in self.operation.equation.invars]
        given = (v if np.shape(v) == want else jnp.resize(v, want) for v, want in zip(values, wanted, strict=True))
        found = self.operation.bind(*given)[0]
        return found if found.shape == shape else found.reshape(-1)[: math.prod(shape)]


class _Rows(NamedTuple):
    """What the units of a gate have of a sealed value, or of an array of constants."""

    sealed: Any
    places: np.ndarray


class _Lanes:
    """Gives each local value a slot for each of its entries that belong to one unit. Variables have the first slots."""

    def __init__(self, reader: Reader):
        self.reader, self.unit_of = reader, reader.numbered()
        self.n = 1 + max(int(self.unit_of(each.units).max()) for each in reader.variables)
        self._slots: dict[Any, int] = {}
        self._laid: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.variables: list[tuple[int, np.ndarray]] = []
        self.gates: dict[int, _Rows] = {}
        self.instructions: list[_Instruction] = []
        if len(reader.sources) > 1 and max(reader.sizes) < self.n:
            raise NotUnitwise(SEVERAL_SOURCES, list(reader.sources.values())[-1][1])
        for each in reader.variables:
            self.laid(each)

    def laid(self, value: LocalValue) -> tuple[np.ndarray, np.ndarray]:
        """The slot and the unit of each entry."""
        if id(value) not in self._laid:
            units = self.unit_of(value.units)
            if isinstance(value, Variable):
                slots = self._ranked(units, lambda places: self._variable(value.leaf, places))
            elif isinstance(value, Gate):
                slots = self._ranked(units, lambda places: self._gate(_Rows(value.name, places)))
            elif isinstance(value, Moved):
                slots = np.concatenate([self.laid(each)[0] for each in value.arguments])[value.places]
            else:
                assert isinstance(value, Elementwise)
                slots = self._computed(value, units)
            self._laid[id(value)] = slots, units
        return self._laid[id(value)]

    def _ranked(self, units: np.ndarray, slot: Callable[[np.ndarray], int]) -> np.ndarray:
        """A slot for the first entry of each unit, one for the second, and so on."""
        if (units == ANY).all():
            return np.full(units.size, slot(np.zeros(self.n, int)))
        slots, order = np.full(units.size, NONE), np.argsort(units, kind="stable")
        order = order[units[order] >= 0]
        if len(set(np.bincount(units[order], minlength=self.n).tolist())) != 1:
            raise NotUnitwise(UNITS_DIFFER)
        for places in order.reshape(self.n, -1).T:
            slots[places] = slot(places)
        return slots

    def _new_slot(self) -> int:
        return self._slots.setdefault(len(self._slots), len(self._slots))

    def _variable(self, leaf: int, places: np.ndarray) -> int:
        self.variables.append((leaf, places))
        return self._new_slot()

    def _gate(self, rows: _Rows) -> int:
        slot = self._new_slot()
        self.gates[slot] = rows
        return slot

    def _computed(self, value: Elementwise, units: np.ndarray) -> np.ndarray:
        """An instruction for each combination of slots that the operation meets."""
        local = [
            entries(self.laid(each)[0], each.shape, value.shape)
            for each in value.arguments
            if isinstance(each, LocalValue)
        ]
        known = {
            i: entries(np.asarray(each.value), np.shape(each.value), value.shape)
            for i, each in enumerate(value.arguments)
            if isinstance(each, Known)
        }
        rows, group = np.unique(np.stack(local), axis=1, return_inverse=True)
        slots = np.full(units.size, NONE)
        for number, row in enumerate(rows.T):
            whole = np.flatnonzero(group.reshape(-1) == number)
            if (row < 0).any() or (units[whole] == NONE).all():
                continue  # nothing that is carried comes of it
            is_same = all((each[whole] == each[whole[0]]).all() for each in known.values())
            for here in [whole] if is_same else _once_each(whole, units):
                left = iter(row.tolist())
                arguments = tuple(
                    self._constant(known[i][here], units[here], value.operation) if i in known else next(left)
                    for i in range(len(value.arguments))
                )
                slots[here] = self._slot_of(value.operation, arguments)
        return slots

    def _constant(self, values: np.ndarray, units: np.ndarray, operation: Operation) -> Any:
        """A constant argument: a number, or a gate that no parameter changes if units have numbers of their own."""
        if (values == values[0]).all():
            return _Constant(values[0])
        own = np.zeros(self.n, self.reader.dtype)
        own[units] = values
        if (units < 0).any() or not np.array_equal(own[units], values):
            raise NotUnitwise(UNITS_DIFFER, operation)
        key = "constant", own.tobytes()
        if key not in self._slots:
            self._slots[key] = self._gate(_Rows(own, np.arange(self.n)))
        return self._slots[key]

    def _slot_of(self, operation: Operation, arguments: tuple[Any, ...]) -> int:
        key = _about(operation, arguments)
        if key not in self._slots:
            slot = self._new_slot()
            self._slots[key] = slot
            self.instructions.append(_Instruction(operation, arguments, slot))
        return self._slots[key]

    # What comes of it.

    def reading(self) -> Reading:
        """The cell."""
        reader = self.reader
        pairs = (self._next(before, after) for before, after in zip(reader.variables, reader.after, strict=True))
        ends = dict(pair for each in pairs for pair in each)
        source = self._source()
        instructions, gates = tuple(self.instructions), dict(self.gates)
        variables = sorted(ends, key=lambda slot: slot != source)
        is_derived = source is not None and source not in ends
        of_source = _needed(instructions, source) if is_derived else ()

        def derive(own: State) -> Array:
            slots: dict[Any, Any] = dict(zip(variables, own, strict=True))
            for each in of_source:
                slots[each.slot] = each.run(slots)
            return slots[source]

        def unit(a: State, z: State) -> State:
            slots: dict[Any, Any] = dict(zip((*variables, *gates), (*a[is_derived:], *z), strict=True))
            if is_derived:
                slots[source] = a[0]
            for each in instructions:
                if each.slot not in slots:
                    slots[each.slot] = each.run(slots)
            own = tuple(slots[ends[slot]] for slot in variables)
            return (derive(own), *own) if is_derived else own

        if not any(_depends(reader, rows) for rows in gates.values()):
            raise NotUnitwise("has no gates: no parameter enters it")
        return Reading(
            n=self.n,
            n_in=sum(reader.widths[each] for each in reader.inputs),
            listens=tuple(self._listens(rows) for rows in gates.values()),
            variables=tuple(self.variables[slot] for slot in variables),
            derive=derive if is_derived else None,
            beside=self._beside(variables, ends, source if is_derived else None, of_source),
            unit=unit,
            weights=self._weights(tuple(gates.values())),
        )

    def _next(self, before: LocalValue, after: LocalValue) -> Iterator[tuple[int, int]]:
        """The slot of each state variable of a leaf, and that of its next value."""
        slots, _ = self.laid(before)
        then = np.broadcast_to(self.laid(after)[0], slots.size)
        for slot in dict.fromkeys(slots.tolist()):
            found = set(then[slots == slot].tolist())
            if len(found) != 1 or min(found) < 0:
                raise NotUnitwise(UNITS_DIFFER)
            yield slot, found.pop()

    def _source(self) -> int | None:
        """The slot of what gates hear of the network; None if they hear nothing of it."""
        found: dict[int, Operation] = {}
        for value, operation in self.reader.sources.values():
            slots, units = self.laid(value)
            pairs = set(zip(slots.tolist(), units.tolist(), strict=True))
            if len(pairs) != len({unit for _, unit in pairs}):
                raise NotUnitwise("multiplies weights with several carried values of each unit", operation)
            found |= {slot: operation for slot in set(slots.tolist()) - found.keys()}
        if len(found) > 1:
            raise NotUnitwise(SEVERAL_SOURCES, list(found.values())[-1])
        return next(iter(found), None)

    def _beside(
        self,
        variables: Sequence[int],
        ends: Mapping[int, int],
        derived: int | None,
        of_derived: Sequence[_Instruction],
    ) -> tuple[tuple[int, np.ndarray], ...]:
        """The state variables whose next values the step returns beside the carry, and where their entries stand."""
        value = self.reader.values.get(cast(Any, self.reader.beside))
        if not isinstance(value, LocalValue):
            return ()
        slots, units = self.laid(value)
        then = dict(ends)
        for each in of_derived:
            arguments = tuple(then.get(a, a) if isinstance(a, int) else a for a in each.arguments)
            then[each.slot] = self._slots.get(_about(each.operation, arguments), NONE)
        found: dict[int, tuple[int, np.ndarray]] = {}
        for number, slot in enumerate(variables if derived is None else (derived, *variables)):
            at = np.flatnonzero(slots == then[slot])
            at = at[np.argsort(units[at])]
            if np.array_equal(units[at], np.arange(self.n)):
                found.setdefault(then[slot], (number, at))
        is_all = self.n * len(found) == slots.size
        return tuple(sorted(found.values(), key=lambda variable: int(variable[1][0]))) if is_all else ()

    def _listens(self, rows: _Rows) -> tuple[bool, bool, bool]:
        value = None if isinstance(rows.sealed, np.ndarray) else self.reader.sealed_now(rows.sealed)
        if not isinstance(value, Affine):
            return False, False, True
        kinds = {kind for kind, _ in value.coefficients}
        return "carried" in kinds, "input" in kinds, value.offset is not None

    def _weights(self, gates: tuple[_Rows, ...]) -> Callable[[PyTree], Gates]:
        """The map from parameters to gates."""
        reader, n = self.reader, self.n
        units: dict[int, int] = {}
        for value, _ in reader.sources.values():
            assert value.keys is not None
            units |= dict(zip(value.keys.tolist(), self.unit_of(value.units).tolist(), strict=True))

        def block(value: Affine, source: Any, places: np.ndarray) -> Array:
            width = reader.widths[source]
            if source not in value.coefficients:
                return jnp.zeros((n, width), reader.dtype)
            found = _entries(multiplied_out(value.coefficients[source], width, reader.dtype), value.shape, places)
            if source[0] == "input":
                return found
            columns = np.array([units[key] for key in source[1]])
            if width != n:
                return jnp.zeros((n, n), reader.dtype).at[:, columns].set(found)
            return found if np.array_equal(columns, np.arange(n)) else found[:, np.argsort(columns)]

        def gate(rows: _Rows, found: dict[Any, Any]) -> Sources:
            if isinstance(rows.sealed, np.ndarray):
                return Sources(None, None, jnp.asarray(rows.sealed)[:, None])
            value = found[rows.sealed]
            value = Affine({}, value.value) if isinstance(value, Known) else value
            hears_rec, hears_inp, has_bias = self._listens(rows)
            carried = [block(value, each, rows.places) for each in value.coefficients if each[0] == "carried"]
            inputs = [block(value, each, rows.places) for each in reader.inputs] if hears_inp else []
            bias = _entries(value.offset, value.shape, rows.places)[:, None] if has_bias else None
            together = inputs[0] if len(inputs) == 1 else jnp.concatenate(inputs, axis=1) if inputs else None
            return Sources(sum(carried[1:], carried[0]) if hears_rec else None, together, bias)

        def weights(params: PyTree) -> Gates:
            found = reader.sealed(params)
            return tuple(gate(rows, found) for rows in gates)

        return weights


def _about(operation: Operation, arguments: Sequence[Any]) -> Any:
    """What tells an instruction from others."""
    told = lambda each: (str(each.value.dtype), each.value.tobytes()) if isinstance(each, _Constant) else each
    return about_operation(operation), tuple(map(told, arguments))


def _once_each(places: np.ndarray, units: np.ndarray) -> list[np.ndarray]:
    """These places of an array, apart into those of the first entry of each unit, of the second, and so on."""
    places = places[np.argsort(units[places], kind="stable")]
    number = np.arange(len(places)) - np.searchsorted(units[places], units[places])
    return [np.sort(places[number == each]) for each in range(number.max() + 1)]


def _depends(reader: Reader, rows: _Rows) -> bool:
    """Whether a gate may follow from parameters."""
    value = None if isinstance(rows.sealed, np.ndarray) else reader.sealed_now(rows.sealed)
    return isinstance(value, Affine) or (isinstance(value, Known) and value.depends)


def _needed(instructions: Sequence[_Instruction], slot: int | None) -> tuple[_Instruction, ...]:
    """The instructions that lead to what stands in a slot."""
    needed, found = {slot}, list[_Instruction]()
    for each in reversed(instructions):
        if each.slot in needed:
            needed |= {argument for argument in each.arguments if isinstance(argument, int)}
            found.append(each)
    return tuple(reversed(found))


def _entries(array: Any, shape: tuple[int, ...], places: np.ndarray) -> Array:
    """The entries at these places of an array whose first axes have this shape."""
    rows = jnp.reshape(array, (math.prod(shape), *jnp.shape(array)[len(shape) :]))
    steps = set(np.diff(places).tolist())
    if len(steps) == 1 and (step := steps.pop()) > 0:
        return rows if len(rows) == len(places) else rows[int(places[0]) : int(places[-1]) + 1 : step]
    return rows[places]

"""A traced program as a C function: its fields and arguments are given by name, and the rest follows."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from recurra.native import helpers
from recurra.native.control import give
from recurra.native.lowering import written
from recurra.native.memory import planned
from recurra.native.printing import Printer, table
from recurra.native.statements import Writer
from recurra.native.values import Shape, of_view, whole


class CArray(NamedTuple):
    """What C calls an array of a program, such as self->weights; and its shape and type, as NumPy calls that."""

    name: str
    shape: Shape
    dtype: str
    is_read_only: bool = False


@dataclass
class CSource:
    """Functions of one file: what they need besides their text."""

    dtype: str
    helpers: set[str] = field(default_factory=set)
    tables: dict[str, Any] = field(default_factory=dict)
    #: the longest working arrays that a function needs, by their kinds
    words: dict[str, int] = field(default_factory=dict)
    _tables: int = 0

    def body(self, program: Any, takes: Sequence[CArray], gives: Sequence[CArray | None]) -> str:
        """The body of the function that carries out a traced program.

        A result goes to its place, and nowhere if that is None. A place may be among what is taken too: a state.
        """
        writer = Writer()
        storages: dict[str, Any] = {}

        def storage(place: CArray) -> Any:
            if place.name not in storages:
                storages[place.name] = writer.storage(place.shape, place.dtype, place.name, place.is_read_only)
            return storages[place.name]

        arguments = [of_view(whole(storage(place))) for place in takes]
        found = written(writer, program, arguments)
        pairs = [(whole(storage(place)), value) for place, value in zip(gives, found, strict=True) if place is not None]
        give(writer, [target for target, _ in pairs], [value for _, value in pairs], prefer=1)
        kept = {each.number for each in storages.values()}
        plan = planned(writer.block, writer.storages, kept)
        tables = dict(self.tables)
        for number, array in writer.tables.items():
            self._tables += 1
            known = f"table_{self._tables}"
            same = [name for name, other in tables.items() if other.dtype == array.dtype
                    and other.shape == array.shape and (other == array).all()]  # fmt: skip
            name = same[0] if same else known
            tables[name] = array
            writer.storages[number].name = name
        text = Printer(writer, plan).printed(writer.block)
        self.tables |= {name: array for name, array in tables.items() if re.search(rf"\b{name}\b", text)}
        self.helpers |= writer.helpers
        for kind, count in plan.words.items():
            self.words[kind] = max(self.words.get(kind, 0), count)
        return text

    def before(self) -> str:
        """What a file has before its functions: helpers and tables."""
        tables = "\n".join(table(name, array) for name, array in self.tables.items())
        return helpers.texts(self.helpers, self.dtype) + ("\n" + tables if tables else "")

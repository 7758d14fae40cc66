"""Values of a program on their way to C: where arrays are stored, how they are read, and expressions of their entries.

An expression is kept as text. In it, a storage is written as its number in «», since its name is known only once
storages that can share a place were found.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Shape = tuple[int, ...]

#: the types of numbers, by the names that NumPy gives them, and what C calls them
TYPES = {
    "float32": "REAL",
    "float64": "REAL",
    "int32": "int",
    "uint32": "unsigned",
    "bool": "int",
    "int64": "long long",
    "uint64": "unsigned long long",
}
#: from this length on an expression is given a name of its own
LONGEST = 300


class NotWrittenError(TypeError):
    """A part of a program that cannot be written in C; the text says which."""


@dataclass(eq=False)
class Storage:
    """Where an array lies. `name` is what C calls a field, an argument or a table; None for one of the function."""

    number: int
    shape: Shape
    dtype: str
    name: str | None = None
    is_read_only: bool = False

    @property
    def size(self) -> int:
        """How many entries it has."""
        return math.prod(self.shape)

    @property
    def is_number(self) -> bool:
        """Whether it is a single number, without an index."""
        return self.shape == ()

    @property
    def token(self) -> str:
        """What stands for it in an expression."""
        return f"«{self.number}»"


@dataclass(frozen=True, eq=False)
class View:
    """Entries of a storage in an order of their own: entry (i, j) lies at offset + i strides[0] + j strides[1].

    `moves` is the text of a further offset that is known when the program runs. Without a storage the entry is that
    number itself.
    """

    storage: Storage | None
    shape: Shape
    strides: tuple[int, ...]
    dtype: str
    offset: int = 0
    moves: str = ""

    def at(self, index: Sequence[str], strides: Sequence[int] | None = None) -> str:
        """The entry with this index; `strides` stand for those of axes that were joined."""
        place = self.place(index, strides)
        if self.storage is None:
            return f"({TYPES[self.dtype]})({place})"
        return self.storage.token if self.storage.is_number else f"{self.storage.token}[{place}]"

    def place(self, index: Sequence[str], strides: Sequence[int] | None = None) -> str:
        """The place of an entry in its storage."""
        strides = self.strides if strides is None else strides
        terms = [
            each if stride == 1 else f"{stride} * {each}"
            for each, stride in zip(index, strides, strict=True)
            if stride and each != "0"
        ]
        terms += [self.moves] if self.moves else []
        terms += [str(self.offset)] if self.offset or not terms else []
        return " + ".join(terms)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its storage, in order."""
        is_all = self.storage is not None and not self.offset and not self.moves and self.size == self.storage.size
        return is_all and self.is_dense

    @property
    def is_dense(self) -> bool:
        """Whether entries follow each other."""
        return all(n == 1 or s == own for n, s, own in zip(self.shape, self.strides, dense(self.shape), strict=True))

    @property
    def size(self) -> int:
        """How many entries it has."""
        return math.prod(self.shape)


def dense(shape: Shape) -> tuple[int, ...]:
    """The strides of an array whose rows follow each other."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, eq=False)
class Value:
    """An expression for each entry: a template with {0}, {1}, ... for the entries of its leaves, all of one shape."""

    shape: Shape
    dtype: str
    template: str
    leaves: tuple[View, ...] = field(default=())

    @property
    def view(self) -> View | None:
        """The view that it is, if it is nothing else."""
        return self.leaves[0] if self.template == "{0}" else None

    @property
    def literal(self) -> str | None:
        """Its text if it is the same everywhere, and known now."""
        return None if self.leaves else self.template

    def at(self, index: Sequence[str]) -> str:
        """The expression for the entry with this index."""
        return self.template.format(*(leaf.at(index) for leaf in self.leaves))


def of_view(view: View) -> Value:
    """The value that a view shows."""
    return Value(view.shape, view.dtype, "{0}", (view,))


def whole(storage: Storage, shape: Shape | None = None) -> View:
    """All of a storage, in another shape if one is given."""
    shape = storage.shape if shape is None else shape
    return View(storage, shape, dense(shape), storage.dtype)


def combined(template: str, shape: Shape, dtype: str, parts: Sequence[Value]) -> Value:
    """An expression of other expressions: {0} in the template stands for the first of them."""
    leaves: list[View] = []
    texts = []
    for part in parts:
        texts.append(part.template.format(*(f"{{{len(leaves) + i}}}" for i in range(len(part.leaves)))))
        leaves += part.leaves
    return Value(shape, dtype, template.format(*texts), tuple(leaves))


def number(value: Any, dtype: str) -> str:
    """A number as C writes it."""
    if dtype not in TYPES:
        raise NotWrittenError(f"numbers of type {dtype}")
    plain = np.asarray(value).astype(dtype)[()]
    if dtype.startswith("float"):
        suffix = "f" if dtype == "float32" else ""
        if not np.isfinite(plain):
            return f"({TYPES[dtype]})NAN" if np.isnan(plain) else "-INFINITY" if plain < 0 else "INFINITY"
        text = str(plain)
        text = text if set(text) & set(".e") else f"{text}.0"
        return f"({text}{suffix})" if plain < 0 else f"{text}{suffix}"
    if dtype == "bool":
        return str(int(plain))
    ending = {"uint32": "u", "int64": "LL", "uint64": "ULL"}.get(dtype, "")
    if dtype == "int32" and plain == np.iinfo("int32").min:
        return "(-2147483647 - 1)"
    if dtype == "int64" and plain == np.iinfo("int64").min:
        return "(-9223372036854775807LL - 1)"
    return f"({plain}{ending})" if plain < 0 else f"{plain}{ending}"


def reshaped(view: View, shape: Shape) -> View | None:
    """The view in another shape; None if its entries are not in such an order."""
    strides: list[int] = []
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    new = [n for n in shape if n != 1]
    while old:
        joined, cut = [old.pop(0)], [new.pop(0)]
        while math.prod(n for n, _ in joined) != math.prod(cut):
            if math.prod(n for n, _ in joined) < math.prod(cut):
                joined.append(old.pop(0))
            else:
                cut.append(new.pop(0))
        for (_, outer), (inner_n, inner) in itertools.pairwise(joined):
            if outer != inner_n * inner:
                return None
        last = joined[-1][1]
        strides += [last * math.prod(cut[k + 1 :]) for k in range(len(cut))]
    found = iter(strides)
    return View(view.storage, shape, tuple(0 if n == 1 else next(found) for n in shape), view.dtype, view.offset,
                view.moves)  # fmt: skip

"""Statements about whole arrays, and the writer that collects them.

Expressions are text in which storages are numbers in «»: so what a statement reads is found in its text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from recurra.native.values import (
    Shape,
    Storage,
    Value,
    View,
    of_view,
    whole,
)

TOKEN = re.compile(r"«(\d+)»")
#: the variables of loops, the outermost first
LETTERS = "ijklmnpq"

Loops = tuple[tuple[str, int], ...]


@dataclass(eq=False)
class Statement:
    """What is done, and the line of Python that it comes from."""

    note: str = field(default="", kw_only=True)

    def texts(self) -> Iterable[str]:
        """All expressions that it reads, itself and not in its blocks."""
        return ()

    def reads(self) -> set[int]:
        """The storages that it reads."""
        return {int(each) for text in self.texts() for each in TOKEN.findall(text)}


@dataclass(eq=False)
class Assign(Statement):
    """for all loops: storage[place] = expression. What is stored before is gone if it `replaces` all of it.

    With `inner` loops the entry is a sum or another fold: `start`, and then `step` for every pass, in which S stands
    for what was found so far.
    """

    loops: Loops
    storage: Storage
    place: str
    expression: str
    sign: str = "="
    replaces: bool = True
    inner: Loops = ()
    start: str = ""
    #: whether it is a plain copy of all of another storage
    copied: Storage | None = None
    prefer: int = 2

    def texts(self) -> Iterable[str]:
        own = () if self.sign == "=" else (self.storage.token,)
        return (self.expression, self.place, *own)

    @property
    def target(self) -> str:
        """What is assigned to."""
        return self.storage.token if self.storage.is_number else f"{self.storage.token}[{self.place}]"

    def reads_alike(self, storage: int) -> bool:
        """Whether it reads a storage only at the place at which it writes, so that it may write into it."""
        if self.inner or self.sign != "=":
            return False
        own = f"«{storage}»" if self.storage.is_number else f"«{storage}»[{self.place}]"
        return self.expression.count(f"«{storage}»") == self.expression.count(own)


@dataclass(eq=False)
class Call(Statement):
    """A statement of C's, with the storages that it changes."""

    text: str
    changes: tuple[Storage, ...]
    replaces: bool = True

    def texts(self) -> Iterable[str]:
        return (self.text,)

    def reads(self) -> set[int]:
        found = super().reads()
        return found - {each.number for each in self.changes} if self.replaces else found


@dataclass(eq=False)
class Choice(Statement):
    """One of several blocks, by a number."""

    which: str
    blocks: list[list[Statement]]
    is_flag: bool

    def texts(self) -> Iterable[str]:
        return (self.which,)


@dataclass(eq=False)
class Repeat(Statement):
    """A block, so many times; or with a `test`, while the expression after that block is true."""

    body: list[Statement]
    variable: str = ""
    count: int = 0
    test: list[Statement] = field(default_factory=list)
    condition: str = ""

    def texts(self) -> Iterable[str]:
        return (self.condition,)


class Writer:
    """Collects statements. `block` is the innermost list, and `note` the line that the next ones come from."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.block: list[Statement] = []
        self.helpers: set[str] = set()
        self.tables: dict[int, np.ndarray] = {}
        self.note = ""
        self._loops = 0

    def storage(self, shape: Shape, dtype: str, name: str | None = None, is_read_only: bool = False) -> Storage:
        """A new place for an array."""
        found = Storage(len(self.storages), shape, dtype, name, is_read_only)
        self.storages.append(found)
        return found

    def add(self, statement: Statement) -> None:
        """One more statement."""
        statement.note = self.note
        self.block.append(statement)

    def within(self, block: list[Statement]) -> "_Within":
        """Statements go into another block for a while."""
        return _Within(self, block)

    def variable(self) -> str:
        """A new variable of a loop over a block."""
        self._loops += 1
        return f"step{self._loops}"

    def helper(self, name: str) -> str:
        """Note that a helper is called."""
        self.helpers.add(name)
        return name

    def fresh(self, shape: Shape, dtype: str) -> View:
        """A new array of the function's own."""
        return whole(self.storage(shape, dtype))

    def fill(self, target: View, value: Value, sign: str = "=", replaces: bool = True, prefer: int = 2) -> None:
        """target = value, entry by entry."""
        assert target.storage is not None
        shape, (own, *others) = joined(target.shape, [target.strides, *(leaf.strides for leaf in value.leaves)])
        loops = tuple((LETTERS[axis], n) for axis, n in enumerate(shape))
        index = [letter for letter, _ in loops]
        entries = [leaf.at(index, strides) for leaf, strides in zip(value.leaves, others, strict=True)]
        source = value.view.storage if value.view is not None and value.view.is_whole and target.is_whole else None
        is_copy = source is not None and source.dtype == target.dtype and not source.is_number and sign == "="
        statement = Assign(
            loops,
            target.storage,
            target.place(index, own),
            value.template.format(*entries),
            sign,
            replaces and target.is_whole and sign == "=",
            copied=source if is_copy else None,
            prefer=prefer,
        )
        self.add(statement)

    def stored(self, value: Value) -> View:
        """The value as entries that lie somewhere."""
        if value.view is not None and value.view.storage is not None:
            return value.view
        target = self.fresh(value.shape, value.dtype)
        self.fill(target, value)
        return target

    def packed(self, value: Value) -> View:
        """The value as entries that follow each other."""
        found = self.stored(value)
        if found.is_dense:
            return found
        target = self.fresh(value.shape, value.dtype)
        self.fill(target, value)
        return target

    def scalar(self, value: Value) -> str:
        """The text of a single number: a literal, or the name of where it is stored."""
        return value.literal or self.stored(value).at(["0"] * len(value.shape))

    def kept(self, value: Value) -> Value:
        """The value, stored if it is an expression that would have to be computed several times."""
        if value.view is not None or value.literal is not None:
            return value
        return of_view(self.stored(value))


class _Within:
    def __init__(self, writer: Writer, block: list[Statement]):
        self.writer, self.block = writer, block

    def __enter__(self) -> list[Statement]:
        self.writer.block, self.block = self.block, self.writer.block
        return self.writer.block

    def __exit__(self, *_: object) -> None:
        self.writer.block = self.block


def joined(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The shape with as few axes as all strides allow, and the strides along them."""
    axes: list[int] = []
    found: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        if axes and all(own[-1] == n * each[axis] for own, each in zip(found, strides, strict=True)):
            axes[-1] *= n
            for own, each in zip(found, strides, strict=True):
                own[-1] = each[axis]
        else:
            axes.append(n)
            for own, each in zip(found, strides, strict=True):
                own.append(each[axis])
    return axes, found

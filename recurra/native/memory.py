"""Where arrays lie: which of them may share a place, so that a state is changed where it is, and little else is needed.

An array is *live* from where it is written to where it is last read. Two arrays that are live at the same time must not
share a place, nor may a statement write over what it still reads elsewhere. A copy between two arrays that need not be
apart is no copy: both get one place. What is left lies in a working array, at places where nothing else is live.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from recurra.native.statements import TOKEN, Assign, Call, Choice, Repeat, Statement
from recurra.native.values import TYPES, Storage

Visit = Callable[[Statement, set[int]], None]


class MemoryPlan(NamedTuple):
    """For each storage the one that stands for it, and where it lies in the working array of its kind.

    `words` says how long these arrays are.
    """

    stands: dict[int, int]
    places: dict[int, int]
    words: dict[str, int]


def kind_of(storage: Storage) -> str:
    """The working array that it may lie in."""
    kind = TYPES[storage.dtype]
    return "REAL" if kind == "REAL" else "unsigned" if kind in ("int", "unsigned") else kind


def planned(block: list[Statement], storages: list[Storage], kept: Collection[int]) -> MemoryPlan:
    """Remove what nobody needs from a block, after which the `kept` storages are read, and plan the others' places."""
    for _ in range(2):
        _remove_unneeded(block, set(kept))
    apart, aside = _apart(block, storages, set(kept))
    groups = _Groups(storages, apart)
    found = list(_assigns(block))
    for each in sorted(found, key=lambda each: (each.prefer, -each.storage.size)):
        if each.copied is not None:
            groups.merge(each.storage.number, each.copied.number)
    for each in found:  # entry by entry, into the place of an array that is not needed any more
        for number in sorted(each.reads()):
            if number in aside.get(each.storage.number, ()):
                groups.merge(each.storage.number, number)
    return _placed(groups, storages, aside, _named_in(block))


def _assigns(block: list[Statement]) -> Iterator[Assign]:
    for each in block:
        if isinstance(each, Assign):
            yield each
        for inner in blocks_of(each):
            yield from _assigns(inner)


def blocks_of(statement: Statement) -> list[list[Statement]]:
    """The blocks of a statement."""
    if isinstance(statement, Choice):
        return statement.blocks
    return [statement.test, statement.body] if isinstance(statement, Repeat) else []


def _written(statement: Statement) -> tuple[Storage, ...]:
    if isinstance(statement, Assign):
        return (statement.storage,)
    return statement.changes if isinstance(statement, Call) else ()


def live_before(block: list[Statement], live: set[int], visit: Visit | None = None) -> set[int]:
    """The storages that are live before a block, if these are live after it; `visit` sees each with what is after."""
    for each in reversed(block):
        if isinstance(each, Choice):
            branches = [live_before(inner, set(live), visit) for inner in each.blocks]
            live = set().union(*branches) | each.reads()
        elif isinstance(each, Repeat):
            live = _live_before_loop(each, live, visit)
        else:
            if visit is not None:
                visit(each, live)
            own = {storage.number for storage in _written(each)}
            replaces = isinstance(each, Assign | Call) and each.replaces
            live = (live - own if replaces else live | own) | each.reads()
    return live


def _live_before_loop(loop: Repeat, after: set[int], visit: Visit | None) -> set[int]:
    def head(again: set[int], visit: Visit | None) -> set[int]:
        within = live_before(loop.body, set(again) if loop.test else again | after, visit)
        return live_before(loop.test, within | after | loop.reads(), visit) if loop.test else within

    again = set(after)
    while not (found := head(again, None)) <= again:
        again |= found
    return head(again, visit)


def _remove_unneeded(block: list[Statement], kept: set[int]) -> None:
    unneeded: set[int] = set()

    def visit(statement: Statement, live: set[int]) -> None:
        if all(each.name is None and each.number not in live for each in _written(statement)):
            unneeded.add(id(statement))

    live_before(block, kept, visit)

    def clean(block: list[Statement]) -> None:
        for each in block:
            for inner in blocks_of(each):
                clean(inner)
        is_empty = lambda each: isinstance(each, Choice) and not any(each.blocks)
        block[:] = [each for each in block if id(each) not in unneeded and not is_empty(each)]

    clean(block)


def _apart(
    block: list[Statement], storages: list[Storage], kept: set[int]
) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """The arrays that must not share a place; and those that a statement may write into, if they lie exactly there."""
    apart: dict[int, set[int]] = {each.number: set() for each in storages}
    aside: dict[int, set[int]] = {each.number: set() for each in storages}

    def note(table: dict[int, set[int]], one: int, other: int) -> None:
        if one != other:
            table[one].add(other)
            table[other].add(one)

    def visit(statement: Statement, live: set[int]) -> None:
        reads = statement.reads()
        for storage in _written(statement):
            source = statement.copied if isinstance(statement, Assign) else None
            for other in live:
                if source is None or other != source.number:
                    note(apart, storage.number, other)
            for other in reads:
                alike = isinstance(statement, Assign) and statement.reads_alike(other)
                note(aside if alike else apart, storage.number, other)

    live_before(block, kept, visit)
    return apart, aside


class _Groups:
    """Storages that share a place."""

    def __init__(self, storages: list[Storage], apart: dict[int, set[int]]):
        self.storages = storages
        self.head = list(range(len(storages)))
        self.members = {each.number: {each.number} for each in storages}
        self.apart = apart

    def merge(self, one: int, other: int) -> None:
        """Let two share a place, if they may."""
        a, b = self.head[one], self.head[other]
        first, second = self.storages[one], self.storages[other]
        fits = first.size == second.size and first.dtype == second.dtype
        if a == b or not fits or first.is_number or second.is_number:
            return
        named = [each for each in (a, b) if self.storages[each].name is not None]
        if len(named) > 1 or any(self.storages[each].is_read_only for each in named):
            return
        if any(self.apart[each] & self.members[b] for each in self.members[a]):
            return
        head, part = (b, a) if named == [b] else (a, b)
        self.members[head] |= self.members.pop(part)
        for each in self.members[head]:
            self.head[each] = head


def _named_in(block: list[Statement]) -> set[int]:
    found: set[int] = set()
    for each in block:
        found |= {int(number) for text in each.texts() for number in TOKEN.findall(text)}
        found |= {storage.number for storage in _written(each)}
        for inner in blocks_of(each):
            found |= _named_in(inner)
    return found


def _placed(groups: _Groups, storages: list[Storage], aside: dict[int, set[int]], used: set[int]) -> MemoryPlan:
    stands = {each.number: groups.head[each.number] for each in storages}
    own = sorted({stands[number] for number in used if storages[stands[number]].name is None
                  and not storages[stands[number]].is_number})  # fmt: skip
    near = {
        head: {stands[other] for each in groups.members[head] for other in (groups.apart[each] | aside[each])}
        for head in own
    }
    places: dict[int, int] = {}
    words: dict[str, int] = {}
    for head in sorted(own, key=lambda head: (-storages[head].size, head)):
        kind, size, place = kind_of(storages[head]), storages[head].size, 0
        taken = sorted(
            (places[other], places[other] + storages[other].size)
            for other in near[head]
            if other in places and kind_of(storages[other]) == kind
        )
        for start, stop in taken:
            if start - place >= size:
                break
            place = max(place, stop)
        places[head] = place
        words[kind] = max(words.get(kind, 0), place + size)
    return MemoryPlan(stands, places, words)

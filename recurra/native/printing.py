"""Statements as lines of C."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from recurra.native.memory import MemoryPlan, blocks_of, kind_of
from recurra.native.statements import TOKEN, Assign, Call, Choice, Repeat, Statement, Writer
from recurra.native.values import TYPES, Storage, number

#: partial sums of a long sum
LANES = 8
#: the working arrays by their kinds
WORK = {"REAL": "work", "unsigned": "words"}
_SUM = re.compile(r"\bS\b")


class Printer:
    """Prints the statements of one function."""

    def __init__(self, writer: Writer, plan: MemoryPlan, work: str = "self->work", words: str = "self->words"):
        self.writer, self.plan = writer, plan
        self.work = {"REAL": work, "unsigned": words}
        self._names: dict[int, str] = {}
        self._count = 0

    def name(self, number: int) -> str:
        """What a storage is called."""
        head = self.plan.stands[number]
        storage = self.writer.storages[head]
        if storage.name is not None:
            return storage.name
        if head not in self._names:
            self._count += 1
            self._names[head] = f"v{self._count}"
        return self._names[head]

    def text(self, expression: str) -> str:
        """An expression with the names of its storages."""
        return TOKEN.sub(lambda found: self.name(int(found[1])), _bare(expression))

    def printed(self, block: list[Statement]) -> str:
        """The body of a function: declarations and statements."""
        self._single = _defined_once(block)
        body = self._block(block, 1)
        lines = []
        for head, name in self._names.items():
            storage = self.writer.storages[head]
            kind = TYPES[storage.dtype]
            if storage.is_number:
                if head not in self._single:
                    lines.append(f"    {kind} {name};")
            elif kind_of(storage) in self.work:
                place, work = self.plan.places[head], self.work[kind_of(storage)]
                start = f"{work} + {place}" if place else work
                cast = "(int *)" if kind == "int" else ""
                start = f"({start})" if cast and place else start
                lines.append(f"    {kind} *const {name} = {cast}{start};{_shape_note(storage)}")
            else:
                lines.append(f"    {kind} {name}[{storage.size}];")
        return "\n".join([*lines, *([""] if lines else []), *body]) + "\n"

    def _block(self, block: Sequence[Statement], depth: int) -> list[str]:
        lines: list[str] = []
        note = ""
        group: list[Assign] = []

        def flush() -> None:
            nonlocal note, group
            if not group:
                return
            for each in dict.fromkeys(one.note for one in group if one.note):
                if each != note:
                    lines.append(f"{'    ' * depth}/* {_comment(each)} */")
                note = each
            lines.extend(self._loops(group, depth))
            group = []

        for each in block:
            if isinstance(each, Assign):
                if each.copied is not None and self.plan.stands[each.copied.number] == self.plan.stands[
                    each.storage.number
                ]:  # fmt: skip
                    continue
                if group and not self._goes_with(group, each):
                    flush()
                group.append(each)
                continue
            flush()
            if each.note and each.note != note and not (isinstance(each, Call) and not each.text):
                lines.append(f"{'    ' * depth}/* {_comment(each.note)} */")
                note = each.note
            lines.extend(self._other(each, depth))
        flush()
        return lines

    def _goes_with(self, group: list[Assign], each: Assign) -> bool:
        """Whether a statement can stand in the same loops as those of a group."""
        if each.loops != group[0].loops or not each.loops or len(group) > 7:
            return False
        if any(one.inner or one.sign == "lanes" for one in (*group, each)):
            return False
        return all(self._is_alike(one, each) and self._is_alike(each, one) for one in group)

    def _is_alike(self, writes: Assign, reads: Assign) -> bool:
        """Whether what one writes is read and written by the other at the same place only, if at all."""
        own = self.plan.stands[writes.storage.number]
        for other in {*reads.reads(), reads.storage.number}:
            head = self.plan.stands[other]
            if head != own:
                if self._overlap(head, own):
                    return False
                continue
            here = f"[{writes.place}]"
            texts = [reads.expression, f"«{reads.storage.number}»[{reads.place}]"]
            if any(text.count(f"«{other}»") != text.count(f"«{other}»{here}") for text in texts):
                return False
            if f"«{other}»" in reads.place:
                return False
        return not self.writer.storages[own].is_number

    def _overlap(self, one: int, other: int) -> bool:
        a, b = self.writer.storages[one], self.writer.storages[other]
        if one not in self.plan.places or other not in self.plan.places or kind_of(a) != kind_of(b):
            return False
        start, begin = self.plan.places[one], self.plan.places[other]
        return start < begin + b.size and begin < start + a.size

    def _loops(self, group: list[Assign], depth: int) -> list[str]:
        lines = []
        loops = group[0].loops
        for level, (letter, count) in enumerate(loops):
            lines.append("    " * (depth + level) + f"for (int {letter} = 0; {letter} < {count}; {letter}++)")
        inside = depth + len(loops)
        many = len(group) > 1 or group[0].inner
        if many and loops:
            lines[-1] += " {"
        for each in group:
            lines.extend(self._assigned(each, inside if loops else depth))
        if many and loops:
            lines.append("    " * (inside - 1) + "}")
        return lines

    def _assigned(self, each: Assign, depth: int) -> list[str]:
        pad = "    " * depth
        target, expression = self.text(each.target), self.text(each.expression)
        kind = TYPES[each.storage.dtype]
        declared = f"const {kind} " if self._is_declared_here(each.storage) and not each.loops else ""
        if not each.inner:
            sign = "+=" if each.sign == "+=" else "="
            return [f"{pad}{declared}{target} {sign} {expression};"]
        if each.sign == "lanes":
            return self._lanes(each, depth, declared)
        lines = [] if each.loops else [f"{pad}{{"]
        if not each.loops and declared:  # the name must be known behind the braces
            lines = [f"{pad}{kind} {target};", f"{pad}{{"]
        more = pad if each.loops else pad + "    "
        lines.append(f"{more}{kind} sum = {each.start};")
        for level, (letter, count) in enumerate(each.inner):
            lines.append(f"{more}{'    ' * level}for (int {letter} = 0; {letter} < {count}; {letter}++)")
        lines.append(f"{more}{'    ' * len(each.inner)}sum = {_SUM.sub('sum', expression)};")
        lines.append(f"{more}{target} = sum;")
        return lines if each.loops else [*lines, f"{pad}}}"]

    def _lanes(self, each: Assign, depth: int, declared: str) -> list[str]:
        """A long sum in several partial sums, which a compiler can add at the same time."""
        pad, kind = "    " * depth, TYPES[each.storage.dtype]
        ((letter, count),) = each.inner
        term = self.text(each.expression).removeprefix("S + ")
        here = re.sub(rf"\b{letter}\b", f"({letter} + lane)", term)
        target = self.text(each.target)
        whole = count - count % LANES
        lines = [] if each.loops else [f"{pad}{{"]
        if not each.loops and declared:
            lines = [f"{pad}{kind} {target};", f"{pad}{{"]
        more = pad if each.loops else pad + "    "
        lines += [
            f"{more}{kind} sums[{LANES}] = {{0}};",
            f"{more}for (int {letter} = 0; {letter} < {whole}; {letter} += {LANES})",
            f"{more}    for (int lane = 0; lane < {LANES}; lane++) sums[lane] += {here};",
        ]
        if count % LANES:
            lines.append(f"{more}for (int {letter} = {whole}; {letter} < {count}; {letter}++) sums[0] += {term};")
        total = "((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))"
        lines.append(f"{more}{target} = {total};")
        return lines if each.loops else [*lines, f"{pad}}}"]

    def _is_declared_here(self, storage: Storage) -> bool:
        return storage.is_number and storage.name is None and storage.number in self._single

    def _other(self, each: Statement, depth: int) -> list[str]:
        pad = "    " * depth
        if isinstance(each, Call):
            return [f"{pad}{self.text(each.text)}"] if each.text else []
        if isinstance(each, Choice):
            return self._choice(each, depth)
        assert isinstance(each, Repeat)
        if each.test:
            test = self._block(each.test, depth + 1)
            condition = self.text(each.condition)
            stop = f"{pad}    if (!{_grouped(condition)}) break;"
            return [f"{pad}for (;;) {{", *test, stop, *self._block(each.body, depth + 1), f"{pad}}}"]
        variable = each.variable
        head = f"{pad}for (int {variable} = 0; {variable} < {each.count}; {variable}++) {{"
        return [head, *self._block(each.body, depth + 1), f"{pad}}}"]

    def _choice(self, each: Choice, depth: int) -> list[str]:
        pad, which = "    " * depth, self.text(each.which)
        if not each.is_flag:
            lines = []
            for i, inner in enumerate(each.blocks):
                last = i == len(each.blocks) - 1
                test = "" if last and i else f"if ({which} {'<=' if not i else '=='} {i}) "
                lines += [f"{pad}{'else ' if i else ''}{test}{{", *self._block(inner, depth + 1), f"{pad}}}"]
            return lines
        no, yes = (self._block(inner, depth + 1) for inner in each.blocks)
        if not yes:
            return [f"{pad}if (!{_grouped(which)}) {{", *no, f"{pad}}}"] if no else []
        found = [f"{pad}if ({which}) {{", *yes]
        return [*found, *([f"{pad}}} else {{", *no] if no else []), f"{pad}}}"]


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"\w+|\(.*\)", text) else f"({text})"


def _bare(expression: str) -> str:
    """The expression without the brackets around all of it."""
    if not (expression.startswith("(") and expression.endswith(")")):
        return expression
    depth = 0
    for i, each in enumerate(expression):
        depth += (each == "(") - (each == ")")
        if not depth and i < len(expression) - 1:
            return expression
    return expression[1:-1]


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("/*", "/ *")


def _shape_note(storage: Storage) -> str:
    return f" /* {' x '.join(map(str, storage.shape))} */"


def _defined_once(block: list[Statement]) -> set[int]:
    """The storages that a single statement writes."""
    count: dict[int, int] = {}

    def look(block: list[Statement]) -> None:
        for each in block:
            written = [each.storage] if isinstance(each, Assign) else each.changes if isinstance(each, Call) else ()
            for storage in written:
                count[storage.number] = count.get(storage.number, 0) + 1
            for inner in blocks_of(each):
                look(inner)

    look(block)
    return {number for number, times in count.items() if times == 1}


def table(name: str, array: Any) -> str:
    """A constant array of the file."""
    dtype = str(array.dtype)
    flat = [number(each, dtype).strip("()") if np.isfinite(float(each)) else number(each, dtype)
            for each in np.ravel(array)]  # fmt: skip
    rows = [", ".join(flat[i : i + 8]) for i in range(0, len(flat), 8)]
    inside = ",\n    ".join(rows)
    return f"static const {TYPES[dtype]} {name}[{len(flat)}] = {{\n    {inside}}};\n"

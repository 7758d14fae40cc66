"""The line on which each thing of a TOML file is written.

Python's parser keeps no positions. So text that it has accepted is read once more, for nothing but the lines on which
keys, tables and list elements are written.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

#: where something is in a parsed file: keys, and places in lists, from the outside in
Path = tuple[str | int, ...]

STRING = (
    r'"""(?:[^"\\]++|\\[\s\S]|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
PART = rf"(?:[A-Za-z0-9_-]++|{STRING})"
#: parts of a key with dots between them
KEY = re.compile(rf"{PART}(?:[ \t]*+\.[ \t]*+{PART})*+")
#: text, or the bracket that begins a list or a table, or anything else that ends at a comma, a bracket or a comment
VALUE = re.compile(rf"{STRING}|[\[{{]|[^,\]}}\n#]++")
#: blanks, newlines and comments
GAP = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
COMMA, EQUALS = re.compile(r",?+"), re.compile(r"[ \t]*+=[ \t]*+")
OPENED, CLOSED, END = re.compile(r"\[{1,2}[ \t]*+"), re.compile(r"[ \t]*+\]{1,2}"), re.compile(r"[\]}]?+")


def lines_of(text: str, table: dict[str, Any]) -> dict[Path, int]:
    """The line, from 1, of everything in `table`, which `text` was parsed to. Empty if they do not fit together."""
    scan = _Scan(text)
    try:
        scan.document()
        # A line that is wrong is worse than none: what was found must be exactly what the parser found.
        return scan.lines if set(scan.lines) == set(_paths(table)) else {}
    except (RecursionError, ValueError):
        return {}


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all that a value holds."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from _paths(each, (*path, key))


class _Scan:
    """A reader of valid TOML, at character `at` of the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Path, int] = {}
        self._ends = [found.start() for found in re.finditer("\n", text)]
        #: [[tables]]: how many of each there are so far
        self._counts: dict[Path, int] = {}

    def document(self) -> None:
        """Read everything, and note all lines."""
        table: Path = ()
        self.take(GAP)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.assignment(table)
            self.take(GAP)

    def header(self) -> Path:
        """[table] or [[table]]: the path of what follows."""
        line, is_one_of_many = self.line(), self.take(OPENED).startswith("[[")
        *outer, last = self.key()
        self.take(CLOSED)
        path: Path = ()
        for part in outer:
            path = (*path, part)
            if path in self._counts:  # the last one so far is meant
                path = (*path, self._counts[path] - 1)
            self.lines.setdefault(path, line)
        path = (*path, last)
        if is_one_of_many:
            count = self._counts[path] = self._counts.get(path, 0) + 1
            self.lines.setdefault(path, line)
            path = (*path, count - 1)
        # A table may have been implied by one inside it, further up.
        self.lines[path] = line
        return path

    def assignment(self, path: Path) -> None:
        """key = value, inside of what is at `path`."""
        line = self.line()
        for part in self.key():
            path = (*path, part)
            self.lines.setdefault(path, line)
        self.take(EQUALS)
        self.value(path)

    def value(self, path: Path) -> None:
        """A value at `path`, with all that is in it."""
        opened = self.take(VALUE)
        if opened not in ("[", "{"):
            return
        place = 0
        self.take(GAP)
        while not self.take(END):
            if opened == "{":
                self.assignment(path)
            else:
                self.lines[(*path, place)] = self.line()
                self.value((*path, place))
                place += 1
            for between in (GAP, COMMA, GAP):
                self.take(between)

    def key(self) -> list[str]:
        """The parts of a dotted key. The parser itself says what they spell."""
        parts, inner = [], tomllib.loads(f"{self.take(KEY)} = 0")
        while isinstance(inner, dict):
            ((part, inner),) = inner.items()
            parts.append(part)
        return parts

    def take(self, pattern: re.Pattern[str]) -> str:
        """What matches a pattern here. It is passed over."""
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"unexpected text at {self.at}")
        self.at = found.end()
        return found[0]

    def line(self) -> int:
        """The line of the next character."""
        return bisect_left(self._ends, self.at) + 1

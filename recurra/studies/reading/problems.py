"""What is wrong with a TOML file, gathered so that a user sees all of it at once, each problem with its line.

Python's parser keeps no positions. So text that it has accepted is read once more, for nothing but the lines on which
keys, tables and list elements are written.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from recurra.studies.settings import SettingsError

#: where something is in a parsed file: keys, and places in lists, from the outside in
Path = tuple[str | int, ...]
#: problems that are shown, and characters of one
MOST_SHOWN, LONGEST_LINE = 20, 500

BLANK = re.compile(r"[ \t]*+")
#: blanks, newlines and comments
GAP = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
STRING = re.compile(
    r'"""(?:[^"\\]++|\\[\s\S]|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
SCALAR = re.compile(r"[^,\]}\n#]*+")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")


@dataclass(frozen=True)
class Places:
    """Where things are written: the file, and the line of each thing in it as far as it is known."""

    file: str
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int | None:
        """The line of what is at `path`, or of what it is missing from."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def told(self, path: Path) -> str:
        """Where something is, in words."""
        line = self.line(path)
        return "elsewhere" if line is None else f"in line {line}"

    def say(self, path: Path, problem: str) -> str:
        """The problem on one line, with its place in front."""
        line = self.line(path)
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in problem.replace("\n", " "))
        if len(text) > LONGEST_LINE:
            text = f"{text[: LONGEST_LINE // 2]} … {text[-LONGEST_LINE // 2 :]}"
        return f"{self.file}{'' if line is None else f', line {line}'}: {text}"


class Problems:
    """A list of problems that grows while a file is checked."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._found: dict[str, int] = {}
        self._noted = 0

    def add(self, path: Path, problem: str) -> None:
        """Note what is wrong with what is written at `path`."""
        self._noted += 1
        self._found.setdefault(self.places.say(path, problem), self.places.line(path) or 0)

    def __len__(self) -> int:
        return self._noted

    def stop(self) -> None:
        """Raise a `SettingsError` with all problems, in the order of the file, if there are any."""
        if not self._found:
            return
        lines = sorted(self._found, key=lambda said: self._found[said])
        more = len(lines) - MOST_SHOWN
        if more > 0:
            lines[MOST_SHOWN:] = [f"{self.places.file}: {more:,} more problem{'s' * (more > 1)} like these."]
        raise SettingsError("\n".join(lines))


def lines_of(text: str, table: dict[str, Any]) -> dict[Path, int]:
    """The line, from 1, of everything in `table`, which `text` was parsed to. Empty if they do not fit together."""
    scan = _Scan(text)
    try:
        scan.document()
    except (RecursionError, ValueError):
        return {}
    # A line that is wrong is worse than none: what was found must be exactly what the parser found.
    return scan.lines if set(scan.lines) == set(_paths(table, ())) else {}


def _paths(value: Any, path: Path) -> Iterator[Path]:
    """The paths of all that a value holds."""
    left = [(path, value)]
    while left:
        path, value = left.pop()
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inner:
            yield (*path, key)
            left.append(((*path, key), each))


class _Scan:
    """A reader of valid TOML, at character `at` of the text."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.lines: dict[Path, int] = {}
        #: [[tables]]: how many of each there are so far
        self.counts: dict[Path, int] = {}
        self.line, self.counted = 1, 0

    def document(self) -> None:
        header: Path = ()
        self.take(GAP)
        while self.at < len(self.text):
            if self.peek() == "[":
                header = self.header()
            else:
                self.assignment(header)
            self.take(GAP)

    def header(self) -> Path:
        """[table] or [[table]]: the path of what follows."""
        double, line = self.text.startswith("[[", self.at), self.here()
        self.at += 1 + double
        *outer, last = self.key()
        self.expect("]" * (1 + double))
        path: Path = ()
        for part in outer:
            path = self.latest((*path, part))
            self.lines.setdefault(path, line)
        path = (*path, last)
        if double:
            count = self.counts[path] = self.counts.get(path, 0) + 1
            self.lines.setdefault(path, line)
            path = (*path, count - 1)
        # A table may have been implied by one inside it, further up.
        self.lines[path] = line
        return path

    def latest(self, path: Path) -> Path:
        """Of [[tables]] the last one so far; of all else the path itself."""
        return (*path, self.counts[path] - 1) if path in self.counts else path

    def assignment(self, path: Path) -> None:
        """key = value, inside of what is at `path`."""
        line, key = self.here(), self.key()
        for part in key:
            path = (*path, part)
            self.lines.setdefault(path, line)
        self.expect("=")
        self.take(BLANK)
        self.value(path)

    def value(self, path: Path) -> None:
        opened = self.peek()
        if opened == "[":
            self.array(path)
        elif opened == "{":
            self.inline_table(path)
        else:
            self.take(STRING if opened in ('"', "'") else SCALAR)

    def array(self, path: Path) -> None:
        self.at += 1
        self.take(GAP)
        place = 0
        while self.peek() != "]":
            self.lines[(*path, place)] = self.here()
            self.value((*path, place))
            place += 1
            self.separator()
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        self.take(GAP)
        while self.peek() != "}":
            self.assignment(path)
            self.separator()
        self.at += 1

    def separator(self) -> None:
        self.take(GAP)
        if self.peek() == ",":
            self.at += 1
            self.take(GAP)

    def key(self) -> list[str]:
        """The parts of a dotted key."""
        parts = []
        while True:
            self.take(BLANK)
            quoted = self.peek() in ('"', "'")
            part = self.take(STRING if quoted else BARE_KEY)
            # The parser itself says what a quoted key spells.
            parts.append(tomllib.loads(f"_ = {part}")["_"] if quoted else part)
            self.take(BLANK)
            if self.peek() != ".":
                return parts
            self.at += 1

    def peek(self) -> str:
        if self.at >= len(self.text):
            raise ValueError("the text ends too soon")
        return self.text[self.at]

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise ValueError(f"unexpected text at {self.at}")
        self.at = found.end()
        return found[0]

    def expect(self, text: str) -> None:
        self.take(BLANK)
        if not self.text.startswith(text, self.at):
            raise ValueError(f"{text!r} is missing at {self.at}")
        self.at += len(text)

    def here(self) -> int:
        """The line of the next character."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line

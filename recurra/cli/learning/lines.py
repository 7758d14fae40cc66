"""Bytes cut into lines, each with the byte where it starts. A line without an end waits until it has one."""

import codecs
from collections import deque

from recurra.cli.learning.feeds import Feed, InputError

#: a line of more bytes belongs to no table
LONGEST = 1 << 24


class Lines:
    """The lines of a feed, with their ends."""

    def __init__(self, feed: Feed):
        self._feed = feed
        #: where the next line starts, and how many came before it
        self.offset, self.number = 0, 0
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []  # of the line that is not complete
        self._rest_size = 0

    @property
    def ended(self) -> bool:
        """Whether there are no more lines, and never will be."""
        return self._feed.ended and not self._lines

    def first(self, count: int) -> list[bytes]:
        """The next lines, as many as are there, which stay there."""
        while len(self._lines) < count and self._fill():
            pass
        return [self._lines[i] for i in range(min(count, len(self._lines)))]

    def pop(self) -> bytes | None:
        """The next line; None if there is none now."""
        while not self._lines:
            if not self._fill():
                return None
        line = self._lines.popleft()
        self.offset += len(line)
        self.number += 1
        return line

    def give_back(self, lines: list[bytes]) -> None:
        """Undo as many `pop`s."""
        self._lines.extendleft(reversed(lines))
        self.offset -= sum(map(len, lines))
        self.number -= len(lines)

    def exactly(self, size: int) -> bytes:
        """The next bytes from here on, as many as there are, before any line is taken."""
        while self._rest_size < size and not self._feed.ended:
            block = self._feed.read()
            if not block and not self._feed.may_lag:
                break
            self._keep(block)
        content = b"".join(self._rest)
        self._rest, self._rest_size = [], 0
        taken, left = content[:size], content[size:]
        self.offset += len(taken)
        self._keep(left)
        return taken

    def skip_to(self, offset: int) -> None:
        """Go on at a later byte, before any line is taken."""
        ahead = offset - self.offset
        if ahead <= self._rest_size:
            self.exactly(ahead)
            return
        self._rest, self._rest_size = [], 0
        self._feed.skip_to(offset)
        self.offset = offset

    def _keep(self, block: bytes) -> None:
        if block:
            self._rest.append(block)
            self._rest_size += len(block)

    def _fill(self) -> bool:
        """Read until another line is complete; whether there is one now."""
        block = self._feed.read()
        while block and b"\n" not in block:
            self._keep(block)
            if self._rest_size > LONGEST:
                raise InputError(
                    f"{self._feed.name}, line {self.number + len(self._lines) + 1:,}, is longer than 16 MB: is this a "
                    "CSV file?"
                )
            block = self._feed.read()
        *complete, rest = b"".join([*self._rest, block]).split(b"\n")
        lines = [line + b"\n" for line in complete]
        self._rest, self._rest_size = [], 0
        if rest and self._feed.ended:  # the last line of a file may have no end
            lines.append(rest)
        else:
            self._keep(rest)
        self._lines.extend(lines)
        return bool(lines)


def is_blank(line: bytes) -> bool:
    """Whether a line is passed over. A line of tabs is a row of empty cells."""
    return not line.strip(b" \r\n")


def decoded(line: bytes) -> str:
    """A line as text: what is not UTF-8 is taken for Latin-1, in which every byte is a letter."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def without_mark(text: str) -> str:
    """The text without the mark by which some programs tell UTF-8."""
    return text.removeprefix(codecs.BOM_UTF8.decode()).removeprefix(codecs.BOM_UTF8.decode("latin-1"))

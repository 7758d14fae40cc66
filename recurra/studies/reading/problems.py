"""What is wrong with a study's file, gathered so that a user sees all of it at once, each with its line."""

from dataclasses import dataclass, field
from typing import NoReturn

from recurra.studies.reading.toml_lines import Path
from recurra.studies.settings import SettingsError

#: problems that are shown, and characters of one
MOST_SHOWN, LONGEST_LINE = 20, 500


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
        """Raise if there are any."""
        if self._found:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise what there is, in the order of the file."""
        lines = sorted(self._found, key=lambda said: self._found[said])
        more = len(lines) - MOST_SHOWN
        if more > 0:
            lines[MOST_SHOWN:] = [f"{self.places.file}: {more:,} more problem{'s' * (more > 1)} like these."]
        raise SettingsError("\n".join(lines))

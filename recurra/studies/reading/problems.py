"""What is wrong with a TOML file, gathered so that a user sees all of it at once, each problem with its line."""

import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recurra.studies.language import SettingsError
from recurra.studies.reading.lines import Path, lines_of
from recurra.training.aliases import path_of
from recurra.training.choices import table_of

#: the path of what is typed on the command line, and written in no file
TYPED: Path = (-1,)
#: tables and lists within each other, which no file of settings needs
DEEPEST = 100
#: problems that are shown, and characters of one
MOST_SHOWN, LONGEST_LINE = 20, 500

T = TypeVar("T")


@dataclass(frozen=True)
class Positions:
    """Where things are written: the file, if it is one, and the line of each thing in it as far as it is known."""

    file: str = ""
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
        place = "" if path[:1] == TYPED else self.file if line is None else f"{self.file}, line {line}"
        return f"{place}: {text}" if place else text


class Problems:
    """A list of problems that grows while a file is checked."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self._found: dict[str, int] = {}

    def add(self, path: Path, problem: object) -> None:
        """Note what is wrong with what is written at `path`."""
        self._found.setdefault(self.positions.say(path, str(problem)), self.positions.line(path) or 0)

    def attempt(self, path: Path, make: Callable[..., T], *arguments: Any) -> T | None:
        """What is made of the arguments. None if that is a ValueError, which is noted for what is written at `path`."""
        try:
            return make(*arguments)
        except ValueError as error:
            self.add(path, error)
            return None

    def stop(self) -> None:
        """Raise a `SettingsError` with all problems, in the order of the file, if there are any."""
        lines = sorted(self._found, key=lambda said: self._found[said])
        more = len(lines) - MOST_SHOWN
        if more > 0:
            lines[MOST_SHOWN:] = [self.positions.say((), f"{more:,} more problem{'s' * (more > 1)} like these.")]
        if lines:
            raise SettingsError("\n".join(lines))


def named_in(error: str, names: Iterable[str]) -> list[str]:
    """The settings of these that an error of a constructor may be about, the likeliest first.

    It names a field. A learner may have one that is called as another part's.
    """
    complains = lambda kind: re.search(rf"\b{kind.__name__}\b", error)
    learners = tuple(f"learner.{name}." for name, kind in table_of("learner").items() if complains(kind))
    unlikely = lambda name: (name.startswith("learner.") != bool(learners), not name.startswith(learners))
    fields = re.findall(r"`(\w+)`", error)
    found = [name for field in fields for name in names if path_of(name).rpartition(".")[2] == field]
    return sorted(found, key=unlikely)


def parsed(text: str, file: str) -> tuple[dict[str, Any], Positions]:
    """What a TOML file says, and where; a `SettingsError` if it is none."""
    try:
        table = tomllib.loads(text)
        if _is_deep(table):
            raise RecursionError
    except RecursionError:
        raise SettingsError(f"{file}: Lists or tables are nested too deeply.") from None
    except ValueError as error:
        said = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
        if said is None:
            raise SettingsError(f"{file}: The file is not valid TOML: {error}.") from None
        problem, line, column = said.groups()
        raise SettingsError(f"{file}, line {line}: This is not valid TOML: {problem}, in column {column}.") from None
    return table, Positions(file, lines_of(text, table))


def _is_deep(table: dict[str, Any]) -> bool:
    """Whether tables and lists lie so deep within each other that functions which go through them cannot."""
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        inside = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for values in inside for each in values]
    return bool(level)

"""The settings of a run in words, checked, and the files that hold them.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.studies.blueprints import blueprints
from recurra.studies.effects import effective, in_vain
from recurra.studies.language import RUN, SettingsError, find, learners_of
from recurra.studies.reading.problems import Positions, Problems, parsed

#: the most bytes that a file of settings may have
LONGEST = 1_000_000


@dataclass(frozen=True)
class Settings:
    """The settings of a run: those that were given, by name. What else there is has its default.

    Defaults are the paper's for most of it. On Add at α = 1 the paper raises DNI's rate to 0.05, and DNI(b)'s to 0.05
    and 0.01.
    """

    learners: tuple[str, ...]
    given: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name in (*RUN, "engine", "dtype"):
            return self.given.get(name, find(name).default)
        raise AttributeError(f"Settings have no attribute {name!r}")

    def plain(self) -> dict[str, Any]:
        """What was given, as JSON has it: `checked` is the inverse."""
        return {**self.given, "learners": list(self.learners)}


def checked(given: Mapping[str, Any]) -> Settings:
    """The settings of a run from those given, by name and in tables within tables, as files have them."""
    problems = Problems(Positions())
    learners = problems.attempt((), learners_of, given.get("learners")) or ()
    found: dict[str, Any] = {}
    for name, value in flat({key: value for key, value in given.items() if key != "learners"}):
        if (setting := problems.attempt((), find, name)) is None:
            continue
        if setting.name in found:
            problems.add((), f"`{setting.name}` is given twice: leave one of them out.")
        found[setting.name] = problems.attempt((), setting.check, value)
    problems.stop()
    working = effective(found, learners)
    for name in found.keys() - working:
        problems.add((), in_vain(name, [blueprints(found, learners).used]))
    problems.stop()
    return Settings(learners, found)


def check_one(name: str, value: Any) -> None:
    """Raise a `SettingsError` if there is no such setting, or none of this value."""
    try:
        find(name).check(value)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All that tables within tables say, by name. [set] is not part of a name."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, prefix if key == "set" and not prefix else f"{prefix}{key}.")
        else:
            yield prefix + key, value


def read_text(path: Path, argument: str) -> str:
    """What is in a file of settings, which the command calls `argument`."""
    told = f"`{argument}` is {str(path)!r}, which"
    try:
        if path.is_dir():
            raise SettingsError(f"{told} is a folder: name a TOML file of settings.")
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
        if len(content) > LONGEST:  # a device may have no end
            raise SettingsError(f"{told} is longer than 1 MB: name a TOML file of settings.")
        return content.decode("utf-8-sig")  # some editors begin a file with a mark, which is no part of it
    except UnicodeDecodeError as error:
        raise SettingsError(f"{told} is not text in UTF-8, as TOML is: {error.reason}.") from None
    except (OSError, ValueError) as error:  # a ValueError is about a name that no file can have
        raise SettingsError(f"{told} cannot be read: {getattr(error, 'strerror', error)}.") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a file, unchecked."""
    return parsed(read_text(path, "config"), f"`config` is {path}")[0]

"""The settings of a run in words, checked, and the files that hold them.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recurra.studies.language import (
    RUN,
    SettingsError,
    effective,
    find,
    in_vain,
    options,
    plan_of,
    table_of,
)

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
        if name in RUN or name == "engine":
            return self.given.get(name, RUN[name][2] if name in RUN else "auto")
        raise AttributeError(f"Settings have no attribute {name!r}")

    @property
    def dtype(self) -> str:
        """The precision asked for: "float32" or "float64"."""
        return self.given.get("dtype", "float32")

    def plain(self) -> dict[str, Any]:
        """What was given, as JSON has it: `checked` is the inverse."""
        return {**self.given, "learners": list(self.learners)}


def checked(given: Mapping[str, Any]) -> Settings:
    """The settings of a run from those given, by name and in tables within tables, as files have them."""
    problems: list[str] = []
    learners = _learners(given.get("learners"), problems)
    found: dict[str, Any] = {}
    for name, value in flat({key: value for key, value in given.items() if key != "learners"}):
        try:
            setting = find(name)
            if setting.name in found:
                raise ValueError(f"`{setting.name}` is given twice: leave one of them out.")
            found[setting.name] = setting.check(value)
        except ValueError as error:
            problems.append(str(error))
    if not problems:
        working = effective(found, learners)
        used = [plan_of(found, learners)[0].used] if len(working) < len(found) else []
        problems += [in_vain(name, used) for name in found if name not in working]
    if problems:
        raise SettingsError("\n".join(problems))
    return Settings(learners, found)


def check_one(name: str, value: Any) -> None:
    """Raise a `SettingsError` if there is no such setting, or none of this value."""
    try:
        find(name).check(value)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _learners(names: Any, problems: list[str]) -> tuple[str, ...]:
    try:
        return learners_of(names)
    except ValueError as error:
        problems.append(str(error))
        return ()


def learners_of(names: Any) -> tuple[str, ...]:
    """The names of learners, if there are such learners and none is there twice; else a ValueError."""
    known = table_of("learner")
    if not names:
        raise ValueError(f"`learners` is empty: choose at least one of {', '.join(known)}.")
    if not isinstance(names, list | tuple):
        raise ValueError(f'`learners` must be a list such as ["uoro", "rflo"], and is {names!r}.')
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"`learners` is {name!r}, which is unknown: {options(name, known)}")
        if list(names).count(name) > 1:
            raise ValueError(f"`learners` must be different, and {name!r} is there {list(names).count(name)} times.")
    return tuple(names)


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All that tables within tables say, by name. [set] is not part of a name."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, prefix if key == "set" and not prefix else f"{prefix}{key}.")
        else:
            yield prefix + key, value


def read_bytes(path: Path, argument: str) -> bytes:
    """What is in a file of settings, which the command calls `argument`."""
    try:
        if path.is_dir():
            raise SettingsError(f"`{argument}` is {path}, which is a folder: name a TOML file of settings.")
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise SettingsError(f"`{argument}` is {path}, which cannot be read: {error.strerror}.") from None
    if len(content) > LONGEST:  # a device may have no end
        raise SettingsError(f"`{argument}` is {path}, which is longer than 1 MB: name a TOML file of settings.")
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a file, unchecked."""
    try:
        return tomllib.loads(read_bytes(path, "config").decode())
    except ValueError as error:  # also what is not UTF-8
        raise SettingsError(f"`config` is {path}, which is not valid TOML: {error}.") from None
    except RecursionError:
        raise SettingsError(f"`config` is {path}, whose lists or tables are nested too deeply.") from None

"""The settings of a run in words, checked, and the files that hold them.

Nothing here imports JAX before it is needed, so that `recurra --help` is quick.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recurra.studies.blueprints import blueprints
from recurra.studies.effects import effective, in_vain
from recurra.studies.language import OF_STUDIES, RUN, SettingsError, find, learners_of
from recurra.studies.reading import lines
from recurra.studies.reading.problems import TYPED, Positions, Problems, named_in, parsed
from recurra.studies.reading.tables import entries, fixed_entries, is_new
from recurra.training.choices import table_of

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
    #: where they are written
    paths: dict[str, lines.Path] = field(default_factory=dict, repr=False, compare=False)
    positions: Positions = field(default_factory=Positions, repr=False, compare=False)

    def __getattr__(self, name: str) -> Any:
        if name in (*RUN, "engine", "dtype"):
            return self.given.get(name, find(name).default)
        raise AttributeError(f"Settings have no attribute {name!r}")

    def plain(self) -> dict[str, Any]:
        """What was given, as JSON has it: `checked` is the inverse."""
        return {**self.given, "learners": list(self.learners)}

    def refused(self, error: str) -> SettingsError:
        """What a constructor has against the settings, with the line of the one that it names."""
        paths = (self.paths.get(name, TYPED) for name in named_in(error, self.given))
        return SettingsError(self.positions.say(next(paths, TYPED), error))


def checked(
    given: Mapping[str, Any], positions: Positions | None = None, typed: Sequence[tuple[str, Any]] = ()
) -> Settings:
    """The settings of a run from those given, by name and in tables within tables, as files have them.

    Those `typed` on the command line override them. Where learners are, settings of others are left out.
    """
    problems = Problems(positions or Positions())
    for name in given.keys() & {*OF_STUDIES}:
        told = f"`{name}` belongs to the file of a study, which `recurra sweep` carries out: run that, or leave it out."
        problems.add((name,), told)
    written = fixed_entries({n: value for n, value in given.items() if n not in ("learners", *OF_STUDIES)}, problems)
    own = [entry for name, value in typed if name != "learners" for entry in entries({name: value}, TYPED, problems)]
    chosen = dict(typed).get("learners")
    where = ("learners",) if chosen is None else TYPED
    learners = problems.attempt(where, learners_of, chosen or given.get("learners")) or ()
    others = () if chosen is None else tuple(f"learner.{name}." for name in table_of("learner") if name not in learners)
    overridden = {setting.name for setting, _, _ in own}
    found: dict[str, Any] = {}
    paths: dict[str, lines.Path] = {}
    for setting, value, path in (*(entry for entry in written if entry[0].name not in overridden), *own):
        if is_new(setting, path, paths, problems):
            value = problems.attempt(path, setting.check, value)
            if path[:1] == TYPED or not setting.name.startswith(others):
                found[setting.name] = value
    problems.stop()
    for name in found.keys() - effective(found, learners):
        problems.add(paths[name], in_vain(name, [blueprints(found, learners).used]))
    problems.stop()
    return Settings(learners, found, paths, problems.positions)


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


def read_toml(path: Path) -> tuple[dict[str, Any], Positions]:
    """The settings in a file, unchecked, and where they are written."""
    return parsed(read_text(path, "config"), str(path))

"""What given settings make of a run: the blueprint of each of its parts, and the settings that have an effect on it.

A field of a part has what is given for its path. Where nothing is given, it has what is given for a more general path,
such as `learner.nu` for `learner.uoro.nu`, and else its default.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from recurra.studies.language import DEFAULTS, RUN, default_of, settable
from recurra.training.aliases import path_of
from recurra.training.choices import choices_of, table_of, word_for


@dataclass(frozen=True)
class Blueprint:
    """A part to be made: its class, and the values of its fields. Some are blueprints themselves, or lists of them.

    Left out are fields that have the default of their class, or that follow from other parts.
    """

    kind: type
    values: dict[str, Any]


class Blueprints(NamedTuple):
    """The blueprints of a run, and all settings that have an effect on it, by path, with what they are."""

    network: Blueprint
    task: Blueprint
    learners: dict[str, Blueprint]
    optimizer: Blueprint
    used: dict[str, Any]


def blueprints(given: Mapping[str, Any], learners: Iterable[str]) -> Blueprints:
    """What settings by name make of a run with these learners."""
    draft = _Draft(given)
    task = draft.chosen_part("task")
    loss = getattr(task.kind, "default_loss", None)
    network = draft.part(table_of("network")["network"], ["network"], {"loss": loss})
    optimizer = draft.chosen_part("optimizer")
    own = {name: draft.part(table_of("learner")[name], [f"learner.{name}", "learner"]) for name in learners}
    return Blueprints(network, task, own, optimizer, draft.used)


class _Draft:
    """Takes what is given for each field of a part, and notes which settings have an effect.

    `paths` are always those of the same thing, from the most special to the most general one.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = {path_of(name): value for name, value in given.items()}
        alone = {name: setting.default for name, setting in RUN.items() if name != "layers"}
        self.used: dict[str, Any] = {}
        for name, default in {**alone, "engine": DEFAULTS["engine"]}.items():
            self.take([name], default)

    def take(self, paths: list[str], default: Any) -> Any:
        """What is given for the first of the paths for which something is."""
        path = next((path for path in paths if path in self.given), paths[0])
        self.used[path] = value = self.given.get(path, default)
        return value

    def given_below(self, path: str) -> set[str]:
        """The next segments of all that is given below a path."""
        return {given[len(path) + 1 :].split(".")[0] for given in self.given if given.startswith(f"{path}.")}

    def chosen_part(self, path: str) -> Blueprint:
        """The part whose name is given for a path."""
        return self.part(table_of(path)[self.take([path], DEFAULTS[path])], [path])

    def part(self, kind: type, paths: list[str], defaults: Mapping[str, Any] | None = None) -> Blueprint:
        """A part of this kind. `defaults` of some of its fields take the place of its own."""
        values, defaults = {}, defaults or {}
        for name, about in settable(paths[0], kind).items():
            own = [f"{path}.{name}" for path in paths]
            default = defaults[name] if name in defaults else default_of(own[0], about)
            if own[0].startswith("task.target.w_rec"):  # the target starts as in the paper: `w_rec` is about learning
                own = own[:1]
            if name == "cells":  # see `cell`
                continue
            if own[0] == "network.cell":
                value = self.cell(own, self.take(["layers"], RUN["layers"].default))
            elif own[0] == "task.target":
                value = self.cell([*own, "network.cell"])
            elif choices := choices_of(kind, name):
                value = self.choice(kind, choices, own, default)
            else:
                value = self.take(own, default)
            if value is not None:
                values[name] = value
        return Blueprint(kind, values)

    def cell(self, paths: list[str], layers: int = 1) -> Blueprint:
        """A cell, or a stack whose layers have the settings of `paths` where they have none of their own."""
        from recurra.cells import CELLS, Stack

        own, is_stack = self.given_below(f"{paths[0]}.cells"), self.given.get(paths[0]) == "stack"
        if layers == 1 and not own and not is_stack:
            outer = [path for path in paths if self.given.get(path) != "stack"]
            return self.part(CELLS[self.take(outer, DEFAULTS["network.cell"])], paths)
        if is_stack:
            self.used[paths[0]] = "stack"
        count = layers if layers > 1 else max([int(each) + 1 for each in own], default=1)
        cells = [self.cell([f"{paths[0]}.cells.{layer}", *paths]) for layer in range(count)]
        return Blueprint(Stack, {"cells": cells, **self.part(Stack, paths[:1]).values})

    def choice(self, owner: type, choices: Mapping[str, Any], paths: list[str], default: Any) -> Any:
        """The function, or the blueprint of the part, that stands in a field; None for what its class has there."""
        from recurra.checks import command_name

        below = set().union(*map(self.given_below, paths))
        has_all = lambda word: word in choices and below <= settable(paths[0], choices[word]).keys()
        is_class, is_given = isinstance(default, type), any(path in self.given for path in paths)
        word = command_name(default) if is_class else word_for(default)
        if below and not is_given and not has_all(word):
            # A field of one part alone says which part is meant, as `density` does.
            word = next(filter(has_all, choices), word)
        word = self.take(paths, word)
        if word is None:
            return None
        chosen = choices[word]
        if isinstance(chosen, type):
            # As is usual, a spiking unit with sparse weights does not hear itself.
            chosen = self.part(chosen, paths, {"itself": getattr(owner, "smooth", True)})
        return chosen if is_given or below or is_class or isinstance(chosen, str) else None

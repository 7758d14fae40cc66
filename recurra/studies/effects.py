"""Which of the given settings have an effect on a run, and why others have none."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from recurra.studies.blueprints import blueprints
from recurra.studies.language import find, kinds_at, settable
from recurra.training.aliases import is_number, name_of, path_of
from recurra.training.choices import table_of


def decides(name: str) -> bool:
    """Whether it depends on a setting which others have an effect."""
    return name in ("layers", "learner") or find(name).of_parts


def effective(given: Mapping[str, Any], learners: Iterable[str]) -> frozenset[str]:
    """Those of the names that have an effect: values of settings that decide nothing do not matter."""
    key = tuple((name, value if decides(name) else None) for name, value in given.items())
    return _effective(key, tuple(learners))


@functools.lru_cache(maxsize=4096)
def _effective(given: tuple[tuple[str, Any], ...], learners: tuple[str, ...]) -> frozenset[str]:
    used = blueprints(dict(given), learners).used
    return frozenset(name for name, _ in given if path_of(name) in used)


def in_vain(name: str, runs: Iterable[Mapping[str, Any]]) -> str:
    """That a setting has no effect, and why. `runs` are the settings that have one, as in `Blueprints.used`."""
    runs, segments = list(runs), path_of(name).split(".")
    if segments[0] == "learner" and segments[1] in table_of("learner"):
        learner = segments[1]
        if not any(path.startswith(f"learner.{learner}.") for run in runs for path in run):
            return f"`{name}` has no effect: {learner} is not among the `learners`. Add it to them, or leave this out."
    elif segments[0] == "learner" and len(segments) == 2:
        return f"`{name}` has no effect: none of the `learners` has it."
    for place, field in enumerate(segments[1:], 1):
        above = ".".join(segments[:place])
        kinds = kinds_at(above) or {}
        if above == "network.cell" and field in ("cells", "skip"):
            # A single layer becomes as many as are told apart.
            few = range(2, int(segments[place + 1]) + 1) if field == "cells" else (1,)
            above, fits = "layers", lambda count, few=few: count not in few
        elif above == "learner" or is_number(field) or len(kinds) < 2:  # it could not be another part
            continue
        else:
            fits = lambda word, kinds=kinds, above=above, field=field: field in settable(above, kinds.get(word))
            if is_number(segments[place - 1]) and not any(above in run for run in runs):
                above = "network.cell"  # a layer is of the kind of all layers if nothing else is said
        seen = list(dict.fromkeys(run[above] for run in runs if above in run))
        if seen and not any(map(fits, seen)):
            other, wanted = name_of(above), " or ".join(repr(word) for word in find(above).choices if fits(word))
            told = f"`{name}` has no effect where `{other}` is {' and '.join(map(repr, seen))}: leave it out"
            return f"{told}, or make `{other}` {wanted}." if wanted else f"{told}."
    return f"`{name}` has no effect: leave it out."

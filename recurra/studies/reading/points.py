"""The combinations of what varies in a study, each without what has no effect in it."""

import functools
import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recurra.studies.choices import Choices, Listed, Spaced, Together, Uniform, Value, Varied
from recurra.studies.reading.names import find, needs
from recurra.studies.settings import NEEDS

Point = dict[str, Value]

#: settings that say which others have an effect
DECIDING = ("learner", *dict.fromkeys(other for other, _ in NEEDS.values()))


@dataclass(frozen=True)
class Combinations:
    """What is fixed and what varies, by dotted names."""

    learners: tuple[str, ...]
    fixed: dict[str, Value]
    varied: dict[str, Varied]

    def applies(self, name: str, point: Point) -> bool:
        """Whether a setting has an effect at a point, or may have one once the point is complete."""
        need = needs(name)
        if need is None:
            return True
        other, wanted = need
        if other in point:
            return point[other] == wanted
        return other in self.random or self.shared(other) == wanted

    def shared(self, name: str) -> Any:
        """The value that a setting has wherever it does not vary."""
        return self.fixed[name] if name in self.fixed else find(name).default

    def relevant(self, point: Point) -> Point:
        """The point without what has no effect in it."""
        return {name: value for name, value in point.items() if self.applies(name, point)}

    @functools.cached_property
    def random(self) -> dict[str, Uniform | Choices]:
        """The random choices."""
        return {name: how for name, how in self.varied.items() if isinstance(how, Uniform | Choices)}

    @functools.cached_property
    def gone_through(self) -> dict[str, Listed | Spaced]:
        """What is gone through value by value."""
        listed = {name: how for name, how in self.varied.items() if isinstance(how, Listed | Spaced)}
        return {name: how for name, how in listed.items() if name != "learner"}

    @functools.cached_property
    def rows(self) -> list[Point]:
        """What [[points]] say, one by one; one that says nothing if there are none."""
        together = {name: how.values for name, how in self.varied.items() if isinstance(how, Together)}
        rows = zip(*together.values(), strict=True) if together else [()]
        return [dict(zip(together, row, strict=True)) for row in rows]

    @functools.cached_property
    def heads(self) -> list[Point]:
        """The combinations of what decides which settings have an effect, all different, without the other settings."""
        deciding = {name: how.values for name, how in self.gone_through.items() if name in DECIDING}
        found: dict[tuple[tuple[str, Value], ...], Point] = {}
        for learner, row in itertools.product(self.learners, self.rows):
            for values in itertools.product(*deciding.values()):
                head = {"learner": learner, **row, **dict(zip(deciding, values, strict=True))}
                head = self.relevant(head)
                found.setdefault(tuple(head.items()), head)
        return list(found.values())

    def tail(self, head: Point) -> dict[str, Listed | Spaced]:
        """What is gone through, beside the head, and has an effect with it."""
        return {name: how for name, how in self.gone_through.items() if name not in head and self.applies(name, head)}

    def count(self) -> int:
        """How many cases there are."""
        return sum(math.prod(len(how) for how in self.tail(head).values()) for head in self.heads)

    def groups(self) -> Iterator[tuple[Point, tuple[str, ...], Iterator[tuple[Value, ...]]]]:
        """All cases, by their heads: the head, the names of a case's settings and, for each case, their values."""
        order = ["learner", *(name for name in self.varied if name != "learner")]
        for head in self.heads:
            tail = self.tail(head)
            names = tuple(name for name in order if name in head or name in tail)
            values = [(head[name],) if name in head else tail[name].values for name in names]
            yield head, names, itertools.product(*values)

    def cases(self) -> list[Point]:
        """All combinations but those of random choices."""
        return [dict(zip(names, values, strict=True)) for _, names, group in self.groups() for values in group]

    def points(self, samples: int) -> list[Point]:
        """All cases with their random choices drawn, all different."""
        if not self.random:
            return self.cases()
        drawn = {name: self.draws(name, samples) for name in self.random}
        changing = any(name in drawn for name in DECIDING)
        found: dict[tuple[tuple[str, ...], tuple[Value, ...]], None] = {}
        for head, names, group in self.groups():
            chosen = [name for name in drawn if self.applies(name, head)]
            names = (*names, *chosen)
            rows = list(zip(*(drawn[name] for name in chosen), strict=True)) if chosen else [()]
            for case, row in itertools.product(group, rows):
                if changing:
                    point = self.relevant(dict(zip(names, (*case, *row), strict=True)))
                    found[tuple(point), tuple(point.values())] = None
                else:
                    found[names, (*case, *row)] = None
        return [dict(zip(names, values, strict=True)) for names, values in found]

    def draws(self, name: str, samples: int) -> Sequence[Value]:
        """The random choices of a setting. They depend on the study's key, the setting and their number, no more."""
        import numpy as np

        digest = hashlib.sha256(name.encode()).digest()
        seed = [int(self.shared("key")), int.from_bytes(digest[:8], "little")]
        return self.random[name].draw(np.random.default_rng(seed), samples)

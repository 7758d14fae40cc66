"""What a study varies: settings by name, how each varies, and the combinations that they make.

A setting varies over a list, over spaced values, along with others, or by a random choice. A combination leaves out
what has no effect in it. The combinations that are listed are *cases*; with random choices drawn they are *points*.
"""

import functools
import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from recurra.studies.blueprints import blueprints
from recurra.studies.effects import decides, effective
from recurra.studies.language import Kind
from recurra.training.aliases import path_of

if TYPE_CHECKING:
    import numpy as np

Value = bool | int | float | str
Point = dict[str, Value]

#: digits of spaced values, so that a grid from 0.1 to 1 has 0.7 in it, and not 0.7000000000000001
DIGITS = 12
#: numbers in a list are shown on a logarithmic axis when the largest is this many times the smallest
MANY_TIMES = 10


@dataclass(frozen=True)
class _Written:
    """Values that are written in the file, all different and of one kind."""

    values: tuple[Value, ...]

    @property
    def kind(self) -> Kind:
        """What the values are."""
        first = self.values[0]
        return "flag" if isinstance(first, bool) else "text" if isinstance(first, str) else "number"

    @property
    def log(self) -> bool:
        """Whether the values are numbers that a linear axis would show badly."""
        numbers = [float(each) for each in self.values] if self.kind == "number" else [0.0]
        return min(numbers) > 0 and max(numbers) >= MANY_TIMES * min(numbers)


class ListedValues(_Written):
    """Values in a list."""

    def __len__(self) -> int:
        return len(self.values)


class Together(ListedValues):
    """The values of a setting in [[points]]; `rows` of the study says which point has which."""


@dataclass(frozen=True)
class Spaced:
    """`count` numbers from `low` to `high`, both included, equally spaced or with equally spaced logarithms.

    Of a setting that is a whole number they are rounded, and those that become equal are taken once.
    """

    low: int | float
    high: int | float
    count: int
    log: bool
    whole: bool
    kind: ClassVar[Kind] = "number"

    def __len__(self) -> int:
        # Without the values themselves where there may be any number of them. Large sizes are an upper bound.
        most = min(self.count, int(self.high) - int(self.low) + 1) if self.whole else self.count
        return len(self.values) if self.whole and self.log and most <= 10**6 else most

    @functools.cached_property
    def values(self) -> tuple[int | float, ...]:
        """The numbers, from the lowest."""
        if self.count == 1:
            return (self.low,)
        return self._whole() if self.whole else self._neat()

    def _whole(self) -> tuple[int, ...]:
        import numpy as np

        reach = self.high * np.log(self.high / self.low) if self.log else self.high - self.low
        if reach <= self.count - 1:  # no two are further apart than 1
            return tuple(range(int(self.low), int(self.high) + 1))
        return tuple(np.unique(np.rint(self._raw()).astype(np.int64)).tolist())

    def _raw(self) -> tuple[int | float, ...]:
        import numpy as np

        wanted = np.geomspace if self.log else np.linspace
        return (self.low, *wanted(self.low, self.high, self.count)[1:-1].tolist(), self.high)

    def _neat(self) -> tuple[int | float, ...]:
        """The numbers with fewer digits, unless some of them then coincide."""
        import numpy as np

        raw = self._raw()
        if self.log:
            inner = [float(f"{each:.{DIGITS}g}") for each in raw[1:-1]]
        else:
            digits = DIGITS - 1 - int(np.floor(np.log10(max(abs(self.low), abs(self.high)))))
            inner = [round(each, digits) for each in raw[1:-1]]
        neat = (self.low, *inner, self.high)
        if all(a < b for a, b in itertools.pairwise(neat)):
            return neat
        # Ends that are almost equal may have fewer floats between them.
        return tuple(sorted({min(max(each, self.low), self.high) for each in raw}))


@dataclass(frozen=True)
class Uniform:
    """A random number between `low` and `high`, equally likely everywhere, or its logarithm is.

    Of a setting that is a whole number, both ends are among the numbers drawn.
    """

    low: int | float
    high: int | float
    log: bool
    whole: bool
    kind: ClassVar[Kind] = "number"

    @property
    def values(self) -> Sequence[int]:
        """All values of a setting that is a whole number."""
        return range(int(self.low), int(self.high) + 1)

    def draw(self, generator: "np.random.Generator", count: int) -> list[int] | list[float]:
        """As many random numbers; the first of them do not depend on how many."""
        import numpy as np

        part = generator.random(count)
        if self.whole and not self.log:
            return (self.low + np.floor(part * (self.high - self.low + 1)).astype(np.int64)).tolist()
        half = 0.5 if self.whole else 0.0  # each whole number stands for what is rounded to it
        low, high = np.float64(self.low - half), np.float64(self.high + half)
        between = lambda low, high: (1 - part) * low + part * high
        drawn = np.exp(between(np.log(low), np.log(high))) if self.log else between(low, high)
        if self.whole:
            return np.clip(np.rint(drawn), self.low, self.high).astype(np.int64).tolist()
        return np.clip(drawn, self.low, self.high).tolist()


class Choices(_Written):
    """A random one of several values, all equally likely."""

    def draw(self, generator: "np.random.Generator", count: int) -> list[Value]:
        """As many random values; the first of them do not depend on how many."""
        return [self.values[int(part * len(self.values))] for part in generator.random(count)]


#: what is searched or drawn
Random = Uniform | Choices
#: what is gone through value by value
Gone = ListedValues | Spaced
Varied = ListedValues | Spaced | Uniform | Choices


@dataclass(frozen=True)
class Combinations:
    """What is fixed and what varies, by dotted names."""

    learners: tuple[str, ...]
    #: settings that all networks share, as far as the file gives them
    fixed: dict[str, Value]
    #: how settings vary, in the order of the file; "learner" is the first of them if there are several
    varied: dict[str, Varied]
    #: what [[points]] say, one by one; one that says nothing if there are none
    rows: tuple[Point, ...]

    def working(self, point: Point) -> frozenset[str]:
        """The settings that have an effect at a point, or may have one once the point is complete."""
        learners = (str(point["learner"]),)
        return frozenset[str]().union(*(effective(given, learners) for given in self._completed(point)))

    def used(self, point: Point) -> dict[str, Any]:
        """The settings that have an effect at a point, by path, with what they are: also those that are not given."""
        return blueprints(next(self._completed(point)), (str(point["learner"]),)).used

    def _completed(self, point: Point) -> Iterator[dict[str, Any]]:
        """What is given at a point, once for each way in which what decides may still be chosen."""
        missing = {name: how for name, how in self.alone.items() if name not in point}
        known = {**self.fixed, **dict.fromkeys(missing), **point}
        known.pop("learner", None)
        still_open = [name for name in missing if decides(name)]
        for values in itertools.product(*(missing[name].values for name in still_open)):
            yield known | dict(zip(still_open, values, strict=True))

    def relevant(self, point: Point) -> Point:
        """The point without what has no effect in it."""
        working = self.working(point)
        return {name: value for name, value in point.items() if name == "learner" or name in working}

    @functools.cached_property
    def alone(self) -> dict[str, Varied]:
        """What varies by itself: neither the learner, nor what varies along with other settings in [[points]]."""
        return {n: how for n, how in self.varied.items() if n != "learner" and not isinstance(how, Together)}

    @functools.cached_property
    def random(self) -> dict[str, Random]:
        """The random choices."""
        return {name: how for name, how in self.alone.items() if isinstance(how, Random)}

    @functools.cached_property
    def gone_through(self) -> dict[str, Gone]:
        """What is gone through value by value."""
        return {name: how for name, how in self.alone.items() if isinstance(how, Gone)}

    def combined(self, rows: Iterable[Point]) -> Iterator[Point]:
        """Every learner with every row and all combinations of what else decides which settings have an effect."""
        deciding = {name: how.values for name, how in self.gone_through.items() if decides(name)}
        for learner, row, values in itertools.product(self.learners, rows, itertools.product(*deciding.values())):
            yield {"learner": learner, **row, **dict(zip(deciding, values, strict=True))}

    @functools.cached_property
    def heads(self) -> list[Point]:
        """The combinations of what decides which settings have an effect, all different, without the other settings.

        A row of [[points]] that leaves out what another row has gets its default.
        """
        together = [name for name, how in self.varied.items() if isinstance(how, Together)]
        found: dict[tuple[tuple[str, Value], ...], Point] = {}
        for head in self.combined(self.rows):
            if not head.keys() >= set(together):
                used = self.used(head)
                head = {name: used[path_of(name)] for name in together if used.get(path_of(name)) is not None} | head
            head = self.relevant({name: head[name] for name in ("learner", *self.varied) if name in head})
            found.setdefault(tuple(head.items()), head)
        return list(found.values())

    def tail(self, head: Point) -> dict[str, Gone]:
        """What is gone through, beside the head, and has an effect with it."""
        working = self.working(head)
        return {name: how for name, how in self.gone_through.items() if name not in head and name in working}

    def count_cases(self) -> int:
        """How many cases there are."""
        return sum(math.prod(len(how) for how in self.tail(head).values()) for head in self.heads)

    def cases(self) -> list[Point]:
        """All combinations but those of random choices."""
        found: list[Point] = []
        for head in self.heads:
            values = {name: how.values for name, how in self.tail(head).items()}
            values |= {name: (value,) for name, value in head.items()}
            names = [name for name in dict.fromkeys(("learner", *self.varied)) if name in values]
            rows = itertools.product(*(values[name] for name in names))
            found += (dict(zip(names, row, strict=True)) for row in rows)
        return found

    def drawn(self, samples: int) -> list[Point]:
        """All cases with their random choices drawn, all different."""
        if not self.random:
            return self.cases()
        columns = [self._draws(name, samples) for name in self.random]
        draws = [dict(zip(self.random, row, strict=True)) for row in zip(*columns, strict=True)]
        every = (self.relevant(case | draw) for case, draw in itertools.product(self.cases(), draws))
        return list({tuple(point.items()): point for point in every}.values())

    def _draws(self, name: str, samples: int) -> Sequence[Value]:
        """The random choices of a setting. They depend on the study's key, the setting and their number, no more."""
        import numpy as np

        digest = hashlib.sha256(name.encode()).digest()
        seed = [int(self.fixed.get("key", 0)), int.from_bytes(digest[:8], "little")]
        return self.random[name].draw(np.random.default_rng(seed), samples)

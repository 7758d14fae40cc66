"""How a setting varies in a study: over a list, over spaced values, along with others, or by a random choice."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np

Value = bool | int | float | str
Kind = Literal["number", "text", "flag"]

#: digits of spaced values, so that a grid from 0.1 to 1 has 0.7 in it, and not 0.7000000000000001
DIGITS = 12
#: numbers in a list are shown on a logarithmic axis when the largest is this many times the smallest
MANY_TIMES = 10


def kind_of(values: Sequence[Value]) -> Kind:
    """What the values are."""
    return "flag" if isinstance(values[0], bool) else "text" if isinstance(values[0], str) else "number"


def far_apart(values: Sequence[Value]) -> bool:
    """Whether the values are numbers that a linear axis would show badly."""
    if kind_of(values) != "number":
        return False
    numbers = [float(each) for each in values]
    return min(numbers) > 0 and max(numbers) >= MANY_TIMES * min(numbers)


class _Given:
    """What a list that is written in the file says of itself."""

    values: tuple[Value, ...]

    @property
    def kind(self) -> Kind:
        return kind_of(self.values)

    @property
    def log(self) -> bool:
        return far_apart(self.values)


@dataclass(frozen=True)
class Listed(_Given):
    """Values in a list, all different."""

    values: tuple[Value, ...]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Together(_Given):
    """The values of a setting in [[points]], one for each of them, and its default where a point is without it."""

    values: tuple[Value, ...]
    #: whether a point has it in the file
    given: tuple[bool, ...]


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


@dataclass(frozen=True)
class Choices(_Given):
    """A random one of several values, all equally likely."""

    values: tuple[Value, ...]

    def draw(self, generator: "np.random.Generator", count: int) -> list[Value]:
        """As many random values; the first of them do not depend on how many."""
        return [self.values[int(part * len(self.values))] for part in generator.random(count)]


#: what is searched or drawn
Random = Uniform | Choices
#: what is gone through value by value
Gone = Listed | Spaced
Varied = Listed | Together | Spaced | Uniform | Choices

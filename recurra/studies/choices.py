"""What a study varies: settings under dotted names, how each varies, and the combinations that they make.

A setting is named as in `alpha` or `learner.kernl.perturbation`. It varies over a list, over spaced values, along with
others, or by a random choice. A combination leaves out what has no effect in it.
"""

import functools
import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ValidationError

from recurra.studies.settings import NEEDS, Settings, in_words, learner_table, options

if TYPE_CHECKING:
    import numpy as np

Value = bool | int | float | str
Point = dict[str, Value]
Kind = Literal["number", "text", "flag"]

#: digits of spaced values, so that a grid from 0.1 to 1 has 0.7 in it, and not 0.7000000000000001
DIGITS = 12
#: numbers in a list are shown on a logarithmic axis when the largest is this many times the smallest
MANY_TIMES = 10
#: settings that a study sets for all of its networks, and why
NOT_VARIED = {
    "samples": "`samples` belongs at the top of the file, above any [table]: so often random choices are drawn.",
    "learners": "`learners` are compared anyway: list them at the top of the file, above any [table].",
    "seeds": "`seeds` belongs at the top of the file, above any [table]: every combination is run with all of them.",
    "window": "`window` is the same for all networks, so that their losses compare: set it at the top of the file.",
    "task_options": "`task_options` is the same for all networks: write it as a table of its own, [task_options].",
    "cell_options": "`cell_options` is the same for all networks: write it as a table of its own, [cell_options].",
    "key": "`key` is the same for all networks: for other random numbers take other `seeds`.",
}
#: tables of settings of the task and the cell, the same for all networks
TABLES = ("task_options", "cell_options")
#: what is in a study's file beside settings
OWN = ("samples", "vary", "points", "tune")
#: whole numbers that a data set's floats hold exactly
LARGEST = 2**53
#: settings that say which others have an effect
DECIDING = ("learner", *dict.fromkeys(other for other, _ in NEEDS.values()))


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


@dataclass(frozen=True)
class Named:
    """A setting: what it may be, and what it is when nothing is said."""

    name: str
    kind: Kind
    whole: bool
    default: Any
    model: type[BaseModel]
    field: str

    def check(self, value: Any) -> Any:
        """The value as the setting takes it, or a ValueError that says what is wrong with it."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"`{self.name}` must be a finite number, and is {value!r}.")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(f"`{self.name}` is {_short(value)}, which is too large: at most 2⁵³ is possible.")
        if self.name in TABLES:  # their content depends on task and cell: it is checked with every network's settings
            return value
        given: dict[str, Any] = {}
        if self.model is Settings:  # what a run must have, and what this setting needs
            given = {"learners": ("rtrl",)} | dict([NEEDS[self.name]] if self.name in NEEDS else [])
        given[self.field] = value
        try:
            return getattr(self.model.model_validate(given), self.field)
        except ValidationError as error:
            prefix = self.name.removesuffix(self.field)
            raise ValueError(in_words(error.errors()[0], self.model, prefix)) from None


def _short(value: int) -> str:
    """A whole number, which may have more digits than Python writes."""
    return str(value) if value.bit_length() < 200 else f"about 2^{value.bit_length()}"


def needs(name: str) -> tuple[str, str] | None:
    """The setting, and its value, without which this one has no effect."""
    if name.startswith("learner."):
        return "learner", name.split(".")[1]
    return NEEDS.get(name)


@functools.cache
def find(name: str, varies: bool = False) -> Named:
    """The setting of that name, in a table of what varies or among what is fixed; a ValueError if there is none."""
    if name.startswith("learner."):
        return _find_learners(name)
    if name not in Settings.model_fields:
        known = [each for each in (*Settings.model_fields, *OWN) if each != "learner"]
        if varies:
            known = [each for each in known if each not in (*NOT_VARIED, *OWN)]
        raise ValueError(f"`{name}` is not a setting: {options(name, known)}")
    return _named(name, Settings, name)


def _find_learners(name: str) -> Named:
    from recurra.learners import LEARNERS

    _, learner, field = name.split(".", 2)
    if learner not in LEARNERS:
        raise ValueError(f"`learner.{learner}` is not a learner: {options(learner, LEARNERS)}")
    model = learner_table(LEARNERS[learner])
    if not model.model_fields:
        raise ValueError(f"`{name}` is not a setting: {learner} has none.")
    if field not in model.model_fields:
        raise ValueError(f"`{name}` is not a setting of {learner}: {options(field, model.model_fields)}")
    return _named(name, model, field)


def _named(name: str, model: type[BaseModel], field: str) -> Named:
    about = model.model_fields[field]
    kinds = get_args(about.annotation) or (about.annotation,)
    whole = int in kinds
    kind: Kind = "flag" if bool in kinds else "number" if whole or float in kinds else "text"
    return Named(name, kind, whole, about.default, model, field)


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
    def random(self) -> dict[str, Random]:
        """The random choices."""
        return {name: how for name, how in self.varied.items() if isinstance(how, Uniform | Choices)}

    @functools.cached_property
    def gone_through(self) -> dict[str, Gone]:
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

    def tail(self, head: Point) -> dict[str, Gone]:
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

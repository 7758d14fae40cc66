"""A book: a set of experiments, what is claimed of them and what is drawn of them, on one page.

There are two: the paper, reproduced (`reproduction`), and what lies beyond it (`beyond`). Running, keeping, judging and
drawing are the same for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from recurra_paper.claims.base import Claim, Data
from recurra_paper.experiments.base import Experiment
from recurra_paper.figures.drawn import Drawn, Table


@runtime_checkable
class Figure(Protocol):
    """A module, or a package, that draws one figure. A claim names the figure beside which it stands."""

    NAME: str
    TITLE: str

    @staticmethod
    def needs(profile: Any) -> list[str]:
        """The experiments it shows, by the start of their names."""
        ...

    @staticmethod
    def draw(data: Data) -> Drawn | None:
        """The figure, or None where nothing it needs was run. What was run in part is shown in part."""
        ...


@dataclass(frozen=True)
class Section:
    """Something the page says besides its figures: paragraphs, then rows of a table, which map a heading to a cell."""

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    rows: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Fresh:
    """Data of seeds that nothing else has used, under the names that claims know, and what to say of them."""

    data: Callable[[Data], Data]
    note: str


@dataclass(frozen=True)
class Book:
    """What a page is made of.

    `profiles` maps a name to the scale of a run, a frozen dataclass whose first field is that name. `lead` opens the
    page. `tables` are numbers that go into files without a figure, such as every seed's final loss, by file name.
    Claims are judged once more by `fresh` data, where there are any.
    """

    name: str
    command: str
    title: str
    lead: str
    profiles: Mapping[str, Any]
    experiments: Callable[[Any], Sequence[Experiment]]
    claims: Sequence[Claim]
    figures: Mapping[str, Figure]
    tables: Callable[[Data], Mapping[str, Table]]
    sections: Sequence[Section] = ()
    fresh: Fresh | None = None

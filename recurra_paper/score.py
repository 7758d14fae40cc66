"""How many claims hold: the count that opens a page, and what to think of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recurra_paper.claims.base import ERROR_RATE

#: in the order in which the page shows them: what fails must not be overlooked
STATUSES = ("does not hold", "not decided", "holds")
#: what a finding says of a difference that is known to be small
SMALL = "too small to matter"

#: a claim with its verdict: what `ledger` gives
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Score:
    """Of `total` claims so many hold, do not hold, or are not decided.

    `small` fail by what is too small to matter. `unjudged` have no number: what they need was not run or not learnt.
    """

    total: int
    holds: int
    fails: int
    small: int
    undecided: int
    unjudged: int = 0

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Score":
        """The score of these claims."""
        having = lambda status: [row for row in rows if row["status"] == status]
        failing = having("does not hold")
        small = sum(map(_by_little, failing))
        undecided = having("not decided")
        unjudged = sum(row["number"] is None for row in undecided)
        return cls(len(rows), len(having("holds")), len(failing), small, len(undecided), unjudged)

    def __str__(self) -> str:
        """In words, after "Of n claims"."""
        parts = [f"{self.holds} {'holds' if self.holds == 1 else 'hold'}"]
        fails = f"{self.fails} {'does' if self.fails == 1 else 'do'} not hold"
        if self.small:
            whose = "by a difference" if self.fails == 1 else f"{self.small} of them by differences"
            fails += f" ({whose} too small to matter)"
        parts.append(fails)
        undecided = f"{self.undecided} {'is' if self.undecided == 1 else 'are'} not decided by these runs"
        if self.unjudged:
            whose = "which cannot be judged" if self.undecided == 1 else f"{self.unjudged} of them cannot be judged"
            undecided += f" ({whose}, because what it takes was not run or had not learnt)"
        parts.append(undecided)
        return f"{parts[0]}, {parts[1]}, and {parts[2]}"


@dataclass(frozen=True)
class Scores:
    """The score of all claims, of those that rest on counts, which cannot vary, and of those open to chance."""

    every: Score
    counted: Score
    open_to_chance: Score

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Scores":
        """The scores of a ledger."""
        unknown = {str(row["status"]) for row in rows} - set(STATUSES)
        if unknown:
            raise ValueError(f"a claim's status is one of {', '.join(STATUSES)}, not {', '.join(sorted(unknown))}")
        by_kind = [[row for row in rows if bool(row["counted"]) is kind] for kind in (True, False)]
        return cls(Score.of(rows), *map(Score.of, by_kind))

    def sentences(self) -> list[str]:
        """What the page opens with, a paragraph each."""
        if not self.every.total:
            return ["No claims were checked."]
        counted, rest = self.counted, self.open_to_chance
        if not rest.total:
            return [f"Of {_claims(counted.total)}, {counted}.", "All rest on counts, which cannot vary."]
        told = [f"Of {_claims(rest.total)} that {'rest' if rest.total > 1 else 'rests'} on samples, {rest}."]
        if counted.total:
            told.append(
                f"{counted.total} more {'claims rest' if counted.total > 1 else 'claim rests'} on counts, such as "
                f"bytes or operations, which cannot vary and fail only by a mistake. Of {counted.total}, {counted}."
            )
        told.append(
            f"What rests on samples is judged at {1 - ERROR_RATE:.0%} confidence. Nothing is corrected for the number "
            f"of claims: where a difference matters, by chance about one in {1 / ERROR_RATE:.0f} may be misjudged, "
            f"here {_about(rest.total * ERROR_RATE)}. A true difference that is too small to matter may well be judged "
            "to be none."
        )
        return told


def _claims(number: int) -> str:
    return f"{number} {'claim' if number == 1 else 'claims'}"


def _by_little(row: Row) -> bool:
    """Whether every part that fails does so by a difference too small to matter."""
    failing = [part for part in row["details"].get("parts", ()) if part.get("status") == "does not hold"]
    return bool(failing) and all(SMALL in part.get("finding", "") for part in failing)


def _about(number: float) -> str:
    return "fewer than one" if number < 1 else f"about {round(number)}"

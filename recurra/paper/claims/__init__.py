"""The ledger of the paper's claims, in the paper's order: what is claimed, by which criterion, what the data say."""

from typing import Any

from recurra.paper.claims import alignment, estimators, exact, memory, performance, table
from recurra.paper.claims.base import Claim as Claim
from recurra.paper.claims.base import Data as Data
from recurra.paper.claims.base import Profile as Profile
from recurra.paper.claims.base import Verdict as Verdict
from recurra.paper.claims.base import finite

CLAIMS: tuple[Claim, ...] = (
    exact.SMALL_RATE,
    *table.CLAIMS,
    exact.LATTICE,
    *estimators.CLAIMS,
    *performance.ADD,
    *performance.MIMIC,
    *alignment.CLAIMS,
    *memory.CLAIMS,
    alignment.DISSOCIATION,
    *estimators.SUMMED,
)


def ledger(data: Data, profile: Profile) -> list[dict[str, Any]]:
    """Every claim with its verdict, ready for JSON."""

    def row(claim: Claim) -> dict[str, Any]:
        verdict = claim.decide(data, profile)
        return {
            "id": claim.id,
            "text": claim.text,
            "where": claim.where,
            "criterion": claim.criterion,
            "status": verdict.status,
            "measured": verdict.measured,
            "number": finite(verdict.number),
            "uncertainty": finite(verdict.uncertainty),
            "details": verdict.details,
        }

    return [row(claim) for claim in CLAIMS]

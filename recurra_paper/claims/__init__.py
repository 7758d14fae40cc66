"""The ledger of the paper's claims, in the paper's order: what is claimed, by which criterion, what the data say."""

from recurra_paper.claims import across, alignment, estimators, exact, memory, performance, table
from recurra_paper.claims.base import Claim as Claim
from recurra_paper.claims.base import Data as Data
from recurra_paper.claims.base import Profile as Profile
from recurra_paper.claims.base import Verdict as Verdict
from recurra_paper.claims.base import ledger as ledger

CLAIMS: tuple[Claim, ...] = (
    exact.SMALL_RATE,
    *table.CLAIMS,
    exact.LATTICE,
    *estimators.CLAIMS,
    *performance.ADD,
    *performance.MIMIC,
    memory.HORIZON_CLAIM,
    *alignment.CLAIMS,
    *memory.CLAIMS,
    *across.CLAIMS,
    *estimators.SUMMED,
)

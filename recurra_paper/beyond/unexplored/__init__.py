"""The two of the paper's six decompositions of M that it calls unexplored: A_kj B_ij and A_ki B_kj.

Both are possible. Column-UORO is the first and Receiver-UORO the second. They are measured beside the learners of
the paper, with two others that estimate M without bias: PREUORO, and Diagonal-UORO, this library's own.
"""

from typing import TYPE_CHECKING

from recurra_paper.beyond.unexplored.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.unexplored.runs import NAME as NAME
from recurra_paper.beyond.unexplored.runs import TITLE as TITLE
from recurra_paper.beyond.unexplored.runs import experiments as experiments
from recurra_paper.beyond.unexplored.runs import needs as needs
from recurra_paper.claims.base import Data

if TYPE_CHECKING:
    from recurra_paper.figures.drawn import Drawn


def draw(data: Data) -> "Drawn | None":
    """The figure. Matplotlib is loaded here, so that experiments can be run where it is not installed."""
    from recurra_paper.beyond.unexplored.figure import draw

    return draw(data)

"""Best rates: what is left of the paper's order when every learner has its best learning rate?"""

from recurra_paper.beyond.best_rates.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.best_rates.claims import NAME as NAME
from recurra_paper.beyond.best_rates.figure import TITLE as TITLE
from recurra_paper.beyond.best_rates.figure import draw as draw
from recurra_paper.beyond.best_rates.figure import needs as needs
from recurra_paper.beyond.grids import grids as experiments

__all__ = ["CLAIMS", "NAME", "TITLE", "draw", "experiments", "needs"]

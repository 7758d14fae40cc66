"""Rates: how fast may each learner learn, how finely must it be tuned, and what does patience bring?"""

from recurra_paper.beyond.rates.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.rates.figure import NAME as NAME
from recurra_paper.beyond.rates.figure import TITLE as TITLE
from recurra_paper.beyond.rates.figure import draw as draw
from recurra_paper.beyond.rates.figure import needs as needs
from recurra_paper.beyond.rates.runs import experiments as experiments

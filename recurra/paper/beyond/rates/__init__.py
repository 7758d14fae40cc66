"""Rates: how fast may each learner learn, how finely must it be tuned, and what does patience bring?"""

from recurra.paper.beyond.rates.claims import CLAIMS as CLAIMS
from recurra.paper.beyond.rates.figure import NAME as NAME
from recurra.paper.beyond.rates.figure import TITLE as TITLE
from recurra.paper.beyond.rates.figure import draw as draw
from recurra.paper.beyond.rates.figure import needs as needs
from recurra.paper.beyond.rates.runs import experiments as experiments

"""Gated networks: do the paper's findings carry over to GRU and LSTM?

The paper trains plain tanh networks. Its learners are derived for any recurrent network, and gated ones are what most
people use. Here its comparisons of losses and of gradients are repeated with 32 units of either kind.
"""

from recurra_paper.beyond.gated.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.gated.figure import NAME as NAME
from recurra_paper.beyond.gated.figure import TITLE as TITLE
from recurra_paper.beyond.gated.figure import draw as draw
from recurra_paper.beyond.gated.figure import needs as needs
from recurra_paper.beyond.gated.runs import experiments as experiments

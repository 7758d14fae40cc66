"""RFLO's mechanism: does what a network remembers by itself decide what RFLO learns?

The paper explains RFLO as a static prediction of y*(t) from the evidence in a(t-1), and shows that it fails where this
evidence is weak. Here the evidence is measured for ten kinds of recurrent weights, as the paper measures it and as far
as gradient descent reaches, and compared with what RFLO gains.
"""

from recurra_paper.beyond.mechanism.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.mechanism.figure import NAME as NAME
from recurra_paper.beyond.mechanism.figure import TITLE as TITLE
from recurra_paper.beyond.mechanism.figure import draw as draw
from recurra_paper.beyond.mechanism.figure import needs as needs
from recurra_paper.beyond.mechanism.runs import experiments as experiments

"""Bias against variance, by intervention: what happens to a learner whose noise, or whose bias, is changed alone.

The paper's cartoon has UORO held back by noise, which averages out, and deterministic learners by errors that do not.
Here noise is taken away, given to RTRL by itself, and RFLO's bias is given to RTRL by degrees.
"""

from recurra_paper.beyond.intervention.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.intervention.figure import NAME as NAME
from recurra_paper.beyond.intervention.figure import TITLE as TITLE
from recurra_paper.beyond.intervention.figure import draw as draw
from recurra_paper.beyond.intervention.figure import needs as needs
from recurra_paper.beyond.intervention.runs import experiments as experiments

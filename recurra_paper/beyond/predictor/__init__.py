"""Alignment as a predictor: does the alignment of a learner's gradient with the exact one say how well it learns?

The paper finds that alignment at single steps does not account for performance, and asks for measures that compare
longer stretches of learning. Here gradients are summed over ever more steps before they are compared.
"""

from recurra_paper.beyond.predictor.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.predictor.figure import NAME as NAME
from recurra_paper.beyond.predictor.figure import TITLE as TITLE
from recurra_paper.beyond.predictor.figure import draw as draw
from recurra_paper.beyond.predictor.figure import needs as needs
from recurra_paper.beyond.predictor.runs import experiments as experiments

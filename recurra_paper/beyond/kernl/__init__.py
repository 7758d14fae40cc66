"""KeRNL: is it too noisy?

The paper could not get KeRNL to learn better than RFLO, and suspects that fitting it by perturbations is too noisy for
online learning. Here noise is averaged away, in three ways, and the space of its settings is searched.
"""

from recurra_paper.beyond.kernl.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.kernl.figure import NAME as NAME
from recurra_paper.beyond.kernl.figure import TITLE as TITLE
from recurra_paper.beyond.kernl.figure import draw as draw
from recurra_paper.beyond.kernl.figure import needs as needs
from recurra_paper.beyond.kernl.runs import experiments as experiments

"""DNI(b), taken apart: which of its three approximations costs what.

The paper has DNI(b) learn slightly worse than DNI, as an approximation on top of an approximation. It changes three
things at once. Here they are taken one at a time and together.
"""

from recurra_paper.beyond.dni_b.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.dni_b.figure import NAME as NAME
from recurra_paper.beyond.dni_b.figure import TITLE as TITLE
from recurra_paper.beyond.dni_b.figure import draw as draw
from recurra_paper.beyond.dni_b.figure import needs as needs
from recurra_paper.beyond.dni_b.runs import experiments as experiments

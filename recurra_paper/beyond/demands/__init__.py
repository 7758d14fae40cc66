"""What a task demands: where does each learner stop learning as lags grow, and as there is more to remember?

The paper supposes that UORO and R-KF-RTRL carry little information over many steps, and that DNI and DNI(b) carry more
over fewer. `Recall` is a task with one dial for each; the reach is how far back a learner learns to look.
"""

from recurra_paper.beyond.demands.claims import CLAIMS as CLAIMS
from recurra_paper.beyond.demands.figure import NAME as NAME
from recurra_paper.beyond.demands.figure import TITLE as TITLE
from recurra_paper.beyond.demands.figure import draw as draw
from recurra_paper.beyond.demands.figure import needs as needs
from recurra_paper.beyond.demands.runs import experiments as experiments

"""One step of learning, as two pure functions.

    observe   an input arrives: the network moves on, and there is an output
    learn     a label arrives: every learner turns the step into a gradient, and the weights follow one of them

Between the two lies an `Observed`. Training, the paper's experiments, benchmarks and live streams all repeat these two
functions; an engine calls one right after the other and compiles both together. Nothing here knows of tasks, of
recorders, or of how often it is called.

**Without a label** cbar = 0, and the readout stands still. Past-facing learners emit nothing. Future-facing ones and
E-BPTT emit what is due from labelled steps. **A reset** before step t sets a(t-1) to the first state, and J(t) = 0:
the past does not reach step t, whichever way a learner faces.

To register an optimizer, import it below. The command line, study files, saved files and `import recurra` know it from
there.
"""

from typing import TYPE_CHECKING

from recurra.checks import registered
from recurra.step.adam import Adam as Adam
from recurra.step.delayed import DelayedState as DelayedState
from recurra.step.delayed import DelayedStep as DelayedStep
from recurra.step.learning import APPLIED as APPLIED
from recurra.step.learning import LearningStep as LearningStep
from recurra.step.obgd import AdaptiveObGD as AdaptiveObGD
from recurra.step.obgd import ObGD as ObGD
from recurra.step.online_grad import OnlineGrad as OnlineGrad
from recurra.step.online_grad import online_grad as online_grad
from recurra.step.optimizers import Described as Described
from recurra.step.optimizers import Optimizer as Optimizer
from recurra.step.per_gate import PerGate as PerGate
from recurra.step.readouts import RLS as RLS
from recurra.step.rmsprop import RMSProp as RMSProp
from recurra.step.sgd import SGD as SGD
from recurra.step.types import GivenCredit as GivenCredit
from recurra.step.types import GivenError as GivenError
from recurra.step.types import LearningState as LearningState
from recurra.step.types import Observed as Observed
from recurra.step.types import Outcome as Outcome

#: the optimizers that are described by their numbers, by their names on the command line
OPTIMIZERS: dict[str, type[Described]] = registered(globals(), Described, leave_out=(PerGate,))

if not TYPE_CHECKING:  # a type checker cannot read such a list, and takes all names above
    #: What `import recurra` offers of this package.
    __all__ = ["OPTIMIZERS", *(kind.__name__ for kind in OPTIMIZERS.values()), "PerGate", "RLS"]
    __all__ += ["DelayedStep", "GivenCredit", "GivenError", "LearningStep", "OnlineGrad", "Outcome", "online_grad"]

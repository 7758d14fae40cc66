"""What is run to reproduce the paper, each experiment found by its name."""

from recurra.paper.experiments.base import Arrays as Arrays
from recurra.paper.experiments.base import Experiment as Experiment
from recurra.paper.experiments.bias import Bias
from recurra.paper.experiments.gradients import Gradients
from recurra.paper.experiments.lattice import Lattice
from recurra.paper.experiments.losses import FAMILIES, FamilyCurve, LossCurve
from recurra.paper.experiments.memory import Memory
from recurra.paper.experiments.scaling import Scaling
from recurra.paper.experiments.small_rate import SmallRate
from recurra.paper.profiles import Profile
from recurra.paper.setup import ALPHAS, CURVES, LEARNERS, TASKS


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    p = profile
    return [
        *(Lattice(learner) for learner in ("rtrl", "f-bptt", "e-bptt", "rflo")),
        *(Memory(family, p.memory_seeds, p.memory_steps) for family in FAMILIES),
        SmallRate(p.memory_seeds),
        *(
            Scaling(name, p.small_sizes if name in ("rtrl", "r-ok") else p.sizes)
            for name in LEARNERS
            if name != "fixed"
        ),
        *(Bias(task, p.replicas, p.replica_steps) for task in TASKS),
        *(Gradients(task, p.gradient_seeds, p.gradient_steps) for task in TASKS),
        *(FamilyCurve(family, learner, p.seeds, p.steps) for family in FAMILIES for learner in ("rflo", "fixed")),
        *(LossCurve(task, alpha, name, p.seeds, p.steps) for task in TASKS for alpha in ALPHAS for name in CURVES),
    ]

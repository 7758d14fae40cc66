"""What is run to reproduce the paper, each experiment found by its name."""

from itertools import product

from recurra_paper.experiments.base import Arrays as Arrays
from recurra_paper.experiments.base import Experiment as Experiment
from recurra_paper.experiments.bias import Bias
from recurra_paper.experiments.enumeration import LEARNERS as ENUMERATED
from recurra_paper.experiments.enumeration import Enumeration
from recurra_paper.experiments.gradients import LEARNERS as COMPARED
from recurra_paper.experiments.gradients import Gradients
from recurra_paper.experiments.held import Held
from recurra_paper.experiments.horizon import Horizon
from recurra_paper.experiments.lattice import Lattice
from recurra_paper.experiments.losses import ALL_FAMILIES, FAMILIES, FamilyCurve, FreshCurve, LossCurve
from recurra_paper.experiments.memory import Memory
from recurra_paper.experiments.scaling import Scaling
from recurra_paper.experiments.small_rate import SmallRate
from recurra_paper.profiles import Profile
from recurra_paper.setup import ALPHAS, CURVES, LEARNERS, TASKS, learner_of, network_of, task_of


def gradients(task: str, alpha: str, seeds: int, steps: int) -> Gradients:
    """Every learner of the paper's comparison on one of its tasks, with RTRL training."""
    learners = {name: learner_of(name, task, alpha) for name in COMPARED}
    condition = task_of(task, alpha)
    return Gradients(f"gradients/{task}/{alpha}", network_of(condition, alpha), condition, learners, seeds, steps)


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    p = profile
    return [
        *(Lattice(learner) for learner in ("rtrl", "f-bptt", "e-bptt", "rflo")),
        *(Enumeration(learner) for learner in ENUMERATED),
        Horizon(p.networks),
        *(Memory(family, p.memory_seeds, p.memory_steps) for family in ALL_FAMILIES),
        SmallRate(p.memory_seeds),
        *(
            Scaling(name, p.small_sizes if name in ("rtrl", "r-ok") else p.sizes)
            for name in LEARNERS
            if name != "fixed"
        ),
        *(Bias(task, p.networks, p.replicas, p.replica_steps) for task in TASKS),
        *(Held(task, p.networks, p.gradient_steps, p.gradient_steps, p.held_steps) for task in TASKS),
        *(gradients(task, alpha, p.gradient_seeds, p.gradient_steps) for task in TASKS for alpha in ALPHAS),
        *(FamilyCurve(family, learner, p.seeds, p.steps) for family in FAMILIES for learner in ("rflo", "fixed")),
        *(LossCurve(*which, p.seeds, p.steps) for which in product(TASKS, ALPHAS, CURVES)),
        *(FreshCurve(*which, p.fresh_seeds, p.steps) for which in product(TASKS, ALPHAS, CURVES) if p.fresh_seeds),
    ]

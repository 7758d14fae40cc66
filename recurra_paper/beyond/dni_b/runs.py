"""What is run: DNI with each combination of its three approximations, and their gradients along their own runs."""

from itertools import combinations
from typing import NamedTuple

from recurra import RTRL, DNIb, Fixed, FutureBPTT, Learner
from recurra_paper.beyond.dni_b.variants import Variant
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.gradients import Gradients
from recurra_paper.experiments.training import Trained
from recurra_paper.setup import TASKS, N, learner_of, network_of, task_of

ALPHA = "1"
#: the three approximations, by the field that switches them on
SWITCHES = {"tanh": "bounded", "feedback": "random_feedback", "jacobian": "learned_jacobian"}
NONE, ALL = "none", "all"
#: random feedback alone, as large as the readout's weights are at first: a control on Add, where it is larger
SMALL_FEEDBACK = "feedback-small"

#: the switches of every variant
VARIANTS = {
    NONE: (),
    **{name: (name,) for name in SWITCHES},
    **{"+".join(pair): pair for pair in combinations(SWITCHES, 2)},
    ALL: tuple(SWITCHES),
}


class Scale(NamedTuple):
    """How much is run: training, then gradients along the run after `skipped` steps of it."""

    seeds: int
    steps: int
    gradient_seeds: int
    gradient_steps: int
    skipped: int
    variants: tuple[str, ...]
    trained_on: tuple[str, ...] = TASKS
    compared_on: tuple[str, ...] = TASKS


SINGLE = (NONE, *SWITCHES, ALL)
SCALES = {
    "quick": Scale(5, 60_000, 3, 1_000, 1_000, SINGLE, compared_on=("add",)),
    "full": Scale(8, 1_000_000, 4, 10_000, 20_000, tuple(VARIANTS)),
    "tiny": Scale(2, 300, 1, 40, 20, (NONE,), ("add",), ("add",)),
}


def loss_name(task: str, learner: str) -> str:
    """The name of a training run."""
    return f"dni_b/loss/{task}/{learner}"


def gradients_name(task: str, variant: str) -> str:
    """The name of a comparison of gradients."""
    return f"dni_b/gradients/{task}/{variant}"


def variant_of(name: str, task: str) -> Variant:
    """A variant with the paper's rates of DNI and DNI(b) on a task."""
    paper = learner_of("dni-b", task, ALPHA)
    assert isinstance(paper, DNIb)
    on = {SWITCHES[switch]: True for switch in VARIANTS["feedback" if name == SMALL_FEEDBACK else name]}
    scale = (task_of(task, ALPHA).n_out / N) ** 0.5 if name == SMALL_FEEDBACK else 1.0
    return Variant(paper.learning_rate, paper.jacobian_rate, **on, feedback_scale=scale)


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    found: list[Experiment] = []
    for task in scale.trained_on:
        learners: dict[str, Learner] = {"fixed": Fixed(), "rtrl": RTRL()}
        learners |= {name: variant_of(name, task) for name in scale.variants}
        if task == "add" and "feedback" in scale.variants:
            learners[SMALL_FEEDBACK] = variant_of(SMALL_FEEDBACK, task)
        found += [_trained(task, name, learner, scale) for name, learner in learners.items()]
    return found + [_gradients(task, name, scale) for task in scale.compared_on for name in scale.variants]


def _trained(task: str, name: str, learner: Learner, scale: Scale) -> Trained:
    condition = task_of(task, ALPHA)
    slower = 2.0 if task == "mimic" else 1.0  # it has more inputs and outputs
    run = (network_of(condition, ALPHA), learner, condition, scale.seeds, scale.steps)
    return Trained(loss_name(task, name), *run, slower=slower)


def _gradients(task: str, name: str, scale: Scale) -> Gradients:
    """The variant trains; F-BPTT has the exact gradient of what faces the future, up to its horizon."""
    condition = task_of(task, ALPHA)
    learners = {name: variant_of(name, task), "f-bptt": FutureBPTT(), "rtrl": RTRL()}
    run = (network_of(condition, ALPHA), condition, learners, scale.gradient_seeds, scale.gradient_steps)
    return Gradients(gradients_name(task, name), *run, skipped=scale.skipped)

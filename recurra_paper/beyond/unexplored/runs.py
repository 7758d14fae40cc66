"""What is run: exact expectations, replicas along one trajectory, gradients along RTRL's run, and training.

Receiver-UORO has no place among the long replicas and the gradients along a run: its numbers leave the range of floats
after some hundred steps. Its first forty are shown instead, with orthogonal weights and, as the control, with weights
so small that the spectral radius of |J| stays below 1.
"""

from typing import NamedTuple

from recurra import Learner, PastFacing
from recurra.cells import MatrixInit, orthogonal
from recurra_paper.beyond.profiles import Profile
from recurra_paper.beyond.unexplored.replicas import Contracting, Expectation, Replicas
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.bias import later_half
from recurra_paper.experiments.gradients import Gradients
from recurra_paper.experiments.training import COMPILE_SECONDS, Trained, seconds
from recurra_paper.setup import TASKS, learner_of, network_of, task_of

NAME = "unexplored"
TITLE = "The unexplored decompositions: are they possible, and what are they good for?"
ALPHA = "1"
COLUMN, RECEIVER, DIAGONAL, PRE = "column-uoro", "receiver-uoro", "diagonal-uoro", "preuoro"
#: what is new here
NEW = (COLUMN, RECEIVER, DIAGONAL, PRE)
#: learners that draw random numbers, in the order in which they are shown
STOCHASTIC = ("kf-rtrl", DIAGONAL, "r-kf-rtrl", COLUMN, "uoro", PRE)
#: learners whose estimates are compared with RTRL's over many steps
COMPARED = (*STOCHASTIC, "snap-1", "rflo")
TRAINED = ("rtrl", *COMPARED, RECEIVER, "fixed")
#: how the recurrent weights of the networks start in which variance is followed over time
WEIGHTS: dict[str, MatrixInit] = {"orthogonal": orthogonal, "contracting": Contracting()}
#: steps over which it is followed, and those of which something is claimed
EARLY, MARKS = 40, (5, 10, 20, 40)


class Scale(NamedTuple):
    """Sizes of the replicas along one trajectory, of the gradients along a run, and of training."""

    networks: int
    replicas: int
    replica_steps: int
    gradient_seeds: int
    gradient_steps: int
    seeds: int
    steps: int
    tasks: tuple[str, ...] = TASKS
    compared: tuple[str, ...] = COMPARED
    trained: tuple[str, ...] = TRAINED
    expected: tuple[str, ...] = NEW
    weights: tuple[str, ...] = tuple(WEIGHTS)


SCALES = {
    "quick": Scale(4, 32, 100, 2, 1_000, 3, 20_000),
    "full": Scale(20, 64, 100, 8, 25_000, 20, 1_000_000),
    "tiny": Scale(2, 4, 12, 1, 40, 2, 300, ("add",), ("uoro",), ("uoro", "fixed"), (RECEIVER,), ("orthogonal",)),
}
#: microseconds a step a seed on one core, roughly, where `seconds` knows none
MICROSECONDS = {RECEIVER: 15.0, COLUMN: 6.0, DIAGONAL: 3.0, PRE: 2.0, "snap-1": 1.5}


def needs(profile: object) -> list[str]:
    """The experiments of this question, by the start of their names."""
    return [f"{NAME}/"]


def expectation_name(learner: str) -> str:
    """The exact expectation of a learner's M."""
    return f"unexplored/expectation/{learner}"


def bias_name(task: str) -> str:
    """Bias and variance on a task, in the later half of a trajectory."""
    return f"unexplored/bias/{task}"


def growth_name(weights: str) -> str:
    """Variance over time, from one kind of recurrent weights."""
    return f"unexplored/growth/{weights}"


def gradients_name(task: str) -> str:
    """Alignment with RTRL along its run."""
    return f"unexplored/gradients/{task}"


def loss_name(task: str, learner: str) -> str:
    """A training run."""
    return f"unexplored/loss/{task}/{learner}"


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    return [
        *(Expectation(expectation_name(name), _past_facing(name)) for name in scale.expected),
        *(_growth(weights, scale) for weights in scale.weights),
        *(_bias(task, scale) for task in scale.tasks),
        *(_gradients(task, scale) for task in scale.tasks),
        *(_trained(task, name, scale) for task in scale.tasks for name in scale.trained),
    ]


def _past_facing(name: str) -> PastFacing:
    learner = learner_of(name, "add", ALPHA)
    assert isinstance(learner, PastFacing)
    return learner


def _growth(weights: str, scale: Scale) -> Replicas:
    """On Add; every step counts."""
    task = task_of("add", ALPHA)
    random = (*(x for x in scale.compared if x in STOCHASTIC), RECEIVER)
    learners = {name: learner_of(name, "add", ALPHA) for name in random}
    run = network_of(task, ALPHA, WEIGHTS[weights]), task, learners, scale.networks, scale.replicas
    return Replicas(growth_name(weights), *run, tuple(range(1, EARLY + 1)))


def _bias(task: str, scale: Scale) -> Replicas:
    condition = task_of(task, ALPHA)
    learners = {name: learner_of(name, task, ALPHA) for name in scale.compared}
    sampled = tuple(int(step) + 1 for step in later_half(scale.replica_steps))
    run = network_of(condition, ALPHA), condition, learners, scale.networks, scale.replicas
    return Replicas(bias_name(task), *run, sampled)


def _gradients(task: str, scale: Scale) -> Gradients:
    """RTRL trains, and the others say where they would have gone."""
    condition = task_of(task, ALPHA)
    learners: dict[str, Learner] = {name: learner_of(name, task, ALPHA) for name in ("rtrl", *scale.compared)}
    run = network_of(condition, ALPHA), condition, learners, scale.gradient_seeds, scale.gradient_steps
    return Gradients(gradients_name(task), *run)


def _trained(task: str, name: str, scale: Scale) -> Trained:
    condition, size = task_of(task, ALPHA), (scale.seeds, scale.steps)
    usual = seconds(name, *size)
    own = COMPILE_SECONDS + 1e-6 * MICROSECONDS[name] * scale.seeds * scale.steps if name in MICROSECONDS else usual
    slower = (2.0 if task == "mimic" else 1.0) * own / usual  # Mimic has more inputs and outputs
    return Trained(
        loss_name(task, name), network_of(condition, ALPHA), learner_of(name, task, ALPHA), condition, *size,
        slower=slower,
    )  # fmt: skip

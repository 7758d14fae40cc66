"""What is run: every learner with GRU and LSTM on both tasks, and the gradients of all of them along RTRL's run."""

from itertools import product
from typing import NamedTuple

from recurra import GRU, LSTM, Network, SoftmaxCrossEntropy, SquaredError
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.gradients import LEARNERS as COMPARED
from recurra_paper.experiments.gradients import Gradients
from recurra_paper.experiments.training import Trained
from recurra_paper.setup import LEARNERS, TASKS, N, learner_of, task_of

CELLS = {"gru": GRU, "lstm": LSTM}
CELL_NAMES = {"gru": "GRU", "lstm": "LSTM"}
#: tasks and hyperparameters are those of α = 1, which gated cells do not have
ALPHA = "1"
#: Ten times the paper's. At the paper's rate F-BPTT hardly learns Add in 300,000 steps, since gates start half closed.
RATE = 1e-3
#: how many times as long as usual a step takes, roughly: RTRL's M and r-OK's have more rows and columns
SLOWER = {"gru": 3.0, "lstm": 8.0}
#: run with fewer seeds, since it takes longest and decides nothing
SLOW = "r-ok"


class Scale(NamedTuple):
    """How much is run of which learners."""

    cells: tuple[str, ...]
    tasks: tuple[str, ...]
    learners: tuple[str, ...]
    seeds: int
    slow_seeds: int
    steps: int
    compared: tuple[str, ...]
    gradient_seeds: int
    gradient_steps: int


FEW = ("fixed", "rtrl", "f-bptt", "kf-rtrl", "uoro", "r-kf-rtrl", "rflo")
FEW_COMPARED = ("rtrl", "f-bptt", "uoro", "kf-rtrl", "r-kf-rtrl", "kernl", "rflo")
SCALES = {
    "quick": Scale(("gru",), ("add",), FEW, 5, 5, 30_000, FEW_COMPARED, 6, 1_000),
    "full": Scale(tuple(CELLS), TASKS, LEARNERS, 5, 2, 200_000, COMPARED, 5, 5_000),
    "tiny": Scale(("gru",), ("add",), ("fixed", "rtrl"), 2, 2, 300, ("rtrl", "f-bptt", "uoro"), 2, 40),
}


def loss_name(cell: str, task: str, learner: str) -> str:
    """The name of a training run."""
    return f"gated/{cell}/{task}/loss/{learner}"


def gradients_name(cell: str, task: str) -> str:
    """The name of a comparison of gradients."""
    return f"gated/{cell}/{task}/gradients"


def network_of(cell: str, task: str) -> Network:
    """32 units of a kind, trained by the paper's loss for the task. Mimic's target stays a tanh network."""
    setting = task_of(task, ALPHA)
    loss = SoftmaxCrossEntropy() if task == "add" else SquaredError()
    return Network(CELLS[cell](n_in=setting.n_in, n=N), setting.n_out, loss)


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    found: list[Experiment] = []
    for cell, task in product(scale.cells, scale.tasks):
        found += [_trained(cell, task, learner, scale) for learner in scale.learners]
        found += [_gradients(cell, task, scale)]
    return found


def _trained(cell: str, task: str, learner: str, scale: Scale) -> Trained:
    parts = (network_of(cell, task), learner_of(learner, task, ALPHA), task_of(task, ALPHA))
    seeds = scale.slow_seeds if learner == SLOW else scale.seeds
    return Trained(loss_name(cell, task, learner), *parts, seeds, scale.steps, RATE, slower=SLOWER[cell])


def _gradients(cell: str, task: str, scale: Scale) -> Gradients:
    """RTRL trains; in rate times steps the full profile goes half as far as the paper's comparison."""
    learners = {learner: learner_of(learner, task, ALPHA) for learner in scale.compared}
    parts = (network_of(cell, task), task_of(task, ALPHA), learners)
    return Gradients(gradients_name(cell, task), *parts, scale.gradient_seeds, scale.gradient_steps, RATE)

"""What is run in each condition: the gradients of all learners along one run of RTRL, and every learner by itself."""

from typing import NamedTuple

from recurra import Add, FutureBPTT, Learner, Task
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments import gradients
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.gradients import Gradients
from recurra_paper.experiments.losses import LossCurve
from recurra_paper.experiments.training import Trained
from recurra_paper.setup import learner_of, network_of, task_of

#: the learners whose alignment may predict their loss; E-BPTT is exact, as RTRL and F-BPTT are, and is left out
APPROXIMATE = ("uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni", "dni-b")
#: the paper's horizon of F-BPTT
HORIZON = FutureBPTT().T


class Condition(NamedTuple):
    """A task at an α; `lags` replace those that the paper gives to Add."""

    task: str
    alpha: str
    lags: tuple[int, int] | None = None

    @property
    def setting(self) -> Task:
        """The task itself."""
        return Add(*self.lags) if self.lags else task_of(self.task, self.alpha)

    @property
    def title(self) -> str:
        """The condition in words."""
        setting = self.setting
        lags = f" {setting.t1}, {setting.t2}" if isinstance(setting, Add) else ""
        return f"{self.task.capitalize()}{lags}, α = {self.alpha}"

    @property
    def reach(self) -> int:
        """How many steps back a label depends on, where that is known, and at least the paper's horizon."""
        setting = self.setting
        return max(HORIZON, int(setting.t2) * int(setting.stretch) if isinstance(setting, Add) else 0)


CONDITIONS = {
    "add/1": Condition("add", "1"),
    "add/0.5": Condition("add", "0.5"),
    "add/1/lags-3-5": Condition("add", "1", (3, 5)),
    "add/1/lags-9-15": Condition("add", "1", (9, 15)),
    "mimic/1": Condition("mimic", "1"),
    "mimic/0.5": Condition("mimic", "0.5"),
}


#: conditions of the paper whose comparison of gradients is the paper's own; on Add at α = 1 a longer one is made here
PAPERS = ("add/0.5", "mimic/1", "mimic/0.5")


class Scale(NamedTuple):
    """How much is run of which learners in which conditions.

    Runs that the paper's reproduction makes too are the same experiments, so that they can be kept for both.
    """

    conditions: tuple[str, ...]
    learners: tuple[str, ...]
    #: seeds and steps of the paper's runs: of training, and of the comparison of gradients
    seeds: int
    steps: int
    gradient_seeds: int
    gradient_steps: int
    #: seeds of the runs with other lags and of comparisons made here alone, and their steps
    own_seeds: int
    own_steps: int
    #: steps compared on Add at α = 1
    long_steps: int


SCALES = {
    "quick": Scale(("add/1", "mimic/1"), APPROXIMATE, 5, 20_000, 5, 2_000, 5, 2_000, 2_000),
    # Windows of 16,384 steps: six in the paper's comparisons, five with other lags. Add at α = 1 has five of 65,536.
    "full": Scale(tuple(CONDITIONS), APPROXIMATE, 20, 1_000_000, 8, 100_000, 3, 82_000, 328_000),
    "tiny": Scale(("add/1",), ("uoro", "rflo", "dni"), 2, 300, 2, 40, 2, 40, 40),
}


def loss_name(condition: str, learner: str) -> str:
    """The name of a training run: the paper's where it has the condition."""
    return f"predictor/{condition}/loss/{learner}" if CONDITIONS[condition].lags else f"loss/{condition}/{learner}"


def gradients_name(condition: str) -> str:
    """The name of a comparison of gradients."""
    return f"gradients/{condition}" if condition in PAPERS else f"predictor/{condition}/gradients"


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    found: list[Experiment] = []
    for name in scale.conditions:
        found += [_gradients(name, scale)]
        found += [_trained(name, learner, scale) for learner in ("fixed", "rtrl", *scale.learners)]
    return found


def _gradients(name: str, scale: Scale) -> Gradients:
    """RTRL trains. On Add, F-BPTT reaches as far as the labels do, so that it is exact for what faces the future."""
    condition = CONDITIONS[name]
    if name in PAPERS:
        return gradients(condition.task, condition.alpha, scale.gradient_seeds, scale.gradient_steps)
    learners: dict[str, Learner] = {
        "rtrl": learner_of("rtrl", condition.task, condition.alpha),
        "f-bptt": FutureBPTT(condition.reach),
        **{learner: learner_of(learner, condition.task, condition.alpha) for learner in scale.learners},
    }
    network = network_of(condition.setting, condition.alpha)
    steps = scale.own_steps if condition.lags else scale.long_steps
    return Gradients(gradients_name(name), network, condition.setting, learners, scale.own_seeds, steps)


def _trained(name: str, learner: str, scale: Scale) -> Experiment:
    condition = CONDITIONS[name]
    if not condition.lags:
        return LossCurve(condition.task, condition.alpha, learner, scale.seeds, scale.steps)
    parts = (
        network_of(condition.setting, condition.alpha),
        learner_of(learner, condition.task, condition.alpha),
        condition.setting,
    )
    return Trained(loss_name(name, learner), *parts, scale.own_seeds, scale.steps)

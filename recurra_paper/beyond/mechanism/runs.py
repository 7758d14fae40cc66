"""What is run: networks with ten kinds of recurrent weights, untrained, and trained over ever longer horizons."""

from typing import NamedTuple

from recurra import RFLO, EfficientBPTT, Fixed, Learner
from recurra_paper.beyond.mechanism.reach import Reach
from recurra_paper.beyond.mechanism.spectra import SPECTRA
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.training import Trained
from recurra_paper.setup import LEARNING_RATE, network_of, task_of

#: the variances of noise at which memory is measured, in units of 1/(η t), the one that descent leaves after t steps
LEVELS = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: where plain r² and the memory that descent reaches stand among them
PLAIN, REACHED = LEVELS.index(0.0), LEVELS.index(1.0)
#: the horizon at which every spectrum is to be learned
LONGEST = 10


class Scale(NamedTuple):
    """How much is run: so many seeds and steps for each of these spectra, and E-BPTT over these horizons."""

    seeds: int
    steps: int
    memory_steps: int
    spectra: tuple[str, ...]
    horizons: tuple[int, ...]


SCALES = {
    "quick": Scale(5, 100_000, 5_000, tuple(SPECTRA), (LONGEST,)),
    "full": Scale(20, 1_000_000, 20_000, tuple(SPECTRA), tuple(range(2, LONGEST + 1))),
    "tiny": Scale(2, 300, 200, ("orthogonal",), ()),
}


def name_of(spectrum: str, learner: str) -> str:
    """The name of a training run."""
    return f"mechanism/loss/{spectrum}/{learner}"


def horizon_of(T: int) -> str:
    """The learner with a horizon of T steps, in the names of runs: at α = 1 E-BPTT with T = 1 is RFLO."""
    return "rflo" if T == 1 else f"e-bptt-{T}"


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    unit = 1 / (LEARNING_RATE * scale.steps)
    variances = tuple(level * unit for level in LEVELS)
    task = task_of("add", "1")
    found: list[Experiment] = [Reach(name, scale.seeds, scale.memory_steps, variances) for name in scale.spectra]
    for spectrum in scale.spectra:
        learners: dict[str, Learner] = {"fixed": Fixed(), "rflo": RFLO()}
        learners |= {horizon_of(T): EfficientBPTT(T=T) for T in scale.horizons}
        network = network_of(task, "1", SPECTRA[spectrum].draw)
        found += [
            Trained(name_of(spectrum, name), network, learner, task, scale.seeds, scale.steps, slower=0.5)
            for name, learner in learners.items()
        ]
    return found

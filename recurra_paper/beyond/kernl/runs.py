"""KeRNL over the size of its perturbations and the rate of its fit, with and without averaging.

KeRNL fits A and α by descent on ½‖A Ω - (ã - a)‖². Both Ω and ã - a are proportional to the perturbations' standard
deviation σ while these are small, so the fit depends on its learning rate and σ through their product rate · σ² alone.
That product, the *pace*, and σ are the axes of the grid.
"""

from typing import NamedTuple

from recurra import KeRNL
from recurra_paper.beyond.intervention.averaged import Averaged
from recurra_paper.beyond.intervention.runs import ALPHA, TASK, trained
from recurra_paper.beyond.profiles import Profile
from recurra_paper.experiments.base import Experiment
from recurra_paper.setup import learner_of

#: KeRNL as its authors derive it, and as the paper authors' program has it: the noise reaches the copy one step late
VERSIONS = ("derived", "released")
#: The paper's σ and pace, which is that of a learning rate of 5; and a tenth of this pace.
SIGMA, PACE, SLOWER_PACE = 1e-3, 5e-6, 5e-7
#: copies that are averaged, and streams of a batch
COPIES, BATCH = 10, 10


class Scale(NamedTuple):
    """The grid, and its sizes; batches and copies are run at fewer seeds, for the paper's σ alone."""

    sigmas: tuple[float, ...]
    paces: tuple[float, ...]
    batch_paces: tuple[float, ...]
    seeds: int
    few_seeds: int
    steps: int


#: At the last, the fit itself is about to diverge: descent on so many inputs needs a pace below about 2/33.
_PACES = (SLOWER_PACE, PACE, 5e-5, 5e-4, 5e-3, 5e-2)
SCALES = {
    "quick": Scale((SIGMA, 1e-2), (SLOWER_PACE, PACE, 5e-4), (PACE,), 5, 5, 40_000),
    "full": Scale((1e-4, SIGMA, 1e-2, 1e-1), _PACES, _PACES[:-1], 20, 10, 300_000),
    "tiny": Scale((SIGMA,), (SLOWER_PACE, PACE), (PACE,), 2, 2, 200),
}
#: microseconds a step a seed on one core, roughly: of a copy, and of a stream
COPY, STREAM = 3.0, 1.5


def reference_name(learner: str, streams: int = 1) -> str:
    """A learner that KeRNL is compared with."""
    return f"kernl/reference/{learner}/{streams}"


def setting_name(version: str, sigma: float = SIGMA, pace: float = PACE, streams: int = 1) -> str:
    """KeRNL at a point of the grid."""
    return f"kernl/{version}/{streams}/{sigma:g}/{pace:g}"


def copies_name(version: str) -> str:
    """The mean of copies of KeRNL at the paper's setting."""
    return f"kernl/{version}/copies/{SIGMA:g}/{PACE:g}"


def filter_name(streams: int = 1) -> str:
    """KeRNL that is never fitted: A = I and α = 0.8, a filter alone."""
    return f"kernl/filter/{streams}"


def kernl(version: str, sigma: float, pace: float) -> KeRNL:
    """KeRNL at a point of the grid."""
    return KeRNL(learning_rate=pace / sigma**2, perturbation=sigma, late_perturbation=version == "released")


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    many, few = (scale.seeds, scale.steps), (scale.few_seeds, scale.steps)
    batch = (*few, STREAM * BATCH, BATCH)
    reference = lambda name: learner_of(name, TASK, ALPHA)
    found = [trained(reference_name(name), reference(name), *many) for name in ("fixed", "rtrl", "rflo")]
    found.append(trained(reference_name("rflo", BATCH), reference("rflo"), *batch))
    found.append(trained(filter_name(), KeRNL(learning_rate=0.0), *many))
    found.append(trained(filter_name(BATCH), KeRNL(learning_rate=0.0), *batch))
    for version in VERSIONS:
        for pace in scale.paces:
            for sigma in scale.sigmas:
                found.append(trained(setting_name(version, sigma, pace), kernl(version, sigma, pace), *many))
        for pace in scale.batch_paces:
            name = setting_name(version, pace=pace, streams=BATCH)
            found.append(trained(name, kernl(version, SIGMA, pace), *batch))
        copies = Averaged(kernl(version, SIGMA, PACE), COPIES)
        found.append(trained(copies_name(version), copies, *few, COPY * COPIES))
    return list[Experiment](found)

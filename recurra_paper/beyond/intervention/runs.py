"""What is trained: learners with less noise, RTRL with the noise of others, and RTRL with a part of RFLO's bias."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from recurra import Learner, PastFacing
from recurra_paper.beyond.intervention.averaged import Averaged
from recurra_paper.beyond.intervention.mixed import RTRLWithBias, RTRLWithNoise
from recurra_paper.beyond.profiles import Profile
from recurra_paper.claims.base import Data
from recurra_paper.experiments.base import Experiment
from recurra_paper.experiments.training import COMPILE_SECONDS, Trained, seconds
from recurra_paper.setup import learner_of, network_of, task_of

TASK, ALPHA = "add", "1"
#: the learners that the paper calls the noisiest
NOISY = ("uoro", "r-kf-rtrl")
REFERENCES = ("fixed", "rtrl", "rflo")


class Scale(NamedTuple):
    """How much is run: `copies` of each noisy learner, and still more of them at fewer seeds, `many`.

    `divided` are the numbers by which the variance of the noise that RTRL is given is divided. `shares` are those of
    RFLO's bias.
    """

    noisy: tuple[str, ...]
    copies: tuple[int, ...]
    divided: tuple[int, ...]
    shares: tuple[float, ...]
    seeds: int
    steps: int
    many: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    few_seeds: int = 0


#: A copy of R-KF-RTRL costs n³ a step, one of UORO n².
_MANY = {"uoro": (256, 1024), "r-kf-rtrl": (256,)}
SCALES = {
    "quick": Scale(("uoro",), (4, 16), (1,), (0.5,), seeds=5, steps=50_000),
    # At 300,000 steps UORO is three standard deviations (of a seed) behind RTRL, as far as after a million.
    "full": Scale(NOISY, (4, 16, 64), (1, 4), (0.25, 0.5), 12, 300_000, many=_MANY, few_seeds=3),
    "tiny": Scale(("uoro",), (2,), (1,), (0.5,), seeds=2, steps=200),
}
#: microseconds a step a seed on one core, roughly: of each copy, and of RTRL beside another learner
COPY, PAIR = 2.2, 36.0


def reference_name(learner: str) -> str:
    """A learner as it is."""
    return f"intervention/{learner}"


def copies_name(learner: str, copies: int) -> str:
    """The mean of so many copies of a learner; one is the learner itself."""
    return f"intervention/copies/{learner}/{copies}"


def noise_name(learner: str, divided: int) -> str:
    """RTRL with the noise of a learner, its variance divided by a number."""
    return f"intervention/noise/{learner}/{divided}"


def numbers(data: Data, prefix: str) -> list[int]:
    """The numbers that follow the prefix in the names of the runs."""
    return sorted(int(name.removeprefix(prefix)) for name in data if name.startswith(prefix))


def bias_name(share: float) -> str:
    """RTRL with a share of RFLO's bias."""
    return f"intervention/bias/{share:g}"


def experiments(profile: Profile) -> list[Experiment]:
    """All of them, at the scale of the profile."""
    scale = SCALES[profile.name]
    found = [
        trained(reference_name(name), learner_of(name, TASK, ALPHA), scale.seeds, scale.steps) for name in REFERENCES
    ]
    for name in scale.noisy:
        learner = _past_facing(name)
        found.append(trained(copies_name(name, 1), learner, scale.seeds, scale.steps))
        many = scale.many.get(name, ())
        for k in (*scale.copies, *many):
            seeds = scale.few_seeds if k in many else scale.seeds
            found.append(trained(copies_name(name, k), Averaged(learner, k), seeds, scale.steps, COPY * k))
        for k in scale.divided:
            mixed = RTRLWithNoise(learner, k**-0.5)
            found.append(trained(noise_name(name, k), mixed, scale.seeds, scale.steps, PAIR))
    for share in scale.shares:
        mixed = RTRLWithBias(_past_facing("rflo"), share)
        found.append(trained(bias_name(share), mixed, scale.seeds, scale.steps, PAIR))
    return list[Experiment](found)


def _past_facing(name: str) -> PastFacing:
    learner = learner_of(name, TASK, ALPHA)
    assert isinstance(learner, PastFacing)
    return learner


def trained(
    name: str, learner: Learner, seeds: int, steps: int, microseconds: float | None = None, streams: int = 1
) -> Trained:
    """A run on Add; `microseconds` is how long a step of a seed takes on one core, where that is not as usual."""
    task = task_of(TASK, ALPHA)
    usual = seconds(learner.about.id, seeds * streams, steps)
    longer = usual if microseconds is None else COMPILE_SECONDS + 1e-6 * microseconds * seeds * steps
    parts = network_of(task, ALPHA), learner, task
    return Trained(name, *parts, seeds, steps, streams=streams, slower=longer / usual)

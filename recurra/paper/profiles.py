"""At which scale the paper is reproduced."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Numbers of seeds, steps and replicas; `paper` has the paper's own."""

    name: str
    seeds: int
    #: steps of the loss curves
    steps: int
    #: steps and seeds over which gradients are compared
    gradient_steps: int
    gradient_seeds: int
    #: steps and initializations of the memory traces
    memory_steps: int
    memory_seeds: int
    #: networks whose bias and variance are measured: replicas of a learner's randomness, and steps that they share
    networks: int
    replicas: int
    replica_steps: int
    #: steps over which mean gradients are taken, after as many steps as gradients are compared over, twice
    held_steps: int
    #: sizes over which cost is measured
    sizes: tuple[int, ...]
    #: sizes for learners whose cost grows like n⁴
    small_sizes: tuple[int, ...]


QUICK = Profile("quick", 5, 20_000, 2_000, 5, 5_000, 5, 5, 32, 100, 4_096, (16, 32, 64, 128, 256), (8, 16, 32, 64))
PAPER = Profile(
    "paper", 20, 1_000_000, 100_000, 8, 20_000, 10, 20, 128, 200, 65_536, (16, 32, 64, 128, 256, 512), (8, 16, 32, 64, 96)
)
TINY = Profile("tiny", 2, 300, 120, 1, 400, 2, 2, 4, 12, 128, (4, 8, 16), (4, 6, 8))

PROFILES = {profile.name: profile for profile in (QUICK, PAPER, TINY)}

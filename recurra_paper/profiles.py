"""At which scale the paper is reproduced."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """Numbers of seeds, steps and replicas; `paper` has the paper's own, and `many` adds fresh seeds for the losses."""

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
    #: steps over which mean gradients are taken, after `gradient_steps` of training and as many of settling
    held_steps: int
    #: sizes over which cost is measured
    sizes: tuple[int, ...]
    #: sizes for learners whose cost grows like n⁴
    small_sizes: tuple[int, ...]
    #: further seeds of the loss curves, by which claims about losses are judged once more
    fresh_seeds: int = 0


QUICK = Profile(
    name="quick",
    seeds=5,
    steps=20_000,
    gradient_steps=2_000,
    gradient_seeds=5,
    memory_steps=5_000,
    memory_seeds=5,
    networks=5,
    replicas=32,
    replica_steps=100,
    held_steps=4_096,
    sizes=(16, 32, 64, 128, 256),
    small_sizes=(8, 16, 32, 64),
)
PAPER = Profile(
    name="paper",
    seeds=20,
    steps=1_000_000,
    gradient_steps=100_000,
    gradient_seeds=8,
    memory_steps=20_000,
    memory_seeds=10,
    networks=20,
    replicas=64,
    replica_steps=100,
    held_steps=65_536,
    sizes=(16, 32, 64, 128, 256, 512),
    small_sizes=(8, 16, 32, 64, 96),
)
TINY = Profile(
    name="tiny",
    seeds=2,
    steps=300,
    gradient_steps=120,
    gradient_seeds=1,
    memory_steps=400,
    memory_seeds=2,
    networks=2,
    replicas=4,
    replica_steps=12,
    held_steps=128,
    sizes=(4, 8, 16),
    small_sizes=(4, 6, 8),
)

MANY = replace(PAPER, name="many", fresh_seeds=512)

PROFILES = {profile.name: profile for profile in (QUICK, PAPER, MANY, TINY)}

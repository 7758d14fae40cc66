"""Loss curves: each learner on each task, and RFLO from each kind of initial weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import cells
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.training import curve, seconds
from recurra_paper.setup import LEARNING_RATE, learner_of, network_of, task_of

#: the four families of recurrent weights of the analysis of RFLO
FAMILIES = {
    "orthogonal": cells.orthogonal,
    "gaussian": cells.gaussian,
    "symmetric": cells.symmetric,
    "diagonal": cells.diagonal,
}


def diagonal_positive(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Units that hear only themselves, with weights uniform on [0, 1]."""
    return jnp.diag(jax.random.uniform(key, (n,), dtype))


def diagonal_normal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Units that hear only themselves, with weights ~ N(0, 1/2)."""
    return jnp.diag(jax.random.normal(key, (n,), dtype) / 2)


#: and other readings of "diagonal", whose memory is shown beside it
ALL_FAMILIES = {**FAMILIES, "diagonal-positive": diagonal_positive, "diagonal-normal": diagonal_normal}


@dataclass(frozen=True)
class LossCurve(Experiment):
    """One learner on one task."""

    task: str
    alpha: str
    learner: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"loss/{self.task}/{self.alpha}/{self.learner}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of(self.task, self.alpha)
        return network_of(task, self.alpha), learner_of(self.learner, self.task, self.alpha), task, LEARNING_RATE

    @property
    def cost(self) -> float:
        return seconds(self.learner, self.seeds, self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, learner, task, rate = self.parts
        return curve(network, learner, task, rate, self.seeds, self.steps, checkpoint, advance)


@dataclass(frozen=True)
class FreshCurve(LossCurve):
    """The same of seeds that no other experiment has."""

    #: where its seeds begin
    FIRST: ClassVar[int] = 1_000
    #: the most seeds of learners whose steps cost the most
    AT_MOST: ClassVar[Mapping[str, int]] = {"rtrl": 128, "r-ok": 40}

    @property
    def name(self) -> str:
        return f"fresh/{self.task}/{self.alpha}/{self.learner}"

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, learner, task, rate = self.parts
        seeds = range(self.FIRST, self.FIRST + min(self.seeds, self.AT_MOST.get(self.learner, self.seeds)))
        return curve(network, learner, task, rate, seeds, self.steps, checkpoint, advance)


@dataclass(frozen=True)
class FamilyCurve(Experiment):
    """RFLO, or the readout alone, on Add from one kind of initial weights."""

    family: str
    learner: str
    seeds: int
    steps: int

    @property
    def name(self) -> str:
        return f"{self.learner}-loss/{self.family}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of("add", "1")
        return network_of(task, "1", FAMILIES[self.family]), learner_of(self.learner, "add", "1"), task, LEARNING_RATE

    @property
    def cost(self) -> float:
        return seconds(self.learner, self.seeds, self.steps)

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, learner, task, rate = self.parts
        return curve(network, learner, task, rate, self.seeds, self.steps, checkpoint, advance)

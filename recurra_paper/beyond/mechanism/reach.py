"""How much of a label can be read from a state, if what is small in the state is hard to reach."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from recurra_paper.beyond.mechanism.spectra import SPECTRA
from recurra_paper.experiments.base import Advance, Arrays, Experiment
from recurra_paper.experiments.memory import untrained
from recurra_paper.setup import network_of, task_of

#: directions in which a state varies less than this, relative to the largest, are taken as constant
CONSTANT = 1e-12


def reachable(
    states: Float[np.ndarray, "T n"], labels: Float[np.ndarray, "T k"], variances: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """r²(v) of the best linear prediction of y*(t) from a(t-1) + noise, with noise of variance v in every unit.

    With S = cov(a), C = cov(a, y*) and S = V diag(s) V', all covariances over t,

        r²(v) = tr(C' (S + v)^-1 C) / tr cov(y*) = Σ_i ‖(V' C)_i‖² / (s_i + v) / tr cov(y*).

    At v = 0 this is the r² of linear regression, to which every direction counts alike, however small. Descent at rate
    η learns the directions with s_i > 1/(η t) in t steps, and those are what noise of variance v = 1/(η t) leaves.
    """
    a, y = np.asarray(states[:-1], float), np.asarray(labels[1:], float)
    a, y = a - a.mean(0), y - y.mean(0)
    s, V = np.linalg.eigh(a.T @ a / len(a))
    told = ((V.T @ (a.T @ y / len(a))) ** 2).sum(1)
    varies = s > CONSTANT * s[-1]
    return (told[varies] / (s[varies] + np.asarray(variances)[:, None])).sum(1) / (y**2).mean(0).sum()


@dataclass(frozen=True)
class Reach(Experiment):
    """Untrained networks on Add with one kind of recurrent weights: r² of y*(t) from a(t-1) at several variances.

    Seeds have the weights and the stream of the training runs' seeds.
    """

    spectrum: str
    seeds: int
    steps: int
    variances: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"mechanism/memory/{self.spectrum}"

    @property
    def parts(self) -> tuple[Any, ...]:
        task = task_of("add", "1")
        return network_of(task, "1", SPECTRA[self.spectrum].draw), task

    @property
    def cost(self) -> float:
        return 2 + 1e-5 * self.seeds * self.steps

    def run(self, checkpoint: Path, advance: Advance) -> Arrays:
        network, task = self.parts
        variances = np.array(self.variances)
        r2 = [reachable(*run, variances) for run in untrained(network, task, self.seeds, self.steps)]
        advance(1.0)
        return {"variance": variances, "r2": np.stack(r2)}

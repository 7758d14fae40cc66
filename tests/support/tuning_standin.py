"""Functions with a known lowest point and noise, in place of networks, for tests of `recurra.studies.tuning`."""

import itertools
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from recurra.studies.choices import Choices, Uniform
from recurra.studies.study import TuneSettings

CASE = {"learner": "rflo", "task": "add"}
RATE = {"learning_rate": Uniform(1e-5, 1e-1, log=True, whole=False)}
BOTH = {**RATE, "alpha": Uniform(0.0, 1.0, log=False, whole=False)}
MIXED = {**RATE, "n": Uniform(2, 64, log=True, whole=True), "w_rec": Choices(("orthogonal", "gaussian"))}


def Bounds(trials=12, **rest):
    return TuneSettings(trials=trials, **rest)


@dataclass
class Noisy:
    """Loss 0.2 where it is lowest: at a rate near 10^-2.5 and an `alpha` near 0.3.

    Each seed has luck of its own, the same for all settings, and with each setting heavy-tailed noise, which falls with
    the steps. Small rates are slow, so that they look worse early than they are; large ones diverge.
    """

    problem: int = 0
    steps: int = 9000
    noise: float = 0.015
    #: seconds for each advance
    pause: float = 0.0
    #: (number of points, stop) of each advance
    calls: list = field(default_factory=list)

    def __post_init__(self):
        random = np.random.default_rng(self.problem)
        self.exponent = -2.5 + random.uniform(-0.5, 0.5)
        self.alpha = 0.3 + random.uniform(-0.2, 0.4)

    def expected(self, point, steps=None):
        """The loss without noise."""
        rate = point["learning_rate"]
        late = 0.5 * math.exp(-(steps or self.steps) * rate / 3)
        off = 0.5 * (point.get("alpha", self.alpha) - self.alpha) ** 2
        return 0.2 + 0.15 * (math.log10(rate) - self.exponent) ** 2 + off + late

    def loss(self, point, seed, steps):
        luck = np.random.default_rng([self.problem, seed]).normal()
        bits = [int(each) for each in np.array([*self._numbers(point)]).view(np.uint32)]
        random = np.random.default_rng([self.problem, seed, *bits])
        if math.log10(point["learning_rate"]) > -1.2 + 0.4 * random.uniform():
            return math.nan
        noise = self.noise * random.standard_t(3) / math.sqrt(steps / self.steps)
        return self.expected(point, steps) + 0.05 * luck + noise

    def _numbers(self, point):
        return [float(value) for value in point.values() if isinstance(value, int | float)]

    def __call__(self, points, seeds):
        return NoisyNetworks(self, list(points), list(seeds))

    def advance(self, points, seeds, stop):
        time.sleep(self.pause)
        self.calls.append((len(points), stop))
        return np.array([[self.loss(point, seed, stop) for seed in seeds] for point in points])


@dataclass
class NoisyNetworks:
    """Some points of such a function."""

    function: Noisy
    points: list
    seeds: list

    def advance(self, rows, stop):
        return self.function.advance([self.points[row] for row in rows], self.seeds, stop)


def grid_best(objective, seeds, **values):
    """The grid's choice: (its settings, networks times steps of the grid)."""
    points = [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]
    means = [np.mean([objective.loss(point, seed, objective.steps) for seed in seeds]) for point in points]
    return points[int(np.nanargmin(means))], len(points) * len(seeds) * objective.steps


def tuned(folder, objective=None, bounds=None, space=None, batch=8, key=0, seeds=range(8), **more):
    """`tune_case` on such a function."""
    from recurra.studies.tuning.search import tune_case

    objective = objective or Noisy()
    rest = dict(steps=objective.steps, window=100, seeds=tuple(seeds), key=key, folder=folder, batch=batch)
    return tune_case(CASE, BOTH if space is None else space, objective, bounds or Bounds(), **rest, **more)


def main(folder, pause, trials, batch):
    """A process of its own: searches, and prints a line whenever it computed something."""
    from recurra.studies.tuning.tuned import write_tuned

    say = lambda progress: print(json.dumps([progress.phase, progress.finished]), flush=True)
    found = tuned(
        Path(folder),
        Noisy(pause=float(pause)),
        Bounds(int(trials), seeds=2, confirm_seeds=3),
        batch=int(batch),
        report=say,
    )
    write_tuned(Path(folder), [found])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What all reproductions share: options, intervals over seeds, a verdict against a published number, the report."""

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from scipy import stats

from recurra.network import Readout
from recurra.training.provenance import machine, versions

#: Within this factor a mean is equivalent to a published one: it is that of the reproduction's stated numbers. It was
#: chosen when the numbers in docs/published were known, and before any later run.
FACTOR = 1.5


class Published(NamedTuple):
    """A mean over seeds that somebody else reported, with its standard error; None: not reported."""

    mean: float
    sem: float | None = None
    seeds: int | None = None

    @staticmethod
    def of(mean: float, sd: float, seeds: int) -> "Published":
        """From a standard deviation of the population, the one that divides by the number of seeds."""
        return Published(mean, sd / math.sqrt(seeds - 1), seeds)


def options(about: str | None, parts: Sequence[str]) -> argparse.Namespace:
    """What a script is asked to do. `--only` names some of its parts."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see that it runs; the numbers mean nothing"
    )
    parser.add_argument("--out", type=Path, help="the folder for the report")
    parser.add_argument("--seeds", type=int, help="how many seeds; each script has a default")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="these parts alone")
    return parser.parse_args()


def interval(per_seed: Any) -> dict[str, Any]:
    """Mean and standard error over the seeds that are finite, with the number of those that are not."""
    values = np.asarray(per_seed, float)
    kept = values[np.isfinite(values)]
    sem = float(kept.std(ddof=1) / math.sqrt(len(kept))) if len(kept) > 1 else None
    return {
        "mean": float(kept.mean()) if len(kept) else None,
        "sem": sem,
        "seeds": len(values),
        "not_finite": int(len(values) - len(kept)),
        "per_seed": [float(value) if math.isfinite(value) else None for value in values],
    }


def ratio(ours: dict[str, Any], published: Published) -> dict[str, Any]:
    """Our mean over the published one, with its 95 % interval, and whether that lies within FACTOR of one.

    The interval is that of Welch's test for logarithms, whose errors are those of the means relative to them.
    """
    if ours["mean"] is None or ours["not_finite"]:
        return {"published": published._asdict(), "ratio": None, "interval": None, "verdict": "cannot tell"}
    found = ours["mean"] / published.mean
    errors = [(ours["sem"] or 0.0) / ours["mean"], (published.sem or 0.0) / published.mean]
    half = half_width(errors, [ours["seeds"], published.seeds])
    low, high = found * math.exp(-half), found * math.exp(half)
    verdict = place(low, high, 1 / FACTOR, FACTOR)
    return {"published": published._asdict(), "ratio": found, "interval": [low, high], "verdict": verdict}


def difference(ours: dict[str, Any], published: Published, margin: float) -> dict[str, Any]:
    """Our mean less the published one, with its 95 % interval, and whether that lies within the margin of zero."""
    found = ours["mean"] - published.mean
    half = half_width([ours["sem"] or 0.0, published.sem or 0.0], [ours["seeds"], published.seeds])
    verdict = place(found - half, found + half, -margin, margin)
    interval = [found - half, found + half]
    return {"published": published._asdict(), "difference": found, "interval": interval, "verdict": verdict}


def ratio_of_medians(x: Sequence[float], y: Sequence[float], draws: int = 10_000) -> dict[str, Any]:
    """The ratio of two medians over seeds, for values of which a few lie far out, with a bootstrap's 95 % interval."""
    rng = np.random.default_rng(0)
    drawn = lambda values: np.median(rng.choice(np.asarray(values, float), (draws, len(values))), axis=1)
    low, high = (float(edge) for edge in np.quantile(drawn(x) / drawn(y), [0.025, 0.975]))
    found = float(np.median(x) / np.median(y))
    return {"ratio": found, "interval": [low, high], "verdict": place(low, high, 1 / FACTOR, FACTOR)}


def half_width(errors: Sequence[float], seeds: Sequence[int | None]) -> float:
    """Half of the 95 % interval of a difference, by Welch's degrees of freedom; an error without seeds is exact."""
    squares = [error**2 for error in errors]
    spread = sum(square**2 / (n - 1) for square, n in zip(squares, seeds, strict=True) if n and n > 1)
    return math.sqrt(sum(squares)) * float(stats.t.ppf(0.975, sum(squares) ** 2 / spread)) if spread else 0.0


def place(low: float, high: float, least: float, most: float) -> str:
    """Where an interval lies: an interval that is too wide agrees with nothing."""
    if least <= low and high <= most:
        return "within"
    return "outside" if high < least or most < low else "cannot tell"


def per_part(cell: optax.GradientTransformation, readout: optax.GradientTransformation) -> optax.GradientTransformation:
    """An optimizer of their own for the recurrent weights and for the readout."""
    rule = lambda weights: readout if isinstance(weights, Readout) else cell
    return optax.GradientTransformation(
        lambda weights: rule(weights).init(weights),
        lambda gradient, state, weights=None: rule(gradient).update(gradient, state, weights),
    )


def every(steps: int, rule: optax.GradientTransformation) -> optax.GradientTransformation:
    """One move along the mean of `steps` gradients."""
    several = optax.MultiSteps(rule, steps)
    return optax.GradientTransformation(several.init, several.update)


class Report:
    """Results as they come, printed, and written after each so that a run that is cut short leaves what it has."""

    def __init__(self, name: str, out: Path | None, source: str, settings: dict[str, Any], quick: bool):
        self.file = None if out is None else out / f"{name}.json"
        self.begun = time.time()
        self.content: dict[str, Any] = {
            "name": name,
            "source": source,
            "quick": quick,
            "settings": settings,
            "machine": machine(),
            "versions": versions() | {"optax": optax.__version__},
            "backend": jax.default_backend(),
            "results": {},
            "criteria": {},
        }

    def add(self, name: str, result: dict[str, Any]) -> None:
        self.content["results"][name] = result
        numbers = {key: value for key, value in result.items() if isinstance(value, dict) and "mean" in value}
        shown = ", ".join(f"{key} {spread(value)}" for key, value in numbers.items())
        print(f"{name}: {shown}", flush=True)
        self.write()

    def judge(self, criterion: str, holds: bool | None, why: str) -> None:
        """Whether a criterion holds; None if it could not be told."""
        self.content["criteria"][criterion] = {"holds": holds, "why": why}
        print(f"{ {True: 'holds', False: 'fails', None: 'open'}[holds] }: {criterion}: {why}", flush=True)
        self.write()

    def write(self) -> None:
        self.content["seconds"] = time.time() - self.begun
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(json.dumps(self.content, indent=1) + "\n")


def spread(value: dict[str, Any]) -> str:
    """A mean with its standard error, as text."""
    if value["mean"] is None:
        return "none finite"
    return f"{value['mean']:.4g}" + (f" ± {value['sem']:.2g}" if value["sem"] is not None else "")

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

from recurra.network import Readout
from recurra.training.provenance import machine, versions


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


def against(ours: dict[str, Any], published: Published, slack: float = 0.0) -> dict[str, Any]:
    """How far our mean is from the published one, in standard errors of the difference, and whether that is below 3.

    A difference of up to `slack` counts as agreement whatever the errors are.
    """
    if ours["mean"] is None:
        return {"published": published._asdict(), "difference": None, "in_errors": None, "agrees": False}
    difference = ours["mean"] - published.mean
    error = math.hypot(ours["sem"] or 0.0, published.sem or 0.0)
    in_errors = abs(difference) / error if error else None
    agrees = abs(difference) <= slack or (in_errors is not None and in_errors < 3)
    return {"published": published._asdict(), "difference": difference, "in_errors": in_errors, "agrees": agrees}


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

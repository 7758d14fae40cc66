"""What a training run leaves behind."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import PyTree

from recurra.network import NetworkWeights
from recurra.training.whole_files import replacing

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Result:
    """One learner over many seeds.

    `loss[s, w]` is the mean loss of seed s over window w, which ends after step `step[w]`; the last window may be
    shorter. `records[name]` holds what was asked for, leaves (seed, step, ...). `diverged` maps a seed to the first
    step at which its loss was not finite.
    """

    seeds: tuple[int, ...]
    step: np.ndarray
    loss: np.ndarray
    weights: NetworkWeights
    records: dict[str, PyTree[np.ndarray]]
    diverged: dict[int, int]
    steps: int
    interrupted: bool
    seconds: float
    compile_seconds: float

    def final_loss(self, last: float = 0.1) -> np.ndarray:
        """Each seed's mean loss over the windows that end in the last part of the run, by default its last tenth.

        It is nan for a seed that diverged, whether or not its loss came back.
        """
        if not 0 < last <= 1:
            raise ValueError(f"`last` is the part of the run to average over, in (0, 1], and is {last}.")
        if not len(self.step):
            return np.full(len(self.seeds), np.nan)
        length = np.diff(self.step, prepend=0)
        inside = self.step > self.steps * (1 - last)
        mean = np.average(self.loss[:, inside], axis=1, weights=length[inside])
        return np.where([seed in self.diverged for seed in self.seeds], np.nan, mean)

    def to_xarray(self) -> "xarray.Dataset":
        """Loss by seed and step."""
        try:
            import xarray
        except ImportError as error:
            raise ImportError(
                "`to_xarray` needs xarray, which is not installed: pip install 'recurra[results]'"
            ) from error

        data = xarray.Dataset(
            {"loss": (("seed", "step"), self.loss)},
            coords={"seed": list(self.seeds), "step": self.step},
            attrs={"interrupted": int(self.interrupted), "steps": self.steps},
        )
        diverged = np.array([self.diverged.get(seed, -1) for seed in self.seeds])
        data["diverged_at"] = ("seed", diverged)
        data["loss"].attrs["long_name"] = "loss, mean over a window"
        data["step"].attrs["long_name"] = "steps at the end of the window"
        data["diverged_at"].attrs["long_name"] = "first step with a non-finite loss; -1 for none"
        return data


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean over seeds; nan for a single one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def save(data: "xarray.Dataset", path: Path) -> None:
    """Write a netCDF file, whole or not at all."""
    with replacing(path) as partial:
        data.to_netcdf(partial, engine="h5netcdf")

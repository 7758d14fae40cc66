"""What a sweep leaves behind: results by point and seed, as a data set."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from recurra.saved.trees import arrays_of
from recurra.training.result import Result
from recurra.training.varying import POINT, Points

if TYPE_CHECKING:
    import xarray

ABOUT = {
    "loss": "loss, mean over a window",
    "final_loss": "mean loss over the last tenth of the steps; nan where it diverged",
    "diverged_at": "first step with a non-finite loss; -1 for none",
    "steps_done": "steps that were taken",
    "evaluated_loss": "held-out loss",
    "best_step": "step with the lowest held-out loss; -1 for none",
}


class Swept:
    """Results of networks, gathered by point and seed. Where there is none yet, numbers are nan, and steps 0 or -1."""

    def __init__(self, points: Points, seeds: Sequence[int], steps: int, window: int, record_every: int):
        if not find_spec("xarray"):  # which `dataset` needs, once all is computed
            raise ImportError("`sweep` needs xarray, which is not installed: pip install 'recurra[results]'")
        self._points, self._seeds = points, seeds
        self._shape = len(points.settings), len(seeds)
        ends = np.append(np.arange(window, steps, window), steps)
        self._axes: dict[str, np.ndarray] = {"step": ends}
        self._values: dict[str, np.ndarray] = {}
        self._dims: dict[str, tuple[str, ...]] = {}
        self._record_every = record_every
        self._steps = steps

    def add(self, members: Sequence[tuple[int, int]], result: Result) -> None:
        """The result of some networks, each known by its point and the row of its seed."""
        at = tuple(np.array(members).T)
        self._put("loss", at, result.loss, ("step",))
        self._put("final_loss", at, result.final_loss())
        diverged = np.array([result.diverged.get(label, -1) for label in result.seeds])
        self._put("diverged_at", at, diverged, none=-1)
        self._put("steps_done", at, np.full(len(members), result.steps), none=0)
        if result.evaluated_loss is not None and result.evaluated_step is not None and result.best_step is not None:
            self._axes.setdefault("evaluated_step", result.evaluated_step)
            self._put("evaluated_loss", at, result.evaluated_loss, ("evaluated_step",))
            self._put("best_step", at, result.best_step, none=-1)
        for name, array in arrays_of(result.records).items():
            self._axes.setdefault("recorded_step", np.arange(0, self._steps, self._record_every))
            more = tuple(f"record.{name}.{axis}" for axis in range(1, array.ndim - 1))
            self._put(f"record.{name}", at, _floating(array), ("recorded_step", *more))

    def _put(self, name: str, at: tuple, new: np.ndarray, dims: tuple[str, ...] = (), none: Any = np.nan) -> None:
        """Write rows. The first axis of some may be shorter than that of all: a run may stop, and records come late."""
        whole = (len(self._axes[dims[0]]), *new.shape[2:]) if dims else ()
        if name not in self._values:
            self._values[name], self._dims[name] = np.full((*self._shape, *whole), none, new.dtype), dims
        values = self._values[name] = self._values[name].astype(np.result_type(self._values[name], new), copy=False)
        values[at if not dims else (*at, slice(0, new.shape[1]))] = new

    def dataset(self) -> "xarray.Dataset":
        """All of it, with a dimension for each setting that varies, or one for points that make no grid."""
        import xarray

        grid = self._points.dimensions
        outer, sizes = (POINT,), self._shape[:1]
        if grid is not None:
            outer, sizes = tuple(grid), tuple(len(labels) for labels in grid.values())
        coordinates: dict[str, Any] = {"seed": list(self._seeds), **self._axes}
        coordinates |= self._settings() if grid is None else {path: list(labels) for path, labels in grid.items()}
        variables = {
            name: ((*outer, "seed", *self._dims[name]), values.reshape(*sizes, *values.shape[1:]))
            for name, values in self._values.items()
        }
        data = xarray.Dataset(variables, coordinates, {"steps": self._steps})
        for name in variables:
            if name in ABOUT:
                data[name].attrs["long_name"] = ABOUT[name]
        data["step"].attrs["long_name"] = "steps at the end of the window"
        return data

    def _settings(self) -> dict[str, Any]:
        """The settings of each point as coordinates: nan, or no text, where a point does not have one."""
        labels = self._points.labels
        paths = dict.fromkeys(path for each in labels for path in each)
        blank = {path: "" if any(isinstance(each.get(path), str) for each in labels) else np.nan for path in paths}
        return {path: (POINT, [each.get(path, blank[path]) for each in labels]) for path in paths}


def _floating(array: np.ndarray) -> np.ndarray:
    """What is recorded, as numbers among which nan stands for what is missing."""
    if array.dtype.kind not in "biufc":  # bfloat16, which is no type of NumPy's own
        array = array.astype(np.float32)
    return array.astype(np.result_type(array, np.float32), copy=False)

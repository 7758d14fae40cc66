"""The data set of a study: dimensions point, seed and window, and a coordinate for each setting that varies.

`by_settings` gives it a dimension for each of them where its points make a grid.
"""

import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from recurra import __version__
from recurra.studies.choices import Random, Varied
from recurra.training.folder import Group

if TYPE_CHECKING:
    import xarray

    from recurra.studies.choices import Point
    from recurra.studies.study import Study

LONG_NAMES = {
    "loss": "loss, mean over a window",
    "final_loss": "mean loss over the last tenth of the steps; nan where it diverged",
    "diverged_at": "first step with a non-finite loss; -1 for none",
    "steps_done": "steps that were taken; 0: it was not computed",
    "seconds": "a network's share of the time that its group took",
    "step": "steps at the end of the window",
}


def to_bytes(data: "xarray.Dataset") -> bytes:
    """A data set as the content of a netCDF file. HDF5 crashes where a disk is full, so it writes to memory.

    A signal that asks to stop raises an exception in the main thread, which would leave h5netcdf unusable in the middle
    of its work. So another thread does it, and is waited for.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: bytes(data.to_netcdf(engine="h5netcdf"))).result()


def whole(
    study: "Study",
    points: "Sequence[Point]",
    groups: Sequence[tuple[Group, list[tuple[tuple[int, int], int]]]],
    made: dict[str, Any],
) -> "xarray.Dataset":
    """All groups as one data set, by point, seed and window. What is not computed yet is nan.

    With each group come the places of its networks, as (point, seed's column), and their rows in it.
    """
    import xarray

    shape = len(points), len(study.seeds)
    windows = max((len(group.outcome.axes["step"]) for group, placed in groups if placed), default=0)
    blank = {"loss": np.nan, "final_loss": np.nan, "diverged_at": -1, "steps_done": 0, "seconds": np.nan}
    values = {name: np.full((*shape, windows) if name == "loss" else shape, each) for name, each in blank.items()}
    step = np.zeros((len(points), windows), np.int64)
    for group, placed in groups:
        if not placed:
            continue
        at, rows = tuple(np.array([place for place, _ in placed]).T), [row for _, row in placed]
        found, ends = group.outcome.values, group.outcome.axes["step"]
        values["loss"][*at, : len(ends)] = found["loss"][rows]
        for name in ("final_loss", "diverged_at", "steps_done"):
            values[name][at] = found[name][rows]
        values["seconds"][at] = group.outcome.seconds / max(len(group.known_as), 1)
        step[at[0], : len(ends)] = ends
    data = xarray.Dataset(
        {name: (("point", "seed", "window")[: array.ndim], array) for name, array in values.items()},
        {"point": range(len(points)), "seed": list(study.seeds), "step": _step(step), **_settings(study, points)},
        {
            "study": study.text,
            "fixed": json.dumps(study.fixed),
            "varied": json.dumps({name: _described(how) for name, how in study.varied.items()}),
            "made": json.dumps(made),
            "recurra_version": __version__,
        },
    )
    for name, words in LONG_NAMES.items():
        data[name].attrs["long_name"] = words
    return data


def by_settings(data: "xarray.Dataset") -> "xarray.Dataset":
    """The data set with a dimension for each setting that varies, if its points make a grid; else as it is."""
    names = list(json.loads(data.attrs["varied"]))
    values = [list(dict.fromkeys(data[name].values.tolist())) for name in names]
    # Points are all different, so they are a grid if there are as many as a grid has.
    if not names or math.prod(map(len, values)) != data.sizes["point"] or data["step"].ndim > 1:
        return data
    found = data.drop_vars("point")
    found = found.set_index(point=names).unstack("point") if len(names) > 1 else found.swap_dims(point=names[0])
    ordered = found.sel({name: each for name, each in zip(names, values, strict=True)})
    return ordered.transpose(*names, "seed", "window").swap_dims(window="step")


def _step(step: np.ndarray) -> Any:
    """The ends of windows: for all points alike, or for each its own."""
    known = step[step.any(axis=1)] if step.size else step
    if not len(known):
        return ("window", np.zeros(step.shape[1], np.int64))
    return ("window", known[0]) if (known == known[0]).all() else (("point", "window"), step)


def _described(how: Varied) -> dict[str, Any]:
    """How a setting varies: what its values are, and whether they are drawn."""
    return {"kind": "number" if how.kind == "number" else "text", "log": how.log, "drawn": isinstance(how, Random)}


def _settings(study: "Study", points: "Sequence[Point]") -> dict[str, Any]:
    """The settings that vary as coordinates over points: nan, or no text, where one has no effect."""
    found = {}
    for name, how in study.varied.items():
        values = [point.get(name) for point in points]
        if how.kind != "number":
            values = ["" if each is None else str(each).lower() if how.kind == "flag" else each for each in values]
        found[name] = ("point", np.array(values, float if how.kind == "number" else str))
    return found

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

if TYPE_CHECKING:
    import xarray

    from recurra.studies.choices import Point
    from recurra.studies.study import Study
    from recurra.training.computing import Collected


def to_bytes(data: "xarray.Dataset") -> bytes:
    """A data set as the content of a netCDF file. HDF5 crashes where a disk is full, so it writes to memory.

    A signal that asks to stop raises an exception in the main thread, which would leave h5netcdf unusable in the middle
    of its work. So another thread does it, and is waited for.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(lambda: bytes(data.to_netcdf(engine="h5netcdf"))).result()


def whole(study: "Study", points: "Sequence[Point]", found: "Collected", made: dict[str, Any]) -> "xarray.Dataset":
    """What is found of a study as a data set, by point, seed and window. What is not computed yet is nan."""
    from recurra.training.sweep import dataset

    about = {
        "study": study.text,
        "fixed": json.dumps(study.fixed),
        "varied": json.dumps({name: _described(how) for name, how in study.varied.items()}),
        "made": json.dumps(made),
        "recurra_version": __version__,
    }
    numbers = {"point": range(len(points))}
    return dataset(found, numbers, study.seeds, {**numbers, **_settings(study, points)}, about, "window")


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

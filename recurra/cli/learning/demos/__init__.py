"""The series of `recurra learn --demo`: tables beside this file, one that is computed, and one that River brings.

SOURCES.md says where the tables come from, and why they may be passed on. River's table is read as a file: importing
River takes seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from recurra.cli.environment import lacking
from recurra.cli.learning.sources import InputError


@dataclass(frozen=True)
class Demo:
    """A series: a description, its target, and the file that it is in; no file if it is computed."""

    about: str
    target: str
    file: str = ""
    #: the package that has the file, and the extra that installs it; ours if there is none
    package: str = ""

    def path(self) -> Path:
        """The file; an `InputError` says what is missing."""
        if not self.package:
            return Path(__file__).with_name(self.file)
        if line := lacking(self.package, "This demo", self.package):
            raise InputError(line)
        found = find_spec(self.package)
        assert found is not None
        for folder in found.submodule_search_locations or ():
            if (path := Path(folder) / self.file).is_file():
                return path
        raise InputError(f"This demo is the file {self.file} of {self.package}, and the version installed has none.")


DEMOS = {
    "lorenz": Demo("the chaotic equations of Lorenz, as of a laser; computed, 10,000 rows", "intensity"),
    "sunspots": Demo("monthly sunspots, 1749 to 1983, 2,820 rows", "sunspots", "sunspots.csv"),
    "weather": Demo("daily weather in Seattle, 2012 to 2015, 1,461 rows", "temp_max", "weather.csv"),
    "sea": Demo("monthly temperature of the Pacific off Peru, 1950 to 2010, 732 rows", "celsius", "sea.csv"),
    "water": Demo(
        "hourly flow through a water pipe, with faults, 1,268 rows; needs river",
        "Water flow [l/s]", "datasets/water-flow.csv", "river",
    ),
}  # fmt: skip

#: rows of the computed series, the time between two, and steps of integration in it
ROWS, INTERVAL, STEPS = 10_000, 0.05, 5

Point = tuple[float, float, float]


def lorenz() -> Iterator[Point]:
    """The solution of the Lorenz equations, by Runge and Kutta's method of order 4, from (1, 1, 1) on.

        dx/dt = 10 (y - x)        dy/dt = x (28 - z) - y        dz/dt = x y - 8/3 z

    The intensity of a laser of one mode follows x² (Haken 1975). Python's arithmetic gives the same bits everywhere.
    """

    def slope(x: float, y: float, z: float) -> Point:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z

    def along(p: Point, k: Point, h: float) -> Point:
        return p[0] + h * k[0], p[1] + h * k[1], p[2] + h * k[2]

    h, p = INTERVAL / STEPS, (1.0, 1.0, 1.0)
    while True:
        yield p
        for _ in range(STEPS):
            k1 = slope(*p)
            k2 = slope(*along(p, k1, h / 2))
            k3 = slope(*along(p, k2, h / 2))
            k4 = slope(*along(p, k3, h))
            for k, weight in ((k1, 1), (k2, 2), (k3, 2), (k4, 1)):
                p = along(p, k, h * weight / 6)


def computed() -> bytes:
    """The computed series as CSV."""
    rows = (f"{x * x:.3f}\n" for x, _, _ in islice(lorenz(), ROWS))
    return "".join(["intensity\n", *rows]).encode()

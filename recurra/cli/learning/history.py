"""What a run remembers beside its errors: forecasts on their way, the latest rows, and shares over time."""

import math
from collections.abc import Mapping

import numpy as np

#: rows that are shown at the end
TAIL = 2000
#: rows between two notes of the shares at first, and the number of notes at which every other one is dropped
EVERY, MOST = 128, 256


class Delay:
    """Hands out what it was given so many rows ago; NaN before."""

    def __init__(self, rows: int, width: int):
        self._kept = np.full((rows, width), math.nan)

    def pass_on(self, values: np.ndarray) -> np.ndarray:
        """Take values in, (rows, width), and hand out as many older ones."""
        joined = np.concatenate([self._kept, values])
        self._kept = joined[len(values) :]
        return joined[: len(values)]

    @property
    def oldest(self) -> np.ndarray:
        """The values that are handed out next, (width,)."""
        return self._kept[0]

    @property
    def newest(self) -> np.ndarray:
        """The values taken in last, (width,); NaN if there were none."""
        return self._kept[-1]

    def state(self) -> dict[str, np.ndarray]:
        """What is on its way."""
        return {"kept": self._kept.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self._kept = state["kept"].copy()


class Tail:
    """The latest rows, (rows, width)."""

    def __init__(self, width: int):
        self.rows = np.empty((0, width))

    def add(self, rows: np.ndarray) -> None:
        """Append rows, and forget those before the latest."""
        self.rows = np.concatenate([self.rows, rows])[-TAIL:]

    def state(self) -> dict[str, np.ndarray]:
        """The rows."""
        return {"rows": self.rows.copy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.rows = state["rows"].copy()


class Notes:
    """Numbers noted now and then: the time, and the shares of a race's members.

    They are noted after rows that are multiples of `every`, which doubles when there are too many. Batches have to end
    there, so that the notes do not depend on how the rows were cut.
    """

    def __init__(self) -> None:
        self.every = EVERY
        self.names: tuple[str, ...] = ()
        self.rows: list[int] = []
        self.values: list[list[float]] = []

    def room(self, row: int) -> int:
        """How many rows there are until the next note."""
        return self.every - row % self.every

    def add(self, row: int, seconds: float, shares: Mapping[str, float]) -> None:
        """Note after this many rows, if it is time to."""
        if row % self.every:
            return
        self.names = self.names or tuple(shares)
        self.rows.append(row)
        self.values.append([seconds, *(float(shares.get(name, math.nan)) for name in self.names)])
        if len(self.rows) == MOST:
            self.rows, self.values = self.rows[1::2], self.values[1::2]
            self.every *= 2

    def times(self) -> np.ndarray:
        """The time of each note."""
        return np.array([values[0] for values in self.values])

    def shares(self) -> np.ndarray:
        """(notes, members)."""
        return np.array([values[1:] for values in self.values]).reshape(len(self.rows), len(self.names))

    def state(self) -> dict[str, np.ndarray]:
        """All that was noted, but the names."""
        values = np.array(self.values).reshape(len(self.rows), 1 + len(self.names))
        return {"rows": np.array(self.rows, np.int64), "values": values, "every": np.array([self.every], np.int64)}

    def restore(self, state: dict[str, np.ndarray], names: tuple[str, ...]) -> None:
        """Go on from there."""
        self.rows, self.values = state["rows"].tolist(), state["values"].tolist()
        self.every, self.names = int(state["every"][0]), names

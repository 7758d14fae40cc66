"""Pairs of units (k, i) of which i reaches k in a few steps: there SnAp keeps what the weights of unit i do to unit k.

Where a network has weights is known before anything runs, and so are its pairs. Their tables are made once, and kept.
"""

import functools

import numpy as np
from jaxtyping import Int

from recurra.linalg.patterned import Listed


class Pairs:
    """In pair s, the unit `source[s]` reaches the unit `unit[s]`. The first n pairs are those of a unit with itself."""

    def __init__(self, networks: tuple[Listed, ...], n: int, steps: int):
        itself = np.arange(n) * (n + 1)  # the pair (k, i) is written as one number, i n + k
        found = itself
        for _ in range(steps):
            before, found = (
                found,
                np.unique(np.concatenate([found, *(_after(places, found, n) for places in networks)])),
            )
            if len(found) == len(before):
                break
        numbers = np.concatenate([itself, np.setdiff1d(found, itself)])
        self.n, self._order = n, np.argsort(numbers)
        self._sorted = numbers[self._order]
        self.source, self.unit = (each.astype(np.int32) for each in np.divmod(numbers, n))
        self.by_source = Listed(self.source, np.arange(len(numbers)), (n, len(numbers)))

    def __len__(self) -> int:
        return len(self.unit)

    @functools.lru_cache(maxsize=16)  # noqa: B019, pairs are themselves kept for good
    def connected(self, places: Listed) -> tuple[Listed, Int[np.ndarray, " count"]]:
        """Where the pair (k, i) hears the pair (l, i), as k hears l; and by which of the weights at `places`."""
        weight = places.by_row[self.unit]
        pair = np.broadcast_to(np.arange(len(self))[:, None], weight.shape)[weight < len(places)]
        weight = weight[weight < len(places)]
        number = self.source[pair].astype(np.int64) * self.n + places.columns[weight]
        at = np.minimum(np.searchsorted(self._sorted, number), len(self) - 1)
        is_pair = self._sorted[at] == number
        heard, pair, weight = self._order[at[is_pair]], pair[is_pair], weight[is_pair]
        order = np.lexsort((heard, pair))
        return Listed(pair[order], heard[order], (len(self), len(self))), weight[order]


@functools.lru_cache(maxsize=16)
def pairs_within(networks: tuple[Listed, ...], n: int, steps: int) -> Pairs:
    """All pairs of n units of which one reaches the other in at most so many steps through any of the networks."""
    return Pairs(networks, n, steps)


def _after(places: Listed, numbers: Int[np.ndarray, " count"], n: int) -> Int[np.ndarray, " more"]:
    """The pairs (k, i) of which k hears the first unit of a given pair."""
    source, unit = np.divmod(numbers, n)
    weight = places.by_column[unit]
    hears = np.append(places.rows, 0)[weight]
    return (source[:, None] * n + hears)[weight < len(places)]

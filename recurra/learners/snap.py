"""The sparse n-step approximation (Menick et al. 2020), for recurrent weights at some places only.

For pairs of units (k, i) of which i reaches k in a few steps, SnAp keeps what the weights of unit i do to unit k. Where
a network has weights is known before anything runs, and so are its pairs. Their tables are made once, and kept.
"""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Tangent, Weights
from recurra.cells.gates import Gates, Sources, Trace, listened, side_by_side
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import Listed, Sparse, matvec, mul, total
from recurra.linalg.groups import taken, with_zero


class SnAp(PastFacing):
    """M = P_n ∘ (J M + Mbar): a weight's influence on units that its own unit reaches in n - 1 steps.

    n is `order`. P_n is never multiplied with: M has a row for each pair of a unit k and a unit i that reaches k, and a
    column for each weight of i. A pair (k, i) hears the pairs (l, i) as k hears l.
    """

    order: int = 2

    about = About("snap-n", "SnAp-n", "P_ki M_kij", memory="nKm", time="nKLm", unitwise=True, sparse=True)

    def __check_init__(self) -> None:
        checks.whole(self, "order")

    def check(self, cell: Cell) -> None:
        drawn = lambda key: cell.applied(unitwise(cell).init_weights(key))
        weights = jax.eval_shape(drawn, jax.random.key(0))
        if not all(gate.rec is None or isinstance(gate.rec, Sparse) for gate in weights):
            kind = "a cell of recurra, such as recurra.RNN" if unitwise(cell).is_read else cell.name
            raise TypeError(
                f"SnAp(order={self.order}) needs sparse recurrent weights, and those of {cell.name} are dense. On "
                "dense weights SnAp-2 is RTRL: use SnAp1 or RTRL, or draw sparse weights with "
                f"{kind}(..., w_rec=recurra.cells.Sparsely(density=0.1))."
            )
        pairs = self.pairs(weights)
        if len(pairs) > pairs.n and pairs.are_all:
            warnings.warn(
                f"SnAp(order={self.order}) keeps all {len(pairs):,} pairs of units where one ever reaches the other: "
                "it is RTRL here. A lower order costs less.",
                stacklevel=2,
            )

    def init(self, cell: Cell, weights: Weights, key: PRNGKeyArray, n_out: int) -> Tangent:
        shape = (len(self.pairs(weights)), sum(map(_width, _blocks(weights)[0])))
        return (jnp.zeros(shape, cell.dtype),) * unitwise(cell).states

    def advance(self, tick: Tick, state: Tangent, noise: None) -> Tangent:
        pairs = self.pairs(tick.weights)
        JM = tick.cell.push(_between(pairs, tick.weights), _at(pairs, tick.trace), state)
        ahat = [side_by_side(listened(gate, tick.trace.ahat, _in_rows)) for gate in tick.weights]
        Mbar = (jnp.concatenate(list(map(_rows, D, ahat)), axis=1) for D in tick.trace.D)
        return tuple(JM.at[: pairs.n].add(new) for JM, new in zip(JM, Mbar, strict=True))

    def contract(self, cell: Cell, weights: Weights, c: Credit, state: Tangent) -> Weights:
        pairs, (blocks, structure) = self.pairs(weights), _blocks(weights)
        at = pairs.by_source
        rows = lambda u, M: None if u is None else matvec(Sparse(taken(u, pairs.unit[at.columns]), at), M)
        cM = total(*map(rows, c, state))
        edges = np.cumsum(list(map(_width, blocks)))[:-1]
        return jax.tree.unflatten(structure, list(map(_out_of_rows, blocks, jnp.split(cM, edges, axis=1))))

    def pairs(self, weights: Gates) -> "Pairs":
        """All (k, i) such that unit i reaches unit k in `order` - 1 steps."""
        networks = tuple(dict.fromkeys(gate.rec.places for gate in weights if gate.rec is not None))
        n = networks[0].shape[0] if networks else len(jax.tree.leaves(weights)[0])
        return pairs_within(networks, n, self.order - 1)


class Pairs:
    """In pair s, the unit `source[s]` reaches the unit `unit[s]`. The first n pairs are those of a unit with itself."""

    def __init__(self, networks: tuple[Listed, ...], n: int, steps: int):
        itself = np.arange(n) * (n + 1)  # the pair (k, i) is written as one number, i n + k
        found = itself
        #: whether more steps would add no pair; where they are not all of n², it is known one step later
        self.are_all = False
        for _ in range(steps):
            before, found = (
                found,
                np.unique(np.concatenate([found, *(_one_step_on(places, found, n) for places in networks)])),
            )
            self.are_all = len(found) in (len(before), n * n)
            if self.are_all:
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


def _one_step_on(places: Listed, numbers: Int[np.ndarray, " count"], n: int) -> Int[np.ndarray, " more"]:
    """The pairs (k, i) of which k hears the first unit of a given pair."""
    source, unit = np.divmod(numbers, n)
    weight = places.by_column[unit]
    hears = np.append(places.rows, 0)[weight]
    return (source[:, None] * n + hears)[weight < len(places)]


def _between(pairs: Pairs, weights: Gates) -> Gates:
    """The recurrent weights as pairs hear each other through them."""

    def each(w: Sparse) -> Sparse:
        places, weight = pairs.connected(w.places)
        return Sparse(taken(w.values, weight), places)

    return tuple(Sources(None if gate.rec is None else each(gate.rec), None, None) for gate in weights)


def _at(pairs: Pairs, trace: Trace) -> Trace:
    """The local derivatives of the unit of each pair."""
    blocks = lambda rows: tuple(tuple(_taken(d, pairs) for d in row) for row in rows)
    return Trace(blocks(trace.H), blocks(trace.D), trace.ahat)


def _taken(d: Float[Array, " #n"] | None, pairs: Pairs) -> Float[Array, " _"] | None:
    return d if d is None or len(d) == 1 else taken(d, pairs.unit)


def _rows(d: Float[Array, " n"] | None, ahat: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """D ahat: row i for the weights of unit i."""
    return jnp.zeros_like(ahat) if d is None else mul(d, ahat)


def _in_rows(w: Any, u: Float[Array, " _"]) -> Float[Array, "n _"]:
    """What each unit hears from a source, in rows of equal length."""
    return taken(with_zero(u), w.places.heard) if isinstance(w, Sparse) else jnp.broadcast_to(u, w.shape)


def _out_of_rows(w: Any, rows: Float[Array, "n _"]) -> Any:
    """A gradient like w from rows of equal length."""
    return Sparse(taken(rows.reshape(-1), w.places.in_lists), w.places) if isinstance(w, Sparse) else rows


def _width(w: Any) -> int:
    """How many weights of a block a unit has, at most."""
    return w.places.heard.shape[1] if isinstance(w, Sparse) else w.shape[1]


def _blocks(weights: Gates) -> tuple[list[Any], Any]:
    return jax.tree.flatten(weights, is_leaf=lambda block: isinstance(block, Sparse))

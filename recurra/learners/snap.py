"""The sparse n-step approximation (Menick et al. 2020), for recurrent weights at some places only."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.cells.base import Cell, Credit, Tangent, Weights
from recurra.cells.gates import Gates, Sources, Trace, listened, side_by_side
from recurra.cells.tick import Tick
from recurra.learners.base import About, PastFacing, unitwise
from recurra.linalg import Sparse, matvec, mul, total
from recurra.linalg.groups import taken, with_zero
from recurra.linalg.pairs import Pairs, pairs_within


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
        weights = jax.eval_shape(unitwise(cell).init_weights, jax.random.key(0))
        if not all(gate.rec is None or isinstance(gate.rec, Sparse) for gate in weights):
            raise TypeError(
                f"SnAp(order={self.order}) needs sparse recurrent weights, and those of {cell.name} are dense. On "
                "dense weights SnAp-2 is RTRL: use SnAp1 or RTRL, or draw sparse weights with "
                f"{cell.name}(..., w_rec=recurra.cells.Sparsely(density=0.1))."
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

    def pairs(self, weights: Gates) -> Pairs:
        """All (k, i) such that unit i reaches unit k in `order` - 1 steps."""
        networks = tuple(dict.fromkeys(gate.rec.places for gate in weights if gate.rec is not None))
        n = networks[0].shape[0] if networks else len(jax.tree.leaves(weights)[0])
        return pairs_within(networks, n, self.order - 1)


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

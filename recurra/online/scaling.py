"""Running means and variances, from the past alone, and a readout whose units follow them.

Running statistics change, and what the readout predicts must not. Least squares are linear in the target, and
indifferent to units of their inputs. So their readout becomes, exactly, what it would be if the past had been in the
new units from the start.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from recurra.network import Readout

#: Standardised inputs are cut off at so many standard deviations.
FAR = 10.0


class Running(NamedTuple):
    """A mean and a variance over the last rows.

    A weight that falls with time would need no `rows`; this one starts fair.
    """

    rows: Float[Array, ""]
    mean: Float[Array, " columns"]
    variance: Float[Array, " columns"]


def nothing_seen(columns: int, dtype: jnp.dtype) -> Running:
    """Before the first row."""
    return Running(jnp.zeros((), dtype), jnp.zeros(columns, dtype), jnp.zeros(columns, dtype))


def seen(before: Running, x: Float[Array, " columns"], memory: int, counts: Bool[Array, ""] | bool = True) -> Running:
    """With one more row, if it counts. After `memory` rows the weight of the past falls exponentially."""
    count = jnp.minimum(before.rows + jnp.where(counts, 1, 0).astype(x.dtype), float(memory))
    share = jnp.where(counts, 1 / jnp.maximum(count, 1), 0)
    away = jnp.where(counts, x - before.mean, 0)
    mean = before.mean + share * away
    variance = before.variance + share * (away * (x - mean) - before.variance)
    return Running(count, mean, jnp.where(counts, variance, before.variance))


def standardised(stats: Running, x: Float[Array, "*rows columns"]) -> Float[Array, "*rows columns"]:
    """x with mean 0 and variance 1; 0 where nothing has varied yet."""
    varies = stats.variance > 0
    away = (x - stats.mean) / jnp.sqrt(jnp.where(varies, stats.variance, 1))
    return jnp.where(varies, jnp.clip(away, -FAR, FAR), 0)


#: An output z means shift + scale · z.
Units = tuple[Float[Array, " n_out"], Float[Array, " n_out"]]


def of_target(readout: Readout, before: Units, after: Units) -> Readout:
    """The readout for another shift and scale of the target."""
    ratio = before[1] / after[1]
    V = None if readout.V is None else readout.V * ratio[:, None]
    b = readout.b * ratio + (before[0] - after[0]) / after[1]
    return Readout(readout.W * ratio[:, None], b, V)


def change(before: Running, after: Running) -> tuple[Float[Array, " columns"], Float[Array, " columns"]]:
    """r and c, with which an input x in the old units is r x + c in the new ones."""
    known = (before.variance > 0) & (after.variance > 0)
    old, new = (jnp.sqrt(jnp.where(known, stats.variance, 1)) for stats in (before, after))
    return old / new, jnp.where(known, (before.mean - after.mean) / new, 0)


def of_inputs(
    readout: Readout, S: Float[Array, "u u"] | None, r: Float[Array, " n_in"], c: Float[Array, " n_in"]
) -> tuple[Readout, Float[Array, "u u"] | None]:
    """The readout, and the square root S of `RLS`, for inputs r x + c in the place of x."""
    assert readout.V is not None
    V = readout.V / r
    readout = Readout(readout.W, readout.b - V @ c, V)
    if S is None:
        return readout, None
    first = S.shape[0] - len(r)  # after 1 and the state come the inputs
    of_x = S[first:] / r.astype(S.dtype)[:, None]
    of_one = S[:1] - (c.astype(S.dtype) @ of_x)[None]
    return readout, jnp.concatenate([of_one, S[1:first], of_x])

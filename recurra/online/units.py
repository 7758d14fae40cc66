"""A readout in new units: running statistics change, and what the readout predicts must not.

Least squares are linear in the target, and indifferent to units of their inputs. So their readout becomes, exactly,
what it would be if the past had been in the new units from the start.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra.network import Readout
from recurra.online.scaling import Running

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

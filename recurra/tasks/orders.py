"""Random orders of N things, one place at a time: which thing is at a place costs the same, however many there are.

To sort random numbers takes all of them, and every stream would do it again. The swap-or-not shuffle (Hoang, Morris &
Rogaway 2012) finds a single place of a random order. In round r the thing x has a partner, K_r - x mod N, and the two
change places or do not, by a coin that both know:

    x ← K_r - x mod N   if   F_r(max(x, K_r - x mod N)) = 1.

Each round is a permutation of 0..N-1, so all rounds together are one, whatever K and F are. K_r is uniform, and F_r a
hash with a random key.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, UInt32

#: With 12 rounds, tests on 200,000 orders of 2 to 50 things still find nothing that is not as in uniform ones.
ROUNDS = 32
#: rounds that are compiled together
UNROLLED = 8


class Shuffle(NamedTuple):
    """The partners and the coins of every round."""

    K: Int[Array, "rounds *orders"]
    F: UInt32[Array, "rounds *orders"]


def shuffle(key: PRNGKeyArray, count: int) -> Shuffle:
    """A random order of so many things."""
    key_partners, key_coins = jax.random.split(key)
    partners = jax.random.randint(key_partners, (ROUNDS,), 0, count, "int32")
    return Shuffle(partners, jax.random.bits(key_coins, (ROUNDS,), "uint32"))


def at(place: Int[Array, "*places"], shuffle: Shuffle, count: int) -> Int[Array, "*places"]:
    """What stands at each place, 0..count-1. The order is one for all places, or one for each."""

    def change(x: Int[Array, "*places"], one: Shuffle) -> tuple[Int[Array, "*places"], None]:
        partner = one.K - x
        partner = jnp.where(partner < 0, partner + count, partner)
        coin = _mixed(jnp.maximum(x, partner).astype("uint32") ^ one.F) >> jnp.uint32(31)
        return jnp.where(coin == 1, partner, x), None

    return jax.lax.scan(change, place, shuffle, unroll=UNROLLED)[0]


def _mixed(h: UInt32[Array, "*places"]) -> UInt32[Array, "*places"]:
    """The last steps of MurmurHash3: every bit depends on every other."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> jnp.uint32(shift))) * jnp.uint32(factor)
    return h ^ (h >> jnp.uint32(16))

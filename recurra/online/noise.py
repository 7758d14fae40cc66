"""The random numbers of a stream: they follow from the state, and are those that `train` draws with the same key."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree, UInt32

from recurra.step import LearningStep
from recurra.tasks.base import BLOCK


class Noise(NamedTuple):
    """The random numbers of the present block of steps, and where the next come from."""

    rows: dict[str, PyTree[Array]]
    key: UInt32[Array, " words"]
    block: UInt32[Array, ""]
    slot: Int[Array, ""]


def first_noise(step: LearningStep, key: PRNGKeyArray) -> Noise:
    """Before the first step."""
    zero = jnp.zeros((), "uint32")
    return Noise(_drawn(step, key, zero), jax.random.key_data(key), zero, jnp.zeros((), "int32"))


def next_noise(step: LearningStep, noise: Noise) -> tuple[dict[str, PyTree[Array]], Noise]:
    """The random numbers of this step, and of what comes after it."""
    if not jax.tree.leaves(noise.rows):
        return noise.rows, noise
    now = jax.tree.map(lambda rows: rows[noise.slot], noise.rows)
    is_over = noise.slot + 1 == BLOCK
    block = noise.block + is_over.astype("uint32")
    draw = lambda: _drawn(step, jax.random.wrap_key_data(noise.key), block)
    rows = jax.lax.cond(is_over, draw, lambda: noise.rows)
    return now, Noise(rows, noise.key, block, jnp.where(is_over, 0, noise.slot + 1))


def _drawn(step: LearningStep, key: PRNGKeyArray, block: UInt32[Array, ""]) -> dict[str, PyTree[Array]]:
    draw = lambda name, own: step.noise_of(name, jax.random.fold_in(own, block), BLOCK)
    return {name: draw(name, own) for name, own in step.own_keys(key).items()}

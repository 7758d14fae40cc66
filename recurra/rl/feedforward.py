"""Encoders and heads as streaming agents need them: sparse first weights, and layers whose outputs keep their scale."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recurra import checks
from recurra.cells.module import Module, module_of


def sparse(key: PRNGKeyArray, shape: tuple[int, int], dtype: Any = None, sparsity: float = 0.9) -> Float[Array, "n m"]:
    """Weights ~ U(-1/√m, 1/√m) of which each row has the share `sparsity` set to zero (Elsayed et al. 2024).

    A unit that hears few inputs is disturbed little by what others learn.

    >>> W = rc.rl.sparse(jax.random.key(0), (4, 20))
    >>> (W != 0).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """
    n, m = shape
    key_weights, key_places = jax.random.split(key)
    dtype = checks.float_dtype(dtype)
    W = jax.random.uniform(key_weights, shape, dtype, -1 / math.sqrt(m), 1 / math.sqrt(m))
    rank = jax.vmap(lambda key: jax.random.permutation(key, m))(jax.random.split(key_places, n))
    return jnp.where(rank < math.ceil(sparsity * m), 0, W)


def layers(n_in: int, n_out: int, hidden: Sequence[int] = (64,), sparsity: float = 0.9, dtype: Any = None) -> Module:
    """A feed-forward network, for `recurra.Encoded(...)` before a cell, or as the `head` of an agent.

    Each hidden layer is linear, then normalised to zero mean and unit variance over its units, then a leaky ReLU. The
    last one is linear. First weights are `sparse`, and each seed draws its own.

    >>> encoder = rc.rl.layers(4, 16)
    >>> agent = rc.rl.AC(rc.Encoded(encoder, rc.RTU(n_in=16, n=8)), rc.RTRL(), actions=2)
    """
    sizes = [checks.whole_number("Each size of `layers`", size) for size in (n_in, *hidden, n_out)]
    if not 0 <= sparsity < 1:
        raise ValueError(f"`sparsity` of `layers` must be at least 0 and below 1, and is {sparsity}.")
    dtype = checks.float_dtype(dtype)

    def init(key: PRNGKeyArray) -> PyTree[Array]:
        keys = jax.random.split(key, len(sizes) - 1)
        of = lambda key, m, n: {"W": sparse(key, (n, m), dtype, sparsity), "b": jnp.zeros(n, dtype)}
        return [of(*each) for each in zip(keys, sizes[:-1], sizes[1:], strict=True)]

    return module_of(_layered, init(jax.random.key(0)), x=n_in, init=init, dtype=dtype)


def _layered(params: PyTree[Array], x: Float[Array, " n_in"]) -> Float[Array, " n_out"]:
    *hidden, last = params
    for layer in hidden:
        x = jax.nn.leaky_relu(jax.nn.standardize(layer["W"] @ x + layer["b"]))
    return last["W"] @ x + last["b"]

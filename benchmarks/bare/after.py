"""What came after the paper, as bare loops: each an algorithm with its cell, and how both start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bare import diagonal, layers, rotations, spikes
from bare.loop import N_OUT, T2, Algorithm, Carry, each_stream


class Contestant(NamedTuple):
    """An algorithm, what makes its cell of numbers, and these: arguments of the compiled program, as in the library."""

    algorithm: Algorithm
    cell: Callable[[Any], Any]
    numbers: Any


AFTER: dict[str, Contestant] = {
    "SnAp-1, RNN": Contestant(diagonal.SNAP_1, diagonal.Leaky, 1.0),
    "pp_prop, RNN": Contestant(diagonal.PP_PROP, diagonal.Leaky, 1.0),
    "RTRL, RTU": Contestant(rotations.RTRL, lambda _: rotations.RTU(), None),
    "RFLO, ALIF": Contestant(spikes.E_PROP, spikes.ALIF, (spikes.TAU_V, spikes.TAU_A, spikes.TAU_OUT)),
    "Layered RFLO, two RNNs": Contestant(layers.RFLO, layers.Two, 1.0),
}


def start(algorithm, cell, n, key, streams=1):
    """The carry and the last coins of one network of n units, in each layer, before its first step."""
    key_W, key_out, key_state = jax.random.split(key, 3)
    W, a = cell.start(key_W, n), cell.still(n)
    W_out = jax.random.normal(key_out, (N_OUT, len(a[0]))) / len(a[0]) ** 0.5
    of_stream = lambda key: (a, algorithm.start(key, cell, W), jnp.zeros(T2))
    a, state, past = each_stream(of_stream, key_state, streams)
    return Carry(W, W_out, jnp.zeros(N_OUT), a, state), past

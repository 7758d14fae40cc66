"""RTRL with a mask on M after every step, in dense NumPy: the definition of SnAp, for any cell that `unrolled` has."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

from dense import Trajectory
from recurra.linalg import full

#: RNN, GRU and LSTM have all recurrent weights here: some rows and columns are empty, some units hear themselves, and
#: a weight of unit 0 needs four steps to reach everything it reaches
EDGES = np.array([(0, 0), (1, 0), (2, 1), (3, 2), (3, 3), (0, 3), (2, 0), (5, 3)])


def filled(weights):
    """The weights with every matrix as a plain array."""
    is_matrix = lambda leaf: leaf is not None and not isinstance(leaf, tuple)
    return weights._replace(cell=jax.tree.map(full, weights.cell, is_leaf=is_matrix))


def flat(gates):
    """A gradient as one vector, with zeros where there are no weights."""
    is_matrix = lambda leaf: leaf is not None and not isinstance(leaf, tuple)
    return np.asarray(jax.flatten_util.ravel_pytree(jax.tree.map(full, gates, is_leaf=is_matrix))[0])


def where_weights_are(gates):
    """Which entries of `flat` are weights."""
    return flat(jax.tree.map(jnp.ones_like, gates)) > 0


def reach(J_pattern, order):
    """Which units k a weight into unit i can have acted on: reach[k, i], by powers of a matrix."""
    n = len(J_pattern)
    P = np.eye(n, dtype=int)
    for _ in range(order - 1):
        P = np.eye(n, dtype=int) + J_pattern.astype(int) @ P > 0
        P = P.astype(int)
    return P > 0


def masked_rtrl(step, network, weights, xs, ys, P, mask_J=False):
    """Each step's gradient with M = P ∘ (J M + Mbar); with `mask_J`, the wrong rule M = (P ∘ J) M + Mbar."""
    dense = filled(weights)
    trajectory = Trajectory(step, dense, network.cell.init_state(), xs, ys)
    rows = jax.tree.map(lambda w: jnp.broadcast_to(jnp.arange(w.shape[0])[:, None], w.shape), dense.cell)
    owner = np.asarray(jax.flatten_util.ravel_pytree(rows)[0]).astype(int)
    unit = np.arange(trajectory.width) % trajectory.n
    kept, is_weight = P[unit][:, owner], where_weights_are(weights.cell)
    M, gradients = np.zeros(kept.shape), []
    for J, Mbar, cbar in zip(trajectory.J, trajectory.Mbar, trajectory.cbar, strict=True):
        M = (J * P[unit][:, unit]) @ M + Mbar if mask_J else kept * (J @ M + Mbar)
        gradients.append(np.where(is_weight, cbar @ M, 0))
    return gradients

"""Gradients of the library beside those of `dense`, step by step."""

import jax
import numpy as np

import dense
from driving import problem
from unrolled import CELLS

STEPS = 12


def setting(cell, **events):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=STEPS)
    return network, weights, xs, ys, dense.Trajectory(step, weights, network.cell.init_state(), xs, ys, **events)


def compare(path, ours, theirs):
    """The largest distance over steps, relative to the gradient's size on average."""
    ours = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(g)]) for g in ours]
    size = np.mean([np.linalg.norm(g) for g in theirs])
    return max(np.linalg.norm(x - y) for x, y in zip(ours, theirs, strict=True)) / size


def side_by_side(A):
    return np.block([[np.asarray(block) for block in row] for row in A])

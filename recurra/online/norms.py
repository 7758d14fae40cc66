"""How large the parts of a state are: what to look at when numbers grow."""

from typing import Any

import jax
import numpy as np

from recurra.online.step import OnlineState
from recurra.step import APPLIED

#: what the norm of the learner's own state is called
KEPT = "what the learner keeps"


def norms_of(state: OnlineState) -> dict[str, float]:
    """The Euclidean norm of each part of a state, by a name that a person understands."""
    learning = state.delayed.learning
    called = lambda name: KEPT if name == APPLIED else f"what the probe {name} keeps"
    parts = {
        "the recurrent and input weights": learning.weights.cell,
        "the readout": learning.weights.readout,
        "the network state": learning.a,
        "the optimizer": learning.optimizers,
        **{called(name): kept for name, kept in learning.learners.items()},
    }
    return {name: _norm(part) for name, part in parts.items()}


def grown(before: OnlineState, after: OnlineState) -> str:
    """In words, which part grew most."""
    old, new = norms_of(before), norms_of(after)
    growth = {name: new[name] / max(old[name], 1e-30) if np.isfinite(new[name]) else np.inf for name in new}
    worst = max(growth, key=lambda name: (growth[name], new[name]))
    return f"the norm of {worst} went from {old[worst]:.3g} to {new[worst]:.3g}"


def _norm(part: Any) -> float:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(part)]
    floats = [leaf.astype(np.float64) for leaf in leaves if leaf.dtype.kind not in "iub"]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(sum(float(np.sum(leaf * leaf)) for leaf in floats)))

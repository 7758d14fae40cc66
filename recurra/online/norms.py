"""How large the parts of a state are: what to look at when numbers grow."""

import numpy as np

from recurra.online.step import OnlineState


def norms_of(state: OnlineState) -> dict[str, float]:
    """The Euclidean norm of each part of a state, by a name that a person understands."""
    learning = state.delayed.learning
    learners = {f"what {name} keeps": kept for name, kept in _named(learning.learners).items()}
    parts = {
        "recurrent and input weights": learning.weights.cell,
        "readout": learning.weights.readout,
        "network state": learning.a,
        "optimizer": learning.optimizers,
        **learners,
    }
    return {name: _norm(part) for name, part in parts.items()}


def grown(before: OnlineState, after: OnlineState) -> str:
    """In words, which part grew most."""
    old, new = norms_of(before), norms_of(after)
    growth = {name: new[name] / max(old[name], 1e-30) if np.isfinite(new[name]) else np.inf for name in new}
    worst = max(growth, key=lambda name: (growth[name], new[name]))
    return f"the norm of the {worst} went from {old[worst]:.3g} to {new[worst]:.3g}"


def _named(learners: dict) -> dict:
    from recurra.step import APPLIED

    return {"the learner" if name == APPLIED else f"the probe {name}": kept for name, kept in learners.items()}


def _norm(part: object) -> float:
    import jax

    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(part)]
    floats = [leaf.astype(np.float64) for leaf in leaves if leaf.dtype.kind not in "iub"]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(sum(float(np.sum(leaf * leaf)) for leaf in floats)))

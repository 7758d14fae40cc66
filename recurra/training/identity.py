"""What tells one run from another: a checkpoint belongs to the run that made it, and to no other."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from recurra.engine.experiment import Experiment, Start
from recurra.engine.fold import advance
from recurra.engine.specialise import in_form


def identity_of(
    experiments: Sequence[Experiment], key: PRNGKeyArray, start: Start | None, settings: dict[str, object]
) -> str:
    """A digest of all that a run depends on: arrays, and the programs of one seed, which contain every function.

    `start` is what each seed starts from, leaves (seed, ...).
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), start)
    for experiment, begins in zip(experiments, (first, *(None for _ in experiments[1:])), strict=True):
        form, begins = in_form(experiment, begins, None)
        traced = form.traced
        digest.update(_program(traced, key, begins).encode())
        _add(digest, eqx.filter(traced, eqx.is_array))
    _add(digest, start)
    return digest.hexdigest()


def _program(experiment: Experiment, key: PRNGKeyArray, start: Start | None) -> str:
    def whole(experiment: Experiment, key: PRNGKeyArray, start: Start | None, zero: Int[Array, ""]) -> Any:
        return advance(experiment, *experiment.init(key, start), zero, zero, 1)

    compiled: Any = eqx.filter_jit(whole)
    return compiled.lower(experiment, key, start, jnp.zeros((), "int32")).as_text()


def _add(digest: Any, tree: PyTree) -> None:
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())

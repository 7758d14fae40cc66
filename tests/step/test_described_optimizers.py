"""Optimizers described by their numbers are Optax's, and another number compiles nothing anew."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from online_models import full_step, stream
from recurra.online.program import _program
from recurra.step.optimizers import descend, init_optimizer

CLIPPED = optax.clip_by_global_norm
PAIRS = {
    "sgd, without momentum": (rc.SGD(0.03), optax.sgd(0.03)),
    "sgd": (rc.SGD(0.03, 0.7), optax.sgd(0.03, 0.7)),
    "sgd, clipped": (rc.SGD(0.03, 0.9, clip=0.5), optax.chain(CLIPPED(0.5), optax.sgd(0.03, 0.9))),
    "adam": (rc.Adam(0.02, 0.8, 0.95, 1e-6), optax.adam(0.02, 0.8, 0.95, 1e-6)),
    "adam, clipped": (rc.Adam(0.02, clip=2.0), optax.chain(CLIPPED(2.0), optax.adam(0.02))),
}


def walked(optimizer, gradients, weights):
    """The weights after each gradient."""
    move, state, found = jax.jit(lambda g, s, w: descend(optimizer, g, s, w)), init_optimizer(optimizer, weights), []
    for g in gradients:
        weights, state = move(g, state, weights)
        found.append(weights)
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_as_optax(name):
    described, of_optax = PAIRS[name]
    rng = np.random.default_rng(0)
    tree = lambda: {"a": jnp.asarray(rng.normal(size=(3, 2))), "b": (jnp.asarray(rng.normal(size=2)),)}
    weights, gradients = tree(), [tree() for _ in range(12)]
    with jax.numpy_dtype_promotion("standard"):  # which Optax needs
        wanted = walked(of_optax, gradients, weights)
    as_arrays = jax.tree.map(jnp.asarray, described)
    for optimizer in (described, as_arrays):
        for found, expected in zip(walked(optimizer, gradients, weights), wanted, strict=True):
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
    other = rc.SGD(0.031, 0.7) if "sgd" in name else rc.Adam(0.021)
    assert np.abs(walked(other, gradients, weights)[-1]["a"] - wanted[-1]["a"]).max() > 1e-3


@pytest.mark.slow
def test_another_number_compiles_nothing_anew():
    X, Y = stream(30)
    first = rc.Online(full_step(3, optimizer=rc.Adam(0.01, clip=1.0), readout=rc.RLS(0.999, 1.0)))
    usual = first.learn_many(X, Y)
    before, programs = _program.cache_info().misses, {kind: run._cache_size() for kind, run in first._programs.items()}
    for optimizer, readout in (
        (rc.Adam(0.5, 0.5, 0.9, 1e-3, clip=3.0), rc.RLS(0.999, 1.0)),
        (rc.Adam(0.01, clip=1.0), rc.RLS(0.9, 0.2)),
        (rc.Adam(jnp.float32(0.5), clip=1), rc.RLS(1, 3)),  # numbers that are whole, or arrays
    ):
        other = rc.Online(full_step(3, optimizer=optimizer, readout=readout))
        assert np.abs(other.learn_many(X, Y) - usual).max() > 1e-3
    assert _program.cache_info().misses == before
    assert {kind: run._cache_size() for kind, run in first._programs.items()} == programs
    assert set(programs.values()) == {1}


@pytest.mark.slow
def test_another_kind_of_optimizer_is_another_program():
    X, Y = stream(10)
    rc.Online(full_step(3)).learn_many(X, Y)
    before = _program.cache_info().misses
    rc.Online(full_step(3, optimizer=rc.Adam(0.01))).learn_many(X, Y)
    assert _program.cache_info().misses == before + 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.Adam(-1.0), "`learning_rate` of Adam must be at least 0.0 and finite, and is -1"),
        (lambda: rc.Adam(b1=1), "`b1` of Adam must be at least 0.0 and below 1.0, and is 1"),
        (lambda: rc.Adam(b2=1.0), "`b2` of Adam must be at least 0.0 and below 1.0, and is 1"),
        (lambda: rc.Adam(eps=0), "`eps` of Adam must be above 0.0 and finite, and is 0"),
        (lambda: rc.RMSProp(decay=1), "`decay` of RMSProp must be at least 0.0 and below 1.0, and is 1"),
        (lambda: rc.RMSProp(eps=0.0), "`eps` of RMSProp must be above 0.0 and finite, and is 0"),
        (
            lambda: rc.Adam(b1=1 - 1e-12),
            r"`b1` of Adam must be .*, and is 0\.999999999999, which is 1 in single precision",
        ),
        (lambda: rc.Adam(b2=1 - 1e-9), r"`b2` of Adam must be .*, and is 0\.999999999, which is 1 in single precision"),
        (lambda: rc.Adam(eps=1e-60), "`eps` of Adam must be .*, and is 1e-60, which is 0 in single precision"),
        (lambda: rc.Adam(eps=1e-40), "`eps` of Adam must be .*, and is 1e-40, which is 0 in single precision"),
        (lambda: rc.RMSProp(decay=1 - 1e-9), "`decay` of RMSProp must be .*, which is 1 in single precision"),
        (lambda: rc.SGD(1e39), r"`learning_rate` of SGD must be .*, and is 1e\+39, which is inf in single precision"),
        (lambda: rc.SGD(momentum=1), "`momentum` of SGD must be at least 0.0 and below 1.0, and is 1"),
        (lambda: rc.SGD(momentum=float("nan")), "`momentum` of SGD must be"),
        (lambda: rc.SGD(clip=0.0), "`clip` of SGD must be above 0.0 and finite, and is 0"),
        (lambda: rc.RLS(0.0), "`forgetting` of RLS must be above 0.0 and at most 1.0, and is 0"),
        (lambda: rc.RLS(1.1), "`forgetting` of RLS must be"),
        (lambda: rc.RLS(ridge=0.0), "`ridge` of RLS must be above 0.0 and finite, and is 0"),
    ],
)
def test_numbers_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_at_the_edge_of_single_precision_are_taken():
    for optimizer in (rc.Adam(b1=1 - 1e-7, b2=1 - 1e-7, eps=2e-38), rc.RMSProp(decay=1 - 1e-7), rc.SGD(momentum=0.9)):
        weights = walked(optimizer, [jnp.ones(2, "float32")] * 3, jnp.ones(2, "float32"))[-1]
        assert np.isfinite(weights).all()
    assert rc.RLS(1 - 1e-9).forgetting < 1  # 1 may be reached

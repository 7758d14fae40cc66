"""Steps beyond 2³¹: the number of a step is set back now and then, and no learner notices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.lazy_rtrl import LazyRTRL
from recurra.step import APPLIED, LearningStep
from recurra.step.learning import _set_back

#: every learner, in one step of learning; those that count steps with counts that have little in common
LEARNERS = {
    APPLIED: rc.FutureBPTT(3),
    **{name: kind() for name, kind in rc.learners.LEARNERS.items() if name not in ("f-bptt", "e-bptt", "dni", "r-ok")},
    "e-bptt": rc.EfficientBPTT(4),
    "dni": rc.DNI(target_interval=6),
    "r-ok": rc.ROK(2),
    "lazy": LazyRTRL(3),
}
#: a multiple of all that is counted
ALL = 60
ROWS = ALL + 12


@functools.cache
def problem():
    step = LearningStep(rc.Network(rc.RNN(2, 3), 2), LEARNERS, rc.SGD(0.1), gaps=True, resets=True)
    rng = np.random.default_rng(0)
    label = rng.random((ROWS, 2))
    rows = (
        jnp.asarray(rng.normal(size=(ROWS, 2))),
        jnp.asarray(label / label.sum(1, keepdims=True)),
        jnp.asarray(rng.random(ROWS) < 0.8),
        jnp.asarray(rng.random(ROWS) < 0.1).at[ALL - 2 :].set(False).at[ALL + 5].set(True),
        step.noise(jax.random.key(0), ROWS),
    )

    @jax.jit
    def run(state, rows):
        def one(state, row):
            x, y, present, reset, noise = row
            state, outcome = step.learn(step.observe(state, x, noise, reset)[0], y, present)
            return state, (outcome.gradients, outcome.emitted, state.weights, state.t)

        return jax.lax.scan(one, state, rows)

    cut = lambda start, stop: jax.tree.map(lambda leaf: leaf[start:stop], rows)
    return step, run, cut


def moved(state, by):
    """The same state, so many steps later by its own count."""
    return state._replace(t=state.t + jnp.int32(by), first=state.first + jnp.int32(by))


def test_the_count_is_set_back_and_nobody_notices():
    step, run, cut = problem()
    far = _set_back(LEARNERS)
    assert far % ALL == 0
    assert 2**28 < far <= 2**29
    near = ALL - 3
    state, _ = run(step.init(jax.random.key(1)), cut(0, near))
    # The last step is one before a reset, some time after the count was set back.
    _, wanted = run(state, cut(near, near + 9))
    by = 2 * far - ALL
    assert by + near == 2 * far - 3
    after, found = run(moved(state, by), cut(near, near + 9))
    assert found[3].tolist() == [2 * far - 2, 2 * far - 1, *(far + np.arange(7))]
    for a, b in zip(jax.tree.leaves(found[:3]), jax.tree.leaves(wanted[:3]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert after.first == far + 5
    # The control: a count that is not a multiple, as where whole numbers wrap around, is noticed.
    _, other = run(moved(state, by + 1), cut(near, near + 9))
    differ = {
        name: any(
            not np.array_equal(a, b)
            for a, b in zip(jax.tree.leaves(other[0][name]), jax.tree.leaves(wanted[0][name]), strict=True)
        )
        for name in LEARNERS
    }
    assert differ[APPLIED]
    assert differ["e-bptt"]
    assert differ["dni"]


def test_a_reset_and_a_label_long_ago():
    """Both counts stay where they say "long ago", however long it is."""
    step, run, cut = problem()
    far, near = _set_back(LEARNERS), ALL - 3
    state, _ = run(step.init(jax.random.key(1)), cut(0, near))
    state = state._replace(first=jnp.int32(-ALL), unlabelled=jnp.int32(2**20))
    rows = cut(near, near + 7)
    rows = (*rows[:2], jnp.zeros(7, bool), *rows[3:])
    _, wanted = run(state, rows)
    ago = moved(state, 2 * far - ALL)._replace(first=jnp.int32(-far), unlabelled=jnp.int32(2**31 - 3))
    after, found = run(ago, rows)
    for a, b in zip(jax.tree.leaves(found[:3]), jax.tree.leaves(wanted[:3]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (after.first, after.unlabelled) == (-far, 2**31 - 1)
    assert not np.asarray(found[1]["e-bptt"]).any()


@pytest.mark.parametrize("T", [1, 10, 999])
def test_what_is_set_back_is_a_multiple_of_all_counts(T):
    learners = {APPLIED: rc.FutureBPTT(T), "probe": rc.EfficientBPTT(T)}
    assert _set_back(learners) % (T * (T + 1)) == 0
    assert 0 < _set_back(learners) <= 2**29

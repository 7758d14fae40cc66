"""`LearningStep` in a loop of one's own: noise that it draws, labels and resets that come as they like, and probes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance, flat

NETWORK = rc.Network(rc.RNN(n_in=2, n=4), n_out=2)
ROWS = 12
XS = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, 2)))
YS = jnp.tile(jnp.array([0.3, 0.7]), (ROWS, 1))


def walked(step, state, noise=None):
    """The state after every row, and the noise that each step was taken with."""
    states, drawn = [], []
    for t in range(ROWS):
        seen, _ = step.observe(state, XS[t], None if noise is None else noise[t])
        state, _ = step.learn(seen, YS[t])
        states.append(state)
        drawn.append(seen.noise)
    return states, drawn


@pytest.mark.slow
def test_noise_that_is_drawn_is_noise_that_could_be_passed():
    """Every step has numbers of its own, which follow from the key of the first state alone."""
    step = rc.LearningStep(NETWORK, rc.UORO(), 0.1)
    states, drawn = walked(step, step.init(jax.random.key(3)))
    again, _ = walked(step, step.init(jax.random.key(3)))
    passed, _ = walked(step, step.init(jax.random.key(3)), drawn)
    for ours, same, theirs in zip(states, again, passed, strict=True):
        assert distance(ours.weights, same.weights) == 0
        assert distance(ours.weights, theirs.weights) == 0
    numbers = {tuple(np.ravel(each["applied"])) for each in drawn}
    assert len(numbers) > ROWS // 2  # of four signs
    other, _ = walked(step, step.init(jax.random.key(4))._replace(weights=step.init(jax.random.key(3)).weights))
    assert distance(other[-1].weights, states[-1].weights) > 1e-6


def test_steps_that_draw_can_be_scanned():
    step = rc.LearningStep(NETWORK, rc.UORO(), 0.1)

    def one(state, row):
        seen, _ = step.observe(state, row[0])
        return step.learn(seen, row[1])[0], None

    found, _ = jax.lax.scan(one, step.init(jax.random.key(3)), (XS, YS))
    assert distance(found.weights, walked(step, step.init(jax.random.key(3)))[0][-1].weights) < 1e-12


def test_learners_without_random_numbers_leave_the_key_alone():
    step = rc.LearningStep(NETWORK, rc.RFLO(), 0.1)
    first = step.init(jax.random.key(3))
    last = walked(step, first)[0][-1]
    assert jax.random.key_data(last.key).tolist() == jax.random.key_data(first.key).tolist()
    without = walked(step, first._replace(key=None))[0][-1]  # and need none
    assert distance(last.weights, without.weights) == 0


def test_a_state_without_a_key_says_what_to_do():
    step = rc.LearningStep(NETWORK, rc.UORO(), 0.1)
    state = step.init(jax.random.key(3))._replace(key=None)
    with pytest.raises(ValueError, match=r"no key to draw random numbers with: pass `noise`, or give it one"):
        step.observe(state, XS[0])


def test_labels_and_resets_come_as_they_like():
    """Neither has to be announced. A label that is there, and a reset that is not, change nothing."""
    step = rc.LearningStep(NETWORK, rc.FutureBPTT(T=3), 0.1)
    yes, no = jnp.array(True), jnp.array(False)

    def run(choose):
        state = step.init(jax.random.key(3))
        for t in range(ROWS):
            reset, present = choose(t)
            seen, _ = step.observe(state, XS[t], reset=reset)
            state, _ = step.learn(seen, YS[t], present)
        return flat(state.weights)

    plain = run(lambda t: (None, None))
    mixed = run(lambda t: (None if t % 2 else no, None if t % 3 else yes))
    assert np.abs(mixed - plain).max() < 1e-14
    # Where an argument is left out, earlier gaps and resets still count.
    explicit = run(lambda t: (jnp.array(t == 4), jnp.array(t != 6)))
    left_out = run(lambda t: (yes if t == 4 else None, no if t == 6 else None))
    assert np.abs(explicit - left_out).max() < 1e-14
    assert np.abs(explicit - plain).max() > 1e-3


def test_a_probe_changes_nothing():
    alone, probed = (rc.LearningStep(NETWORK, rc.UORO(), 0.1, probes) for probes in ({}, {"exact": rc.RTRL()}))
    noise = {"exact": None, **jax.tree.map(lambda rows: rows[0], alone.noise(jax.random.key(5), 1))}
    found = []
    for step in (alone, probed):
        seen, _ = step.observe(step.init(jax.random.key(3)), XS[0], {name: noise[name] for name in step.learners})
        found.append(step.learn(seen, YS[0]))
    assert distance(found[0][0].weights, found[1][0].weights) == 0
    assert list(found[1][1].gradients) == ["applied", "exact"]
    assert distance(found[1][1].gradients["exact"], found[1][1].gradients["applied"]) > 1e-3

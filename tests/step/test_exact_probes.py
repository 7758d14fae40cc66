"""Probes with exact credit in a network whose feedback is random: the truth that a cosine should be against."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, problem
from recurra.saved.parts import described, rebuilt
from recurra.step import APPLIED
from unrolled import CELLS

STEPS = 6
PROBES = {"truth": rc.RTRL(), "follows": rc.RTRL()}


def walked(network, weights, xs, ys, learner, present=None, **settings):
    """The outcome of every step, with the weights held, and the last state."""
    step = rc.LearningStep(network, learner, 0.0, **settings)
    state = step.init(jax.random.key(5))._replace(weights=weights)

    def one(state, row):
        seen, _ = step.observe(state, row[0])
        return step.learn(seen, row[1], None if present is None else row[2])

    rows = (xs, ys) if present is None else (xs, ys, present)
    return jax.lax.scan(one, state, rows)


def at(outcomes, name, t):
    return jax.tree.map(lambda leaf: leaf[t], outcomes.gradients[name])


def exact(cell, network, weights, xs, ys):
    """By automatic differentiation through the unrolled network: the gradient of each step's loss."""
    a0 = network.cell.init_state()
    return unrolled.every_gradient_and_influence(CELLS[cell][1], weights.cell, weights.readout, a0, xs, ys)[0]


@pytest.mark.parametrize("cell", CELLS)
def test_an_exact_probe_has_the_gradient_of_the_loss_while_feedback_is_random(cell):
    network, weights, xs, ys = problem(CELLS[cell][0], steps=STEPS, random_feedback=True)
    _, outcomes = walked(network, weights, xs, ys, rc.RFLO(), probes=PROBES, exact_probes=("truth",))
    expected = exact(cell, network, weights, xs, ys)
    for t in range(STEPS):
        truth = jax.tree.map(lambda rows, t=t: rows[t], expected)
        assert distance(at(outcomes, "truth", t), truth) < 1e-10
        assert distance(at(outcomes, "follows", t), truth) > 1e-3  # the control: RTRL with the random feedback


@pytest.mark.slow
def test_a_future_facing_probe_is_exact_too():
    """F-BPTT collects exact credit over its horizon; its gradient belongs to the step T before."""
    network, weights, xs, ys = problem(CELLS["gru"][0], steps=STEPS, random_feedback=True)
    probes = {"truth": rc.FutureBPTT(T=3), "follows": rc.FutureBPTT(T=3)}
    _, outcomes = walked(network, weights, xs, ys, rc.RFLO(), probes=probes, exact_probes=["truth"])
    a0, step = network.cell.init_state(), CELLS["gru"][1]
    for t in range(3, STEPS):
        expected = unrolled.gradient_of_application(step, weights.cell, weights.readout, a0, xs, ys, t - 3, t)
        assert distance(at(outcomes, "truth", t), expected) < 1e-10
        assert distance(at(outcomes, "follows", t), expected) > 1e-3


def test_nothing_but_the_named_probes_changes():
    network, weights, xs, ys = problem(CELLS["rnn"][0], steps=STEPS, random_feedback=True)
    runs = [
        walked(network, weights, xs, ys, rc.UORO(), probes=PROBES, exact_probes=names) for names in ((), ("truth",))
    ]
    (state, before), (after_state, after) = runs
    for name in (APPLIED, "follows"):
        assert distance(before.gradients[name], after.gradients[name]) == 0
    assert distance(before.gradients["truth"], after.gradients["truth"]) > 1e-3
    assert distance(before.gradients["truth"], before.gradients["follows"]) == 0
    assert distance(before.credit, after.credit) == 0
    assert distance(state.weights, after_state.weights) == 0


def test_without_random_feedback_all_credit_is_exact():
    network, weights, xs, ys = problem(CELLS["rnn"][0], steps=STEPS)
    _, outcomes = walked(network, weights, xs, ys, rc.RFLO(), probes=PROBES, exact_probes=("truth",))
    assert distance(outcomes.gradients["truth"], outcomes.gradients["follows"]) == 0


@pytest.mark.slow
def test_missing_labels_and_streams():
    """A step without a label has no credit of either kind. Streams have the mean of what each would have."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], steps=STEPS, random_feedback=True)
    settings = {"probes": PROBES, "exact_probes": ("truth",)}
    present = jnp.arange(STEPS) % 2 == 0
    _, gaps = walked(network, weights, xs, ys, rc.RFLO(), present, **settings)
    expected = exact("rnn", network, weights, xs, ys)
    for t in range(STEPS):
        wanted = jax.tree.map(lambda rows, t=t: jnp.where(present[t], rows[t], 0), expected)
        assert distance(at(gaps, "truth", t), wanted) < 1e-10
    two_xs, two_ys = jnp.stack([xs, xs[::-1]], axis=1), jnp.stack([ys, ys[::-1]], axis=1)
    _, streams = walked(network, weights, two_xs, two_ys, rc.RFLO(), streams=2, **settings)
    other = exact("rnn", network, weights, xs[::-1], ys[::-1])
    mean = jax.tree.map(lambda one, two: (one + two) / 2, expected, other)
    assert distance(streams.gradients["truth"], mean) < 1e-10
    assert distance(streams.gradients["follows"], mean) > 1e-3


def test_credit_of_a_user_s_own_is_the_same_for_all():
    network, _, xs, _ = problem(CELLS["rnn"][0], steps=STEPS, random_feedback=True)
    step = rc.LearningStep(network, rc.RTRL(), 0.1, PROBES, exact_probes=("truth",))
    seen, _ = step.observe(step.init(jax.random.key(0)), xs[0])
    _, outcome = step.learn(seen, rc.GivenCredit((jnp.ones(3),)))
    assert distance(outcome.gradients["truth"], outcome.gradients[APPLIED]) == 0
    _, outcome = step.learn(seen, rc.GivenError(jnp.ones(2)))
    assert distance(outcome.gradients["truth"], outcome.gradients[APPLIED]) > 1e-3


@pytest.mark.parametrize("specialise", [True, False])
def test_training_has_such_probes_too(specialise):
    """RTRL in the engine's own form and as published, against autodiff, with the weights held and the labels late."""
    network, weights, xs, ys = problem(CELLS["rnn"][0], steps=STEPS, random_feedback=True)
    result = rc.train(
        network,
        rc.RFLO(),
        rc.Arrays(xs, ys),
        steps=STEPS,
        optimizer=0.0,
        start=weights,
        probes=PROBES,
        exact_probes=["truth"],
        record={"g": rc.record.gradients},
        engine=rc.ScanEngine(specialise=specialise),
        progress=False,
    )
    found = {name: jax.tree.map(lambda leaf: leaf[0], each) for name, each in result.records["g"].items()}
    expected = exact("rnn", network, weights, xs, ys)
    assert distance(found["truth"], expected) < 1e-10
    assert distance(found["follows"], expected) > 1e-3
    model = result.online()  # which leaves probes behind
    assert model.step.learning.exact_probes == ()


@pytest.mark.slow
def test_a_sweep_has_them_and_files_describe_them():
    pytest.importorskip("xarray", reason="pip install 'recurra[results]'")
    network = rc.Network(rc.RNN(2, 4), 2, random_feedback=True)
    data = rc.sweep(
        network,
        rc.RTRL(),
        rc.Add(1, 2),
        vary={"network.random_feedback": [False, True]},
        steps=20,
        probes=PROBES,
        exact_probes=("truth",),
        record={"cos": rc.record.alignments},
        progress=False,
    )
    truth, follows = (data[f"record.cos.applied.{name}"].values[..., 5:] for name in PROBES)
    np.testing.assert_allclose(follows, 1, atol=1e-9)
    np.testing.assert_allclose(truth[0], 1, atol=1e-9)
    assert np.abs(truth[1] - 1).max() > 0.1
    step = rc.LearningStep(network, rc.RTRL(), 1e-3, PROBES, exact_probes=("truth",))
    assert rebuilt(described(step)).exact_probes == ("truth",)
    older = described(step)
    del older["fields"]["exact_probes"]
    assert rebuilt(older).exact_probes == ()


def test_names_that_are_no_probes_are_refused():
    network = rc.Network(rc.RNN(2, 4), 2)
    for names in (("rtrl",), ("truth", APPLIED)):
        with pytest.raises(ValueError, match=f"names {names[-1]!r}, which must be a probe: 'truth', 'follows'"):
            rc.LearningStep(network, rc.RFLO(), 0.1, PROBES, exact_probes=names)
    with pytest.raises(ValueError, match="which must be a probe: there is none"):
        rc.train(network, rc.RFLO(), rc.Add(), steps=5, exact_probes=("truth",), progress=False)
    with pytest.raises(TypeError, match="must have the names of probes"):
        rc.LearningStep(network, rc.RFLO(), 0.1, PROBES, exact_probes="truth")

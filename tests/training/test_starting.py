"""Runs that start from given weights or states, and trained networks that are handed over to data that arrive."""

import gc
import pickle
import re

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import optax
import pytest

import recurra as rc
from recurra.engine.forms import LazyRTRL
from recurra.engine.specialise import InForm
from recurra.step import APPLIED
from recurra.training import running
from small_runs import network, regression, series, train
from taking_steps import compiled_step

slow = pytest.mark.slow


def rows(steps=300, seed=0):
    return series(steps, seed)


def run(task, learner=None, steps=100, network=None, **settings):
    return train(
        learner or rc.RFLO(), task, network or regression(), steps=steps, **{"window": 1, "seeds": 2, **settings}
    )


def assert_close(ours, wanted, rtol=1e-9):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)


def test_a_run_starts_from_the_weights_that_are_given():
    """Against the outputs of the network itself. One compilation serves all weights."""
    x, y = rows(100)
    traced = []
    record = {"z": lambda outcome: (traced.append(1), outcome.output)[1]}
    outputs = lambda weights: run(rc.Arrays(x, y), start=weights, optimizer=0.0, record=record).records["z"]
    own = [regression().init(jax.random.key(seed)) for seed in (7, 8)]
    z = [regression().run(weights, x) for weights in own]
    np.testing.assert_allclose(outputs(own[0]), [z[0], z[0]], rtol=1e-9, atol=1e-12)
    once = len(traced)
    each = jax.tree.map(lambda *leaves: jnp.stack(leaves), *own)
    np.testing.assert_allclose(outputs(each), z, rtol=1e-9, atol=1e-12)
    assert len(traced) == once
    assert not np.allclose(z[0], z[1], rtol=1e-2)


LEARNERS = [
    rc.RTRL(),
    *(pytest.param(each, marks=slow) for each in (rc.RFLO(), rc.EfficientBPTT(T=7), rc.FutureBPTT(T=4), rc.DNI(0.01))),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner.about.id)
def test_a_run_goes_on_from_states_as_if_it_had_not_stopped(learner):
    """After 100 steps neither E-BPTT nor the engine's form of RTRL is at the end of a round."""
    x, y = rows(200)
    adam = {"optimizer": rc.Adam(0.01)}
    whole = run(rc.Arrays(x, y), learner, 200, **adam)
    first = run(rc.Arrays(x[:100], y[:100]), learner, **adam)
    rest = rc.Arrays(x[100:], y[100:])
    assert first.states.t.tolist() == [100, 100]
    second = run(rest, learner, start=first.states, **adam)
    np.testing.assert_allclose(second.loss, whole.loss[:, 100:], rtol=1e-9)
    assert_close(second.weights, whole.weights)
    assert_close(second.states, whole.states)
    alone = run(rest, learner, start=first.weights, **adam)
    assert not np.allclose(alone.loss, whole.loss[:, 100:], rtol=1e-3)


@pytest.mark.parametrize("learner", [rc.RTRL(), rc.RFLO()], ids=lambda learner: learner.about.id)
def test_a_state_of_a_loop_of_one_s_own_goes_on_in_the_form_it_has(learner):
    """RTRL as published, which the engine would otherwise put another form in the place of."""
    x, y = map(jnp.asarray, rows(60))
    step, one = compiled_step(regression(), learner, 0.05, 1)
    state, losses = step.init(jax.random.key(3)), []
    for t in range(60):
        middle = state if t == 37 else middle if t else None
        state, outcome = one(state, x[t], y[t], {APPLIED: None}, None, None)
        losses.append(float(outcome.loss))
    result = run(rc.Arrays(x[37:], y[37:]), learner, 23, start=middle, optimizer=0.05, seeds=1)
    np.testing.assert_allclose(result.loss[0], losses[37:], rtol=1e-9)
    # Missing labels and episodes are a matter of the task: a state without them starts to count.
    present, reset = np.arange(23) % 2 == 0, np.arange(23) == 0
    task = rc.Arrays(x[37:], y[37:], present=present, reset=reset)
    result = run(task, learner, 23, start=middle, optimizer=0.05, seeds=1)
    np.testing.assert_array_equal(np.isfinite(result.loss[0]), present)


def test_published_states_have_no_tag_and_serve_a_loop_of_one_s_own():
    x, y = map(jnp.asarray, rows(60))
    whole = run(rc.Arrays(x, y), rc.RFLO(), 60, optimizer=0.05, seeds=1)
    state = run(rc.Arrays(x[:59], y[:59]), rc.RFLO(), 59, optimizer=0.05, seeds=1).states
    _, one = compiled_step(regression(), rc.RFLO(), 0.05, 1)
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), state)
    _, outcome = one(state, x[59], y[59], {APPLIED: None}, None, None)
    np.testing.assert_allclose(outcome.loss, whole.loss[0, 59], rtol=1e-9)


@pytest.mark.parametrize("learner", [rc.RTRL(), rc.UORO()], ids=lambda learner: learner.about.id)
def test_a_run_goes_on_from_a_live_model(learner):
    """The model's own next prediction errors are the oracle; it is half-way through a span of RTRL's faster form."""
    x, y = rows(60)
    step = rc.LearningStep(regression(), learner, 0.05)
    model = rc.Online(rc.OnlineStep(step, scale_inputs=False, scale_target=False))
    model.learn_many(x[:37], y[:37])
    first = model.learning
    expected = 0.5 * (model.learn_many(x[37:38], y[37:38]) - y[37:38]) ** 2
    result = run(rc.Arrays(x[37:], y[37:]), learner, 23, start=first, optimizer=0.05, seeds=1)
    np.testing.assert_allclose(result.loss[0, 0], expected.sum(), rtol=1e-6)


def changed(weights, **readout):
    return weights._replace(readout=weights.readout._replace(**readout))


def test_weights_that_do_not_fit_are_refused_with_what_is_wrong():
    task = rc.Arrays(*rows(100))
    own = regression().init(jax.random.key(0))
    for weights, kind, match in [
        (regression(rc.LSTM).init(jax.random.key(0)), ValueError, r"it has `start\.cell\[1\]\.rec` too"),
        (regression(skip=True).init(jax.random.key(0)), ValueError, r"it has `start\.readout\.V` too"),
        (regression(random_feedback=True).init(jax.random.key(0)), ValueError, r"it has `start\.feedback` too"),
        (changed(own, b=None), ValueError, r"it has no `start\.readout\.b`"),
        (
            changed(own, b=np.zeros(3)),
            ValueError,
            r"shape \(1,\) for all seeds, or \(2, 1\) for 2 of them, and has \(3,\)",
        ),
        (changed(own, b=np.zeros((3, 1))), ValueError, r"`start\.readout\.b` must have shape"),
        (changed(own, b=np.zeros(1, "float32")), TypeError, "is float32 and the network's is float64"),
        (changed(own, b=np.full(1, np.nan)), ValueError, r"`start\.readout\.b` must be finite"),
    ]:
        with pytest.raises(kind, match=match):
            run(task, start=weights)
    state = rc.LearningStep(regression(), rc.RFLO(), 0.01).init(jax.random.key(0))
    for weights, match in [
        (state._replace(t=np.array([1, 2])), r"must have come equally far, and their `t` are \[1, 2\]"),
        (state._replace(t=np.array(2**31 - 5)), "both together must stay below"),
    ]:
        with pytest.raises(ValueError, match=match):
            run(task, start=weights)
    with pytest.raises(ValueError, match=r"it has no `start\.optimizers\[0\]"):
        run(task, start=state, optimizer=rc.Adam())
    with pytest.raises(ValueError, match="of this network, learner and optimizer"):
        run(task, rc.UORO(), start=state)


@pytest.mark.slow
def test_other_weights_are_another_run(tmp_path):
    task, file = rc.Arrays(*rows(100)), tmp_path / "run.safetensors"
    one, other = (regression().init(jax.random.key(seed)) for seed in (1, 2))
    first = run(task, start=one, checkpoint=file)
    seen = []
    again = run(task, start=one, checkpoint=file, progress=seen.append)
    assert seen == [100]
    np.testing.assert_array_equal(again.loss, first.loss)
    assert not np.allclose(run(task, start=other, checkpoint=file).loss, first.loss)  # the finished file is taken over
    assert_close(again.states, first.states, rtol=0)


ONLINE = [
    (rc.RTRL(), rc.RNN, 0),
    *(
        pytest.param(learner, cell, horizon, marks=slow)
        for learner, cell, horizon in [
            (rc.RFLO(), rc.RNN, 0),
            (rc.RFLO(), rc.LSTM, 3),
            (rc.RTRL(), rc.GRU, 3),
            (rc.UORO(), rc.RNN, 0),
            (rc.UORO(), rc.RNN, 3),
            (rc.EfficientBPTT(T=7), rc.RNN, 0),
            (rc.EfficientBPTT(T=7), rc.GRU, 3),
            (rc.DNI(0.01), rc.RNN, 0),
            (rc.FutureBPTT(T=4), rc.RNN, 3),
        ]
    ),
    # Forms of RTRL keep numbers of their own, which the model goes on with.
    *(
        pytest.param(rc.RTRL(), cell, 0, marks=() if cell is rc.MinGRU else slow)
        for cell in rc.CELLS.values()
        if cell is not rc.RNN
    ),
]


@pytest.mark.parametrize(("learner", "cell", "horizon"), ONLINE, ids=str)
def test_a_trained_network_goes_on_online_as_a_longer_run_would(learner, cell, horizon):
    """Rows 90 to 300 cross the edges of two blocks of random numbers."""
    x, y = rows()
    task = lambda stop: rc.Arrays(x[:stop], y[:stop], horizon=horizon)
    settings = {"optimizer": rc.Adam(0.01), "network": regression(cell), "seeds": [4, 2]}
    longer = run(task(300), learner, 300, record={"z": lambda outcome: outcome.output}, **settings)
    result = run(task(90), learner, 90, **settings)
    model = result.online(2)
    assert (model.rows, model.horizon) == (90, horizon)
    assert_close(model.weights, jax.tree.map(lambda leaf: leaf[1], result.weights), rtol=0)
    predicted = model.learn_many(x[90:], y[90:])
    known = longer.records["z"][1]
    np.testing.assert_allclose(predicted[: len(known) - 90], known[90:], rtol=1e-8, atol=1e-10)
    assert_close(model.weights, jax.tree.map(lambda leaf: leaf[1], longer.weights), rtol=1e-8)
    # The weights alone are not enough.
    with_weights = rc.Online(model.step, weights=jax.tree.map(lambda leaf: jnp.asarray(leaf[1]), result.weights))
    assert not np.allclose(with_weights.learn_many(x[90:], y[90:]), predicted, rtol=1e-3)


@slow
def test_online_after_fewer_rows_than_the_horizon_and_with_streams_and_missing_labels():
    x, y = rows(120)
    late = lambda stop: rc.Arrays(x[:stop], y[:stop], horizon=8)
    model = run(late(9), steps=5).online(1)
    model.learn_many(x[5:], y[5:])
    assert_close(model.weights, jax.tree.map(lambda leaf: leaf[1], run(late(120), steps=120).weights))
    x, y = rows(240)
    x, y = x.reshape(2, 120, 2), y.reshape(2, 120, 1)
    present = np.random.default_rng(0).random((2, 120)) < 0.7
    of_two = lambda stop: rc.Arrays(x[:, :stop], y[:, :stop], present=present[:, :stop])
    model = run(of_two(60), rc.DNI(0.01), 60, streams=2).online(1)
    labels = np.ma.masked_array(y, ~present[..., None])[:, 60:]
    model.learn_many(np.swapaxes(x[:, 60:], 0, 1), np.ma.swapaxes(labels, 0, 1))
    whole = run(of_two(120), rc.DNI(0.01), 120, streams=2)
    assert_close(model.weights, jax.tree.map(lambda leaf: leaf[1], whole.weights), rtol=1e-8)


@slow
def test_a_model_leaves_probes_behind_and_can_be_saved(tmp_path):
    x, y = rows(120)
    probes = {"probes": {"other": rc.UORO()}, "record": {"norm": rc.record.gradient_norms}}
    model = run(rc.Arrays(x, y), optimizer=rc.Adam(0.01), **probes).online(0)
    assert list(model.step.learning.learners) == [APPLIED]
    rc.save(tmp_path / "model.safetensors", model)
    loaded = rc.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.learn_many(x[100:], y[100:]), model.learn_many(x[100:], y[100:]))


@pytest.mark.slow
def test_states_that_are_too_large_are_left_out_and_what_cannot_go_on_says_so(monkeypatch):
    x, y = rows(40)
    plain = run(rc.Arrays(x, y), steps=40)
    with pytest.raises(ValueError, match=r"`seed` must be one of \(0, 1\), and is 5"):
        plain.online(5)
    with pytest.raises(ValueError, match="`best` needs held-out losses"):
        plain.online(0, best=True)
    monkeypatch.setattr(running, "MOST_BYTES", 0)
    result = run(rc.Arrays(x, y), steps=40)
    assert result.states is None
    with pytest.warns(UserWarning, match="starts with the trained weights alone"):
        model = result.online(1)
    assert model.rows == 0
    assert_close(model.weights, jax.tree.map(lambda leaf: leaf[1], result.weights), rtol=0)
    outputs = regression().run(model.weights, x)
    np.testing.assert_allclose(model.predict_one(x[0]), outputs[0], rtol=1e-9)
    reset = run(rc.Arrays(x, y, reset=np.arange(40) == 9), steps=40)
    with pytest.warns(match="weights alone"):
        assert reset.online(0).step.resets


@slow
@pytest.mark.filterwarnings("ignore:`labels` hold .* whose square")
def test_results_travel_between_processes_and_what_diverged_does_not_go_on():
    x, y = rows(40)
    there = pickle.loads(pickle.dumps(run(rc.Arrays(x, y), steps=40)))
    assert there.online(1).rows == 40
    local = run(rc.Arrays(x, y), steps=40, optimizer=optax.sgd(0.01))  # functions inside a function
    assert local.online(1).rows == 40
    there = pickle.loads(pickle.dumps(local))
    assert np.array_equal(there.loss, local.loss)
    with pytest.raises(ValueError, match="came from another process"):
        there.online(1)
    with np.errstate(all="ignore"):
        gone = run(rc.Arrays(x, 1e300 * y), steps=40, optimizer=1e10)
    assert gone.diverged
    with pytest.raises(ValueError, match="The network of seed 1 is not finite"):
        gone.online(1)


def test_states_carry_the_form_of_their_learner_and_go_on_in_it_with_the_same_bits():
    """RTRL is half-way through a span of steps when the first run ends."""
    first = train(rc.RTRL(), steps=21, seeds=2)
    kept = first.states.learners[APPLIED]
    assert isinstance(kept, InForm)
    assert isinstance(kept.form, LazyRTRL)
    second = train(rc.RTRL(), steps=5, seeds=2, start=first.states)
    assert isinstance(second.states.learners[APPLIED], InForm)
    dense = lambda M: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(M)])
    of_seed = lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), tree)
    state, cell = of_seed((kept, first.weights.cell))
    lazy = dense(kept.form.influence(network().cell, cell, state.state))
    published = train(rc.RTRL(), steps=21, seeds=2, engine=rc.ScanEngine(specialise=False)).states.learners[APPLIED]
    M = rc.RTRL().influence(network().cell, cell, of_seed(published))
    np.testing.assert_allclose(lazy, dense(M), rtol=1e-9, atol=1e-12)
    assert np.abs(lazy).max() > 1e-3


def test_a_state_of_another_learner_s_form_is_refused():
    states = train(rc.RTRL(), steps=3).states
    with pytest.raises(ValueError, match=r"made by LazyRTRL\(.*\), which does not stand for RFLO"):
        train(rc.RFLO(), steps=3, start=states)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "cell"), [(rc.RTRL, rc.RNN), (rc.RFLO, rc.LSTM)], ids=["rtrl", "rflo"])
def test_what_of_an_online_model_train_goes_on_from(kind, cell):
    """`learning` goes on as the model does; `state` is of the model's own step, and `train` says what to take."""
    x, y = rows(80)
    step = rc.OnlineStep(rc.LearningStep(regression(cell), kind(), 0.1), scale_inputs=False, scale_target=False)
    model, plain = rc.Online(step), rc.Online(step, specialise=False)
    for each in (model, plain):
        each.learn_many(x[:37], y[:37])
    assert plain.step.learning.learner == kind()
    more = {"task": rc.Arrays(x[37:], y[37:]), "network": regression(cell), "steps": 43, "optimizer": 0.1, "seeds": 1}
    for good in (model.learning, plain.learning, plain.state.delayed.learning):
        trained = run(learner=kind(), start=good, **more).weights
        going_on = rc.Online.continued(model.step, model.state, 37, 0)
        going_on.learn_many(x[37:], y[37:])
        assert_close(jax.tree.map(lambda leaf: leaf[0], trained), going_on.weights)
    with pytest.raises(
        ValueError, match=r"is not of this network, learner and optimizer.* Of a recurra\.Online take `learning`"
    ):
        run(learner=kind(), start=model.state.delayed.learning, **more)
    jaxtyping.config.update("jaxtyping_disable", True)  # which has an error of its own for arguments
    try:
        for wrong in (model, model.state, model.state.delayed):
            with pytest.raises(TypeError, match=r"of a recurra\.Online take `learning`"):
                run(learner=kind(), start=wrong, **more)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
def test_influence_is_told_by_whole_states_alone():
    """RFLO keeps no trace of an LSTM's h, and an engine's form of it is tagged; the form itself knows all of M."""
    lstm = rc.Network(rc.LSTM(2, 3), 2)
    result = train(rc.RFLO(), net=lstm, steps=5)
    of_seed = lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), tree)
    weights, state = of_seed((result.weights.cell, result.states))
    kept = state.learners[APPLIED]
    with pytest.raises(ValueError, match="does not tell all of M for RFLO on LSTM"):
        rc.RFLO().influence(lstm.cell, weights, kept)
    M = kept.form.influence(lstm.cell, weights, kept.state)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(M))
    published = train(rc.RFLO(), net=lstm, steps=5, engine=rc.ScanEngine(specialise=False)).states
    with pytest.raises(ValueError, match="does not tell all of M"):
        rc.RFLO().influence(lstm.cell, weights, of_seed(published).learners[APPLIED])


def test_the_advice_for_a_state_that_does_not_tell_m_is_given_where_it_helps():
    """RTRL keeps all of M, so another engine helps. RFLO on an LSTM never does; `rc.online_grad` has what it lacks."""
    of_seed = lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), tree)
    advised = re.escape("train with engine=recurra.ScanEngine(specialise=False)")
    state = of_seed(train(rc.RTRL(), steps=5).states)
    with pytest.raises(ValueError, match=advised):
        rc.RTRL().influence(network().cell, state.weights.cell, state.learners[APPLIED])
    state = of_seed(train(rc.RTRL(), steps=5, engine=rc.ScanEngine(specialise=False)).states)
    M = rc.RTRL().influence(network().cell, state.weights.cell, state.learners[APPLIED])
    assert M[0].rec.shape == (4, 4, 4)
    lstm = rc.Network(rc.LSTM(2, 3), 2)
    for engine in ("auto", rc.ScanEngine(specialise=False)):
        state = of_seed(train(rc.RFLO(), net=lstm, steps=5, engine=engine).states)
        with pytest.raises(ValueError, match=r"None does, whatever the engine, .* recurra\.online_grad") as error:
            rc.RFLO().influence(lstm.cell, state.weights.cell, state.learners[APPLIED])
        assert "ScanEngine" not in str(error.value)
    grad = rc.online_grad(lstm.cell, rc.RFLO())
    sensed = grad.init(state.weights.cell, jax.random.key(0))
    for _ in range(3):
        sensed = grad.observe(state.weights.cell, sensed, jnp.ones(2))
    M = rc.RFLO().influence(lstm.cell, state.weights.cell, sensed.M)
    for p in range(2):
        for k in range(3):
            c = tuple(jnp.zeros(3).at[k].set(1.0) if q == p else jnp.zeros(3) for q in range(2))
            row = grad.gradient(state.weights.cell, sensed, c)
            assert_close(jax.tree.map(lambda leaf, row=3 * p + k: leaf[row], M), row)
            assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(row)) > 0


def test_a_result_keeps_no_data_alive_and_no_states_twice():
    """By what JAX itself says is in use. Sizes tell data and states from all that other tests have left behind."""
    rows, n = 40_009, 13

    def in_use():
        gc.collect()
        shapes = [array.shape for array in jax.live_arrays()]
        return any(rows in shape for shape in shapes), any(n in shape for shape in shapes)

    x, y = series(rows)
    network = rc.Network(rc.RNN(2, n), 1, rc.SquaredError())
    task = rc.Arrays(jnp.asarray(x), jnp.asarray(y))
    result = run(task, network=network)
    assert in_use()[0]  # the control: the task has the data, and it is seen
    del task
    assert in_use() == (False, True)  # the states wait where they were computed
    assert result.states.weights.cell[0].rec.shape == (2, n, n)
    assert in_use() == (False, False)  # and are on the host now
    assert result.online(seed=1).rows == 100

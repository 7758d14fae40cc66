"""The training call as its users meet it: recordings, probes, bad input, divergence, interruption."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import distance, experiment
from recurra.engine import plan, tuning
from recurra.engine.fold import advance
from recurra.engine.protocol import Members
from recurra.step import APPLIED
from recurra.training.gather import LossWindows


def network(n=4, **kwargs):
    return rc.Network(rc.RNN(2, n, **kwargs), 2)


def train(learner=None, task=None, net=None, **kwargs):
    settings = {"steps": 60, "seeds": 2, "progress": False, "optimizer": 0.01, **kwargs}
    return rc.train(net or network(), learner or rc.RFLO(), task or rc.Add(1, 2), **settings)


def test_losses_are_window_means():
    result = train(window=25, record={"loss": lambda outcome: outcome.loss})
    each = np.asarray(result.records["loss"])
    assert each.shape == (2, 60)
    assert result.step.tolist() == [25, 50, 60]
    expected = np.stack([each[:, :25].mean(1), each[:, 25:50].mean(1), each[:, 50:].mean(1)], axis=1)
    np.testing.assert_allclose(result.loss, expected, rtol=1e-12)


@pytest.mark.parametrize("seeds", [1, 3, [5, 2, 9]])
def test_seeds_are_the_same_alone_and_together(seeds):
    together = train(seeds=seeds, window=60)
    for row, seed in enumerate(together.seeds):
        np.testing.assert_allclose(train(seeds=[seed], window=60).loss[0], together.loss[row], rtol=1e-9)


def test_every_learner_gets_the_same_weights_and_stream():
    inputs = {"input": lambda outcome: outcome.input, "label": lambda outcome: outcome.label}
    first, second = (train(learner, record=inputs, optimizer=0.0) for learner in (rc.RFLO(), rc.UORO()))
    assert distance(first.weights, second.weights) == 0
    assert distance(first.records, second.records) == 0


def test_any_optax_optimizer_and_momentum_only_where_a_gradient_was_emitted():
    sgd, bare = train(rc.RTRL(), optimizer=optax.sgd(0.01)), train(rc.RTRL(), optimizer=0.01)
    assert distance(sgd.weights, bare.weights) < 1e-9
    # With a momentum of 1 and one emission, steps taken between emissions would go on moving the weights.
    learner = rc.EfficientBPTT(T=30)
    heavy = optax.chain(optax.trace(decay=1.0), optax.scale(-0.01))
    once, later = (train(learner, optimizer=heavy, steps=steps) for steps in (31, 59))
    assert distance(once.weights.cell, later.weights.cell) == 0
    assert distance(once.weights.readout, later.weights.readout) > 0


def test_probes_change_nothing_and_a_probe_of_the_driver_agrees_with_it():
    record = {"norms": rc.record.gradient_norms, "cos": rc.record.alignments}
    alone = train(rc.RTRL())
    probed = train(rc.RTRL(), probes={"same": rc.RTRL(), "local": rc.RFLO()}, record=record)
    assert distance(alone.weights, probed.weights) < 1e-12
    cos = probed.records["cos"]
    np.testing.assert_allclose(cos["applied"]["same"], 1, atol=1e-9)
    assert np.nanmax(np.abs(cos["applied"]["local"])) <= 1 + 1e-9
    assert np.nanmean(cos["applied"]["local"]) < 0.999
    np.testing.assert_allclose(probed.records["norms"]["applied"], probed.records["norms"]["same"], rtol=1e-9)


def test_a_probe_changes_nothing_whatever_it_is_called():
    """Names sort before and after that of the learner that trains, and that learner is random."""
    record = {"norms": rc.record.gradient_norms}
    alone = train(rc.UORO())
    for name in ("a", "zz"):
        probed = train(rc.UORO(), probes={name: rc.KFRTRL(), name + "2": rc.RFLO()}, record=record)
        assert distance(alone.weights, probed.weights) < 1e-12  # another program may round otherwise


class Silent(rc.RFLO):
    """Computes, and never emits."""

    def emits(self, t, unlabelled=None):
        return t < 0


def no_contraction(self, cell, weights, c, state):
    """In the place of a past-facing learner's `contract`."""
    return jax.tree.map(jnp.zeros_like, weights)


def no_credit(self, tick, state):
    """In the place of a future-facing learner's `credit`."""
    return jax.tree.map(jnp.zeros_like, tick.state), tick.trace, state


def nothing_due(self, cell, weights, state):
    """In the place of a learner's `due`."""
    return jax.tree.map(jnp.zeros_like, weights), state


CHANGED = [
    (rc.RTRL, "contract", no_contraction),  # which the engine would put another form in the place of
    (rc.KFRTRL, "contract", no_contraction),
    (rc.DNI, "credit", no_credit),
    (rc.FutureBPTT, "credit", no_credit),
    (rc.EfficientBPTT, "due", nothing_due),
]


@pytest.mark.parametrize("streams", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(("kind", "method", "instead"), CHANGED)
def test_what_a_subclass_changes_is_what_is_applied(kind, method, instead, streams):
    changed = type("Changed", (kind,), {method: instead})
    cell = lambda learner: train(learner, optimizer=0.1, seeds=1, streams=streams).weights.cell
    start, own, moved = map(cell, (rc.Fixed(), changed(), kind()))
    assert distance(own, start) == 0
    assert distance(moved, start) > 0


def test_what_is_not_emitted_is_not_applied():
    for optimizer in (0.01, optax.sgd(0.01)):
        moved, held = (train(learner, optimizer=optimizer).weights.cell for learner in (rc.RFLO(), Silent()))
        assert distance(held, train(rc.Fixed(), optimizer=optimizer).weights.cell) == 0
        assert distance(moved, held) > 0


def ones(key, shape, dtype):
    """Noise without chance, so that streams differ in their data alone."""
    return jnp.ones(shape, dtype)


OF_STREAMS = [
    rc.RTRL(),
    rc.RFLO(),
    rc.KFRTRL(initial_scale=0.0, nu=ones),
    rc.RKFRTRL(initial_scale=0.0, nu=ones),
    rc.FutureBPTT(T=3),
    rc.EfficientBPTT(T=4),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "cell"),
    [(learner, rc.RNN) for learner in OF_STREAMS] + [(rc.RFLO(), rc.LSTM), (rc.RTRL(), rc.LSTM)],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_streams_share_weights_and_average_gradients(learner, cell):
    """Against a run for each stream alone, from the same weights on the same data."""
    outcomes = {"x": lambda o: o.input, "y": lambda o: o.label, "g": rc.record.gradients, "loss": lambda o: o.loss}
    held = {"optimizer": 0.0, "seeds": 1, "record": outcomes, "net": rc.Network(cell(2, 4), 2)}
    together = train(learner, streams=3, **held)
    x, y = (together.records[name][0] for name in ("x", "y"))
    assert x.shape == (60 - learner.lag, 3, 2)
    alone = [train(learner, task=rc.Arrays(x[:, i], y[:, i]), **held, steps=len(x)).records for i in range(x.shape[1])]
    steps = len(x) - learner.lag  # a run alone ends earlier, and knows its last gradients less
    mean = lambda name: jax.tree.map(lambda *each: np.mean(each, axis=0)[:, :steps], *(run[name] for run in alone))
    first = lambda name: jax.tree.map(lambda leaf: leaf[:, :steps], together.records[name])
    assert distance(first("g"), mean("g")) < 1e-10
    assert distance(first("loss"), mean("loss")) < 1e-10
    assert distance(x[:, 0], x[:, 1]) > 0.1


def test_streams_have_noise_of_their_own_and_one_target():
    """Two streams of UORO on Mimic differ in all that is drawn but the network to mimic."""
    task = rc.Mimic(rc.RNN(2, 3), outputs=2)
    net = rc.Network(rc.RNN(2, 4), 2, rc.SquaredError())
    whole = experiment(net, rc.UORO(), task, streams=2)
    carry, keys = whole.init(jax.random.key(0))
    after, _ = advance(whole, carry, keys, jnp.array(0, "int32"), jnp.array(128, "int32"), 128)
    for run in (carry, after):
        A, target = run.learning.learners[APPLIED].A[0], run.task.readout.W
        assert distance(A[0], A[1]) > 0.1
        assert distance(target[0], target[1]) == 0
    assert distance(*after.learning.a[0]) > 0.01


def test_delayed_gradients_stand_at_their_own_step():
    """F-BPTT with a horizon of T against one whose horizon is 1: both for step s, though emitted T - 1 steps apart.

    Labels reach two steps back, so the far future hardly matters and they align well at the same step; misaligned by
    a step, they do not.
    """
    T, steps = 5, 200
    record = {"gradients": rc.record.gradients, "emitted": rc.record.emitted, "x": lambda outcome: outcome.input}
    probes = {"short": rc.FutureBPTT(T=1), "now": rc.RFLO()}
    result = train(rc.FutureBPTT(T=T), probes=probes, record=record, steps=steps, seeds=1, optimizer=0.0)
    x = result.records["x"]
    assert x.shape[1] == steps - T
    plain = train(
        rc.RFLO(), record={"x": record["x"], "gradients": record["gradients"]}, steps=steps, seeds=1, optimizer=0.0
    )
    np.testing.assert_array_equal(x, plain.records["x"][:, : steps - T])
    local = jax.tree.leaves(result.records["gradients"]["now"])
    alone = jax.tree.leaves(plain.records["gradients"]["applied"])
    for ours, theirs in zip(local, alone, strict=True):
        np.testing.assert_allclose(ours, theirs[:, : steps - T], atol=1e-12)
    assert all(flags.all() for flags in result.records["emitted"].values())
    # cbar is shared, so both horizons contain RFLO's gradient at the same step (α = 1) plus later losses.
    short, long = (
        np.concatenate([leaf.reshape(steps - T, -1) for leaf in jax.tree.leaves(result.records["gradients"][name])], 1)
        for name in ("short", "applied")
    )
    cosine = lambda u, v: np.mean(np.sum(u * v, 1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1))
    assert cosine(short, long) > cosine(short[1:], long[:-1]) + 0.1


def test_steps_without_a_gradient_are_nan():
    record = {"cos": rc.record.alignments, "norms": rc.record.gradient_norms}
    result = train(rc.RTRL(), probes={"segment": rc.EfficientBPTT(T=10)}, record=record)
    seen = np.isfinite(result.records["norms"]["segment"][0])
    assert np.flatnonzero(seen).tolist() == [9, 19, 29, 39, 49, 59]
    assert np.array_equal(np.isfinite(result.records["cos"]["applied"]["segment"][0]), seen)


def test_add_labels_follow_the_coins():
    for stretch in (1, 3, 150):  # 150: longer than a block
        result = train(
            task=rc.Add(2, 5, stretch=stretch), steps=300, seeds=1, record={"xy": lambda o: (o.input, o.label)}
        )
        x, y = (np.asarray(rows[0]) for rows in result.records["xy"])
        np.testing.assert_array_equal(x.sum(1), 1)
        coins = x[::stretch, 0]
        ago = lambda lag, coins=coins: np.concatenate([np.zeros(lag), coins])[: len(coins)]
        expected = 0.5 + 0.5 * ago(2) - 0.25 * ago(5)
        np.testing.assert_allclose(y[:, 0], np.repeat(expected, stretch)[:300], atol=1e-12)
        assert stretch > 3 or 0.3 < coins.mean() < 0.7


def test_sampled_labels_are_draws_from_the_exact_ones():
    exact, sampled = (
        train(task=rc.Add(1, 2, sampled=flag), steps=4000, seeds=1, record={"y": lambda o: o.label}).records["y"][0]
        for flag in (False, True)
    )
    assert set(np.unique(sampled)) == {0.0, 1.0}
    for value in np.unique(exact[:, 0]):
        rows = exact[:, 0] == value
        assert abs(sampled[rows, 0].mean() - value) < 4 * np.sqrt(0.25 / rows.sum()) + 1e-12


def test_a_sampled_label_lasts_as_long_as_its_coin():
    task = rc.Add(1, 2, stretch=3, sampled=True)
    labels = train(task=task, steps=600, seeds=1, record={"y": lambda o: o.label}).records["y"][0]
    assert np.array_equal(labels[::3], labels[2::3])


def test_another_lag_stretch_rate_or_time_constant_compiles_nothing():
    traced = []

    def counting(outcome):
        traced.append(1)
        return outcome.loss

    def losses(task, alpha, rate):
        settings = {"net": network(alpha=alpha), "optimizer": rate, "record": {"loss": counting}}
        return train(rc.UORO(), task, **settings).loss[:, -1].tolist()

    first = losses(rc.Add(6, 10), 1.0, 0.01)
    once = len(traced)
    others = [losses(rc.Add(3, 5, stretch=2), 0.5, 0.02), losses(rc.Add(2, 4), 0.9, 0.01)]
    assert len(traced) == once
    assert first not in others


@pytest.mark.parametrize("stretch", [1, 2])
def test_mimic_labels_are_the_target_s_outputs(stretch):
    """The network that is the target makes no error: its own weights, copied into the task, predict every label."""
    task = rc.Mimic(rc.RNN(3, 5, 0.5), outputs=2, stretch=stretch)
    state = task.init(jax.random.key(0), jnp.dtype("float64"))
    assert float(jnp.abs(state.weights[0].bias).max()) > 0
    a, rows = task.target.init_state(), []
    for number in range(2):
        before = state
        x, y, state = task.block(before, jax.random.key(number), jnp.array(number), jnp.dtype("float64"))
        for row, label in zip(x, y, strict=True):
            gate = before.weights[0]
            z = gate.rec @ a[0] + gate.inp @ row + gate.bias[:, 0]
            a = (0.5 * a[0] + 0.5 * jnp.tanh(z),)
            rows.append(jnp.abs(before.readout.W @ a[0] + before.readout.b - label).max())
        assert bool((x[::stretch] == x[stretch - 1 :: stretch]).all())
    assert max(rows) < 1e-12


def arrays(rows=80, **kwargs):
    rng = np.random.default_rng(0)
    labels = rng.random((rows, 2))
    return rc.Arrays(rng.normal(size=(rows, 2)), labels / labels.sum(1, keepdims=True), **kwargs)


def test_arrays_are_served_row_by_row_and_start_over_on_request():
    task = arrays(50, repeat=True)
    result = train(task=task, steps=170, seeds=1, record={"xy": lambda o: (o.input, o.label)})
    x, y = result.records["xy"]
    index = np.arange(170) % 50
    np.testing.assert_array_equal(x[0], np.asarray(task.inputs)[index])
    np.testing.assert_array_equal(y[0], np.asarray(task.labels)[index])


def test_a_diverging_seed_is_reported_and_the_others_go_on():
    inputs, labels = np.ones((400, 2)), np.full((400, 2), 0.5)

    def explode(z):  # a network that leaves the floats after some steps, faster for some weights
        return jnp.where(jnp.abs(z) > 3, jnp.inf, 0.8 * z)

    net = rc.Network(rc.RNN(2, 3, phi=explode), 2, rc.SquaredError())
    result = train(rc.Fixed(), rc.Arrays(inputs, labels), net, steps=400, seeds=12, window=1, optimizer=0.0)
    assert 0 < len(result.diverged) < 12
    for row, seed in enumerate(result.seeds):
        finite = np.isfinite(result.loss[row])
        if seed in result.diverged:
            assert finite[: result.diverged[seed]].all()
            assert not finite[result.diverged[seed]]
        else:
            assert finite.all()


def test_window_means_do_not_depend_on_how_losses_arrive():
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(3, 1000)).astype(np.float32)
    losses[1, 700] = np.inf
    whole, cut = LossWindows((0, 1, 2), 64), LossWindows((0, 1, 2), 64)
    whole.append(losses)
    edges = np.sort(rng.choice(np.arange(1, 1000), 40, replace=False))
    for part in np.split(losses, edges, axis=1):
        cut.append(part)
    np.testing.assert_array_equal(whole.means(), cut.means())
    np.testing.assert_array_equal(whole.ends(), cut.ends())
    assert whole.diverged == cut.diverged == {1: 700}


def ctrl_c_after(steps):
    """A progress report that presses Ctrl-C once, at that many steps."""
    pressed = []

    def report(done):
        if done >= steps and not pressed:
            pressed.append(done)
            os.kill(os.getpid(), signal.SIGINT)

    return report


def test_ctrl_c_returns_what_there_is():
    before = signal.getsignal(signal.SIGINT)
    result = train(rc.RFLO(), steps=2_000_000_000, seeds=1, window=1000, progress=ctrl_c_after(2000))
    assert result.interrupted
    assert 0 < result.steps < 2_000_000_000
    assert np.isfinite(result.final_loss()).all()
    assert signal.getsignal(signal.SIGINT) is before


def bad(value):
    labels = np.full((10, 2), 0.5)
    labels[3, 1] = value
    return labels


BAD_INPUT = [
    ("alpha", lambda: rc.RNN(2, 4, alpha=0.0), "alpha"),
    ("alpha above one", lambda: rc.RNN(2, 4, alpha=1.5), "1.5"),
    ("no units", lambda: rc.RNN(2, 0), "`n` of RNN"),
    ("T", lambda: rc.FutureBPTT(T=0), "`T` of FutureBPTT"),
    ("T of E-BPTT", lambda: rc.EfficientBPTT(T=-1), "-1"),
    ("r", lambda: rc.ROK(r=0), "`r` of ROK"),
    ("r not whole", lambda: rc.ROK(r=2.5), "2.5"),
    ("integer dtype", lambda: rc.RNN(2, 4, dtype="int32"), "int32"),
    ("infinite rate", lambda: rc.KeRNL(learning_rate=float("inf")), "inf"),
    ("no seeds", lambda: train(seeds=0), "`seeds` must be at least 1"),
    ("empty seeds", lambda: train(seeds=[]), "empty"),
    ("same seed twice", lambda: train(seeds=[1, 1]), "different"),
    ("no steps", lambda: train(steps=0), "`steps` must be at least 1"),
    ("window", lambda: train(window=0), "`window`"),
    ("nan rate", lambda: train(optimizer=float("nan")), "nan"),
    ("inputs", lambda: train(net=rc.Network(rc.RNN(3, 4), 2)), "3 inputs and the task 2"),
    ("outputs", lambda: train(net=rc.Network(rc.RNN(2, 4), 3)), "3 outputs and the task 2"),
    ("one axis", lambda: rc.Arrays(np.zeros(10), np.zeros((10, 2))), "two axes"),
    ("rows", lambda: rc.Arrays(np.zeros((10, 2)), np.zeros((9, 2))), "10 and 9 rows"),
    ("nan input", lambda: rc.Arrays(bad(np.nan), bad(0.5)), "row 3, column 1 is nan"),
    ("infinite label", lambda: rc.Arrays(bad(0.5), bad(np.inf)), "`labels` must be finite"),
    ("text", lambda: rc.Arrays(np.array([["a", "b"]]), np.zeros((1, 2))), "must hold numbers"),
    ("no distribution", lambda: train(task=rc.Arrays(bad(0.5), bad(0.7)), steps=5), "sums to 1.2"),
    ("negative label", lambda: train(task=rc.Arrays(bad(0.5), bad(-0.1)), steps=5), "[0, 1]"),
    ("rows run out", lambda: train(task=arrays(30), steps=31), "repeat=True"),
    ("float32 rows", lambda: train(task=rc.Arrays(bad(0.5).astype("f4"), bad(0.5).astype("f4")), steps=5), "float32"),
    ("probe name", lambda: train(probes={"applied": rc.RTRL()}, record={"s": rc.record.state}), "applied"),
    ("silent probe", lambda: train(probes={"x": rc.RTRL()}), "record"),
    ("large key", lambda: train(key=2**32), "`key`"),
    ("no streams", lambda: train(streams=0), "`streams` must be at least 1"),
    ("streams of arrays", lambda: train(task=arrays(80), streams=2), "leave `streams` out"),
    ("raw key", lambda: train(key=jnp.zeros(2, "uint32")), "jax.random.key(0)"),
    ("large seeds", lambda: train(seeds=[2**33]), "2³²"),
    ("unknown dtype", lambda: rc.RNN(2, 3, dtype="foo"), "'foo'"),
    ("ragged rows", lambda: rc.Arrays([[1.0], [1.0, 2.0]], [[1.0], [1.0]]), "different lengths"),
    ("infinite rate", lambda: train(optimizer=np.inf), "finite"),
    ("mimic under cross-entropy", lambda: rc.train(mimic_net(), rc.RFLO(), mimic(), steps=5), "SquaredError"),
    ("mimic in float32", lambda: rc.train(mimic_net("float32"), rc.RFLO(), mimic(), steps=5), "float32"),
]


def mimic():
    return rc.Mimic(rc.RNN(2, 3), outputs=2)


def mimic_net(dtype=None):
    return rc.Network(rc.RNN(2, 4, dtype=dtype), 2)


#: What only a program without type checking lets through as far as our own checks.
WRONG_TYPES = {
    "train(key='a')": "`key` must be a whole number, and is 'a'",
    "train(seeds=2.5)": "`seeds` must be a whole number, and is 2.5",
    "train(seeds=[1.7, 2])": "Each of `seeds` must be a whole number, and is 1.7",
    "train(probes=[rc.RTRL()])": "`probes` must map names",
    "train(probes={'x': rc.RTRL})": "`probes['x']` must be a learner",
    "train(record=rc.record.state)": "`record` must map names",
    "train(optimizer='sgd')": "`optimizer` must be a learning rate or an Optax optimizer, and is 'sgd'",
    "rc.RNN(2, 3, np.float32(2))": "at most 1.0, and is 2",
    "rc.RNN(2, 3, jnp.array(2.0))": "at most 1.0, and is 2",
    "rc.RNN(2, 3, [0.5])": "`alpha` of RNN must be a number",
    "rc.RNN(2, 3, 'fast')": "`alpha` of RNN must be a number",
    "rc.RNN(2, 3, phi='tanh')": "`phi` of RNN must be a function",
    "rc.UORO(nu='signs')": "`nu` of UORO must be a function",
    "rc.Arrays(np.full((3, 2), 1e300), np.full((3, 2), 0.5))": "row 0, column 0",
}
WITHOUT_CHECKS = """
import json, sys
import jax.numpy as jnp, numpy as np
import recurra as rc
def train(**settings):
    return rc.train(rc.Network(rc.RNN(2, 3), 2), rc.RFLO(), rc.Add(1, 2), steps=10, progress=False, **settings)
def message(call):
    try:
        return f"no error: {eval(call)}"
    except (TypeError, ValueError) as error:
        return str(error)
print(json.dumps({call: message(call) for call in json.loads(sys.argv[1])}))
other = train(optimizer=jnp.array(0.01), seeds=np.int64(2), key=np.int64(3))
assert np.array_equal(other.loss, train(optimizer=0.01, seeds=2, key=3).loss)
"""


def test_wrong_types_are_one_clear_error_and_numbers_of_numpy_and_jax_are_numbers():
    command = [sys.executable, "-c", WITHOUT_CHECKS, json.dumps(list(WRONG_TYPES))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for call, found in json.loads(done.stdout).items():
        assert WRONG_TYPES[call] in found, (call, found)


@pytest.mark.parametrize(("call", "message"), [case[1:] for case in BAD_INPUT], ids=[case[0] for case in BAD_INPUT])
def test_bad_input_is_one_clear_error(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert message in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("name", [name for name, learner in rc.LEARNERS.items() if learner.about.unitwise])
def test_a_learner_the_cell_cannot_serve(name):
    cell = rc.GeneralCell(eqx.nn.GRUCell(2, 4, key=jax.random.key(0)), 2, jnp.zeros(4))
    with pytest.raises(TypeError, match="GRUCell is a general one: use"):
        train(rc.LEARNERS[name](), net=rc.Network(cell, 2))


def test_a_general_cell_that_does_not_fit():
    cell = eqx.nn.GRUCell(2, 4, key=jax.random.key(0))
    with pytest.raises(TypeError, match="could not be called"):
        rc.GeneralCell(cell, 3, jnp.zeros(4))
    with pytest.raises(TypeError, match="share one dtype"):
        rc.GeneralCell(cell, 2, jnp.zeros(4, "float32"))
    with pytest.raises(TypeError, match="`make` of GeneralCell must build a GRUCell like"):
        rc.GeneralCell(cell, 2, jnp.zeros(4), make=lambda key: eqx.nn.GRUCell(2, 5, key=key))


def test_a_general_cell_keeps_arrays_that_are_no_weights():
    class Shifted(eqx.Module):
        cell: eqx.nn.GRUCell
        order: jax.Array

        def __call__(self, x, state):
            return self.cell(x, state)[self.order]

    make = lambda order: Shifted(eqx.nn.GRUCell(2, 4, key=jax.random.key(0)), jnp.array(order))
    losses = [
        train(rc.RTRL(), net=rc.Network(rc.GeneralCell(make(order), 2, jnp.zeros(4)), 2)).loss
        for order in ([0, 1, 2, 3], [3, 0, 1, 2])
    ]
    assert not np.array_equal(*losses)


def test_an_interrupted_run_goes_on_from_its_checkpoint_with_the_same_bits(tmp_path):
    file = tmp_path / "run.npz"
    settings = {"steps": 40_000, "seeds": 3, "window": 1000}
    whole = train(rc.UORO(), **settings)
    interrupted = {**settings, "steps": 2_000_000_000, "progress": ctrl_c_after(20_000)}
    first = train(rc.UORO(), **interrupted, checkpoint=file)
    assert first.interrupted
    assert file.exists()
    later = train(rc.UORO(), **{**settings, "steps": first.steps + 5000}, checkpoint=file)
    assert not file.exists()
    assert later.steps == first.steps + 5000
    both = min(len(whole.step), len(later.step))
    assert np.array_equal(whole.loss[:, :both], later.loss[:, :both])


@pytest.mark.parametrize("after", [500, 2999])
def test_an_exception_from_progress_loses_nothing(tmp_path, after):
    settings = dict(steps=3000, seeds=2, window=100)
    whole = train(rc.UORO(), **settings)

    def give_up(done):
        if done > after:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        train(rc.UORO(), **settings, checkpoint=tmp_path / "run", progress=give_up)
    seen = []
    later = train(rc.UORO(), **settings, checkpoint=tmp_path / "run", progress=seen.append)
    assert seen[0] > after
    np.testing.assert_array_equal(later.loss, whole.loss)


def test_a_checkpoint_of_other_settings_or_a_broken_one_is_refused(tmp_path):
    file, rows = tmp_path / "run.npz", np.full((50, 2), 0.5)
    settings = {"steps": 2_000_000_000, "window": 1000, "optimizer": optax.sgd(0.01)}
    settings["task"] = rc.Arrays(rows, rows, repeat=True)
    train(rc.UORO(), **settings, checkpoint=file, progress=ctrl_c_after(1))
    others = {"key": 7, "seeds": 3, "optimizer": optax.sgd(0.02), "task": rc.Arrays(rows + 0.1, rows, repeat=True)}
    others |= {"learner": rc.RFLO(), "net": network(phi=jax.nn.relu)}
    for name, value in others.items():
        with pytest.raises(ValueError, match="other settings"):
            train(**{"learner": rc.UORO(), **settings, name: value}, checkpoint=file)
    with pytest.raises(ValueError, match="is at step"):
        train(rc.UORO(), **{**settings, "steps": 10}, checkpoint=file)
    with pytest.raises(ValueError, match="is a folder"):
        train(rc.UORO(), **settings, checkpoint=tmp_path)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ValueError, match="cannot be read"):
        train(rc.UORO(), **settings, checkpoint=file)


def test_a_checkpoint_keeps_another_kind_of_key(tmp_path):
    file, settings = tmp_path / "run.npz", {"key": jax.random.key(0, impl="rbg"), "window": 500}
    first = train(rc.UORO(), steps=2_000_000_000, **settings, checkpoint=file, progress=ctrl_c_after(1000))
    later = train(rc.UORO(), steps=first.steps + 1000, **settings, checkpoint=file)
    whole = train(rc.UORO(), steps=later.steps, **settings)
    assert np.array_equal(whole.loss, later.loss)


def test_chunks_do_not_change_a_bit_of_a_result():
    run = lambda chunk: train(rc.UORO(), steps=300, window=50, engine=rc.ScanEngine(chunk=chunk))
    whole, cut = map(run, (300, 7))
    assert np.array_equal(whole.loss, cut.loss)
    assert all(map(np.array_equal, jax.tree.leaves(whole.weights), jax.tree.leaves(cut.weights)))


@pytest.mark.slow
@pytest.mark.parametrize("learner", [rc.RFLO(), rc.KFRTRL(), rc.RTRL()])
def test_seeds_do_the_same_together_and_one_by_one(learner):
    run = lambda group: train(learner, task=rc.Add(), steps=70, seeds=5, window=1, engine=rc.ScanEngine(group=group))
    np.testing.assert_allclose(run(5).loss, run(1).loss, rtol=1e-9)


def sizes(learner, count, carried=None, n=4):
    """How many members go together, in the engine's plan and as if each carried so many bytes."""
    whole = experiment(rc.Network(rc.RNN(2, n), 2), learner, rc.Add(1, 2)).traced
    key = jax.random.key(0)
    program, _ = plan.traced(plan._one_step, whole, key)
    if carried is None:
        return plan.plan(whole, key, count, "cpu", 10).size
    return plan.group_size(whole, program, carried, count)


def test_seeds_of_a_core_are_split_into_equal_groups(monkeypatch):
    """Seven that fit six at a time are four and three, filled up by one, not six and one, filled up by five."""
    monkeypatch.setattr(plan, "cores", lambda: 1)
    monkeypatch.setattr(tuning, "GROUP_BYTES", 0)
    assert tuning.VMAPPED_MEMBERS == 6
    whole = experiment(network(), rc.RFLO(), rc.Add(1, 2))
    losses = lambda run: np.concatenate([piece.loss for piece in run.advance(5)], axis=1)
    with rc.ScanEngine(chunk=10).prepare(whole, Members.of_seeds(jax.random.key(0), range(7))) as crowd:
        assert crowd._rows == [[0, 1, 2, 3], [4, 5, 6, 6]]
        together = losses(crowd)
    assert together.shape == (7, 5)
    with rc.ScanEngine(chunk=10).prepare(whole, Members.of_seeds(jax.random.key(0), (6,))) as alone:
        np.testing.assert_allclose(together[6:], losses(alone), rtol=1e-12)


def test_seeds_that_carry_little_are_vmapped_and_others_go_one_by_one(monkeypatch):
    monkeypatch.setattr(plan, "cores", lambda: 2)
    assert sizes(rc.RFLO(), 12) == 6
    assert sizes(rc.RFLO(), 10) == 1  # too few for a core
    assert sizes(rc.RFLO(), 12, carried=tuning.VMAPPED_BYTES + 1) == 1
    assert sizes(rc.UORO(), 12) == 1  # by its name
    assert sizes(rc.RKFRTRL(), 12, carried=tuning.VMAPPED_BYTES + 1, n=40) == 6  # by its name too, with large products
    assert sizes(rc.RKFRTRL(), 12, carried=tuning.VMAPPED_MOST_BYTES + 1, n=40) == 1


def test_a_call_has_room_for_a_stride_of_an_accelerator_if_that_is_not_too_much():
    assert plan.most_steps(recorded=80, stride=32) == tuning.OUTPUT_BYTES // 80
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES // 10, stride=32) == 32
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES // 10, stride=1) == 10
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES, stride=32) == 4
    assert plan.most_steps(recorded=10 * tuning.STRIDE_BYTES, stride=32) == 1


@pytest.mark.parametrize("strides", [False, True])
@pytest.mark.parametrize("chunk", [7, 64])
def test_no_piece_is_longer_than_a_call_has_room_for(chunk, strides):
    whole = experiment(network(), rc.RFLO(), rc.Add(1, 2))
    members = Members.of_seeds(jax.random.key(0), (0, 1))
    with rc.ScanEngine(chunk=chunk, strides=strides).prepare(whole, members) as run:
        pieces = [piece for stop in (10, 200) for piece in run.advance(stop)]
    assert pieces[0].start == 0
    assert all(before.stop == after.start for before, after in itertools.pairwise(pieces))
    assert {10, 200} <= {piece.stop for piece in pieces}
    assert max(piece.stop - piece.start for piece in pieces) <= chunk
    assert all(piece.loss.shape == (2, piece.stop - piece.start) for piece in pieces)


def test_small_work_goes_to_the_cores_and_large_work_to_the_accelerator(monkeypatch):
    monkeypatch.setattr(plan, "cores", lambda: 4)
    assert plan.cores_are_faster(carried=10_000, count=20, learners=1)
    assert not plan.cores_are_faster(carried=10_000, count=1024, learners=1)
    assert not plan.cores_are_faster(carried=10_000_000, count=1, learners=1)
    # an accelerator starts kernels for each learner
    assert plan.cores_are_faster(carried=500_000, count=2, learners=11)


def test_a_default_device_stays():
    device = jax.devices()[0]
    with jax.default_device(device):
        assert plan.choose_device(experiment(network(), rc.RFLO(), rc.Add(1, 2)), jax.random.key(0), 1) is device


def test_runs_in_two_threads_do_not_wait_for_each_other():
    """Each draws the initial weights of many seeds at once, for which batches of decompositions would share a pool."""
    run = lambda: [train(rc.RFLO(), steps=10, seeds=20, key=key) for key in range(5)]
    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)

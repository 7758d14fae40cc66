"""The training call as its users meet it: recordings, probes, bad input, divergence, interruption."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from driving import distance, experiment
from recurra.engine import hardware
from recurra.engine.fold import advance
from recurra.step import APPLIED
from recurra.training.gathering import InMemory, Records
from small_runs import network, train


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


#: with streams, one for each method; `make test-all` has the others, and runs without
EVERY_TIME = (rc.RTRL, rc.DNI, rc.EfficientBPTT)
APPLIED_CHANGES = [
    pytest.param(*each, streams, marks=() if streams == 3 and each[0] in EVERY_TIME else pytest.mark.slow)
    for each in CHANGED
    for streams in (1, 3)
]


@functools.cache
def trained_cell(learner, streams):
    """The weights of a cell after training. Those that stay as they were serve several tests."""
    return train(learner, optimizer=0.1, seeds=1, streams=streams).weights.cell


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "method", "instead", "streams"), APPLIED_CHANGES)
def test_what_a_subclass_changes_is_what_is_applied(kind, method, instead, streams):
    changed = type("Changed", (kind,), {method: instead})
    start, own, moved = (trained_cell(learner, streams) for learner in (rc.Fixed(), changed(), kind()))
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
    [(learner, rc.RNN) for learner in OF_STREAMS[:3]]
    + [pytest.param(learner, rc.RNN, marks=pytest.mark.slow) for learner in OF_STREAMS[3:]]
    + [pytest.param(learner, rc.LSTM, marks=pytest.mark.slow) for learner in (rc.RFLO(), rc.RTRL())],
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
    (h,), rows = task.target.init_state(), []

    @jax.jit
    def step(weights, readout, h, row):
        (gate,) = weights
        h = 0.5 * h + 0.5 * jnp.tanh(gate.rec @ h + gate.inp @ row + gate.bias[:, 0])
        return h, readout.W @ h + readout.b

    for number in range(2):
        before = state
        (x, y, *_), state = task.block(before, jax.random.key(number), jnp.array(number), jnp.dtype("float64"))
        for row, label in zip(x, y, strict=True):
            h, z = step(before.weights, before.readout, h, row)
            rows.append(jnp.abs(z - label).max())
        assert bool((x[::stretch] == x[stretch - 1 :: stretch]).all())
    assert max(rows) < 1e-12


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


@pytest.mark.parametrize("every", [1, 3, 7, 100])
@pytest.mark.parametrize("delay", [0, 4])
def test_every_kth_record_is_kept_however_records_arrive(every, delay):
    steps = np.arange(50)
    sink = InMemory({"t": jax.ShapeDtypeStruct((2,), "int32")}, 3, 50)
    records = Records(sink, every, delay)
    outcomes = np.broadcast_to((steps - delay)[None, :, None], (3, 50, 2)).astype("int32")
    for part in np.split(outcomes, [1, 2, 10, 23], axis=1):
        records.append({"t": part})
    kept = sink.joined()["t"]
    np.testing.assert_array_equal(kept[1, :, 0], np.arange(0, 50 - delay, every))


class Taken:
    """A sink that keeps every piece, and how many there were."""

    def __init__(self):
        self.parts = []

    def add(self, records):
        self.parts.append(records["loss"].copy())

    def state(self):
        return {"loss": np.concatenate(self.parts, axis=1)} if self.parts else {}

    def restore(self, state):
        self.parts = [state["loss"]] if state else []


@pytest.mark.parametrize("every", [1, 3])
def test_a_sink_takes_in_what_a_result_would_hold(every):
    record, probes = {"loss": lambda o: o.loss}, {"late": rc.FutureBPTT(T=5)}
    how = dict(record=record, record_every=every, steps=60, probes=probes, engine=rc.ScanEngine(chunk=7))
    result = train(**how, record_into=(sink := Taken()))
    assert result.records == {}
    assert len(sink.parts) > 3
    np.testing.assert_array_equal(np.concatenate(sink.parts, axis=1), train(**how).records["loss"])


def test_a_sink_goes_on_from_a_checkpoint(tmp_path):
    how = dict(record={"loss": lambda o: o.loss}, window=10, checkpoint=tmp_path / "run")
    train(**how, steps=40, record_into=Taken())
    train(**how, steps=60, record_into=(sink := Taken()))
    assert sink.parts[0].shape[1] == 40
    whole = train(record=how["record"], steps=60, window=10).records["loss"]
    np.testing.assert_array_equal(np.concatenate(sink.parts, axis=1), whole)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (dict(record_into=Taken()), ValueError, "`record` names nothing"),
        (dict(record={"loss": lambda o: o.loss}, record_into=Taken), TypeError, "`add`, `state` and `restore`"),
    ],
)
def test_a_sink_that_cannot_be_used_is_refused(wrong, error, said):
    with pytest.raises(error, match=said):
        train(**wrong)


def test_every_kth_step_is_recorded_with_its_number_and_the_weights_it_was_taken_with():
    record = {"all": lambda o: (o.t, o.weights.readout.W, o.output, o.state)}
    whole = train(record=record, steps=60, probes={"late": rc.FutureBPTT(T=5)}).records["all"]
    some = train(record=record, record_every=4, steps=60, probes={"late": rc.FutureBPTT(T=5)})
    assert some.record_every == 4
    for kept, every in zip(jax.tree.leaves(some.records["all"]), jax.tree.leaves(whole), strict=True):
        np.testing.assert_array_equal(kept, every[:, ::4])
    t, W, output, (a,) = whole
    np.testing.assert_array_equal(t[0], np.arange(55))
    assert np.ptp(W[0, :, 0, 0]) > 0
    # The output comes before the weights follow: it is that of the weights recorded with it, whose bias starts at 0.
    np.testing.assert_allclose(output[:, 0], np.einsum("sij,sj->si", W[:, 0], a[:, 0]), rtol=1e-12)
    assert np.abs(output[:, 1] - np.einsum("sij,sj->si", W[:, 2], a[:, 1])).max() > 1e-6


def test_what_does_not_fit_into_memory_is_refused_before_the_run(monkeypatch):
    monkeypatch.setattr(hardware, "_free_host_bytes", lambda: 10**7)
    never = lambda done: pytest.fail("it ran") if done else None
    with pytest.raises(MemoryError, match=r"would take 160 MB, and 10 MB of memory are free: .*record_every"):
        train(steps=10**7, record={"loss": lambda o: o.loss}, progress=never)
    with pytest.raises(MemoryError, match="longer `window`"):
        train(steps=10**7, window=1, progress=never)
    with pytest.raises(MemoryError, match=r"states of 100,000 members would take .* fewer seeds"):
        train(seeds=100_000, progress=never)
    with pytest.raises(MemoryError, match="keys of 1,000,000,000 seeds"):
        train(seeds=10**9, progress=never)


def test_much_that_is_recorded_is_said(monkeypatch, capsys):
    monkeypatch.setattr("recurra.training.running.MUCH", 1000)
    train(steps=100, record={"loss": lambda o: o.loss}, progress=True)
    assert "what is recorded will take 1.6 kB of memory" in capsys.readouterr().err


def test_the_limit_of_a_group_around_the_process_counts(monkeypatch, tmp_path):
    """As a cluster's queue sets it: on the job, and not on the step inside it."""
    files = {
        "/proc/self/cgroup": ["0::/job/step"],
        "/sys/fs/cgroup/job/step/memory.max": ["max"],
        "/sys/fs/cgroup/job/memory.max": ["1000"],
        "/sys/fs/cgroup/job/memory.current": ["700"],
        "/sys/fs/cgroup/job/memory.stat": ["inactive_file 50", "active_file 25", "anon 600"],
    }
    monkeypatch.setattr(hardware, "_lines", lambda path: files.get(path, []))
    assert hardware._free_of_container() == 375


def test_memory_of_this_machine_is_seen():
    assert 10**8 < hardware._free_host_bytes() < 10**14
    assert hardware.in_words(999) == "999 bytes"
    assert hardware.in_words(2_125_000_000) == "2.12 GB"


def test_a_result_is_told_in_a_line():
    told = repr(train(seeds=12, steps=500, record={"state": rc.record.state}))
    assert len(told) < 200
    assert "12 seeds, 500 steps, final loss 0." in told


def test_a_network_runs_with_the_weights_of_one_seed():
    network = rc.Network(rc.RNN(2, 4), 2)
    weights = jax.vmap(network.init)(jax.random.split(jax.random.key(0), 3))
    with pytest.raises(ValueError, match=r"has shape \(3, 2\) in the place of \(2,\)\. The weights of a result have"):
        network.run(weights, np.zeros((5, 2)))
    one = jax.tree.map(lambda leaf: leaf[1], weights)
    assert network.run(one, np.zeros((5, 2))).shape == (5, 2)


def test_the_weights_of_a_seed_are_those_of_a_run_of_that_seed_alone():
    result, alone = train(seeds=[7, 3]), train(seeds=[3])
    found = result.weights_of(3)
    assert distance(found, jax.tree.map(lambda leaf: leaf[0], alone.weights)) < 1e-12
    assert distance(result.weights_of(7), found) > 1e-3
    assert distance(alone.weights_of(), found) < 1e-12
    network().check_weights(found)
    for seed in (0, None):
        with pytest.raises(ValueError, match=rf"`seed` must be one of \(7, 3\), and is {seed}"):
            result.weights_of(seed)
    with pytest.raises(ValueError, match="`best` needs held-out losses"):
        result.weights_of(3, best=True)
    tested = train(seeds=[7, 3], evaluate=rc.Add(1, 2), evaluate_every=10, evaluate_steps=50, optimizer=0.1)
    best = tested.weights_of(3, best=True)
    np.testing.assert_array_equal(best.cell[0].rec, tested.best_weights.cell[0].rec[1])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_numbers_of_an_optimizer_keep_their_digits_in_networks_of_few(dtype):
    """In bfloat16 Adam's b2 would be 1, and in float16 its eps 0: weights would be nan after a step."""
    network = rc.Network(rc.RNN(2, 4, dtype=dtype), 2)
    result = rc.train(network, rc.RFLO(), rc.Add(1, 2), steps=200, optimizer=rc.Adam(1e-2), progress=False)
    assert not result.diverged
    assert result.loss[0, -20:].mean() < 0.7 < result.loss[0, :5].mean() + 0.2

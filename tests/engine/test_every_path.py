"""Every path that a user's run takes gives the gradients of the oracles, and the weights of steps taken by hand.

A path is how an engine runs: one seed, many vmapped or one by one, streams, the strides of an accelerator (forced on
this CPU), with and without faster forms of learners.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER, distance
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Members
from recurra.step import APPLIED, LearningStep
from recurra.tasks.base import BLOCK
from unrolled import CELLS

STEPS, T = 70, 4  # two strides, and a rest


class Random(rc.Task):
    """Random inputs and labels, other ones for every key."""

    n_in, n_out = 2, 2

    def init(self, key, dtype):
        return None

    def block(self, state, key, number, dtype):
        key_x, key_y = jax.random.split(key)
        x = jax.random.normal(key_x, (BLOCK, 2), dtype)
        return rc.Rows(x, jax.nn.softmax(jax.random.normal(key_y, (BLOCK, 2), dtype))), None


#: name -> (seeds, streams, engine)
PATHS = {
    "one seed": (1, 1, rc.ScanEngine()),
    "as published": (1, 1, rc.ScanEngine(specialise=False)),
    "vmapped": (3, 1, rc.ScanEngine(group=3)),
    "one by one": (3, 1, rc.ScanEngine(group=1)),
    "streams": (1, 3, rc.ScanEngine()),
    "streams as published": (1, 3, rc.ScanEngine(specialise=False)),
    "strides": (2, 1, rc.ScanEngine(strides=True)),
    "strides as published": (1, 2, rc.ScanEngine(strides=True, specialise=False)),
    "cut": (1, 1, rc.ScanEngine(chunk=13)),
}


@functools.cache
def oracle(cell):
    """The gradients that RTRL, F-BPTT and E-BPTT should emit at step t, by autodiff through the textbook cell."""
    make, step = CELLS[cell]
    a0 = make(2, 3).init_state()

    def losses(W, each, readout, xs, ys):
        """All losses, with the weights W + each[t] at step t."""

        def one(a, row):
            extra, x, y = row
            a = step(jax.tree.map(jnp.add, W, extra), a, x)
            z = readout.W @ a[0] + readout.b
            return a, -jnp.sum(y * (z - jnp.log(jnp.sum(jnp.exp(z)))))

        return jax.lax.scan(one, a0, (each, xs, ys))[1]

    @jax.jit
    def gradients(W, readout, xs, ys, t):
        nothing = jax.tree.map(lambda w: jnp.zeros((len(xs), *w.shape)), W)
        index = jnp.arange(len(xs))
        of = lambda counts: lambda W, each: jnp.sum(jnp.where(counts, losses(W, each, readout, xs, ys), 0))
        past = jax.grad(of(index == t))(W, nothing)
        future = jax.grad(of((index >= t - T) & (index <= t)), argnums=1)(W, nothing)
        segment = jax.grad(of((index > t - T) & (index <= t)), argnums=1)(W, nothing)
        at_s = jax.tree.map(lambda rows: rows[t - T], future)
        summed = jax.tree.map(lambda rows: jax.lax.dynamic_slice_in_dim(rows, t - T + 1, T).sum(0), segment)
        return past, at_s, summed

    return gradients


#: the rest is for `make test-all`
QUICK = [("leaky rnn", "streams")]
slow = pytest.mark.slow
EVERY = [pytest.param(cell, path, marks=() if (cell, path) in QUICK else slow) for cell in CELLS for path in PATHS]


@pytest.mark.parametrize(("cell", "path"), EVERY)
def test_exact_gradients(cell, path):
    seeds, streams, engine = PATHS[path]
    network = rc.Network(CELLS[cell][0](2, 3), 2)
    record = {"x": lambda o: o.input, "y": lambda o: o.label, "g": rc.record.gradients}
    probes = {"future": rc.FutureBPTT(T=T), "segment": rc.EfficientBPTT(T=T)}
    run = rc.train(
        network, rc.RTRL(), Random(), steps=STEPS + T, seeds=seeds, streams=streams, optimizer=0.0, engine=engine,
        probes=probes, record=record, progress=False,
    )  # fmt: skip
    assert run.records["x"].shape[:2] == (seeds, STEPS)
    worst = []
    for seed in range(seeds):
        W, readout, _ = jax.tree.map(lambda leaf, seed=seed: leaf[seed], run.weights)
        at = lambda name, t, seed=seed: jax.tree.map(lambda leaf: leaf[seed, t], run.records["g"][name])
        x, y = (run.records[name][seed].reshape(STEPS, streams, 2) for name in ("x", "y"))
        for t in (7, 39, 67):
            each = [oracle(cell)(W, readout, x[:, i], y[:, i], t) for i in range(streams)]
            past, future, segment = jax.tree.map(lambda *g: sum(g) / streams, *each)
            worst += [distance(at(APPLIED, t), past), distance(at("segment", t), segment)]
            worst += [distance(at("future", t - T), future)]  # it stands at the step it belongs to
            assert distance(past, segment) > 1e-3
            assert distance(at("future", t - T), past) > 1e-3
    assert max(worst) < 1e-10


@functools.cache
def by_hand(learner, cell, streams, rate):
    """A seed's losses and weights, by steps taken one after the other: the learner as published, nothing left to do."""
    step = LearningStep(rc.Network(CELLS[cell][0](2, 3), 2), learner, rate, streams=streams)
    experiment = Experiment(step, Random())

    @jax.jit
    def run(seed):
        key = jax.random.fold_in(jax.random.key(0), seed)
        carry, keys = experiment.init(key)
        rows, _ = experiment.draw(carry, keys, jnp.zeros((), "int32"))
        first = carry.learning._replace(t=jnp.zeros((), "int32"))

        def one(state, row):
            rows, noise = row
            state, outcome = step.learn(step.observe(state, rows.x, noise)[0], rows.label)
            return state, outcome.loss

        state, losses = jax.lax.scan(one, first, jax.tree.map(lambda leaf: leaf[:STEPS], rows))
        return losses, state.weights

    return run


#: learners of every kind on the three paths that differ most
KINDS = {"streams": ("rflo",), "vmapped": ("uoro",), "strides": ("f-bptt",)}
APPLIED_PATHS = ["one seed", "one by one", "vmapped", "streams", "strides", "strides as published"]
RUNS = [
    pytest.param(name, path, marks=() if name in KINDS.get(path, ()) else slow)
    for path in APPLIED_PATHS
    for name in FOR_ONE_LAYER
]


@pytest.mark.parametrize(("name", "path"), RUNS)
def test_every_learner_takes_the_steps_of_the_hand(name, path):
    """Weights that move at every step, over all of a run."""
    seeds, streams, engine = PATHS[path]
    cell = "lstm" if name in ("rtrl", "rflo") else "leaky rnn"  # these have faster forms, for an LSTM
    learner = FOR_ONE_LAYER[name](**({"T": T} if name in ("e-bptt", "f-bptt", "edge-bptt") else {}))
    run = rc.train(
        rc.Network(CELLS[cell][0](2, 3), 2), learner, Random(), steps=STEPS, seeds=seeds, streams=streams,
        optimizer=0.1, engine=engine, window=1, progress=False,
    )  # fmt: skip
    for seed in range(seeds):
        losses, weights = by_hand(learner, cell, streams, 0.1)(seed)
        np.testing.assert_allclose(run.loss[seed], losses, rtol=1e-7)
        assert distance(jax.tree.map(lambda leaf, seed=seed: leaf[seed], run.weights), weights) < 1e-7
    held = by_hand(rc.Fixed(), cell, streams, 0.1)(0)[1].cell
    assert name == "fixed" or distance(jax.tree.map(lambda leaf: leaf[0], run.weights.cell), held) > 1e-4


@pytest.mark.parametrize("streams", [pytest.param(1, marks=slow), 3])
@pytest.mark.parametrize("strides", [False, pytest.param(True, marks=slow)])
@pytest.mark.parametrize("cell", ["leaky rnn", pytest.param("lstm", marks=slow)])
def test_the_gradient_that_train_applies_for_a_segment(cell, strides, streams):
    """E-BPTT, against autodiff: what one emission does to the weights while the readout follows its own gradient.

    Nothing is recorded, so that the emission is the one at the end of a round, as in any run of a user's.
    """
    rate, make = 0.5, CELLS[cell][0]
    segment = 32 if strides else T
    network = rc.Network(make(2, 3), 2)
    engine = rc.ScanEngine(strides=strides)
    settings = {"optimizer": rate, "streams": streams, "engine": engine, "progress": False}
    run = rc.train(network, rc.EfficientBPTT(T=segment), Random(), steps=segment, **settings)
    record = {"x": lambda o: o.input, "y": lambda o: o.label}
    start = rc.train(network, rc.Fixed(), Random(), steps=segment, record=record, **settings | {"optimizer": 0.0})
    W, readout, _ = jax.tree.map(lambda leaf: leaf[0], start.weights)
    x, y = (start.records[name][0].reshape(segment, streams, 2) for name in ("x", "y"))
    a0, step = network.cell.init_state(), CELLS[cell][1]

    def total(W):
        """The sum of a segment's losses, the mean over streams, each through the readout of its step."""
        moving, a, losses = readout, [a0] * streams, 0.0
        for t in range(segment):
            a = [step(W, a[i], x[t, i]) for i in range(streams)]
            of = lambda r, a=a, t=t: sum(loss(r, a[i][0], y[t, i]) for i in range(streams)) / streams
            losses = losses + of(jax.lax.stop_gradient(moving))
            slope = jax.grad(lambda r, of=of: of(r))(moving)
            moving = jax.lax.stop_gradient(jax.tree.map(lambda w, g: w - rate * g, moving, slope))
        return losses

    expected = jax.tree.map(lambda w, g: w - rate * g, W, jax.jit(jax.grad(total))(W))
    applied = jax.tree.map(lambda leaf: leaf[0], run.weights.cell)
    assert distance(applied, expected) < 1e-9
    assert distance(applied, W) > 1e-3
    wrong = jax.tree.map(lambda w, e: w + 0.99 * (e - w), W, expected)  # a hundredth too little must show
    assert distance(applied, wrong) > 1e-5


def loss(readout, h, y):
    """Softmax cross-entropy."""
    z = readout.W @ h + readout.b
    return -jnp.sum(y * (z - jnp.log(jnp.sum(jnp.exp(z)))))


def test_members_may_differ_in_numbers():
    """Another learning rate and another leak for each member, in one compiled program."""
    network = rc.Network(rc.RNN(2, 3, 0.4), 2)
    step = LearningStep(network, rc.RFLO(), 0.1)
    experiment = Experiment(step, Random()).traced
    rates, alphas = jnp.array([0.1, 0.3, 0.2]), jnp.array([0.4, 0.5, 0.9])
    blank = jax.tree.map(lambda leaf: None, experiment)
    is_none = lambda leaf: leaf is None
    where = lambda e: (e.step.optimizer, e.step.network.cell.alpha)
    numbers = eqx.tree_at(where, blank, (rates, alphas), is_leaf=is_none)
    members = Members(Members.of_seeds(jax.random.key(0), [0, 1, 2]).keys, numbers)
    with rc.ScanEngine(group=2).prepare(experiment, members) as run:
        loss = np.concatenate([piece.loss for piece in run.advance(STEPS)], axis=1)
    for i in range(3):
        one = rc.train(
            rc.Network(rc.RNN(2, 3, float(alphas[i])), 2), rc.RFLO(), Random(), steps=STEPS, seeds=[i],
            optimizer=float(rates[i]), window=1, progress=False,
        )  # fmt: skip
        np.testing.assert_allclose(loss[i], one.loss[0], rtol=1e-9)

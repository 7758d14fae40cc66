"""Spiking cells against a network by hand, whose spikes get their derivative in another way; and their parts."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER, distance, flat, one_step
from recurra.cells import Sources
from recurra.cells.alif import ALIF
from recurra.cells.initial import gaussian
from recurra.cells.lif import LIF
from recurra.cells.spiking import arctan, fast_sigmoid, surrogate, triangular
from recurra.engine.forms import LateRFLO
from recurra.linalg import dense
from recurra.losses import FiringRate
from recurra.step import APPLIED, GivenError, LearningStep

N, N_IN, STEPS = 4, 3, 14
SETTINGS = {"tau_v": 6.0, "tau_out": 4.0, "threshold": 0.5, "dampening": 0.4, "refractory": 3}
ADAPTS = {"tau_a": 30.0, "beta": jnp.array([0.0, 0.1, 0.2, 0.1])}
REGULARIZER = FiringRate(target=0.1, strength=0.7)


def network_of(make, regularizer=None, **changed):
    settings = SETTINGS | (ADAPTS if make is ALIF else {}) | changed
    return rc.Network(make(N_IN, N, **settings), 2, regularizer=regularizer)


def rows():
    keys = jax.random.split(jax.random.key(3), 2)
    xs = jax.random.bernoulli(keys[0], 0.4, (STEPS, N_IN)).astype("float64")
    return xs, jax.nn.softmax(jax.random.normal(keys[1], (STEPS, 2)))


#: `LIF` is also compared with an `ALIF` that does not adapt
EACH_CELL = pytest.mark.parametrize("make", [pytest.param(LIF, marks=pytest.mark.slow), ALIF])


# ---- an oracle that shares nothing with the cells ----


def spike(u, gamma):
    """A step, plus an antiderivative of γ max(0, 1 - |u|) that counts for its derivative alone."""
    inside = jnp.clip(u, -1, 1)
    area = gamma * (inside - jnp.sign(inside) * inside**2 / 2)
    return jax.lax.stop_gradient(jnp.where(u > 0, 1.0, 0.0) - area) + area


def losses_by_hand(W, readout, xs, ys, heard, regularizer, adapts):
    """Losses and spikes of the papers' equations, with their own order of b. `heard` is what units hear of spikes."""
    d, no = SETTINGS | ADAPTS, jax.lax.stop_gradient
    alpha, rho, kappa = (jnp.exp(-1 / d[name]) for name in ("tau_v", "tau_a", "tau_out"))
    w_rec, beta = W[0].rec.matrix * (1 - jnp.eye(N)), d["beta"] if adapts else jnp.zeros(N)

    def step(state, row):
        (z, v, b, f, since), (x, y) = state, row
        b = rho * b + z
        v = alpha * v + W[0].inp @ x + w_rec @ heard(z) - d["threshold"] * no(z)
        may = since >= d["refractory"]
        z = jnp.where(may, spike((v - d["threshold"] - beta * b) / d["threshold"], d["dampening"]), 0.0)
        f = kappa * f + (1 - kappa) * z
        loss = -jnp.sum(y * jax.nn.log_softmax(readout.W @ f + readout.b))
        rate = 0.0 if regularizer is None else regularizer.strength / 2 * jnp.sum((f - regularizer.target) ** 2)
        return (z, v, b, f, jnp.where(no(z) > 0, 1.0, since + 1)), (loss + rate, z)

    rest = jnp.zeros(N)
    return jax.lax.scan(step, (rest, rest, rest, rest, rest + 100), (xs, ys))[1]


@functools.cache
def by_hand(make, stopped, regularized):
    """The gradient of each step's loss, and the spikes."""
    weights, (xs, ys) = network_of(make).init(jax.random.key(5)), rows()
    heard = jax.lax.stop_gradient if stopped else lambda z: z
    given = {"heard": heard, "regularizer": REGULARIZER if regularized else None, "adapts": make is ALIF}
    return jax.jit(jax.jacrev(lambda W: losses_by_hand(W, weights.readout, xs, ys, **given), has_aux=True))(
        weights.cell
    )


@eqx.filter_jit
def follow(network, learner, weights, xs, ys):
    """Each step's gradient and state, with the weights held."""

    def step(carry, row):
        (a, state), (x, y, t) = carry, row
        _, tick = one_step(network, weights, a, x, y, t)
        gradient, state = learner.step(tick, state, None)
        return (tick.state, state), (dense(gradient), tick.state, tick.trace)

    first = network.cell.init_state(), learner.init(network.cell, weights.cell, jax.random.key(0), network.n_out)
    return jax.lax.scan(step, first, (xs, ys, jnp.arange(len(xs), dtype="int32")))[1]


def found(make, learner, regularized=False, **changed):
    network = network_of(make, REGULARIZER if regularized else None, **changed)
    return follow(network, learner, network.init(jax.random.key(5)), *rows())


@EACH_CELL
def test_spikes_are_those_of_the_equations(make):
    _, (z, *_), _ = found(make, rc.RFLO())
    spikes = by_hand(make, True, False)[1]
    np.testing.assert_array_equal(z, spikes)
    assert 5 < z.sum() < STEPS * N / 3
    assert (z.sum(0) > 0).sum() >= 3


@EACH_CELL
def test_rflo_stops_where_spikes_are_heard(make):
    """Autodiff with `stop_gradient` there and at the reset, but not where a spike raises the threshold."""
    wanted = by_hand(make, True, False)[0]
    for learner in (rc.RFLO(), LateRFLO()):
        assert distance(found(make, learner)[0], wanted) < 1e-13
    assert distance(by_hand(make, False, False)[0], wanted) > 1e-2  # the control
    assert distance(found(make, rc.RFLO(), dampening=0.4004)[0], wanted) > 1e-4


@EACH_CELL
def test_rtrl_does_not(make):
    assert distance(found(make, rc.RTRL())[0], by_hand(make, False, False)[0]) < 1e-13


def test_the_gradient_of_a_regularizer():
    gradients = found(ALIF, rc.RFLO(), regularized=True)[0]
    assert distance(gradients, by_hand(ALIF, True, True)[0]) < 1e-13
    assert distance(gradients, by_hand(ALIF, True, False)[0]) > 1e-2  # the control


def test_lif_is_alif_without_adaptation():
    assert distance(found(LIF, rc.RFLO())[0], found(ALIF, rc.RFLO(), beta=jnp.zeros(N))[0]) < 1e-14
    assert distance(found(LIF, rc.RFLO())[0], found(ALIF, rc.RFLO())[0]) > 1e-2  # the control


# ---- surrogates ----

POINTS = jnp.array([-2.0, -0.7, -0.1, 0.1, 0.3, 0.99, 1.5])

SLOPES = {
    triangular: [0, 0.3, 0.9, 0.9, 0.7, 0.01, 0],
    fast_sigmoid: [1 / 441, 1 / 64, 1 / 4, 1 / 4, 1 / 16, 1 / 10.9**2, 1 / 256],
    arctan: [1 / (1 + 9.869604401089358 * u**2) for u in (2, 0.7, 0.1, 0.1, 0.3, 0.99, 1.5)],
}


@pytest.mark.parametrize("function", SLOPES, ids=lambda function: function.__name__)
def test_surrogates(function):
    gamma = 0.3
    z, forwards = jax.jvp(lambda u: function(u, gamma), (POINTS,), (jnp.ones_like(POINTS),))
    backwards = jax.grad(lambda u: jnp.sum(function(u, gamma)))(POINTS)
    np.testing.assert_array_equal(z, POINTS > 0)
    np.testing.assert_allclose(forwards, gamma * np.array(SLOPES[function]), rtol=1e-12)
    np.testing.assert_allclose(backwards, forwards, rtol=1e-15)


def test_a_surrogate_of_ones_own():
    boxcar = surrogate(lambda u: jnp.where(jnp.abs(u) < 0.5, 1.0, 0.0))
    _, _, trace = found(LIF, rc.RFLO(), surrogate=boxcar)
    psi = trace.D[0][0]
    assert set(np.unique(psi).round(12)) == {0.0, 0.8}  # γ/ϑ
    assert distance(found(LIF, rc.RFLO(), surrogate=boxcar)[0], found(LIF, rc.RFLO())[0]) > 1e-2


# ---- units ----


@pytest.mark.parametrize(("refractory", "interval"), [(0, 1), (1, 1), (5, 5)])
def test_a_unit_spikes_at_most_once_in_so_many_steps(refractory, interval):
    cell = LIF(1, 1, refractory=refractory, w_rec=gaussian)
    W = (Sources(jnp.zeros((1, 1)), jnp.full((1, 1), 50.0), None),)
    step = lambda a, x: (cell.forward(W, a, x)[0],) * 2
    spikes = jax.lax.scan(step, cell.init_state(), jnp.ones((12, 1)))[1][0]
    assert spikes[:, 0].tolist() == [float(t % interval == 0) for t in range(12)]


def test_no_derivative_while_a_unit_is_refractory():
    _, (*_, r), trace = found(ALIF, rc.RFLO())
    resting = np.concatenate([np.zeros((1, N)), r[:-1]]) > 0
    psi = np.asarray(trace.D[0][0])
    assert resting.sum() > 8
    assert (psi[resting] == 0).all()
    assert (psi[~resting] > 0).sum() > 8


def test_what_units_read_with_a_derivative():
    """Not the spikes, which the reset reads through `stop_gradient`, nor how long a unit rests."""
    assert network_of(LIF).cell.read == {1, 2}
    assert network_of(ALIF).cell.read == {1, 2, 3}
    shape = lambda rows: [["" if h is None else h.shape[0] for h in row] for row in rows]
    cell = ALIF(N_IN, N)
    W = jax.eval_shape(cell.init_weights, jax.random.key(0))
    _, trace = jax.eval_shape(cell.forward, W, cell.init_state(), jnp.ones(N_IN))
    spikes, potential, threshold, filtered, resting = shape(trace.H)
    assert spikes == ["", N, N, "", ""]
    assert potential == ["", 1, "", "", ""]
    assert threshold == ["", N, N, "", ""]
    assert filtered == ["", N, N, 1, ""]
    assert resting == [""] * 5
    assert shape(trace.D) == [[N], [N], [N], [N], [""]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_any_precision(dtype):
    cell = ALIF(N_IN, N, dtype=dtype, beta=jnp.linspace(0.0, 0.1, N), tau_v=jnp.array(10.0))
    W = jax.eval_shape(cell.init_weights, jax.random.key(0))
    after, trace = jax.eval_shape(cell.forward, W, cell.init_state(), jnp.zeros(N_IN, dtype))
    assert {leaf.dtype.name for leaf in jax.tree.leaves((W, after, trace))} == {dtype}


def test_spiking_cells_say_that_they_are_not_smooth():
    assert not LIF.smooth
    assert not ALIF.smooth
    assert rc.RNN.smooth


@pytest.mark.slow
def test_the_usual_strength_of_adaptation():
    alpha, rho = np.exp(-1 / 20), np.exp(-1 / 2000)
    published = 1.7 * (1 - rho) / (1 - alpha)
    xs = jax.random.bernoulli(jax.random.key(0), 0.1, (100, 10)).astype("float64")
    assert published == pytest.approx(0.01742, abs=1e-5)

    @eqx.filter_jit
    def potentials(cell, W):
        return jax.lax.scan(lambda a, x: (cell.forward(W, a, x)[0],) * 2, cell.init_state(), xs)[1]

    own, given, other = (ALIF(10, 20, beta=beta) for beta in (None, published, 1.5 * published))
    W = own.init_weights(jax.random.key(1))
    np.testing.assert_allclose(flat(potentials(own, W)), flat(potentials(given, W)), atol=1e-12)
    assert distance(potentials(own, W), potentials(other, W)) > 1e-2


@EACH_CELL
def test_first_weights_make_networks_that_neither_are_silent_nor_saturate(make):
    """100 units, 50 inputs at 20 Hz if a step is a millisecond. No unit can exceed 200 Hz."""
    cell = make(50, 100)
    xs = jax.random.bernoulli(jax.random.key(0), 0.02, (1500, 50)).astype(cell.dtype)
    forward = lambda W: jax.lax.scan(lambda a, x: (cell.forward(W, a, x)[0],) * 2, cell.init_state(), xs)[1][0]
    rate = 1000 * jax.jit(forward)(cell.init_weights(jax.random.key(1)))[500:].mean(0)
    assert {LIF: 30, ALIF: 4}[make] < rate.mean() < {LIF: 80, ALIF: 20}[make]
    assert (rate == 0).mean() < {LIF: 0.4, ALIF: 0.2}[make]
    assert (rate > 150).mean() < 0.2


WRONG = [
    ({"threshold": 0.0}, "`threshold` of ALIF must be above 0.0"),
    ({"tau_v": -1.0}, "`tau_v` of ALIF must be at least 0.0"),
    ({"tau_a": float("nan")}, "`tau_a` of ALIF"),
    ({"beta": -0.1}, "`beta` of ALIF must be at least 0.0"),
    ({"beta": jnp.ones(3)}, r"`beta` of ALIF must be a number, or 4 of them, and has shape \(3,\)"),
    ({"dampening": -0.1}, "`dampening` of ALIF"),
    ({"refractory": -1}, "`refractory` of ALIF must be at least 0"),
    ({"n": 0}, "`n` of ALIF"),
]


@pytest.mark.parametrize(
    ("setting", "said"), WRONG, ids=lambda each: next(iter(each)) if isinstance(each, dict) else ""
)
def test_settings_that_make_no_sense(setting, said):
    with pytest.raises(Exception, match=said) as error:
        ALIF(**{"n_in": N_IN, "n": N} | setting)
    assert isinstance(error.value, ValueError | TypeError)


# ---- learning ----


@pytest.mark.slow
def test_a_silent_start():
    """Without input nothing moves, but for the readout's bias; once there is some, everything does."""
    network = rc.Network(ALIF(2, 6), 2, regularizer=FiringRate(0.05))
    step = LearningStep(network, rc.RFLO(), 0.05)
    xs = jnp.concatenate([jnp.zeros((20, 2)), jnp.ones((20, 2))])

    def one(state, x):
        state, outcome = step.learn(step.observe(state, x, step.noise(jax.random.key(0), 1))[0], jnp.array([1.0, 0.0]))
        return state, (outcome.loss, outcome.state[0], state.weights)

    first = step.init(jax.random.key(2))
    _, (loss, spikes, weights) = jax.jit(lambda first: jax.lax.scan(one, first, xs))(first)
    at = lambda t: jax.tree.map(lambda rows: rows[t], weights)
    assert np.isfinite(flat((loss, weights))).all()
    assert spikes[:20].sum() == 0 < spikes[20:].sum()
    assert distance(at(19).cell, first.weights.cell) == 0
    assert distance(at(19).readout.b, first.weights.readout.b) > 0.1
    assert distance(at(39).cell, first.weights.cell) > 1e-4


@eqx.filter_jit
def learn_rates(network, weights, xs, rate):
    """The rates of all units over the last 2000 steps, and the weights after them. There is no loss."""
    step = LearningStep(network, rc.RFLO(), rc.Adam(rate))

    def one(state, x):
        seen, _ = step.observe(state, x, {APPLIED: None})
        state, outcome = step.learn(seen, GivenError(jnp.zeros(1)))
        return state, outcome.state[0]

    last, spikes = jax.lax.scan(one, step.init(jax.random.key(0))._replace(weights=weights), xs)
    return spikes[-2000:].mean(0), last.weights


def test_a_regularizer_brings_rates_to_its_target_and_no_unit_to_hear_itself():
    """Inputs are at 50 Hz. At first some units are silent and some fast.

    Rates settle somewhat below the target. The square is that of a running mean, whose variance counts too.
    """
    network = rc.Network(LIF(10, 20), 1, rc.SquaredError(), regularizer=FiringRate(jnp.array(0.1)))
    weights = network.init(jax.random.key(2))
    xs = jax.random.bernoulli(jax.random.key(0), 0.05, (6000, 10)).astype("float64")
    first, _ = learn_rates(network, weights, xs, jnp.array(0.0))
    last, after = learn_rates(network, weights, xs, jnp.array(0.001))
    assert np.median(np.abs(first - 0.1)) > 0.03
    assert np.median(np.abs(last - 0.1)) < 0.015
    w_rec, before = after.cell[0].rec.matrix, weights.cell[0].rec.matrix
    assert (np.diagonal(w_rec) == 0).all()
    assert (np.abs(w_rec - before) > 1e-3).sum() > 300


#: KeRNL refuses spiking cells
SERVED = [name for name in FOR_ONE_LAYER if name != "kernl"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in SERVED])
def test_every_learner_runs(name):
    network, learner = network_of(ALIF), FOR_ONE_LAYER[name]()
    step = LearningStep(network, learner, 1e-3)
    xs, ys = (jnp.tile(each, (3, 1)) for each in rows())

    def one(state, row):
        seen, _ = step.observe(state, row[0], row[2])
        state, outcome = step.learn(seen, row[1])
        return state, (outcome.gradients, outcome.loss)

    state = step.init(jax.random.key(1))
    state, (gradients, loss) = jax.jit(lambda *given: jax.lax.scan(one, *given))(
        state, (xs, ys, step.noise(jax.random.key(2), len(xs)))
    )
    assert np.isfinite(flat((gradients, loss, state.weights))).all()
    assert name == "fixed" or np.abs(flat(gradients)).max() > 0
    assert (np.diagonal(state.weights.cell[0].rec.matrix) == 0).all()


def test_kernl_says_that_it_does_not_see_spikes():
    with pytest.raises(TypeError, match="KeRNL learns from small perturbations of the state"):
        LearningStep(network_of(ALIF), rc.KeRNL(), 0.1)


@pytest.mark.parametrize("kind", [rc.LIF, rc.ALIF])
def test_differentiation_of_a_run_agrees_with_rtrl(kind):
    """The recipe of the documentation, "Is my learner right?": no weight on the diagonal moves."""
    network = rc.Network(kind(2, 4), 1, rc.SquaredError())
    step = rc.LearningStep(network, rc.RTRL(), 0.0)
    first = state = step.init(jax.random.key(0))
    xs = 3 * jax.random.normal(jax.random.key(1), (12, 2))
    for x in xs:
        seen, _ = step.observe(state, x, {"applied": None})
        state, outcome = step.learn(seen, jnp.ones(1))
    last_loss = lambda cell: 0.5 * jnp.sum((network.run(first.weights._replace(cell=cell), xs)[-1] - 1) ** 2)
    found = jax.grad(last_loss)(first.weights.cell)
    assert distance(found, outcome.gradients["applied"]) < 1e-10
    assert np.abs(found[0].rec.matrix).max() > 1e-3
    assert np.all(np.diagonal(found[0].rec.matrix) == 0)

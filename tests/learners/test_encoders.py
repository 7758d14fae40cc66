"""Encoders: exact ways are automatic differentiation through time; other rules are their equations, written densely."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import recurra as rc
from recurra.linalg import zeros_like

KEY = jax.random.key(0)
N_IN, WIDTH, N, STEPS = 3, 2, 4, 6


def encoder(out=WIDTH):
    return eqx.nn.MLP(N_IN, out, width_size=3, depth=1, activation=jnp.tanh, dtype=jnp.float64, key=KEY)


def foreign():
    params = {"W": jax.random.normal(KEY, (N, N)), "U": jax.random.normal(KEY, (N, WIDTH))}
    step = lambda p, h, x: jnp.tanh(p["W"] @ jnp.tanh(p["W"] @ h) + p["U"] @ x)
    return rc.cell_of(step, params, carry=jnp.zeros(N), x=WIDTH)


CELLS = {
    "gru": lambda: rc.GRU(WIDTH, N, dtype="float64"),
    "lstm": lambda: rc.LSTM(WIDTH, N, dtype="float64"),
    "rtu": lambda: rc.RTU(WIDTH, N, dtype="float64"),
    "general": foreign,
    "stack": lambda: rc.Stack(rc.RNN(WIDTH, 3, dtype="float64"), rc.GRU(3, N, dtype="float64")),
}


def network(cell):
    return rc.Network(rc.Encoded(encoder(), CELLS[cell](), x=N_IN), n_out=2)


def rows(steps=STEPS):
    xs = jax.random.normal(KEY, (steps, N_IN), "float64")
    return xs, jnp.eye(2)[jax.random.randint(KEY, steps, 0, 2)]


def found(network, learner, streams=1, resets=None):
    """The weights, and each step's gradient for the cell and the encoder, with the weights held."""
    step = rc.LearningStep(network, learner, 1.0, streams=streams)
    start = network.init(jax.random.key(1))
    state, gradients, (xs, ys) = step.start_from(start, KEY, resets=True), [], rows()
    noise = step.noise(KEY, len(xs))

    @jax.jit
    def take(state, x, y, noise, reset):
        seen, _ = step.observe(state, x, noise, reset)
        return step.learn(seen, y)

    for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
        reset = jnp.asarray(resets is not None and t in resets)
        after, outcome = take(state, x, y, jax.tree.map(lambda leaf, t=t: leaf[t], noise), reset)
        gradients.append(outcome.gradients["applied"])
        state = after._replace(weights=start)
    return start, gradients


def losses(network, weights):
    xs, ys = rows()
    return -jnp.sum(ys * jax.nn.log_softmax(network.run(weights, xs)), axis=1)


def close(found, truth):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, truth)


slow = pytest.mark.slow
EXACT = {
    "inside": ("gru", rc.RTRL()),
    "traced within units that do not hear each other": ("rtu", rc.WithEncoder(rc.RTRL())),
    "inside, two variables": ("lstm", rc.RTRL()),
    "traced": ("gru", rc.WithEncoder(rc.RTRL(), rc.Traced(whole=True))),
    "inside a general cell": ("general", rc.RTRL()),
    "traced, a general cell": ("general", rc.WithEncoder(rc.RTRL(), rc.Traced(whole=True))),
    "inside a stack": ("stack", rc.RTRL()),
}
FAST = ("inside", "traced within units that do not hear each other")


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in FAST else slow) for case in EXACT])
def test_exact_ways_are_automatic_differentiation_through_time(case):
    cell, learner = EXACT[case]
    net = network(cell)
    start, gradients = found(net, learner)
    truth = jax.jacrev(lambda cell: losses(net, start._replace(cell=cell)))(start.cell)
    for t, gradient in enumerate(gradients):
        close(gradient, jax.tree.map(lambda leaf, t=t: leaf[t], truth))


@pytest.mark.parametrize("cell", ["gru", pytest.param("stack", marks=slow)])
def test_exact_for_the_encoder_whatever_the_learner_of_the_cell(cell):
    """With all of J its gradient is exact also beside RFLO, and beside Layered in a stack."""
    net = network(cell)
    learner = rc.Layered(rc.RFLO()) if cell == "stack" else rc.RFLO()
    start, gradients = found(net, rc.WithEncoder(learner, rc.Traced(whole=True)))
    with_encoder = lambda own: start._replace(cell=start.cell._replace(encoder=own))
    truth = jax.jacrev(lambda own: losses(net, with_encoder(own)))(start.cell.encoder)
    for t, gradient in enumerate(gradients):
        close(gradient.encoder, jax.tree.map(lambda leaf, t=t: leaf[t], truth))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bptt", "late"), [(rc.FutureBPTT(T=STEPS - 1), STEPS - 1), (rc.EfficientBPTT(T=STEPS), STEPS - 1)]
)
def test_learners_that_go_back_have_the_encoder_inside(bptt, late):
    """The gradient of the summed loss with respect to the first application of the encoder, or to all of them."""
    net = network("gru")
    start, gradients = found(net, bptt)
    if isinstance(bptt, rc.EfficientBPTT):
        truth = jax.grad(lambda cell: losses(net, start._replace(cell=cell)).sum())(start.cell)
    else:
        (xs, ys), cell = rows(), net.cell

        def first_then(own):
            a, _ = cell.forward(own, cell.init_state(), xs[0])
            total = 0.0
            for t in range(STEPS):
                a = a if t == 0 else cell.forward(start.cell, a, xs[t])[0]
                total -= jnp.sum(ys[t] * jax.nn.log_softmax(net.output(start, a, xs[t])))
            return total

        truth = jax.grad(first_then)(start.cell)
    close(gradients[late], truth)


@pytest.mark.parametrize(
    ("cell", "rule"),
    [
        ("gru", "within units"),
        ("gru", "present step"),
        pytest.param("gru", "frozen", marks=slow),
        pytest.param("lstm", "within units", marks=slow),
        pytest.param("lstm", "present step", marks=slow),
    ],
)
def test_other_rules_are_their_equations_written_densely(cell, rule):
    """E = P ∘ (J) E + ∂a/∂w with JAX's own Jacobians, where P holds what lies within units, or nothing at all."""
    learner = {"within units": None, "present step": rc.PresentStep(), "frozen": rc.Frozen()}[rule]
    net = network(cell)
    start, gradients = found(net, rc.WithEncoder(rc.RFLO()) if learner is None else rc.WithEncoder(rc.RFLO(), learner))
    own, (flat, unravel) = net.cell, ravel_pytree(start.cell.encoder)
    (xs, ys), sizes = rows(), sum(net.cell.widths)
    unit = np.tile(np.arange(N), len(own.widths))
    within = {"within units": 1.0 * (unit[:, None] == unit[None])}.get(rule, np.zeros((sizes, sizes)))
    a, E = jnp.concatenate(own.init_state()), jnp.zeros((sizes, flat.size))
    for x, y, gradient in zip(xs, ys, gradients, strict=True):
        forward = lambda a, w, x=x: jnp.concatenate(
            own.forward(start.cell._replace(encoder=unravel(w)), own.split(a), x)[0]
        )
        J, Mbar = jax.jacobian(forward, (0, 1))(a, flat)
        a = forward(a, flat)
        E = zeros_like(Mbar) if rule == "frozen" else (within * J) @ E + Mbar
        cbar = jax.grad(lambda a, x=x, y=y: -jnp.sum(y * jax.nn.log_softmax(net.output(start, own.split(a), x))))(a)
        np.testing.assert_allclose(ravel_pytree(gradient.encoder)[0], cbar @ E, atol=1e-12)


@pytest.mark.parametrize(
    "rule", [rc.Traced(), *(pytest.param(each, marks=slow) for each in (rc.Traced(whole=True), rc.PresentStep()))]
)
def test_nothing_passes_a_reset(rule):
    net = network("gru")
    learner = rc.WithEncoder(rc.SnAp1(), rule)
    _, whole = found(net, learner, resets={3})
    step = rc.LearningStep(net, learner, 1.0)
    state, (xs, ys) = step.start_from(net.init(jax.random.key(1)), KEY), rows()
    for t in range(3, STEPS):
        seen, _ = step.observe(state, xs[t], {"applied": None})
        after, outcome = step.learn(seen, ys[t])
        close(whole[t], outcome.gradients["applied"])
        state = after._replace(weights=state.weights)


@pytest.mark.slow
def test_streams_follow_the_mean():
    """Three streams that bring the same rows have the gradient of one."""
    encoder = rc.module_of(lambda W, x: jnp.tanh(W @ x), jnp.ones((2, 2)), x=2)
    net = rc.Network(rc.Encoded(encoder, CELLS["gru"]()), n_out=2)
    xs = np.random.default_rng(0).normal(size=(40, 2))
    ys = np.eye(2)[np.random.default_rng(1).integers(0, 2, 40)]
    one, three = rc.Arrays(xs, ys), rc.Arrays(np.stack([xs] * 3), np.stack([ys] * 3))
    run = lambda task, streams: rc.train(net, rc.RFLO(), task, steps=40, streams=streams, optimizer=0.1, progress=False)
    close(run(one, 1).weights.cell, run(three, 3).weights.cell)


TAKEN = {
    "past-facing": (rc.SnAp1(), "gru", rc.WithEncoder(rc.SnAp1(), rc.Traced())),
    "RTRL": (rc.RTRL(), "gru", rc.RTRL()),
    "future-facing": (rc.DNI(), "gru", rc.DNI()),
    "inside": (rc.WithEncoder(rc.UORO(), None), "gru", rc.UORO()),
    "a general cell": (rc.UORO(), "general", rc.UORO()),
    "said": (rc.WithEncoder(rc.RFLO(), rc.Frozen()), "gru", rc.WithEncoder(rc.RFLO(), rc.Frozen())),
}


@pytest.mark.parametrize("case", TAKEN)
def test_the_rule_that_a_learner_gets(case):
    learner, cell, taken = TAKEN[case]
    step = rc.LearningStep(network(cell), learner, 1e-2, probes={"probe": learner})
    assert step.learner == step.probes["probe"] == taken


def test_rules_have_names_of_their_own():
    rules = [rc.Traced(), rc.Traced(whole=True), rc.PresentStep(), rc.Frozen(), None]
    learners = [rc.WithEncoder(rc.RFLO(), rule) for rule in rules]
    assert len({learner.name for learner in learners}) == len({learner.about.id for learner in learners}) == len(rules)
    assert learners[2].name == "RFLO, encoder present-step"


def test_a_model_with_an_encoder_is_saved_and_loaded(tmp_path):
    net = network("gru")
    step = rc.OnlineStep(rc.LearningStep(net, rc.SnAp1(), rc.Adam(1e-2)), scale_target=False)
    model, (xs, ys) = rc.Online(step, key=1), rows(40)
    model.learn_many(xs[:20], ys[:20])
    rc.save(tmp_path / "model.safetensors", model)
    again = rc.load(tmp_path / "model.safetensors", like=rc.Online(step))
    np.testing.assert_array_equal(model.learn_many(xs[20:], ys[20:]), again.learn_many(xs[20:], ys[20:]))


REFUSED = {
    "another width": (lambda: rc.Encoded(encoder(5), CELLS["gru"](), x=N_IN), ValueError, "returns 5 .* takes 2"),
    "no example": (lambda: rc.Encoded(encoder(), CELLS["gru"]()), TypeError, r"`x` of Encoded .* is missing"),
    "an example too many": (lambda: rc.Encoded(rc.module_of(encoder(), x=N_IN), CELLS["gru"](), x=3), TypeError,
                            "leave `x` out"),
    "no cell": (lambda: rc.Encoded(encoder(), 3, x=N_IN), TypeError, "must be a recurra cell"),
    "no encoder": (lambda: rc.LearningStep(rc.Network(CELLS["gru"](), 2), rc.WithEncoder(rc.RFLO()), 0.1), TypeError,
                   "is for a cell behind an encoder"),
    "within units of a general cell": (
        lambda: rc.LearningStep(network("general"), rc.WithEncoder(rc.UORO()), 0.1), TypeError, "is no unit-wise cell"),
    "credit of its own": (
        lambda: rc.WithEncoder(rc.Layered(rc.RFLO(), rc.RandomTargets()), rc.PresentStep()), TypeError,
        "has its own way of handing down credit"),
    "a learner that goes back": (lambda: rc.WithEncoder(rc.FutureBPTT()), TypeError, "must be a past-facing learner"),
    "a unit-wise learner of its own kind": (lambda: rc.LearningStep(network("gru"), rc.EProp3(), 0.1), TypeError,
                                            "has an encoder before its cell"),
    "no rule": (lambda: rc.WithEncoder(rc.RFLO(), "traced"), TypeError, r"must be Traced\(\), PresentStep\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(case):
    make, kind, words = REFUSED[case]
    with pytest.raises(kind, match=words):
        make()

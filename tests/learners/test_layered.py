"""Learners of a stack, layer by layer: the unrolled network in which the past of upper layers is held, and limits."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import recurra as rc
from driving import distance, drive, exact, problem
from marks import often
from recurra.cells.stack import Stack
from recurra.engine.forms import LateRFLO
from recurra.engine.specialise import fastest
from recurra.learners.handing_down import LocalLosses, RandomTargets
from recurra.learners.immediate import Immediate
from recurra.learners.layered import Layered
from recurra.learners.pp_prop import PPProp
from recurra.learners.snap_1 import SnAp1
from recurra.saved.parts import described, rebuilt
from recurra.step.online_grad import OnlineGrad
from recurra_paper.experiments.enumeration import estimates
from unrolled import gru, lstm, rnn

EXACT = 1e-10
STACKS = {
    "rnn, gru": (lambda n_in, n: Stack(rc.RNN(n_in, n, 0.4), rc.GRU(n, 2)), (rnn(0.4), gru)),
    "lstm, rnn, skip": (lambda n_in, n: Stack(rc.LSTM(n_in, n), rc.RNN(n, 2, 0.6), skip=True), (lstm, rnn(0.6))),
    "three": (lambda n_in, n: Stack(rc.RNN(n_in, n), rc.RNN(n, 2, 0.5), rc.LSTM(2, 2)), (rnn(1.0), rnn(0.5), lstm)),
}


def seen(steps, skip, W, xs, held_above=None):
    """What the readout sees at each step. Layers above `held_above` have a past that does not depend on weights."""
    zeros = lambda w, step: tuple(jnp.zeros(len(w[0].bias)) for _ in range(2 if step is lstm else 1))
    states, shown = [zeros(w, step) for w, step in zip(W, steps, strict=True)], []
    for x in xs:
        for l, step in enumerate(steps):
            before = jax.lax.stop_gradient(states[l]) if held_above is not None and l > held_above else states[l]
            states[l] = step(W[l], before, x)
            x = states[l][0]
        shown.append([a[0] for a in states] if skip else [x])
    return [jnp.concatenate(parts) for parts in shown]


def by_hand(steps, skip, weights, xs, ys):
    """For each step the gradient of its loss, for the weights of each layer with the past of those above it held."""

    def gradient(l):
        def losses(w):
            W = (*weights.cell[:l], w, *weights.cell[l + 1 :])
            logits = [weights.readout.W @ h + weights.readout.b for h in seen(steps, skip, W, xs, l)]
            return jnp.stack([-jnp.sum(y * jax.nn.log_softmax(z)) for z, y in zip(logits, ys, strict=True)])

        return jax.jacrev(losses)(weights.cell[l])

    each = jax.jit(lambda: tuple(map(gradient, range(len(steps)))))()
    return [jax.tree.map(lambda rows, t=t: rows[t], each) for t in range(len(xs))]


class Previous(Layered):
    """Wrong: credit goes down through the derivatives of the step before."""

    def advance(self, tick, state, noise):
        return super().advance(tick, state, noise)._replace(trace=state.trace)


@pytest.mark.parametrize("name", often(STACKS, "rnn, gru"))
def test_gradients_leave_out_the_past_of_upper_layers_alone(name):
    make, steps = STACKS[name]
    network, weights, xs, ys = problem(make, steps=4)
    expected = by_hand(steps, network.cell.skip, weights, xs, ys)
    found = [gradient for gradient, _, _ in drive(network, Layered(), weights, xs, ys)]
    assert max(map(distance, found, expected)) < EXACT
    if name == "rnn, gru":
        wrong = [gradient for gradient, _, _ in drive(network, Previous(), weights, xs, ys)]
        assert min(distance(g[0], e[0]) for g, e in zip(wrong[1:], expected[1:], strict=True)) > 1e-3
        true = [gradient for gradient, _, _ in drive(network, rc.RTRL(), weights, xs, ys)]
        assert distance(found[-1][1], true[-1][1]) < EXACT  # the top layer has none above it
        assert distance(found[-1][0], true[-1][0]) > 1e-3


@pytest.mark.slow
def test_below_layers_without_memory_it_is_exact():
    network, weights, xs, ys = problem(lambda n_in, n: Stack(rc.LSTM(n_in, n), rc.RNN(n, 2), rc.RNN(2, 2)), steps=4)
    lower, *upper = weights.cell
    silent = [(gate._replace(rec=0 * gate.rec),) for (gate,) in upper]
    weights = weights._replace(cell=(lower, *silent))
    both = [drive(network, learner, weights, xs, ys) for learner in (Layered(), rc.RTRL())]
    for (found, _, _), (expected, _, _) in zip(*both, strict=True):
        assert distance(found[0], expected[0]) < EXACT


@pytest.mark.parametrize(
    "learner",
    [
        rc.KFRTRL(initial_scale=0.0),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (rc.RTRL(), rc.RFLO(), SnAp1(), Immediate(), PPProp(), rc.KeRNL())
        ),
    ],
    ids=lambda learner: learner.name,
)
def test_of_one_layer_it_is_the_learner_itself(learner):
    network, weights, xs, ys = problem(lambda n_in, n: rc.LSTM(n_in, n), steps=3)
    stacked, of_one = rc.Network(Stack(rc.LSTM(2, 3)), 2), weights._replace(cell=(weights.cell,))
    noise = learner.noise(network.cell, jax.random.key(2), 3)
    alone = drive(network, learner, weights, xs, ys, noise=noise)
    layered = drive(stacked, Layered(learner), of_one, xs, ys, noise=None if noise is None else (noise,))
    for (found, _, _), (expected, _, _) in zip(layered, alone, strict=True):
        assert distance(found, (expected,)) < EXACT


def small(n_in=1, n=2):
    return Stack(rc.RNN(n_in, n), rc.RNN(n, 1, 0.5))


@pytest.mark.slow
def test_unbiased_layers_make_an_unbiased_stack():
    """Their estimates agree with those of exact layers on average, over all signs, which no two layers share."""
    network, weights, xs, ys = problem(small, n=2, n_in=1, steps=4)
    every, steps = estimates(Layered(rc.UORO(initial_scale=0.0)), network, weights, xs, ys, 2**14)
    (expected,), _ = estimates(Layered(), network, weights, xs[:steps], ys[:steps], 1)
    assert distance(every.mean(axis=0), expected) < EXACT
    assert every.std(axis=0).max() > 1e-3
    assert distance(expected, exact(network, weights, xs, ys, steps)) > 1e-3  # and not to those of the whole stack


def test_layers_draw_numbers_of_their_own():
    cell, learner = Stack(rc.RNN(3, 3), rc.RNN(3, 3)), Layered(rc.UORO())
    one, other = learner.noise(cell, jax.random.key(0), 40)
    assert 0.3 < float(jnp.mean(one[0] == other[0])) < 0.7
    states = learner.init(cell, cell.init_weights(jax.random.key(0)), jax.random.key(1), 2)
    assert distance(states.M[0].A, states.M[1].A) > 0.1
    assert Layered((rc.UORO(), rc.RFLO())).noise(cell, jax.random.key(0), 4)[1] is None
    assert Layered(rc.RFLO()).noise(cell, jax.random.key(0), 4) is None


@pytest.mark.parametrize("handed", [RandomTargets(), LocalLosses()], ids=lambda handed: type(handed).__name__)
def test_credit_of_other_choices_is_as_written(handed):
    make, steps = STACKS["rnn, gru"]
    network, weights, xs, ys = problem(make, steps=3)
    readout = weights.readout
    learner = Layered(rc.RTRL(), handed)
    first = learner.init(network.cell, weights.cell, jax.random.key(4), 2)
    visited = drive(network, learner, weights, xs, ys, state=first)

    def shown(w, l):
        """What layer l shows at each step, as a function of its own weights."""
        W = (w, weights.cell[1]) if l == 0 else (weights.cell[0], w)
        both = seen(steps, True, W, xs, l)
        return [h[:3] if l == 0 else h[3:] for h in both]

    softmax = lambda z: jnp.exp(z) / jnp.sum(jnp.exp(z))
    top = lambda a, y: (softmax(readout.W @ a + readout.b) - y) @ readout.W
    slopes = [jax.jit(jax.jacfwd(lambda w, l=l: jnp.stack(shown(w, l))))(weights.cell[l]) for l in range(2)]
    for t, (gradient, state, tick) in enumerate(visited):
        h, g = tick.state
        if isinstance(handed, RandomTargets):
            delta = ys[t] @ first.fixed[0], top(g, ys[t])
            assert first.fixed[1] is None
        else:
            delta = tuple((softmax(G @ a) - ys[t]) @ G for G, a in zip(first.fixed, (h, g), strict=True))
        through = lambda l, t=t, delta=delta: jax.tree.map(lambda J: jnp.tensordot(delta[l], J[t], 1), slopes[l])
        expected = through(0), through(1)
        assert distance(gradient, expected) < EXACT
        assert distance(state.fixed, first.fixed) == 0
    exact = drive(network, Layered(), weights, xs, ys)[-1][0]
    assert distance(exact[0], visited[-1][0][0]) > 1e-3


def test_with_skip_lower_layers_have_the_readout_s_credit_besides_the_target():
    network, weights, xs, ys = problem(lambda n_in, n: Stack(rc.RNN(n_in, n), rc.RNN(n, 2), skip=True), steps=2)
    learner = Layered(Immediate(), RandomTargets())
    (gradient, state, tick), *_ = drive(network, learner, weights, xs, ys)
    delta = tick.error @ weights.readout.W[:, :3] + ys[0] @ state.fixed[0]
    expected = (delta * (1 - tick.state[0] ** 2))[:, None] * xs[0][None]
    assert distance(gradient[0][0].inp, expected) < EXACT


def test_local_losses_need_a_loss():
    network, weights, xs, ys = problem(small, n=2, n_in=1, steps=1)
    network, learner = rc.Network(small(), 2), Layered(rc.RFLO(), LocalLosses())
    tick = drive(network, Layered(rc.RFLO()), weights, xs, ys)[0][2]
    blind = eqx.tree_at(lambda tick: tick.loss, tick, None, is_leaf=lambda leaf: leaf is None)
    with pytest.raises(ValueError, match="needs the network's loss"):
        learner.step(blind, learner.init(network.cell, weights.cell, jax.random.key(0), 2), None)


@pytest.mark.slow
def test_users_credit_goes_down_through_the_layers():
    network, weights, xs, ys = problem(STACKS["rnn, gru"][0], steps=3)
    grad = OnlineGrad(network.cell, Layered(rc.RFLO()))
    state = grad.init(weights.cell, jax.random.key(0))
    for x in xs:
        state = grad.observe(weights.cell, state, x)
    gradient, _, tick = drive(network, Layered(rc.RFLO()), weights, xs, ys)[-1]
    assert distance(grad.gradient(weights.cell, state, tick.cbar), gradient) < EXACT


def test_faster_forms_reach_layers():
    stack = Stack(rc.cells.LRU(2, 2), rc.LSTM(4, 3), rc.RNN(3, 2))
    form = fastest(Layered(), stack, "cpu")
    assert [type(each) for each in form.learner] == [LateRFLO, rc.RTRL, rc.RTRL]
    assert [type(each) for each in fastest(Layered(rc.RFLO()), stack, "cpu").learner] == [LateRFLO, LateRFLO, rc.RFLO]
    assert fastest(Layered(rc.UORO(), LocalLosses()), stack, "gpu").handed == LocalLosses()


@pytest.mark.slow
def test_faster_forms_have_the_same_gradients():
    stack = Stack(rc.cells.LRU(2, 2), rc.LSTM(4, 3), rc.RNN(3, 2))
    network, weights, xs, ys = problem(lambda n_in, n: stack, steps=3)
    for learner in (Layered(), Layered(rc.RFLO())):
        both = [drive(network, each, weights, xs, ys) for each in (learner, fastest(learner, stack, "cpu"))]
        assert max(distance(g, e) for (g, _, _), (e, _, _) in zip(*both, strict=True)) < EXACT


@pytest.mark.slow
def test_numbers_of_layers_learners_vary_in_a_sweep():
    stack, task = Stack(rc.RNN(2, 3), rc.LSTM(3, 2)), rc.Add(1, 2)
    settings = {"steps": 30, "optimizer": 0.1, "progress": False}
    swept = rc.sweep(
        rc.Network(stack, 2), Layered(rc.UORO()), task, vary={"learner.learner.initial_scale": [0.0, 2.0]}, **settings
    )
    for number, scale in enumerate((0.0, 2.0)):
        one = rc.train(rc.Network(stack, 2), Layered(rc.UORO(initial_scale=scale)), task, **settings)
        assert np.allclose(np.asarray(swept.loss)[number].ravel(), np.asarray(one.loss).ravel())


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 3])
def test_a_stack_learns_layer_by_layer(streams):
    network = rc.Network(Stack(rc.RNN(2, 8), rc.GRU(8, 6)), 2)
    for learner in (Layered(rc.RFLO()), Layered((SnAp1(), rc.KFRTRL()))):
        run = rc.train(network, learner, rc.Add(1, 2), steps=4000, optimizer=0.03, streams=streams, progress=False)
        windows = np.asarray(run.loss).ravel()
        tenth = len(windows) // 10
        assert windows[-tenth:].mean() < windows[:tenth].mean() - 0.03


@pytest.mark.slow
def test_a_saved_model_goes_on_as_it_would_have(tmp_path):
    learner = Layered((rc.UORO(), rc.RFLO()), RandomTargets())
    network = rc.Network(Stack(rc.RNN(2, 4), rc.LSTM(4, 3), skip=True), 1, loss=rc.SquaredError())
    model = rc.Online(rc.OnlineStep(rc.LearningStep(network, learner, 0.01)), key=1)
    xs = np.random.default_rng(0).normal(size=(40, 2))

    def outputs(model, rows):
        found = []
        for x in rows:
            found.append(np.asarray(model.predict_one(x)))
            model.learn_one(x, x[:1])
        return np.stack(found)

    outputs(model, xs[:25])  # past the rows that only tell the scale
    rc.save(tmp_path / "model", model)
    going_on = outputs(model, xs[25:])
    assert np.array_equal(outputs(rc.load(tmp_path / "model"), xs[25:]), going_on)
    assert np.ptp(going_on) > 0


def test_a_layered_learner_is_described_and_built_again():
    for learner in (Layered(), Layered((rc.UORO(), rc.RFLO()), RandomTargets()), Layered(rc.KeRNL(), LocalLosses())):
        assert rebuilt(json.loads(json.dumps(described(learner)))) == learner
    with pytest.raises(ValueError, match="Layered cannot be built"):
        rebuilt({"part": "Layered", "fields": {"learner": 3, "handed": described(RandomTargets())}})


def general():
    return rc.cell_of(eqx.nn.GRUCell(3, 3, key=jax.random.key(0)), carry=jnp.zeros(3), x=3, unitwise=False)


@pytest.mark.parametrize(
    ("learner", "cell", "message"),
    [
        (rc.RFLO(), small(), r"RFLO needs a unit-wise cell, .* and a Stack .* recurra\.Layered\(RFLO\(\)\)"),
        (rc.DNIb(), small(), r"DNIb needs a unit-wise cell, .* and a Stack .* recurra\.Layered\(RFLO\(\)\)"),
        (rc.RFLO(), rc.RNN(2, 3), None),
        (Layered(rc.RFLO()), rc.RNN(1, 3), "RNN is a single one: use RFLO itself"),
        (Layered((rc.RFLO(),)), small(), "has 1 learners, and the stack 2 layers"),
        (
            Layered(rc.RFLO()),
            Stack(rc.RNN(2, 3), general()),
            "Layer 1 of the stack .*RFLO needs a unit-wise cell, .* and GRUC",
        ),
        (Layered((rc.RFLO(), rc.UORO())), Stack(rc.RNN(2, 3), general()), None),
        (Layered(), Stack(Stack(rc.RNN(2, 3)), rc.RNN(3, 2)), None),
        (Layered(Layered(rc.RFLO())), Stack(Stack(rc.RNN(2, 3)), rc.RNN(3, 2)), "Layer 1 .*RNN is a single one"),
    ],
)
def test_what_does_not_go_together_is_one_clear_error(learner, cell, message):
    step = lambda: rc.LearningStep(rc.Network(cell, 2), learner, 0.1)
    if message is None:
        step()
        return
    with pytest.raises((TypeError, ValueError), match=message):
        step()


class Late(rc.RFLO):
    delay: int = 3

    about = rc.About("late", "Late", unitwise=True, lag="delay")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layered(rc.EfficientBPTT()), "`learner` of Layered must be a past-facing learner"),
        (lambda: Layered((rc.RFLO(), rc.DNI())), "`learner` of Layered must be a past-facing learner"),
        (lambda: Layered(Late()), "Late emits gradients late"),
        (lambda: Layered(Layered(rc.RFLO(), LocalLosses())), "has its own way of handing down credit"),
        (lambda: Layered(handed="random"), r"`handed` of Layered must be ThroughLayers\(\)"),
    ],
)
def test_learners_that_layers_cannot_have(make, message):
    jaxtyping.config.update("jaxtyping_disable", True)  # which has an error of its own for arguments
    try:
        with pytest.raises(TypeError, match=message):
            make()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)

"""Steps without a label, and resets, have one meaning for every kind of learner."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dense
import recurra as rc
from dense_comparison import STEPS, compare, setting, side_by_side
from driving import distance, flat
from recurra.engine.forms import LazyRTRL
from recurra.step import APPLIED, LearningStep
from recurra_paper.setup import LEARNERS as PAPER
from taking_steps import fixed_noise, gradients, take_steps

RESETS = (3, 4, 9)
PRESENT = np.array([1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0], bool)
reset_rows = np.isin(np.arange(STEPS), RESETS)

#: learners whose gradient is linear in dense tensors, with the oracle of each
EXACT = {
    "rtrl": (rc.RTRL(), dense.rtrl),
    "lazy rtrl": (LazyRTRL(span=5), dense.rtrl),
    "f-bptt": (rc.FutureBPTT(T=3), lambda path: dense.future_bptt(path, 3)),
    "e-bptt": (rc.EfficientBPTT(T=4), lambda path: dense.efficient_bptt(path, 4)),
}


def taken(network, learner, weights, xs, ys, resets=False, gaps=False, **more):
    """Steps with the resets and gaps of this file."""
    events = {"reset": reset_rows if resets else None, "present": PRESENT if gaps else None}
    return take_steps(network, learner, weights, xs, ys, **events, **more)


#: a cell of one state variable with every learner, and one of two with a past-facing and a future-facing one
OFTEN = {*(("leaky rnn", name) for name in EXACT), ("lstm", "lazy rtrl"), ("lstm", "f-bptt")}


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        pytest.param(cell, name, marks=() if (cell, name) in OFTEN else pytest.mark.slow)
        for cell in ("leaky rnn", "lstm", "gru")
        for name in EXACT
    ],
)
def test_exact_learners(cell, name):
    learner, oracle = EXACT[name]
    network, weights, xs, ys, path = setting(cell, resets=RESETS, present=PRESENT)
    ours = gradients(taken(network, learner, weights, xs, ys, resets=True, gaps=True))
    assert compare(path, ours, oracle(path)) < 1e-10
    for wrong in ({"resets": RESETS}, {"present": PRESENT}, {"resets": (3, 9), "present": PRESENT}):
        assert compare(path, ours, oracle(setting(cell, **wrong)[-1])) > 1e-3


@pytest.mark.parametrize("cell", ["leaky rnn", "lstm", pytest.param("gru", marks=pytest.mark.slow)])
def test_learners_that_learn_about_the_network(cell):
    """A reset makes KeRNL and DNI forget the past, but not what they have learned."""
    network, weights, xs, ys, path = setting(cell, resets=RESETS, present=PRESENT)
    plain = setting(cell, present=PRESENT)[-1]
    kernl = rc.KeRNL(learning_rate=2.0, perturbation=0.1)
    zeta = np.concatenate(fixed_noise(kernl, network.cell, STEPS), axis=1)
    dni, dni_b = rc.DNI(0.1, 3), rc.DNIb(0.1, 0.2, 3)
    first, first_b = (learner.init(network.cell, weights.cell, jax.random.key(1), 2) for learner in (dni, dni_b))
    A_b, J, W_fb = side_by_side(first_b.synthesizer.A), np.asarray(first_b.J[0][0]), np.asarray(first_b.W_fb)
    for learner, start, oracle in (
        (kernl, None, lambda path: dense.kernl(path, zeta, 2.0)),
        (dni, first, lambda path: dense.dni(path, side_by_side(first.A), 0.1, 3)),
        (dni_b, first_b, lambda path: dense.dni_b(path, A_b, J, W_fb, 0.1, 0.2, 3)),
    ):
        ours = gradients(taken(network, learner, weights, xs, ys, resets=True, gaps=True, start=start))
        assert compare(path, ours, oracle(path)) < 1e-10
        assert compare(path, ours, oracle(plain)) > 1e-3


#: the paper's, and some of those that came after it; SnAp-n and Layered need other cells
TRIED = [*PAPER, "immediate", "edge-bptt", "e-prop-3"]


#: a plain rate or a momentum, for each way in which learners emit; the others are slow
SOME = {("rtrl", "momentum"), ("uoro", "sgd"), ("e-bptt", "momentum"), ("f-bptt", "momentum"), ("dni", "momentum")}
SOME |= {("fixed", "sgd"), ("edge-bptt", "momentum"), ("e-prop-3", "momentum"), ("immediate", "sgd")}
MOVES = [
    pytest.param(name, rule, marks=() if (name, rule) in SOME else pytest.mark.slow)
    for name in TRIED
    for rule in ("sgd", "momentum")
]


@pytest.mark.parametrize(("name", "rule"), MOVES)
def test_weights_move_only_where_something_is_emitted(name, rule):
    """And a momentum is not stepped elsewhere: it would go on moving them."""
    optimizer = 0.1 if rule == "sgd" else optax.sgd(0.1, momentum=0.9)
    learner = rc.LEARNERS[name](**({"T": 3} if name in ("e-bptt", "f-bptt", "edge-bptt") else {}))
    network, weights, xs, ys, _ = setting("leaky rnn")
    visited = taken(network, learner, weights, xs, ys, gaps=True, optimizer=optimizer)
    states = [state for _, state in visited]
    moved = lambda part: [not np.array_equal(flat(part(x)), flat(part(y))) for x, y in itertools.pairwise(states)]
    assert moved(lambda state: state.weights.readout) == PRESENT[1:].tolist()
    label_at = lambda t: PRESENT[max(t, 0)]
    expected = {
        "past": lambda t: label_at(t),
        "future": lambda t: True if name != "f-bptt" else t >= 3 and PRESENT[t - 3 : t + 1].any(),
        "–": lambda t: name.endswith("-bptt") and t % 3 == 2 and PRESENT[t - 2 : t + 1].any(),
    }[learner.facing if name != "e-prop-3" else "future"]
    emitted = [bool(outcome.emitted[APPLIED]) for outcome, _ in visited]
    assert emitted == [bool(expected(t)) for t in range(STEPS)]
    assert moved(lambda state: state.weights.cell) == emitted[1:]
    losses = np.array([outcome.loss for outcome, _ in visited])
    assert np.array_equal(np.isfinite(losses), PRESENT)


FEW = ("rtrl", "uoro", "e-bptt", "f-bptt", "dni")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in TRIED])
def test_streams_without_a_label_do_not_count_in_the_mean(name):
    """Three streams with gaps of their own, against each of them alone."""
    learner = rc.LEARNERS[name](**({"T": 3} if name in ("e-bptt", "f-bptt", "edge-bptt") else {}))
    network, weights, _, _, _ = setting("leaky rnn")
    keys = jax.random.split(jax.random.key(5), 3)
    xs = jax.random.normal(keys[0], (STEPS, 3, 2))
    ys = jax.nn.softmax(jax.random.normal(keys[1], (STEPS, 3, 2)))
    present = np.array(jax.random.bernoulli(keys[2], 0.4, (STEPS, 3)))
    rows = np.stack([np.roll(reset_rows, i) for i in range(3)], axis=1)
    first = LearningStep(network, learner, 0.0, streams=3).init(jax.random.key(7)).learners[APPLIED]
    noise = fixed_noise(learner, network.cell, STEPS, streams=3)
    events = {"reset": rows, "present": present, "noise": noise, "start": first}
    together = take_steps(network, learner, weights, xs, ys, streams=3, **events)
    of_stream = lambda i: jax.tree.map(lambda rows: rows[:, i], events | {"start": None})
    alone = [
        take_steps(
            network, learner, weights, xs[:, i], ys[:, i],
            **of_stream(i) | {"start": jax.tree.map(lambda leaf, i=i: leaf[i], first)},
        )
        for i in range(3)
    ]  # fmt: skip
    for t, (outcome, _) in enumerate(together):
        counted = [run[t][0] for run in alone if bool(run[t][0].emitted[APPLIED])]
        assert bool(outcome.emitted[APPLIED]) == bool(counted)
        if counted:
            mean = jax.tree.map(lambda *g: sum(g) / len(g), *(each.gradients[APPLIED] for each in counted))
            assert distance(outcome.gradients[APPLIED], mean) < 1e-10
        losses = [run[t][0].loss for i, run in enumerate(alone) if present[t, i]]
        assert np.isnan(outcome.loss) if not losses else abs(outcome.loss - np.mean(losses)) < 1e-12


def test_an_error_or_credit_of_your_own_stands_for_a_label():
    network, weights, xs, ys, path = setting("lstm")
    step = LearningStep(network, rc.RTRL(), 0.1)
    state = step.init(jax.random.key(1))._replace(weights=weights)
    seen, output = step.observe(state, xs[0], step.noise(jax.random.key(0), 1))
    loss, error = network.loss(output, ys[0])
    by_label, outcome = step.learn(seen, ys[0])
    by_error, same = step.learn(seen, rc.GivenError(error))
    assert distance(by_label.weights, by_error.weights) == 0
    assert np.isnan(same.loss)
    assert outcome.loss == loss
    by_credit, same = step.learn(seen, rc.GivenCredit(network.credit(weights, error, seen.after, seen.x)))
    assert distance(by_credit.weights.cell, by_label.weights.cell) == 0
    assert distance(by_credit.weights.readout, weights.readout) == 0
    memory = rc.GivenCredit((None, jnp.ones(3)))  # credit for the LSTM's memory alone
    _, same = step.learn(seen, memory)
    assert distance(flat(same.gradients[APPLIED]), np.ones(3) @ path.Mbar[0][3:]) < 1e-12


def test_a_state_of_a_run_without_gaps_or_resets_says_so():
    network, _, xs, ys, _ = setting("rnn")
    step = LearningStep(network, rc.RFLO(), 0.1)
    state = step.start_from(network.init(jax.random.key(1)), jax.random.key(0))
    with pytest.raises(ValueError, match=r"without resets: start from the state that `LearningStep.init` returns"):
        step.observe(state, xs[0], reset=jnp.array(True))
    seen, _ = step.observe(state, xs[0])
    with pytest.raises(ValueError, match="without missing labels: start from"):
        step.learn(seen, ys[0], jnp.array(True))


def test_both_functions_can_be_jitted_and_vmapped():
    network, _, xs, ys, _ = setting("leaky rnn")
    step = LearningStep(network, rc.UORO(), 0.1)
    noise = jax.tree.map(lambda rows: rows[0], step.noise(jax.random.key(2), 1))

    def one(key):
        seen, _ = step.observe(step.init(key), xs[0], noise)
        return step.learn(seen, ys[0])[0].weights

    keys = jax.random.split(jax.random.key(1), 3)
    together = jax.jit(jax.vmap(one))(keys)
    observe, learn = jax.jit(step.observe), jax.jit(step.learn)
    for i, key in enumerate(keys):
        seen, _ = observe(step.init(key), xs[0], noise)
        alone = learn(seen, ys[0])[0].weights
        assert distance(jax.tree.map(lambda leaf, i=i: leaf[i], together), alone) < 1e-12

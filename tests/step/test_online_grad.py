"""M for users with credit of their own, against autodiff through the unrolled network with a nonlinear head."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, problem
from recurra.engine.forms import LazyRTRL
from recurra.learners.following import check_followed
from recurra.step.online_grad import OnlineGrad
from unrolled import CELLS

STEPS, EXACT = 5, 1e-10


def setting(cell, n=3):
    make, step = CELLS[cell]
    network, weights, xs, _ = problem(make, n=n, steps=STEPS)
    return network.cell, step, weights.cell, xs


def head(h):
    """A value that is no readout's: not linear, and it mixes units."""
    return jnp.sin(h[0] * h[1]) + jnp.log(1 + jnp.sum(h**2))


def followed(grad, weights, xs, resets=()):
    """The state after each step."""
    observe = jax.jit(grad.observe)
    noise = grad.noise(jax.random.key(2), len(xs))
    state, visited = grad.init(weights, jax.random.key(1)), []
    for t, x in enumerate(xs):
        row = jax.tree.map(lambda rows, t=t: rows[t], noise)
        state = observe(weights, state, x, noise=row, reset=jnp.array(t in resets) if resets else None)
        visited.append(state)
    return visited


def value(step, a0, xs, t, since=0):
    """The head's output at step t of the unrolled network that began at step `since`, by the weights."""
    return lambda W: head(unrolled.states(step, [W] * (t + 1 - since), a0, xs[since : t + 1])[-1][0])


@pytest.mark.parametrize(
    "cell", ["lstm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("leaky rnn", "gru"))]
)
def test_the_gradient_of_a_head_is_autodiff_s(cell):
    cell, step, weights, xs = setting(cell)
    grad, a0 = OnlineGrad(cell, rc.RTRL()), cell.init_state()
    visited = followed(grad, weights, xs)
    for t in (0, 2, STEPS - 1):
        state = visited[t]
        h = grad.shown(state)
        c = jax.grad(head)(h)
        found = grad.gradient(weights, state, c)
        expected = jax.jit(jax.grad(value(step, a0, xs, t)))(weights)
        assert distance(found, expected) < EXACT
        # Controls: credit of another function, and a learner that is not exact.
        assert distance(grad.gradient(weights, state, 2 * h), expected) > 1e-3
    local = OnlineGrad(cell, rc.RFLO())
    assert distance(local.gradient(weights, followed(local, weights, xs)[-1], c), expected) > 1e-3


def test_credit_of_any_state_variable():
    """An LSTM's memory, which no readout sees; and several gradients of one step."""
    cell, step, weights, xs = setting("lstm")
    grad, a0 = OnlineGrad(cell, rc.RTRL()), cell.init_state()
    state = followed(grad, weights, xs)[-1]
    memory = lambda W: head(unrolled.states(step, [W] * STEPS, a0, xs)[-1][1])
    expected = jax.jit(jax.grad(memory))(weights)
    c = jax.grad(head)(state.a[1])
    assert distance(grad.gradient(weights, state, (None, c)), expected) < EXACT
    assert distance(grad.gradient(weights, state, (c, None)), expected) > 1e-3
    both = grad.gradient(weights, state, (c, c))
    parts = [grad.gradient(weights, state, each) for each in ((c, None), (None, c))]
    assert distance(both, jax.tree.map(jnp.add, *parts)) < EXACT


RESETS = (2, 4)


def test_eligibility_is_the_recursion_of_autodiff_s_gradients():
    """z <- γλ z + dv(t)/dw inside episodes, with a gradient that reaches back to the episode's start and no further."""
    cell, step, weights, xs = setting("gru")
    grad, a0, keep = OnlineGrad(cell, rc.RTRL()), cell.init_state(), 0.7
    z = found = jax.tree.map(jnp.zeros_like, weights)
    endless = z
    for t, state in enumerate(followed(grad, weights, xs, RESETS)):
        since = max(r for r in (0, *RESETS) if r <= t)
        starts = t in RESETS
        c = jax.grad(head)(grad.shown(state))
        found = grad.eligibility(weights, state, found, c, 0.0 if starts else keep)
        now = jax.jit(jax.grad(value(step, a0, xs, t, since)))(weights)
        z = jax.tree.map(lambda z, g, starts=starts: (0 if starts else keep) * z + g, z, now)
        endless = jax.tree.map(lambda z, g: keep * z + g, endless, now)
        assert distance(found, z) < EXACT
    assert distance(found, endless) > 1e-3
    never = followed(grad, weights, xs)[-1]
    assert distance(grad.gradient(weights, never, c), now) > 1e-3


QUICK = [rc.KeRNL(), rc.RFLO()]
REST = [pytest.param(kind, marks=pytest.mark.slow) for kind in (rc.UORO(), rc.KFRTRL(), rc.ROK(r=2), rc.RKFRTRL())]


@pytest.mark.parametrize("learner", QUICK + REST, ids=lambda learner: type(learner).__name__)
def test_every_past_facing_learner_gives_what_it_gives_in_training(learner):
    """Its state goes through a scan, so its shapes stay. An LSTM's h is traced too, which RFLO does not keep."""
    network, weights, xs, ys = problem(CELLS["lstm"][0], steps=STEPS)
    grad = OnlineGrad(network.cell, learner)
    trained = drive(network, learner, weights, xs, ys)
    cbar = jnp.stack([tick.cbar[0] for _, _, tick in trained])

    def one(state, inputs):
        x, row, c = inputs
        state = grad.observe(weights.cell, state, x, noise=row)
        return state, grad.gradient(weights.cell, state, c)

    rows = xs, grad.noise(jax.random.key(2), STEPS), cbar
    _, found = jax.jit(lambda rows: jax.lax.scan(one, grad.init(weights.cell, jax.random.key(1)), rows))(rows)
    for t, (gradient, _, _) in enumerate(trained):
        assert distance(jax.tree.map(lambda leaf, t=t: leaf[t], found), gradient) < EXACT


def test_a_general_cell_and_streams():
    key, zeros = jax.random.key(5), jnp.zeros(3)
    module = eqx.nn.GRUCell(2, 3, key=key)
    cell, rest = rc.cell_of(module, carry=zeros, x=2, unitwise=False), eqx.partition(module, eqx.is_inexact_array)[1]
    grad, weights = OnlineGrad(cell, rc.RTRL()), cell.init_weights(key)
    xs = jax.random.normal(key, (2, 4, 2))  # step, stream

    @jax.jit
    def streams(xs):
        states = jax.vmap(lambda _: grad.init(weights, key))(jnp.arange(4))
        for x in xs:
            states = jax.vmap(grad.observe, (None, 0, 0))(weights, states, x)
        c = jax.vmap(jax.grad(head))(jax.vmap(grad.shown)(states))
        return jax.vmap(grad.gradient, (None, 0, 0))(weights, states, c)

    def unrolled(W, xs):
        h = zeros
        for x in xs:
            h = eqx.combine(W, rest)(x, h)
        return head(h)

    found, expected = streams(xs), jax.jit(jax.vmap(jax.grad(unrolled), (None, 1)))(weights, xs)
    assert distance(found, expected) < EXACT
    assert distance(jax.tree.map(lambda leaf: leaf[::-1], found), expected) > 1e-3


def test_steps_without_end():
    """The number of a step stays within 32 bits."""
    cell, _, weights, xs = setting("rnn")
    grad = OnlineGrad(cell, rc.RTRL())
    state = grad.init(weights, jax.random.key(0))
    far = grad.observe(weights, state._replace(t=jnp.array(2**30 + 5, "int32")), xs[0])
    assert int(far.t) < 2**30


def test_errors_say_what_to_do():
    cell, _, weights, xs = setting("lstm")
    for wrong in (rc.DNI(), rc.EfficientBPTT()):
        with pytest.raises(TypeError):
            OnlineGrad(cell, wrong)
    # Here types are checked at run time, before the class itself can speak.
    with pytest.raises(TypeError, match=r"`learner` of OnlineGrad .* DNI\(\) faces the future: use RTRL\(\)"):
        check_followed("OnlineGrad", "learner", rc.DNI())
    with pytest.raises(TypeError, match=r"EfficientBPTT\(\) keeps no M: use RTRL\(\)"):
        check_followed("OnlineGrad", "learner", rc.EfficientBPTT())
    with pytest.raises(TypeError, match="every 7 steps"):
        OnlineGrad(cell, LazyRTRL(span=7))
    with pytest.raises(TypeError, match="needs a unit-wise cell"):
        OnlineGrad(
            rc.cell_of(eqx.nn.GRUCell(2, 3, key=jax.random.key(0)), carry=jnp.zeros(3), x=2, unitwise=False), rc.RFLO()
        )
    grad = OnlineGrad(cell, rc.UORO())
    state = grad.init(weights, jax.random.key(0))
    drawn, again = grad.observe(weights, state, xs[0]), grad.observe(weights, state, xs[0])
    assert jax.tree.all(jax.tree.map(np.array_equal, drawn.M, again.M)), "the key of the state draws"
    assert not np.array_equal(grad.observe(weights, drawn, xs[0]).M.B[0].rec, drawn.M.B[0].rec)
    for wrong, told in (
        (np.ones(4), r"array of shape \(3,\), .* is of shape \(4,\)"),
        ((np.ones(3),), r"for each state variable, of lengths \(3, 3\)"),
        ((np.ones(3), np.ones(2)), r"for each state variable, of lengths \(3, 3\)"),
        (None, "`c` must be an array"),
    ):
        with pytest.raises(ValueError, match=told):
            grad.gradient(weights, state, jax.tree.map(jnp.asarray, wrong))
    with pytest.raises(ValueError, match=r"must have shape \(2,\), and has \(5, 2\).* use jax.vmap"):
        grad.observe(weights, state, jnp.ones((5, 2)))

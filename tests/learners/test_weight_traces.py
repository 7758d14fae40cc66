"""SnAp-1, pp_prop and the immediate gradient, each from its definition: rules that keep a trace a weight, or less."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from dense import Trajectory
from driving import distance, drive, problem
from masked import flat, masked_rtrl
from recurra.cells.initial import WithoutSelf
from recurra.learners.immediate import Immediate
from recurra.learners.pp_prop import PPProp
from recurra.learners.snap_1 import SnAp1
from recurra.linalg import Hollow, full


def often(one):
    """All cells; those but one are slow."""
    cells = ("leaky rnn", "gru", "lstm")
    marks = lambda name: () if name == one else pytest.mark.slow
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in cells])


def gradients(network, learner, weights, xs, ys):
    return [flat(gradient) for gradient, _, _ in drive(network, learner, weights, xs, ys)]


def apart(x, y):
    return max(distance(a, b) for a, b in zip(x, y, strict=True))


def with_recurrent(weights, change):
    """The weights with `change` applied to every recurrent matrix."""
    gates = (gate if gate.rec is None else gate._replace(rec=change(gate.rec)) for gate in weights.cell)
    return weights._replace(cell=tuple(gates))


@often("lstm")
def test_snap_1_is_rtrl_masked_to_each_weights_own_unit(name):
    """With all of a unit's variables: for an LSTM the output gate reaches c too, by what the unit tells itself."""
    make, step = unrolled.CELLS[name]
    network, weights, xs, ys = problem(make)
    found = gradients(network, SnAp1(), weights, xs, ys)
    own = np.eye(3, dtype=bool)
    assert apart(found, masked_rtrl(step, network, weights, xs, ys, own)) < 1e-12
    assert apart(found, masked_rtrl(step, network, weights, xs, ys, np.ones_like(own))) > 1e-3
    if name == "lstm":  # the right rule with c alone
        T = Trajectory(step, weights, network.cell.init_state(), xs, ys)
        owner = flat(jax.tree.map(lambda w: jnp.broadcast_to(jnp.arange(3.0)[:, None], w.shape), weights.cell))
        c_alone = np.concatenate([np.zeros((3, len(owner)), bool), np.arange(3)[:, None] == owner])
        M = np.zeros(c_alone.shape)
        wrong = []
        for J, Mbar, cbar in zip(T.J, T.Mbar, T.cbar, strict=True):
            new = J @ M + Mbar
            wrong.append(cbar @ new)
            M = c_alone * new
        assert apart(found, wrong) > 1e-3


@often("leaky rnn")
def test_where_snap_1_is_rtrl_or_rflo(name):
    network, weights, xs, ys = problem(unrolled.CELLS[name][0])
    each = lambda learner, weights: gradients(network, learner, weights, xs, ys)
    diagonal = with_recurrent(weights, lambda W: jnp.diag(jnp.diagonal(W)))
    assert apart(each(SnAp1(), diagonal), each(rc.RTRL(), diagonal)) < 1e-12
    assert apart(each(rc.RFLO(), diagonal), each(rc.RTRL(), diagonal)) > 1e-3
    nothing = with_recurrent(weights, jnp.zeros_like)
    assert apart(each(SnAp1(), nothing), each(rc.RFLO(), nothing)) < 1e-12
    assert apart(each(SnAp1(), weights), each(rc.RFLO(), weights)) > 1e-3


@pytest.mark.slow
def test_without_connections_of_units_to_themselves_snap_1_is_rflo():
    network, weights, xs, ys = problem(lambda n_in, n: rc.LSTM(n_in, n, w_rec=WithoutSelf()))
    hollow = with_recurrent(weights, lambda W: Hollow(full(W)))
    found = gradients(network, SnAp1(), hollow, xs, ys)
    assert apart(found, gradients(network, rc.RFLO(), hollow, xs, ys)) < 1e-12
    assert apart(found, gradients(network, rc.RTRL(), hollow, xs, ys)) > 1e-3


def rnn_unit(a, z):
    return jnp.stack([0.6 * a[0] + 0.4 * jnp.tanh(z[0])])


def lstm_unit(a, z):
    i, f, g, o = z
    c = unrolled.sigmoid(f) * a[1] + unrolled.sigmoid(i) * jnp.tanh(g)
    return jnp.stack([unrolled.sigmoid(o) * jnp.tanh(c), c])


def pre_post_by_hand(unit, W, states, a0, xs, cbars, decay):
    """Each step's gradient, by gate and source: every sum over earlier steps written out, unit by unit."""
    n = len(a0[0])
    before = [a0, *states[:-1]]
    z = [jnp.stack([unrolled.heard(gate, a[0], x) for gate in W]) for a, x in zip(before, xs, strict=True)]
    local = jax.vmap(jax.jacobian(unit, (0, 1)), in_axes=1)
    H, D = zip(*(local(jnp.stack(a), each) for a, each in zip(before, z, strict=True)), strict=True)
    found = []
    for t in range(len(xs)):
        X = [sum(decay ** (t - s) * u[s] for s in range(t + 1)) for u in ([a[0] for a in before], xs)]
        F = 0
        for s in range(t + 1):
            D_s = D[s]
            for r in range(s + 1, t + 1):
                D_s = decay * jnp.einsum("kpq,kqg->kpg", H[r], D_s)
            F = F + (1 - decay) * D_s
        credit = jnp.stack([jnp.zeros(n) if c is None else c for c in cbars[t]])
        u = jnp.einsum("pk,kpg->gk", credit, F) / (1 - decay ** (t + 1))
        found.append(np.concatenate([np.ravel(each) for row in u for each in (*(jnp.outer(row, x) for x in X), row)]))
    return found


@pytest.mark.parametrize(
    ("name", "unit"), [pytest.param("leaky rnn", rnn_unit, marks=pytest.mark.slow), ("lstm", lstm_unit)]
)
def test_pp_prop_is_its_double_sum(name, unit):
    make, step = unrolled.CELLS[name]
    network, weights, xs, ys = problem(make)
    visited = drive(network, PPProp(0.7), weights, xs, ys)
    found = [flat(gradient) for gradient, _, _ in visited]
    a0 = network.cell.init_state()
    visits = unrolled.states(step, [weights.cell] * len(xs), a0, xs)
    by_hand = lambda decay: pre_post_by_hand(
        unit, weights.cell, visits, a0, xs, [tick.cbar for _, _, tick in visited], decay
    )
    assert apart(found, by_hand(0.7)) < 1e-12
    assert apart(found, by_hand(0.71)) > 1e-4
    assert apart(found, gradients(network, rc.RFLO(), weights, xs, ys)) > 1e-2


@often("gru")
def test_the_immediate_gradient_and_pp_prop_that_forgets_at_once(name):
    make, step = unrolled.CELLS[name]
    network, weights, xs, ys = problem(make)
    path = Trajectory(step, weights, network.cell.init_state(), xs, ys)
    cbar_Mbar = [cbar @ Mbar for cbar, Mbar in zip(path.cbar, path.Mbar, strict=True)]
    found = gradients(network, Immediate(), weights, xs, ys)
    assert apart(found, cbar_Mbar) < 1e-12
    assert apart(gradients(network, PPProp(0.0), weights, xs, ys), cbar_Mbar) < 1e-12
    assert apart(gradients(network, PPProp(0.1), weights, xs, ys), cbar_Mbar) > 1e-3
    assert apart(gradients(network, rc.RFLO(), weights, xs, ys), cbar_Mbar) > 1e-3


@pytest.mark.slow
def test_the_immediate_gradient_of_a_general_cell():
    module = eqx.nn.GRUCell(2, 3, key=jax.random.key(0))
    cell = rc.cell_of(module, carry=jnp.zeros(3), x=2, unitwise=False)
    network, weights, xs, ys = problem(lambda n_in, n: cell)
    visited = drive(network, Immediate(), weights, xs, ys)
    module_of = lambda arrays: eqx.combine(arrays, eqx.filter(module, eqx.is_inexact_array, inverse=True))

    def loss(arrays, a, x, y):
        return unrolled.loss(weights.readout, module_of(arrays)(x, a), y)

    for (gradient, _, tick), x, y in zip(visited, xs, ys, strict=True):
        assert distance(gradient, jax.grad(loss)(weights.cell, tick.before[0], x, y)) < 1e-12
    exact = drive(network, rc.RTRL(), weights, xs, ys)
    assert distance(visited[0][0], exact[0][0]) < 1e-12
    assert distance(visited[-1][0], exact[-1][0]) > 1e-3


def test_what_is_kept_is_as_small_as_said():
    network, weights, _, _ = problem(unrolled.CELLS["lstm"][0], n=20)
    size = lambda learner: sum(
        leaf.size for leaf in jax.tree.leaves(learner.init(network.cell, weights.cell, jax.random.key(0), 2))
    )
    assert size(Immediate()) == 0
    assert size(PPProp()) == 20 + 2 + 1 + 2 * 4 * 20 + 1  # X, F and its share
    assert size(SnAp1()) == 2 * sum(leaf.size for leaf in jax.tree.leaves(weights.cell))

"""SnAp-1 on cells that are not unit-wise, against M = P ∘ (J M + Mbar) in dense NumPy."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, flat, problem
from recurra.cells.reach import description, reach
from recurra.learners import snap_1_general
from taking_steps import gradients, take_steps

N, N_IN, STEPS = 3, 2, 6


def normal(key, *shape):
    return 0.7 * jax.random.normal(key, shape)


class ResetBefore(eqx.Module):
    """A GRU whose reset gate acts before the product: the weights of that gate reach all units."""

    W: jax.Array
    U: jax.Array

    def __init__(self, key):
        self.W, self.U = normal(key, 3, N, N_IN), normal(jax.random.fold_in(key, 1), 3, N, N)

    def __call__(self, x, h):
        r, u = (jax.nn.sigmoid(self.W[g] @ x + self.U[g] @ h) for g in (0, 1))
        return (1 - u) * h + u * jnp.tanh(self.W[2] @ x + self.U[2] @ (r * h))


class NormedRNN(eqx.Module):
    """Layer norm inside the nonlinearity: all but its gain and bias reach all units."""

    W: jax.Array
    norm: eqx.nn.LayerNorm

    def __init__(self, key):
        self.W, self.norm = normal(key, N, N + N_IN), eqx.nn.LayerNorm(N)

    def __call__(self, x, h):
        return 0.5 * h + 0.5 * jnp.tanh(self.norm(self.W @ jnp.concatenate([h, x])))


class LowRank(eqx.Module):
    """A weight of V reaches all units, s two of them, and weights of R beside the diagonal none."""

    U: jax.Array
    V: jax.Array
    R: jax.Array
    s: jax.Array

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.U, self.V, self.R = normal(keys[0], N, 2), normal(keys[1], 2, N), normal(keys[2], N, N)
        self.s = jnp.array(0.7)

    def __call__(self, x, h):
        mask = jnp.array([1.0, 0.0, 1.0])
        return jax.nn.relu(self.U @ (self.V @ h) + jnp.diagonal(self.R) + self.s * mask * x[0])


class Diagonal(eqx.Module):
    """Units that do not hear each other, with two state variables in one array."""

    decay: jax.Array
    W: jax.Array

    def __init__(self, key):
        self.decay, self.W = normal(key, N), normal(jax.random.fold_in(key, 1), N, N_IN)

    def __call__(self, x, state):
        v, f = state
        v = jax.nn.sigmoid(self.decay) * v + self.W @ x - f * v
        return jnp.stack([v, 0.5 * f + jnp.tanh(v)])


class Outer(eqx.Module):
    """An outer product, whose factors are broadcast: a weight of either reaches a row or a column of the carry."""

    W: jax.Array
    U: jax.Array

    def __init__(self, key):
        self.W, self.U = normal(key, N, N_IN), normal(jax.random.fold_in(key, 1), 2, N)

    def __call__(self, x, h):
        return 0.5 * h + jnp.outer(jnp.tanh(self.W @ x + h[:, 0]), jax.nn.sigmoid(self.U @ h[:, 1]))


KEY, ZEROS = jax.random.key(3), jnp.zeros(N)
#: modules and their carries
MODULES = {
    "gru": (eqx.nn.GRUCell(N_IN, N, key=KEY), ZEROS),
    "lstm": (eqx.nn.LSTMCell(N_IN, N, key=KEY), (ZEROS, ZEROS)),
    "reset before": (ResetBefore(KEY), ZEROS),
    "layer norm": (NormedRNN(KEY), ZEROS),
    "low rank": (LowRank(KEY), ZEROS),
    "diagonal": (Diagonal(KEY), jnp.zeros((2, N))),
    "outer": (Outer(KEY), jnp.ones((N, 2))),
}
STACK = rc.Stack(rc.GRU(N_IN, 2), rc.RTU(2, 2))
CELLS = [*MODULES, "stack"]


def cell_of(name):
    if name == "stack":
        return STACK
    module, carry = MODULES[name]
    return rc.cell_of(module, carry=carry, x=N_IN, unitwise=False)


def step_of(name):
    """The step as it was written, as a function of weights, a state and an input."""
    if name == "stack":
        return lambda weights, a, x: STACK.forward(weights, a, x)[0]
    module, _ = MODULES[name]
    return lambda weights, carry, x: eqx.combine(weights, module)(x, carry)


def often(names, *some):
    """All of them; those but a few are slow."""
    return [pytest.param(name, marks=() if name in some else pytest.mark.slow) for name in names]


class Dense:
    """States, J, Mbar and P of a step, by differentiating it as it was written."""

    def __init__(self, name, weights, xs, resets=()):
        self.weights, self.cell = weights, cell_of(name)
        w, unravel_w = jax.flatten_util.ravel_pytree(weights.cell)
        first, unravel_a = jax.flatten_util.ravel_pytree(STACK.init_state() if name == "stack" else MODULES[name][1])
        f = lambda w, a, x: jax.flatten_util.ravel_pytree(step_of(name)(unravel_w(w), unravel_a(a), x))[0]
        by_both = jax.jit(jax.jacrev(f, (0, 1)))
        self.states, self.Mbar, self.J, a = [], [], [], first
        for t, x in enumerate(xs):
            a = first if t in resets else a
            Mbar, J = by_both(w, a, x)
            a = f(w, a, x)
            self.Mbar.append(np.asarray(Mbar))
            self.J.append(np.asarray(J) * (t not in resets))
            self.states.append(a)
        # Where Mbar and J can be nonzero: where they are at one of many points, of all sizes.
        self.P, self.heard = np.zeros(self.Mbar[0].shape, bool), np.zeros(self.J[0].shape, bool)
        for number in range(60):
            keys, size = jax.random.split(jax.random.key(number), 3), (0.1, 0.5, 1.0, 3.0)[number % 4]
            each = zip(keys, (w, first, xs[0]), strict=True)
            Mbar, J = by_both(*(size * jax.random.normal(key, like.shape) for key, like in each))
            self.P |= np.asarray(Mbar) != 0
            self.heard |= np.asarray(J) != 0

    def gradients(self, ys, P=None, mask_J=False, present=None):
        """Each step's gradient cbar M; with `mask_J` by a wrong rule, where no entry of the state acts on another."""
        P, M, found = self.P if P is None else P, np.zeros(self.P.shape), []
        shown = lambda a: self.cell.show(self.cell.split(a))
        for t, (J, Mbar) in enumerate(zip(self.J, self.Mbar, strict=True)):
            M = P * ((np.diag(np.diag(J)) if mask_J else J) @ M + Mbar)
            cbar = jax.grad(lambda a, t=t: unrolled.loss(self.weights.readout, shown(a), ys[t]))(self.states[t])
            found.append(np.asarray(cbar) * (present is None or present[t]) @ M)
        return found, M


def setting(name):
    return problem(lambda n_in, n: cell_of(name), steps=STEPS)


def apart(found, expected):
    return max(distance(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", often(CELLS, "reset before", "lstm", "outer"))
def test_every_step_is_rtrl_masked_to_what_a_weight_reaches_in_one_step(name):
    network, weights, xs, ys = setting(name)
    visited = drive(network, rc.SnAp1(), weights, xs, ys)
    found = [flat(gradient) for gradient, _, _ in visited]
    oracle = Dense(name, weights, xs)
    expected, M = oracle.gradients(ys)
    assert apart(found, expected) < 1e-12
    dense = rc.SnAp1().influence(network.cell, weights.cell, visited[-1][1])
    rows = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(dense)]
    assert distance(np.concatenate(rows, axis=1), M) < 1e-12
    # Wrong rules: the mask left out, which is RTRL, and J's other entries left out; both where that is not the same.
    unmasked, _ = oracle.gradients(ys, P=np.ones_like(oracle.P))
    exact = [flat(gradient) for gradient, _, _ in drive(network, rc.RTRL(), weights, xs, ys)]
    assert apart(exact, unmasked) < 1e-12
    assert (apart(found, unmasked) > 1e-4) == (name != "diagonal")
    without, _ = oracle.gradients(ys, mask_J=True)
    assert (apart(found, without) > 1e-4) == (name != "gru")


@pytest.mark.parametrize("name", often(CELLS, "low rank", "layer norm", "outer"))
def test_what_reaches_what_is_where_derivatives_can_be_nonzero(name):
    network, weights, xs, _ = setting(name)
    oracle = Dense(name, weights, xs[:1])
    found = reach(*description(network.cell, weights.cell))
    for rows, pattern in ((found.weights, oracle.P), (found.state, oracle.heard)):
        table = np.zeros(pattern.shape, bool)
        for row, each in zip(table, rows, strict=True):
            row[each] = True
        assert np.array_equal(table, pattern)


def as_unitwise(weights):
    """Weights of Equinox's GRU, or a gradient for them, as those of `rc.GRU`."""
    gate = lambda W, g: W[g * N : (g + 1) * N]
    hh, ih, bias, bias_n = weights.weight_hh, weights.weight_ih, weights.bias, weights.bias_n
    r, z = (rc.cells.Sources(gate(hh, g), gate(ih, g), gate(bias, g)[:, None]) for g in (0, 1))
    h_n, x_n = (gate(hh, 2), None, bias_n[:, None]), (None, gate(ih, 2), gate(bias, 2)[:, None])
    return r, z, rc.cells.Sources(*h_n), rc.cells.Sources(*x_n)


def test_on_a_gru_it_is_the_unitwise_rule():
    network, weights, xs, ys = setting("gru")
    general = [gradient for gradient, _, _ in drive(network, rc.SnAp1(), weights, xs, ys)]
    unitwise = rc.Network(rc.GRU(N_IN, N), 2)
    same = weights._replace(cell=as_unitwise(weights.cell))
    by_unit = lambda learner: [gradient for gradient, _, _ in drive(unitwise, learner, same, xs, ys)]
    assert apart(list(map(as_unitwise, general)), by_unit(rc.SnAp1())) < 1e-12
    assert apart(list(map(as_unitwise, general)), by_unit(rc.RFLO())) > 1e-3


def test_memory_and_products_follow_how_many_entries_weights_reach():
    sizes = {}
    for name in ("gru", "reset before", "layer norm", "diagonal"):
        cell = cell_of(name)
        P = snap_1_general.pattern(cell, cell.weights)
        state = rc.SnAp1().init(cell, cell.weights, jax.random.key(0), 2)
        numbers = sum(leaf.size for leaf in jax.tree.leaves(state))
        sizes[name] = (numbers, len(P.Mbar.sums("float64")), len(P.J.sums("float64")))
    of_reset = N * (N + N_IN)
    assert sizes["gru"] == (3 * of_reset + 4 * N, 1, N)
    assert sizes["reset before"] == (N * of_reset + 2 * of_reset, N, N)
    assert sizes["layer norm"] == (N * of_reset + 2 * N, N, N)
    assert sizes["diagonal"] == (2 * N * (1 + N_IN), 2, 2)


def test_it_is_found_once_and_within_any_transformation():
    cell = cell_of("lstm")
    eager = snap_1_general.pattern(cell, cell.weights)
    seen = []

    @jax.jit
    @jax.vmap
    def within(weights):
        traced = eqx.tree_at(lambda cell: cell.weights, cell, weights)
        seen.append(snap_1_general.pattern(traced, weights))
        return rc.SnAp1().init(traced, weights, jax.random.key(0), 2)

    within(jax.tree.map(lambda w: jnp.stack([w, 0 * w]), cell.weights))
    assert seen == [eager]


@pytest.mark.parametrize("name", often(["reset before", "stack"], "reset before"))
def test_resets_and_missing_labels(name):
    network, weights, xs, ys = setting(name)
    reset, present = np.arange(STEPS) == 3, np.array([True, True, False, True, True, False])
    visited = take_steps(network, rc.SnAp1(), weights, xs, ys, reset=reset, present=present)
    found = [flat(gradient) for gradient in gradients(visited)]
    expected, _ = Dense(name, weights, xs, resets=[3]).gradients(ys, present=present)
    assert max(np.linalg.norm(x - y) for x, y in zip(found, expected, strict=True)) < 1e-12 * np.linalg.norm(expected)
    never, _ = Dense(name, weights, xs).gradients(ys, present=present)
    assert distance(found[4], never[4]) > 1e-3


def test_m_is_zero_after_a_reset():
    network, weights, xs, ys = setting("lstm")
    (_, M, _), (_, _, tick) = drive(network, rc.SnAp1(), weights, xs[:2], ys[:2])
    anew = rc.SnAp1().step(dataclasses.replace(tick, reset=jnp.array(True)), M, None)[1]
    zero = jax.tree.map(jnp.zeros_like, M)
    assert distance(anew, rc.SnAp1().advance(tick, zero, None)) < 1e-12
    assert distance(anew, rc.SnAp1().advance(tick, M, None)) > 1e-3


def test_streams_have_influences_of_their_own():
    network, weights, xs, ys = setting("lstm")
    streams = jnp.stack([xs, xs[::-1]], axis=1), jnp.stack([ys, ys[::-1]], axis=1)
    together = gradients(take_steps(network, rc.SnAp1(), weights, *streams, streams=2))
    alone = [gradients(take_steps(network, rc.SnAp1(), weights, x, y)) for x, y in ((xs, ys), (xs[::-1], ys[::-1]))]
    means = [jax.tree.map(lambda *g: sum(g) / 2, *each) for each in zip(*alone, strict=True)]
    assert apart(together, means) < 1e-12
    assert apart(together, alone[0]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reset before", "lstm"])
def test_seeds_are_what_they_are_one_by_one(name):
    network = rc.Network(cell_of(name), 2)
    train = lambda seeds: rc.train(
        network, rc.SnAp1(), rc.Add(1, 2), steps=12, seeds=seeds, optimizer=0.1, streams=2, progress=False
    )
    both, alone = train(2), train([1])
    assert distance(jax.tree.map(lambda leaf: leaf[1:], both.weights), alone.weights) < 1e-12
    assert distance(jax.tree.map(lambda leaf: leaf[:1], both.weights), alone.weights) > 1e-3


class Masked(eqx.Module):
    """Weights at some places only, by a constant mask, and operations that no table here lists."""

    W: jax.Array
    b: jax.Array
    d: jax.Array
    mask: jax.Array

    def __call__(self, x, h):
        heard = jnp.where(self.mask, self.W, 0.0) @ h
        either = jax.lax.cond(x[0] > 0, jnp.sin, lambda h: h * self.b, h)
        return jnp.tanh(heard + either) + jnp.sort(self.d)


def test_masks_branches_and_operations_that_are_not_known():
    mask = jnp.array([[True, False, True], [False, True, False], [False, False, False]])
    cell = rc.cell_of(Masked(normal(KEY, N, N), jnp.ones(N), jnp.ones(N), mask), carry=ZEROS, x=N_IN, unitwise=False)
    found = reach(*description(cell, cell.weights))
    b, d = N * N + np.arange(N), N * N + N + np.arange(N)  # `sort` is taken to mix all that it is given
    expected = [[0, 2, b[0], *d], [4, b[1], *d], [b[2], *d]]
    assert all(np.array_equal(row, each) for row, each in zip(found.weights, expected, strict=True))

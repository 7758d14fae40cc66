"""Learners that join predicted or backpropagated credit with traces: Edge-BPTT, e-prop 3 and BP(λ).

Oracles are autodiff through the unrolled network, and dense tensors in NumPy from the textbook cells' Jacobians.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dense
import recurra as rc
import unrolled
from driving import distance, drive, flat, problem
from recurra.learners.base import About, FutureFacing
from recurra.learners.bp_lambda import BPLambda
from recurra.learners.bp_lambda_local import LocalBPLambda
from recurra.learners.e_prop_3 import EProp3
from recurra.learners.edge_bptt import EdgeBPTT
from recurra.learners.history import no_credit
from recurra.step import APPLIED
from taking_steps import compiled_step, gradients, take_steps
from unrolled import CELLS

STEPS, T = 8, 4
RESETS = (3, 6)
PRESENT = np.array([1, 1, 0, 1, 0, 1, 1, 1], bool)
EVENTS = {"reset": np.isin(np.arange(STEPS), RESETS), "present": PRESENT}
# An LSTM has all there is: two variables, one of which no unit reads, and four gates.
SLOW = [pytest.param(cell, marks=pytest.mark.slow) for cell in ("leaky rnn", "gru")]
EACH = pytest.mark.parametrize("cell", ["lstm", *SLOW])


def setting(cell, **events):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=STEPS)
    return network, weights, xs, ys, dense.Trajectory(step, weights, network.cell.init_state(), xs, ys, **events)


def leaks(cell, path):
    """H at every step: J of a network whose units hear the same through their biases and nothing of each other."""
    _, step = CELLS[cell]
    n, found = path.n, []

    def jacobian(a, x):
        heard = tuple(
            gate if gate.rec is None else gate._replace(rec=0 * gate.rec, bias=gate.bias + gate.rec @ a[:n, None])
            for gate in path.weights.cell
        )
        apart = lambda a: tuple(a.reshape(-1, n))
        return jax.jacobian(lambda a: jnp.concatenate(step(jax.lax.stop_gradient(heard), apart(a), x)))(a)

    jacobian = jax.jit(jacobian)
    for t, (a, x) in enumerate(zip(path.before, path.xs, strict=True)):
        found.append(np.asarray(jacobian(jnp.asarray(a), jnp.asarray(x))) * (t not in path.resets))
    return found


def traces(H, Mbar):
    """B = H B + Mbar at every step, and zero before the first one."""
    found = [np.zeros_like(Mbar[0])]
    for h, m in zip(H, Mbar, strict=True):
        found.append(h @ found[-1] + m)
    return found


def off(ours, theirs):
    """The largest distance over steps, relative to the gradient's size on average."""
    size = np.mean([np.linalg.norm(g) for g in theirs])
    return max(np.linalg.norm(flat(x) - y) for x, y in zip(ours, theirs, strict=True)) / size


def ends(found):
    return found[T - 1 :: T]


# Backpropagation with a trace at its far edge.


def beyond_the_edge(path, M):
    """E-BPTT's gradients and c(s) J(s) M(s-1), for the segments of T steps that begin at s. M[t] is that before t."""
    found = []
    for e, inside in zip(range(T - 1, STEPS, T), ends(dense.efficient_bptt(path, T)), strict=True):
        c = 0
        for s in range(e, e - T, -1):
            c = (path.cbar[s] + c) @ path.J[s]
        found.append(inside + c @ M[e - T + 1])
    return found


@EACH
def test_with_rtrl_at_its_edge_bptt_gives_rtrl_s_gradients_summed(cell):
    network, weights, xs, ys, path = setting(cell, resets=RESETS, present=PRESENT)
    found = ends(gradients(take_steps(network, EdgeBPTT(T, rc.RTRL()), weights, xs, ys, **EVENTS)))
    summed = [sum(dense.rtrl(path)[i : i + T]) for i in range(0, STEPS, T)]
    assert off(found, summed) < 1e-10
    assert off(found, ends(dense.efficient_bptt(path, T))) > 1e-3
    never = setting(cell, present=PRESENT)[-1]
    assert off(found, [sum(dense.rtrl(never)[i : i + T]) for i in range(0, STEPS, T)]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["leaky rnn", "gru", "lstm"])
def test_with_rflo_at_its_edge_the_trace_goes_on_from_there(cell):
    network, weights, xs, ys, path = setting(cell)
    found = ends(gradients(take_steps(network, EdgeBPTT(T), weights, xs, ys)))
    B = traces(leaks(cell, path), path.Mbar)
    assert off(found, beyond_the_edge(path, B)) < 1e-10
    late, none = [B[0], *B[:-1]], [0 * b for b in B]
    for wrong in (late, none, traces(path.J, path.Mbar)):
        assert off(found[1:], beyond_the_edge(path, wrong)[1:]) > 1e-3
    assert off(found[:1], beyond_the_edge(path, none)[:1]) < 1e-10  # nothing lies beyond the first segment


def test_over_one_step_it_is_rflo_with_one_step_of_backpropagation():
    """T = 1: cbar (J B + Mbar), where RFLO has cbar (H B + Mbar); without recurrent weights they coincide."""
    network, weights, xs, ys, path = setting("leaky rnn")
    B = traces(leaks("leaky rnn", path), path.Mbar)
    found = gradients(take_steps(network, EdgeBPTT(1), weights, xs, ys))
    assert off(found, [c @ (J @ b + m) for c, J, b, m in zip(path.cbar, path.J, B, path.Mbar, strict=False)]) < 1e-10
    rflo = lambda weights: gradients(take_steps(network, rc.RFLO(), weights, xs, ys))
    assert max(map(distance, found, rflo(weights))) > 1e-3
    alone = weights._replace(cell=tuple(gate._replace(rec=0 * gate.rec) for gate in weights.cell))
    assert max(map(distance, gradients(take_steps(network, EdgeBPTT(1), alone, xs, ys)), rflo(alone))) < 1e-10


@pytest.mark.slow
def test_with_uoro_at_its_edge_it_is_unbiased():
    """The mean over every pattern of signs is exact. That of E-BPTT, which has no noise, is not."""
    network, weights, xs, ys = problem(CELLS["leaky rnn"][0], n=2, steps=4)
    learner = EdgeBPTT(2, rc.UORO(initial_scale=0.0))
    patterns = jnp.array(list(itertools.product((-1.0, 1.0), repeat=8))).reshape(-1, 4, 2)
    last = jax.vmap(lambda nu: drive(network, learner, weights, xs, ys, noise=(nu,))[-1][0])(patterns)
    path = dense.Trajectory(CELLS["leaky rnn"][1], weights, network.cell.init_state(), xs, ys)
    exact, mean = sum(dense.rtrl(path)[2:]), flat(jax.tree.map(lambda leaf: leaf.mean(0), last))
    assert distance(mean, exact) < 1e-10
    assert distance(dense.efficient_bptt(path, 2)[-1], exact) > 1e-3
    assert distance(flat(jax.tree.map(lambda leaf: leaf[0], last)), exact) > 1e-3


# e-prop 3.


class Told(FutureFacing):
    """Credit as its state says for every step."""

    about = About("told", "Told")

    def init(self, cell, weights, key, n_out):
        return no_credit(cell, STEPS)

    def credit(self, tick, state):
        return tuple(rows[tick.t] for rows in state), tick.trace, state


class ToldEProp3(EProp3):
    @property
    def _predictor(self):
        return Told()


def exact_credit(step, network, weights, xs, ys):
    """c(t) = d(L(t) + L(t+1) + ···)/da(t), by autodiff in a perturbation of every state."""
    a0 = network.cell.init_state()

    def total(shifts):
        a, L = a0, 0.0
        for t in range(len(xs)):
            a = tuple(map(jnp.add, step(weights.cell, a, xs[t]), (rows[t] for rows in shifts)))
            L = L + unrolled.loss(weights.readout, a[0], ys[t])
        return L

    return jax.jit(jax.grad(total))(tuple(jnp.zeros((len(xs), len(a))) for a in a0))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["leaky rnn", "gru", "lstm"])
def test_on_exact_credit_e_prop_3_is_backpropagation(cell):
    network, weights, xs, ys, path = setting(cell)
    c = exact_credit(CELLS[cell][1], network, weights, xs, ys)
    start = ToldEProp3().init(network.cell, weights.cell, jax.random.key(1), 2)

    def total(c):
        told = start._replace(synthesizer=c)
        return sum(map(flat, gradients(take_steps(network, ToldEProp3(), weights, xs, ys, start=told))))

    exact = sum(dense.rtrl(path))
    assert distance(total(c), exact) < 1e-10
    late = tuple(jnp.roll(rows, 1, axis=0) for rows in c)
    immediate = tuple(jnp.asarray(part) for part in np.stack(path.cbar).reshape(STEPS, -1, 3).swapaxes(0, 1))
    for wrong in (late, immediate, jax.tree.map(lambda rows: 0 * rows, c)):
        assert distance(total(wrong), exact) > 1e-3


@EACH
def test_e_prop_3_step_by_step(cell):
    """cbar B + (A ã) R B' with the A that DNI has at each step, over resets and missing labels; and the limit A = 0."""
    network, weights, xs, ys, path = setting(cell, resets=RESETS, present=PRESENT)
    learner = EProp3(0.1, 3)
    start = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    visited = take_steps(network, learner, weights, xs, ys, start=start, **EVENTS)
    found = gradients(visited)
    dni = take_steps(network, rc.DNI(0.1, 3), weights, xs, ys, start=start.synthesizer, **EVENTS)
    A = [_block(state.learners[APPLIED].A) for _, state in dni]
    H = leaks(cell, path)
    B = traces(H, path.Mbar)

    def expected(A, shift=0):
        c = [A[t] @ path.features(t) for t in range(STEPS)]
        return [path.cbar[t] @ B[t + 1] + c[t] @ (path.J[t] - H[t]) @ B[t - shift] for t in range(STEPS)]

    assert off(found, expected(A)) < 1e-10
    for wrong in (expected([A[0]] * STEPS), expected(A, shift=1), expected([0 * a for a in A])):
        assert off(found, wrong) > 1e-3

    silent = start._replace(synthesizer=jax.tree.map(jnp.zeros_like, start.synthesizer))
    ours = gradients(take_steps(network, EProp3(0.0), weights, xs, ys, start=silent, **EVENTS))
    rflo = gradients(take_steps(network, rc.RFLO(), weights, xs, ys, **EVENTS))
    labelled = np.flatnonzero(PRESENT)
    assert max(distance(ours[t], rflo[t]) for t in labelled) < 1e-12
    assert all(np.linalg.norm(flat(ours[t])) == 0 for t in np.flatnonzero(~PRESENT))


# BP(λ).


def test_bp_0_is_dni_with_a_target_of_its_own_step():
    network, weights, xs, ys, _ = setting("leaky rnn")
    start = BPLambda().init(network.cell, weights.cell, jax.random.key(1), 2)
    dni = rc.DNI().init(network.cell, weights.cell, jax.random.key(1), 2)
    run = lambda learner, start: gradients(take_steps(network, learner, weights, xs, ys, start=start, **EVENTS))
    theirs = run(rc.DNI(0.1, target_interval=1), dni)
    assert max(map(distance, run(BPLambda(0.1, lam=0.0, gamma=1.0), start), theirs)) < 1e-10
    for wrong in (BPLambda(0.1, lam=0.1), BPLambda(0.1, lam=0.0, gamma=0.9)):
        assert max(map(distance, run(wrong, start), theirs)) > 1e-4


def td_errors(network, learner, weights, xs, ys, A):
    """Σ δ E, from how far A moves in each step; it is put back after each."""
    step, one = compiled_step(network, learner, 0.0, 1)
    first = learner.init(network.cell, weights.cell, jax.random.key(1), 2)
    state, moved = step.init(jax.random.key(1))._replace(weights=weights, learners={APPLIED: first}), 0
    for t in range(STEPS):
        state, _ = one(state, xs[t], ys[t], {APPLIED: None}, EVENTS["reset"][t], PRESENT[t])
        after = state.learners[APPLIED]
        moved = moved + (_block(after.A) - _block(A)) / learner.learning_rate
        state = state._replace(learners={APPLIED: after._replace(A=A)})
    return moved


def _block(A):
    return np.block([[np.asarray(block) for block in row] for row in A])


def lambda_returns(path, A, lam, gamma, back=None):
    """Σ (G - A ã) ⊗ ã, G(s) = cbar(s) + γ ((1 - λ) A ã(s+1) + λ G(s+1)) J(s+1), bootstrapped at the last step.

    `back` stands for J where an error is carried back over several steps, G(s) - A ã(s) = δ(s) + γλ (G - A ã)(s+1) J.
    """
    features = [path.features(t) for t in range(STEPS)]
    # DNI's convention: the step before the first one has the first label, and no credit of its own.
    features = [np.concatenate([path.before[0][: path.n], features[0][path.n :]]), *features]
    cbar, found, more = [np.zeros(path.width), *path.cbar], 0, np.zeros(path.width)
    for s in range(STEPS - 1, -1, -1):
        now, after = A @ features[s], A @ features[s + 1]
        if back is None:
            G = cbar[s] + gamma * ((1 - lam) * after + lam * (more + after)) @ path.J[s]
            more = G - now
        else:
            more = cbar[s] + gamma * after @ path.J[s] - now + gamma * lam * more @ back[s]
        found = found + np.outer(more, features[s])
    return found


@EACH
def test_with_a_frozen_predictor_the_errors_add_up_to_those_of_lambda_returns(cell):
    network, weights, xs, ys, path = setting(cell, resets=RESETS, present=PRESENT)
    A = BPLambda().init(network.cell, weights.cell, jax.random.key(1), 2).A
    lam, gamma = 0.8, 0.9
    found = td_errors(network, BPLambda(0.5, lam, gamma), weights, xs, ys, A)
    assert distance(found, lambda_returns(path, _block(A), lam, gamma)) < 1e-10
    for wrong in ((0.7, 0.9), (0.8, 0.8), (0.0, 0.9)):
        assert distance(found, lambda_returns(path, _block(A), *wrong)) > 1e-3
    never = setting(cell, present=PRESENT)[-1]
    assert distance(found, lambda_returns(never, _block(A), lam, gamma)) > 1e-3

    local = td_errors(network, LocalBPLambda(0.5, lam, gamma), weights, xs, ys, A)
    assert distance(local, lambda_returns(path, _block(A), lam, gamma, leaks(cell, path))) < 1e-10
    assert distance(local, found) > 1e-3


@pytest.mark.slow
def test_bp_lambda_takes_any_cell():
    key = jax.random.key(3)
    cell = rc.cell_of(eqx.nn.LSTMCell(2, 3, key=key), carry=(jnp.zeros(3), jnp.zeros(3)), x=2, unitwise=False)
    network, weights, xs, ys = problem(lambda n_in, n: cell, steps=3)
    dni = gradients(take_steps(network, rc.DNI(0.1, 1), weights, xs, ys))
    ours = gradients(take_steps(network, BPLambda(0.1, 0.0), weights, xs, ys))
    assert max(map(distance, ours, dni)) < 1e-10


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EdgeBPTT(0), "`T` of EdgeBPTT must be at least 1"),
        (lambda: EProp3(-1.0), "`learning_rate` of EProp3 must be at least 0"),
        (lambda: EProp3(target_interval=0), "`target_interval` of EProp3 must be at least 1"),
        (lambda: BPLambda(lam=1.5), "`lam` of BPLambda must be at least 0.0 and at most 1.0"),
        (lambda: BPLambda(gamma=float("nan")), "`gamma` of BPLambda must be"),
    ],
)
def test_errors(make, said):
    with pytest.raises(ValueError, match=said):
        make()

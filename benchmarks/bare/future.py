"""The algorithms that face the future, c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar; and no algorithm at all."""

import jax
import jax.numpy as jnp

from bare.cells import Sources, outer, width
from bare.loop import N_OUT, Algorithm, silent

HORIZON = 10
SYNTHESIS_RATE, JACOBIAN_RATE, INTERVAL = 1e-3, 1e-3, 5


# E-BPTT: every T steps, the gradient of the last T losses.


def e_bptt(s, history, noise):
    now, slot = (s.local, s.ahat.rec, s.ahat.inp, s.cbar), s.t % HORIZON
    history = jax.tree.map(lambda rows, row: rows.at[slot].set(row), history, now)

    def backward():
        def back(c, step):
            local, cbar = step
            c = (c[0] + cbar, *c[1:])
            through_z = s.cell.credit(local, c)
            return s.cell.pull_gates(s.W, local, c, through_z), through_z

        local, befores, xs, cbars = history
        none = jax.tree.map(jnp.zeros_like, s.a)
        _, through_z = jax.lax.scan(back, none, (local, cbars), reverse=True)
        return s.descend_along(through_z, Sources(befores, xs, jnp.ones(HORIZON)))

    return jax.lax.cond(slot == HORIZON - 1, backward, lambda: s.W), history


def e_bptt_start(key, cell, W):
    return *cell.no_steps(W, HORIZON), jnp.zeros((HORIZON, width(W)))


E_BPTT = Algorithm(e_bptt_start, silent, e_bptt)


# F-BPTT: at step t, the gradient of the losses t-T..t in the weights applied at t-T.


def f_bptt(s, history, noise):
    *steps, credit = history
    slot = lambda lag: (s.t - lag) % (HORIZON + 1)
    put = lambda rows, row: rows.at[slot(0)].set(row)
    steps = local, befores, xs = jax.tree.map(put, tuple(steps), (s.local, s.ahat.rec, s.ahat.inp))
    at = lambda lag: jax.tree.map(lambda rows: rows[slot(lag)], local)
    reached = [(s.cbar, *map(jnp.zeros_like, s.a[1:]))]
    for lag in range(HORIZON):
        reached.append(s.cell.pull(s.W, at(lag), reached[-1]))
    later = lambda rows: jnp.concatenate([rows[1:], jnp.zeros_like(rows[:1])])
    each = zip(credit, zip(*reached, strict=True), strict=True)
    credit = tuple(later(old) + jnp.stack(new[::-1]) for old, new in each)
    c = tuple(jnp.where(s.t >= HORIZON, rows[0], 0) for rows in credit)
    oldest = slot(HORIZON)
    ahat = Sources(befores[oldest], xs[oldest], jnp.ones(()))
    return s.descend_along(s.cell.credit(at(HORIZON), c), ahat), (*steps, credit)


def f_bptt_start(key, cell, W):
    return *cell.no_steps(W, HORIZON + 1), (jnp.zeros((HORIZON + 1, width(W))),) * cell.states


F_BPTT = Algorithm(f_bptt_start, silent, f_bptt)


# DNI: c[p] ≈ A[p] ã with ã = (a, y*, 1), fitted to cbar(t-1) + (A* ã(t)) J(t).


def apply(A, a, label):
    """A ã."""
    return tuple(rows.rec @ a[0] + rows.inp @ label + rows.bias for rows in A)


def synthesize(s, A, A_star, label, cbar, target):
    """A one step nearer to the target for the previous step, and A* renewed every few steps."""
    label = jnp.where(s.t == 0, s.label, label)
    features = Sources(s.before[0], label, jnp.ones(()))
    errors = map(jnp.subtract, apply(A, s.before, label), target)
    A = jax.tree.map(jnp.subtract, A, tuple(outer(SYNTHESIS_RATE * error, features) for error in errors))
    A_star = jax.lax.cond((s.t + 1) % INTERVAL == 0, lambda: A, lambda: A_star)
    return A, A_star, s.label, cbar


def dni(s, state, noise):
    A, A_star, label, cbar = state
    seen, *kept = s.cell.pull(s.W, s.local, apply(A_star, s.a, s.label))
    state = synthesize(s, A, A_star, label, s.cbar, (cbar + seen, *kept))
    credit = s.cell.credit(s.local, apply(state[0], s.a, s.label))
    return s.descend_along(credit, s.ahat), state


def first_synthesizer(key, variables, n):
    """For so many state variables."""
    A = jax.random.normal(key, (variables, n, n + N_OUT + 1)) / n**0.5
    A = tuple(Sources(rows[:, :n], rows[:, n:-1], rows[:, -1]) for rows in A)
    return A, A, jnp.zeros(N_OUT), jnp.zeros(n)


DNI = Algorithm(lambda key, cell, W: first_synthesizer(key, cell.states, width(W)), silent, dni)


# DNI(b): tanh on the bootstrap, random feedback, and J of what other units see learned by the perceptron rule.


def dni_b(s, state, noise):
    (A, A_star, label, cbar), J, W_fb = state
    J = J - JACOBIAN_RATE * jnp.outer(J @ s.before[0] - s.a[0], s.before[0])
    target = cbar + jnp.tanh(apply(A_star, s.a, s.label)[0]) @ J
    synthesizer = synthesize(s, A, A_star, label, s.error @ W_fb, (target,))
    credit = s.cell.credit(s.local, (*apply(synthesizer[0], s.a, s.label), *(None for _ in s.a[1:])))
    return s.descend_along(credit, s.ahat), (synthesizer, J, W_fb)


def dni_b_start(key, cell, W):
    key_A, key_fb = jax.random.split(key)
    n, seeing = width(W), cell.seeing(W)
    W_fb = jax.random.normal(key_fb, (N_OUT, n)) / N_OUT**0.5
    return first_synthesizer(key_A, 1, n), sum(gate.rec for gate in seeing) / len(seeing), W_fb


DNI_B = Algorithm(dni_b_start, silent, dni_b)


# Fixed: only the readout learns.

FIXED = Algorithm(lambda key, cell, W: None, silent, lambda s, state, noise: (s.W, None))

"""The algorithms that face the future, c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar; and no algorithm at all."""

import jax
import jax.numpy as jnp

from bare.loop import N_IN, N_OUT, Algorithm, Sources, descend, outer
from bare.past import silent

HORIZON = 10
SYNTHESIS_RATE, JACOBIAN_RATE, INTERVAL = 1e-3, 1e-3, 5


def pull(s, D, c):
    """c J, where J has the present weights and a step's D."""
    return (1 - s.alpha) * c + (c * D) @ s.W.rec


# E-BPTT: every T steps, the gradient of the last T losses.


def e_bptt(s, history, noise):
    now, slot = (s.D, s.ahat.rec, s.ahat.inp, s.cbar), s.t % HORIZON
    history = tuple(rows.at[slot].set(row) for rows, row in zip(history, now, strict=True))

    def backward():
        def back(c, step):
            D, cbar = step
            c = c + cbar
            return pull(s, D, c), c

        Ds, befores, xs, cbars = history
        _, credit = jax.lax.scan(back, jnp.zeros_like(s.a), (Ds, cbars), reverse=True)
        through_z = (credit * Ds).T
        bias = (through_z @ jnp.ones((HORIZON, 1)))[:, 0]  # a sum would become a library call, and slow the loop
        return descend(s.W, Sources(through_z @ befores, through_z @ xs, bias))

    return jax.lax.cond(slot == HORIZON - 1, backward, lambda: s.W), history


def empty(W, steps):
    """So many steps of D, a(t-1), x and credit, all zero."""
    n = len(W.bias)
    return tuple(jnp.zeros((steps, width)) for width in (n, n, N_IN, n))


E_BPTT = Algorithm(lambda key, W: empty(W, HORIZON), silent, e_bptt)


# F-BPTT: at step t, the gradient of the losses t-T..t in the weights applied at t-T.


def f_bptt(s, history, noise):
    now = (s.D, s.ahat.rec, s.ahat.inp, jnp.zeros_like(s.a))
    shift = lambda rows, row: jnp.concatenate([rows[1:], row[None]])
    Ds, befores, xs, credit = map(shift, history, now)
    reached = [s.cbar]
    for lag in range(HORIZON):
        reached.append(pull(s, Ds[HORIZON - lag], reached[-1]))
    credit = credit + jnp.stack(reached[::-1])
    c = jnp.where(s.t >= HORIZON, credit[0], 0)
    ahat = Sources(befores[0], xs[0], jnp.ones(()))
    return descend(s.W, outer(c * Ds[0], ahat)), (Ds, befores, xs, credit)


F_BPTT = Algorithm(lambda key, W: empty(W, HORIZON + 1), silent, f_bptt)


# DNI: c ≈ A ã with ã = (a, y*, 1), fitted to cbar(t-1) + (A* ã(t)) J(t).


def apply(A, a, label):
    """A ã."""
    return A.rec @ a + A.inp @ label + A.bias


def synthesize(s, A, A_star, label, cbar, target):
    """A one step nearer to the target for the previous step, and A* renewed every few steps."""
    label = jnp.where(s.t == 0, s.label, label)
    error = SYNTHESIS_RATE * (apply(A, s.before, label) - target)
    A = jax.tree.map(jnp.subtract, A, outer(error, Sources(s.before, label, jnp.ones(()))))
    A_star = jax.lax.cond((s.t + 1) % INTERVAL == 0, lambda: A, lambda: A_star)
    return A, A_star, s.label, cbar


def dni(s, state, noise):
    A, A_star, label, cbar = state
    target = cbar + pull(s, s.D, apply(A_star, s.a, s.label))
    state = synthesize(s, A, A_star, label, s.cbar, target)
    return descend(s.W, outer(apply(state[0], s.a, s.label) * s.D, s.ahat)), state


def dni_start(key, W):
    n = len(W.bias)
    A = jax.random.normal(key, (n, n + N_OUT + 1)) / n**0.5
    A = Sources(A[:, :n], A[:, n:-1], A[:, -1])
    return A, A, jnp.zeros(N_OUT), jnp.zeros(n)


DNI = Algorithm(dni_start, silent, dni)


# DNI(b): tanh on the bootstrap, random feedback, and J learned by the perceptron rule.


def dni_b(s, state, noise):
    (A, A_star, label, cbar), J, W_fb = state
    J = J - JACOBIAN_RATE * jnp.outer(J @ s.before - s.a, s.before)
    target = cbar + jnp.tanh(apply(A_star, s.a, s.label)) @ J
    synthesizer = synthesize(s, A, A_star, label, s.error @ W_fb, target)
    return descend(s.W, outer(apply(synthesizer[0], s.a, s.label) * s.D, s.ahat)), (synthesizer, J, W_fb)


def dni_b_start(key, W):
    key_A, key_fb = jax.random.split(key)
    return dni_start(key_A, W), W.rec, jax.random.normal(key_fb, (N_OUT, len(W.bias))) / N_OUT**0.5


DNI_B = Algorithm(dni_b_start, silent, dni_b)


# Fixed: only the readout learns.

FIXED = Algorithm(lambda key, W: None, silent, lambda s, state, noise: (s.W, None))

"""The algorithms that face the future, c(t) = cbar(t) + c(t+1) J(t+1), gradient = c Mbar; and no algorithm at all."""

import jax
import jax.numpy as jnp

from bare.loop import M, N, N_OUT, RATE, Algorithm
from bare.past import silent

HORIZON = 10
SYNTHESIS_RATE, JACOBIAN_RATE, INTERVAL = 1e-3, 1e-3, 5


def pull(s, D, c):
    """c J, where J has the present weights and a step's D."""
    return (1 - s.alpha) * c + (c * D) @ s.W[:, :N]


# E-BPTT: every T steps, the gradient of the last T losses.


def e_bptt(s, history, noise):
    now, slot = (s.D, s.ahat, s.cbar), s.t % HORIZON
    history = tuple(rows.at[slot].set(row) for rows, row in zip(history, now, strict=True))

    def backward():
        def back(c, step):
            D, cbar = step
            c = c + cbar
            return pull(s, D, c), c * D

        Ds, ahats, cbars = history
        _, through_z = jax.lax.scan(back, jnp.zeros(N), (Ds, cbars), reverse=True)
        return s.W - RATE * through_z.T @ ahats

    return jax.lax.cond(slot == HORIZON - 1, backward, lambda: s.W), history


def e_bptt_start(key, W):
    return jnp.zeros((HORIZON, N)), jnp.zeros((HORIZON, M)), jnp.zeros((HORIZON, N))


E_BPTT = Algorithm(e_bptt_start, silent, e_bptt)


# F-BPTT: at step t, the gradient of the losses t-T..t in the weights applied at t-T.


def f_bptt(s, history, noise):
    Ds, ahats, credit = history
    Ds = jnp.concatenate([Ds[1:], s.D[None]])
    ahats = jnp.concatenate([ahats[1:], s.ahat[None]])
    reached = [s.cbar]
    for lag in range(HORIZON):
        reached.append(pull(s, Ds[HORIZON - lag], reached[-1]))
    credit = jnp.concatenate([credit[1:], jnp.zeros((1, N))]) + jnp.stack(reached[::-1])
    c = jnp.where(s.t >= HORIZON, credit[0], 0)
    return s.W - RATE * jnp.outer(c * Ds[0], ahats[0]), (Ds, ahats, credit)


def f_bptt_start(key, W):
    return jnp.zeros((HORIZON + 1, N)), jnp.zeros((HORIZON + 1, M)), jnp.zeros((HORIZON + 1, N))


F_BPTT = Algorithm(f_bptt_start, silent, f_bptt)


# DNI: c ≈ A (a, y*, 1), fitted to cbar(t-1) + (A* ã(t)) J(t).


def synthesize(s, A, A_star, label, cbar, target):
    """A one step nearer to the target for the previous step, and A* renewed every few steps."""
    label = jnp.where(s.t == 0, s.label, label)
    ã = jnp.concatenate([s.before, label, jnp.ones(1)])
    A = A - SYNTHESIS_RATE * jnp.outer(A @ ã - target, ã)
    A_star = jax.lax.cond((s.t + 1) % INTERVAL == 0, lambda: A, lambda: A_star)
    return A, A_star, s.label, cbar


def dni(s, state, noise):
    A, A_star, label, cbar = state
    ã = jnp.concatenate([s.a, s.label, jnp.ones(1)])
    target = cbar + pull(s, s.D, A_star @ ã)
    state = synthesize(s, A, A_star, label, s.cbar, target)
    return s.W - RATE * jnp.outer((state[0] @ ã) * s.D, s.ahat), state


def dni_start(key, W):
    A = jax.random.normal(key, (N, N + N_OUT + 1)) / N**0.5
    return A, A, jnp.zeros(N_OUT), jnp.zeros(N)


DNI = Algorithm(dni_start, silent, dni)


# DNI(b): tanh on the bootstrap, random feedback, and J learned by the perceptron rule.


def dni_b(s, state, noise):
    (A, A_star, label, cbar), J, W_fb = state
    J = J - JACOBIAN_RATE * jnp.outer(J @ s.before - s.a, s.before)
    ã = jnp.concatenate([s.a, s.label, jnp.ones(1)])
    target = cbar + jnp.tanh(A_star @ ã) @ J
    synthesizer = synthesize(s, A, A_star, label, s.error @ W_fb, target)
    return s.W - RATE * jnp.outer((synthesizer[0] @ ã) * s.D, s.ahat), (synthesizer, J, W_fb)


def dni_b_start(key, W):
    key_A, key_fb = jax.random.split(key)
    return dni_start(key_A, W), W[:, :N], jax.random.normal(key_fb, (N_OUT, N)) / N_OUT**0.5


DNI_B = Algorithm(dni_b_start, silent, dni_b)


# Fixed: only the readout learns.

FIXED = Algorithm(lambda key, W: None, silent, lambda s, state, noise: (s.W, None))

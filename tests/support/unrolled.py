"""An oracle that knows nothing of the library: textbook cells, unrolled in plain Python, differentiated by JAX.

Weights come in the library's tree, but only to be read: each cell is written here a second time, from its equations.
"""

import jax
import jax.numpy as jnp
import numpy as np

import recurra as rc
from recurra_paper.analysis import cosines


def sigmoid(v):
    return 1 / (1 + jnp.exp(-v))


def heard(gate, h, x):
    """The pre-activation of one gate."""
    z = 0
    if gate.rec is not None:
        z = z + jnp.einsum("ij,j->i", gate.rec, h)
    if gate.inp is not None:
        z = z + jnp.einsum("ij,j->i", gate.inp, x)
    return z + gate.bias[:, 0]


def rnn(alpha):
    def step(W, a, x):
        return ((1 - alpha) * a[0] + alpha * jnp.tanh(heard(W[0], a[0], x)),)

    return step


def lstm(W, a, x):
    h, c = a
    i, f, g, o = (heard(gate, h, x) for gate in W)
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(c), c


def gru(W, a, x):
    (h,) = a
    r, u, h_n, x_n = (heard(gate, h, x) for gate in W)
    u = sigmoid(u)
    return ((1 - u) * jnp.tanh(x_n + sigmoid(r) * h_n) + u * h,)


#: name -> (the library's cell, the same cell by hand)
CELLS = {
    "rnn": (lambda n_in, n: rc.RNN(n_in, n), rnn(1.0)),
    "leaky rnn": (lambda n_in, n: rc.RNN(n_in, n, 0.4), rnn(0.4)),
    "lstm": (lambda n_in, n: rc.LSTM(n_in, n), lstm),
    "gru": (lambda n_in, n: rc.GRU(n_in, n), gru),
}


def states(step, weights_of_step, a0, xs):
    """All states of the unrolled network; `weights_of_step[t]` are the weights applied at step t."""
    a, visited = a0, []
    for W, x in zip(weights_of_step, xs, strict=True):
        a = step(W, a, x)
        visited.append(a)
    return visited


def loss(readout, h, y):
    """Softmax cross-entropy of the affine readout, in full."""
    z = jnp.einsum("ij,j->i", readout.W, h) + readout.b
    return -jnp.sum(y * (z - jnp.log(jnp.sum(jnp.exp(z)))))


def losses(step, weights_of_step, readout, a0, xs, ys):
    return jnp.stack([loss(readout, a[0], y) for a, y in zip(states(step, weights_of_step, a0, xs), ys, strict=True)])


def gradient_of_one_loss(step, W, readout, a0, xs, ys, t):
    """dL(t)/dw with one w for all steps: what a past-facing method emits at t."""
    return jax.grad(lambda W: losses(step, [W] * len(xs), readout, a0, xs, ys)[t])(W)


def gradient_of_application(step, W, readout, a0, xs, ys, s, until):
    """d(L(s) + ... + L(until))/dw(s) with w perturbed at step s alone: what a future-facing method emits for s."""

    def total(applied):
        return losses(step, [W] * s + [applied] + [W] * (len(xs) - s - 1), readout, a0, xs, ys)[s : until + 1].sum()

    return jax.grad(total)(W)


def influence(step, W, a0, xs):
    """d(all state variables after the last step)/dw, leaves (units, *weight shape)."""
    return jax.jacobian(lambda W: jnp.concatenate(states(step, [W] * len(xs), a0, xs)[-1]))(W)


def every_gradient_and_influence(step, W, readout, a0, xs, ys):
    """`gradient_of_one_loss` and `influence` after every step, as rows: one program, in which no step is unrolled."""

    def run(W):
        def one(a, row):
            a = step(W, a, row[0])
            return a, (loss(readout, a[0], row[1]), jnp.concatenate(a))

        return jax.lax.scan(one, a0, (xs, ys))[1]

    return jax.jit(jax.jacfwd(run))(W)


def finite_difference(f, W, h=1e-6):
    """Central differences of a scalar function in every weight."""
    leaves, treedef = jax.tree.flatten(W)

    def shifted(i, index, by):
        changed = list(leaves)
        changed[i] = changed[i].at[index].add(by)
        return f(jax.tree.unflatten(treedef, changed))

    slopes = []
    for i, leaf in enumerate(leaves):
        slope = jnp.zeros_like(leaf)
        for index in np.ndindex(leaf.shape):
            slope = slope.at[index].set((shifted(i, index, h) - shifted(i, index, -h)) / (2 * h))
        slopes.append(slope)
    return jax.tree.unflatten(treedef, slopes)


def summed_cosine(g, window):
    """The mean over consecutive windows of the cosine between gradients summed over a window; absent ones add nothing.

    A rest shorter than the window is left out, as are windows in which a learner emitted nothing.
    """
    count = len(g) // window
    sums = np.nan_to_num(g[: count * window]).reshape(count, window, *g.shape[1:]).sum(1)
    c = cosines(sums)
    seen = np.isfinite(c)
    total, number = np.where(seen, c, 0).sum(0), seen.sum(0)
    return np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0)

"""Minibatches of sequences beside a bare loop, and a linear head beside the readout: ratios of time in one process.

    python benchmarks/sequences.py

A GRU of 64 units learns with SnAp-1 from 64 sequences of 100 steps at once, whose label comes with the last step. The
bare loop scans the same rows, made beforehand, with hand-written SnAp-1 over all sequences. Both are called in turn,
and the ratio is the median over rounds. Nothing is drawn, moved or recorded in the bare loop.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

import recurra as rc

N, N_IN, N_OUT, STREAMS, LENGTH, EPOCHS, ROUNDS = 64, 8, 10, 64, 100, 10, 7
RATE = 1e-3


def bare():
    """SnAp-1 of a GRU by hand: u and r gates, a candidate, one trace in the shape of the weights."""
    cell = rc.GRU(N_IN, N)
    weights = rc.Network(cell, N_OUT).init(jax.random.key(0))

    widths = (N, N_IN, 1)

    def heard(gate, ahat):
        """What a gate hears: of a GRU's four gates one has no input, and one no recurrent weights."""
        return jnp.concatenate([u for w, u in zip(gate, ahat, strict=True) if w is not None])

    def one(weights, state, row, reset):
        gates = weights.cell
        h, B = jax.tree.map(lambda leaf: jnp.where(reset, 0, leaf), state)
        ahat = h, row, jnp.ones(1)
        pre = [sum(w @ u for w, u in zip(gate, ahat, strict=True) if w is not None) for gate in gates]
        unit = lambda h, *z: cell.unit((h,), z)[0]
        ones = jnp.ones(N)
        new, H = jax.jvp(lambda h: unit(h, *pre), (h,), (ones,))
        D = [jax.jvp(lambda v, g=g: unit(h, *pre[:g], v, *pre[g + 1 :]), (pre[g],), (ones,))[1] for g in range(4)]
        hears = [(d, gate.rec) for d, gate in zip(D, gates, strict=True) if gate.rec is not None]
        own = H + sum(d * jnp.diagonal(rec) for d, rec in hears)
        each = zip(B, D, gates, strict=True)
        return new, [own[:, None] * b + d[:, None] * heard(gate, ahat) for b, d, gate in each]

    def moved(gate, gradient):
        """A gate after a step along a gradient whose columns are its sources side by side."""
        there = [i for i, w in enumerate(gate) if w is not None]
        parts = jnp.split(gradient, np.cumsum([widths[i] for i in there])[:-1], axis=1)
        new = dict(zip(there, parts, strict=True))
        return type(gate)(*(None if w is None else w - RATE * new[i] for i, w in enumerate(gate)))

    @jax.jit
    def run(weights, xs, ys, present, reset):
        def step(running, row):
            weights, state = running
            x, y, there, again = row
            h, B = jax.vmap(one, (None, 0, 0, None))(weights, state, x, again)
            out = h @ weights.readout.W.T + weights.readout.b
            error = (jax.nn.softmax(out) - y) * there[:, None] / jnp.maximum(there.sum(), 1)
            c = error @ weights.readout.W
            found = [jnp.einsum("sk,skj->kj", c, b) for b in B]
            cell = tuple(moved(gate, g) for gate, g in zip(weights.cell, found, strict=True))
            readout = weights.readout._replace(
                W=weights.readout.W - RATE * error.T @ h, b=weights.readout.b - RATE * error.sum(0)
            )
            loss = -jnp.sum(y * jax.nn.log_softmax(out) * there[:, None])
            return (weights._replace(cell=cell, readout=readout), (h, B)), loss

        blank = lambda gate: jnp.zeros((STREAMS, N, sum(w.shape[1] for w in gate if w is not None)))
        zero = jnp.zeros((STREAMS, N)), [blank(gate) for gate in weights.cell]
        return jax.lax.scan(step, (weights, zero), (xs, ys, present, reset))

    return weights, run


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(STREAMS, LENGTH, N_IN)).astype("float32")
    y = np.eye(N_OUT, dtype="float32")[rng.integers(0, N_OUT, STREAMS)]
    task, network = rc.Sequences(x, y, batch=STREAMS, shuffle=False), rc.Network(rc.GRU(N_IN, N), N_OUT)
    steps = EPOCHS * task.epoch
    weights, loop = bare()
    rows = [np.tile(np.swapaxes(x, 0, 1), (EPOCHS, 1, 1)), np.broadcast_to(y, (steps, *y.shape))]
    last = np.arange(steps) % LENGTH == LENGTH - 1
    rows += [np.broadcast_to(last[:, None], (steps, STREAMS)), np.arange(steps) % LENGTH == 0]
    rows = [jnp.asarray(row) for row in rows]

    def ours(net=network, learner=None, start=weights):
        result = rc.train(
            net, learner or rc.SnAp1(), task, steps=steps, optimizer=RATE, start=start, window=steps, progress=False
        )
        return result.seconds, result

    def theirs():
        began = time.perf_counter()
        found = jax.block_until_ready(loop(weights, *rows))
        return time.perf_counter() - began, found

    head = rc.module_of(lambda p, a: p["W"] @ a + p["b"], {"W": weights.readout.W, "b": weights.readout.b}, x=N)
    headed = rc.Network(rc.GRU(N_IN, N), N_OUT, head=head)
    with_head = weights._replace(readout=head.params)
    (_, result), (_, ((end, _), _)) = ours(), theirs()
    apart = jax.tree.map(lambda a, b: float(jnp.max(jnp.abs(a[0] - b))), result.weights.cell, end.cell)
    print("largest difference of the weights", max(jax.tree.leaves(apart)))
    of_bare, of_head = [], []
    for _ in range(ROUNDS):
        a, b, c = ours()[0], theirs()[0], ours(headed, start=with_head)[0]
        of_bare.append(b / a)
        of_head.append(c / a)
    print(f"speed of train, of that of the bare loop: {statistics.median(of_bare):.2f}")
    print(f"time with a linear head, of that with the readout: {statistics.median(of_head):.2f}")


if __name__ == "__main__":
    main()

"""One training loop in plain JAX: a cell on the Add task, with a hole where the algorithm goes.

It imports nothing of the library and does the work the library does: random numbers drawn for blocks of 128 steps,
plain gradient descent on W and on the readout, the loss of every step returned. α is an argument of the compiled
program on both sides, so that neither can leave the leak out. W is kept in three arrays, since one concatenated array
of 35 columns was slower (by up to a half) in every algorithm but RTRL and r-OK.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bare.cells import Cell, Local, Sources
from bare.streams import few_terms, fold_each, mean, mean_outer, over

BLOCK, SPAN, N_OUT, RATE = 128, 16, 2, 1e-4
#: lags of the Add task
T1, T2 = 6, 10

#: by gate, and by state variable
Weights = tuple[Sources, ...]
State = tuple[jax.Array, ...]


class Step(NamedTuple):
    """One step as an algorithm sees it."""

    t: jax.Array
    cell: Cell
    W: Weights
    before: State
    a: State
    ahat: Sources
    local: Local
    label: jax.Array
    error: jax.Array
    cbar: jax.Array
    streams: int

    def descend(self, gradient):
        """W after one step of plain gradient descent."""
        return jax.tree.map(lambda w, g: w - RATE * g, self.W, mean(gradient, self.streams))

    def descend_along(self, credit, ahat):
        """The same for the gradient credit ahatᵀ, with credit for each gate, or the sum of such over rows."""
        down = lambda u, w, v: None if w is None else w - RATE * mean_outer(u, v, self.streams)
        gate = lambda W, u: Sources(*(down(u, *each) for each in zip(W, ahat, strict=True)))
        return tuple(map(gate, self.W, credit))

    @property
    def credit(self):
        """dL/da of this step's loss alone, which reaches only the variable that the readout sees."""
        return (self.cbar, *(None for _ in self.a[1:]))

    @property
    def J(self):
        """The columns of J for the variable that gates see, by state variable."""
        return self.cell.jacobian(self.W, self.local)


class Algorithm(NamedTuple):
    """`start(key, cell, W)` is the first state, `noise(key, cell, n)` a block of random numbers, `learn` a step."""

    start: Callable[[jax.Array, Cell, Weights], Any]
    noise: Callable[[jax.Array, Cell, int], Any]
    learn: Callable[[Step, Any, Any], tuple[Weights, Any]]
    #: what is done to the state at the end of each span of steps, if anything
    fold: Callable[[Cell, Any], Any] | None = None


class Carry(NamedTuple):
    """What goes from one step to the next."""

    W: Weights
    W_out: jax.Array  # (n_out, n)
    b_out: jax.Array
    a: State
    state: Any


def silent(key, cell, n):
    """The noise of an algorithm without randomness."""
    return None


def signs(key, shape):
    """±1, 32 of them from every random word."""
    size = 1
    for length in shape:
        size *= length
    words = jax.random.bits(key, (-(-size // 32), 1), "uint32")
    bits = (words >> jnp.arange(32, dtype="uint32")) & 1
    return (2.0 * bits.reshape(-1)[:size] - 1).reshape(shape)


def add_block(past, key):
    """The inputs and labels of a block, and its last coins."""
    x = (1 + signs(key, (BLOCK,))) / 2
    coins = jnp.concatenate([past, x])
    y = 0.5 + 0.5 * coins[T2 - T1 : T2 - T1 + BLOCK] - 0.25 * coins[:BLOCK]
    show = lambda v: jnp.stack([v, 1 - v], axis=1)
    return show(x), show(y), coins[BLOCK:]


def start(algorithm, cell, n, key, streams=1):
    """The carry and the last coins of one seed of n units before its first step."""
    key_W, key_out, key_state = jax.random.split(key, 3)
    W, W_out = cell.start(key_W, n), jax.random.normal(key_out, (N_OUT, n)) / n**0.5
    of_stream = lambda key: ((jnp.zeros(n),) * cell.states, algorithm.start(key, cell, W), jnp.zeros(T2))
    a, state, past = each_stream(of_stream, key_state, streams)
    return Carry(W, W_out, jnp.zeros(N_OUT), a, state), past


def each_stream(draw, key, streams, *of_stream):
    """What is drawn for every stream with a key of its own."""
    return draw(key, *of_stream) if streams == 1 else jax.vmap(draw)(jax.random.split(key, streams), *of_stream)


def take_step(algorithm, cell, streams, carry, inputs):
    """One step: forward, loss, credit, and both updates."""
    t, x, label, noise = inputs
    W, W_out, b_out, before, state = carry
    a, local = cell.forward(W, before, x)
    log_y = jax.nn.log_softmax(W_out @ a[0] + b_out)
    loss = -jnp.sum(label * log_y)
    error = jnp.exp(log_y) - label
    ahat = Sources(before[0], x, jnp.ones(()))
    step = Step(t, cell, W, before, a, ahat, local, label, error, few_terms(error, W_out), streams)
    W, state = algorithm.learn(step, state, noise)
    W_out = W_out - RATE * mean_outer(error, a[0], streams)
    return Carry(W, W_out, b_out - RATE * mean(error, streams), a, state), loss


def take_block(algorithm, cell, carry, inputs, streams=1):
    """The steps of a block, span by span where the algorithm has something to do at the end of one."""
    step = over(lambda carry, inputs: take_step(algorithm, cell, streams, carry, inputs), streams)
    if algorithm.fold is None:
        return jax.lax.scan(step, carry, inputs)

    def span(carry, inputs):
        carry, losses = jax.lax.scan(step, carry, inputs)
        fold = lambda state: algorithm.fold(cell, state)
        return carry._replace(state=fold(carry.state) if streams == 1 else fold_each(fold, carry.state)), losses

    spans = jax.tree.map(lambda rows: rows.reshape(BLOCK // SPAN, SPAN, *rows.shape[1:]), inputs)
    carry, losses = jax.lax.scan(span, carry, spans)
    return carry, losses.reshape(BLOCK, *losses.shape[2:])


def advance(algorithm, cell, carry, past, key, first, blocks, streams=1):
    """`blocks` blocks from number `first` on, and the loss of every step, the mean over streams."""

    def block(running, number):
        carry, past = running
        key_task, key_noise = jax.random.split(jax.random.fold_in(key, number))
        x, label, past = each_stream(lambda key, past: add_block(past, key), key_task, streams, past)
        noise = each_stream(lambda key: algorithm.noise(key, cell, carry.a[0].shape[-1]), key_noise, streams)
        rows = x, label, noise
        if streams > 1:  # steps go first
            rows = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), rows)
        carry, losses = take_block(algorithm, cell, carry, (number * BLOCK + jnp.arange(BLOCK), *rows), streams)
        return (carry, past), losses if streams == 1 else losses.mean(axis=1)

    (carry, past), losses = jax.lax.scan(block, (carry, past), first + jnp.arange(blocks))
    return carry, past, losses.reshape(-1)

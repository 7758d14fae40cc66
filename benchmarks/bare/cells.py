"""The three cells, differentiated by hand.

    z[g] = W[g] ahat, ahat = (a(t-1), x(t), 1)       what gate g hears
    E[g] = d(what gate g drives) / dz[g]             the state itself, or the memory of an LSTM

W is a tuple over gates, a state a tuple of vectors: (a,), or an LSTM's (h, memory). The readout and the gates see the
first. None stands for zero. Gates are kept apart, since one array for all of them was slower, up to five times.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from bare.streams import few_terms

N_IN = 2
ALL, NETWORK, INPUT = (True, True, True), (True, False, True), (False, True, True)


class Sources(NamedTuple):
    """Something for each source of a gate's input: its weights, a gradient for them, or ahat without its constant 1."""

    rec: Any
    inp: Any
    bias: Any


class Local(NamedTuple):
    """The derivatives of one step, vectors: all that must be kept of it to go back over it later."""

    E: tuple[jax.Array, ...]
    #: d(driven) / d(its value before), z fixed; None where it is the same at all times
    leak: jax.Array | None = None
    #: dh / d(memory)
    shown: jax.Array | None = None


def times(d, V):
    """diag(d) V, for a vector or a matrix V."""
    return d[:, None] * V if V.ndim == 2 else d * V


def outer(u, ahat, hears=ALL):
    """u ahatᵀ for each source that is heard."""
    rec, inp, bias = hears
    return Sources(
        jnp.outer(u, ahat.rec) if rec else None,
        jnp.outer(u, ahat.inp) if inp else None,
        u * ahat.bias if bias else None,
    )


def width(W):
    """How many units there are."""
    return len(W[0].bias)


class Cell:
    """What the algorithms ask of any cell."""

    states: int
    #: for each gate, whether it hears (rec, inp, bias), and the bias it starts with
    hears: tuple[tuple[bool, bool, bool], ...]
    first_bias: tuple[float, ...]

    def start(self, key, n):
        """W of n units, with orthogonal recurrent weights."""
        gates = []
        keys = jax.random.split(key, len(self.hears))
        for key_gate, hears, bias in zip(keys, self.hears, self.first_bias, strict=True):
            key_rec, key_inp = jax.random.split(key_gate)
            rec = jax.random.orthogonal(key_rec, n) if hears[0] else None
            inp = jax.random.normal(key_inp, (n, N_IN)) / N_IN**0.5 if hears[1] else None
            gates.append(Sources(rec, inp, jnp.full(n, bias)))
        return tuple(gates)

    def credit(self, local, c):
        """dL/dz from dL/da."""
        return tuple(d * e for d, e in zip(self.driven(local, c), local.E, strict=True))

    def push(self, W, local, v):
        """J v for vectors."""
        return self.drive(local, [gate.rec @ v[0] for gate in self.seeing(W)], v)

    def jacobian(self, W, local):
        """The columns of J for the variable that gates see, by state variable."""
        rec = [gate.rec for gate in self.seeing(W)]
        return self.drive(local, rec, (jnp.eye(len(rec[0])), *(None,) * (self.states - 1)))

    def push_by(self, J, local, v):
        """J v where its columns are known: for matrices, one product for all gates, small enough for the loop."""
        return tuple(columns @ v[0] for columns in J)

    def whole(self, J, local):
        """J as one matrix, from its columns for the variable that gates see."""
        return jnp.concatenate(J)

    def pull(self, W, local, c):
        """c J."""
        return self.pull_gates(W, local, c, self.credit(local, c))

    def pull_gates(self, W, local, c, credit):
        """c J where dL/dz is known."""
        seen, *kept = self.keep(local, c)
        through = sum(u @ gate.rec for u, gate in zip(credit, W, strict=True) if gate.rec is not None)
        return (through if seen is None else seen + through, *kept)

    def deposit(self, credit, ahat):
        """The gradient dL/dz ahatᵀ, gate by gate; None where credit is."""
        pairs = zip(credit, self.hears, strict=True)
        return tuple(None if u is None else outer(u, ahat, hears) for u, hears in pairs)

    def split(self, v):
        """A vector over all state variables, or a matrix with such rows, in one piece for each."""
        return tuple(jnp.split(v, self.states))

    def no_steps(self, W, steps):
        """Room for the derivatives of so many steps, and for the a(t-1) and x they heard."""
        a, x = (jnp.zeros(width(W)),) * self.states, jnp.zeros(N_IN)
        _, local = jax.eval_shape(self.forward, W, a, x)
        return jax.tree.map(lambda row: jnp.zeros((steps, *row.shape)), (local, a[0], x))

    def seeing(self, gates):
        """The gates that hear the network."""
        return [gate for gate, (rec, _, _) in zip(gates, self.hears, strict=True) if rec]

    def forward(self, W, a, x):
        """The next state and its derivatives."""
        raise NotImplementedError

    def drive(self, local, zdot, v):
        """The tangent of the next state from those of z, for gates that see the network, and of the state before."""
        raise NotImplementedError

    def driven(self, local, c):
        """Credit of what each gate drives."""
        raise NotImplementedError

    def keep(self, local, c):
        """Credit of the state before, z fixed."""
        raise NotImplementedError

    def leaks(self, local):
        """The leak of what each gate drives."""
        raise NotImplementedError

    def D(self, local) -> tuple[tuple[Any, ...], ...]:
        """da[p]/dz[g] for each state variable p and gate g."""
        return (local.E,)


class RNN(Cell):
    """a(t) = (1 - α) a(t-1) + α tanh(z)."""

    states, hears, first_bias = 1, (ALL,), (0.0,)

    def __init__(self, alpha):
        self.alpha = alpha

    def forward(self, W, a, x):
        phi = jnp.tanh(W[0].rec @ a[0] + few_terms(x, W[0].inp.T) + W[0].bias)
        return ((1 - self.alpha) * a[0] + self.alpha * phi,), Local((self.alpha * (1 - phi * phi),))

    def drive(self, local, zdot, v):
        return ((1 - self.alpha) * v[0] + times(local.E[0], zdot[0]),)

    def driven(self, local, c):
        return c

    def keep(self, local, c):
        return ((1 - self.alpha) * c[0],)

    def leaks(self, local):
        return (1 - self.alpha,)


class GRU(Cell):
    """a(t) = u a(t-1) + (1 - u) tanh(x_n + r h_n), gates in the order r, u, h_n, x_n."""

    states, hears, first_bias = 1, (ALL, ALL, NETWORK, INPUT), (0.0, 0.0, 0.0, 0.0)

    def forward(self, W, a, x):
        r, u = (jax.nn.sigmoid(gate.rec @ a[0] + few_terms(x, gate.inp.T) + gate.bias) for gate in W[:2])
        h_n = W[2].rec @ a[0] + W[2].bias
        new = jnp.tanh(few_terms(x, W[3].inp.T) + W[3].bias + r * h_n)
        through = (1 - u) * (1 - new * new)
        E = through * h_n * r * (1 - r), (a[0] - new) * u * (1 - u), through * r, through
        return (u * a[0] + (1 - u) * new,), Local(E, u)

    def drive(self, local, zdot, v):
        r, u, h_n = map(times, local.E[:3], zdot)
        return (times(local.leak, v[0]) + r + u + h_n,)

    def driven(self, local, c):
        return (c[0],) * 4

    def keep(self, local, c):
        return (local.leak * c[0],)

    def leaks(self, local):
        return (local.leak,) * 4


class LSTM(Cell):
    """memory(t) = f memory(t-1) + i g, h(t) = o tanh(memory(t)), gates in the order i, f, g, o.

    h is a function of the memory and of o alone, so that all that i, f and g do to it goes through the memory.
    """

    states, hears, first_bias = 2, (ALL,) * 4, (0.0, 1.0, 0.0, 0.0)

    def forward(self, W, a, x):
        h, memory = a
        i, f, g, o = (gate.rec @ h + few_terms(x, gate.inp.T) + gate.bias for gate in W)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        new = f * memory + i * g
        shown = jnp.tanh(new)
        E = i * (1 - i) * g, f * (1 - f) * memory, i * (1 - g * g), o * (1 - o) * shown
        return (o * shown, new), Local(E, f, o * (1 - shown * shown))

    def drive(self, local, zdot, v):
        i, f, g, o = map(times, local.E, zdot)
        memory = i + f + g if v[1] is None else times(local.leak, v[1]) + i + f + g
        return times(local.shown, memory) + o, memory

    def push_by(self, J, local, v):
        h, memory = super().push_by(J, local, v)
        kept = times(local.leak, v[1])
        return h + times(local.shown, kept), memory + kept

    def whole(self, J, local):
        kept = jnp.concatenate([jnp.diag(local.shown * local.leak), jnp.diag(local.leak)])
        return jnp.concatenate([super().whole(J, local), kept], axis=1)

    def driven(self, local, c):
        memory = self.of_memory(local, c)
        return memory, memory, memory, c[0]

    def keep(self, local, c):
        return None, local.leak * self.of_memory(local, c)

    def of_memory(self, local, c):
        """Credit of the memory, together with what it shows of itself."""
        return local.shown * c[0] if c[1] is None else local.shown * c[0] + c[1]

    def leaks(self, local):
        return local.leak, local.leak, local.leak, None

    def D(self, local) -> tuple[tuple[Any, ...], ...]:
        i, f, g, o = local.E
        return (local.shown * i, local.shown * f, local.shown * g, o), (i, f, g, None)


#: each made of α, the leak of an RNN
CELLS = {"rnn": RNN, "gru": lambda alpha: GRU(), "lstm": lambda alpha: LSTM()}

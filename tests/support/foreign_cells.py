"""Steps that people write, and what is expected of them: how many units and gates, and whether weights are converted.

Each is known here as a function step(params, carry, x) -> carry too, for automatic differentiation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.ad_checkpoint import checkpoint_name

import recurra as rc

N, M = 4, 3
HIDDEN, INPUT = np.zeros(N), np.zeros(M)


class Foreign(NamedTuple):
    """What `rc.cell_of` takes, the step as a function of parameters of its own, and what is expected of the cell."""

    thing: Any
    params: Any
    carry: Any
    x: Any
    gates: int
    step: Callable
    own: Any
    states: int = 1
    converts: bool = False
    n: int = N
    settings: dict = {}  # noqa: RUF012

    def cell(self, **settings) -> Any:
        return rc.cell_of(self.thing, self.params, carry=self.carry, x=self.x, **self.settings, **settings)


#: by name, functions that make one
ZOO: dict[str, Callable[[], Foreign]] = {}


def drawn(seed=0, dtype="float64", **shapes):
    """Parameters with random numbers."""
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(0.7 * rng.normal(size=shape), dtype) for name, shape in shapes.items()}


def plain(gates, carry=HIDDEN, x=INPUT, states=1, converts=False, n=N, dtype="float64", smooth=True, **shapes):
    """Registers a function of this module, under its name, with parameters of these shapes."""
    carry, x = (jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree) for tree in (carry, x))

    def register(step):
        params = drawn(len(step.__name__), dtype, **shapes)
        only = lambda after: after if jax.tree.structure(after) == jax.tree.structure(carry) else after[0]
        oracle = lambda params, carry, x: only(step(params, carry, x))
        settings = {} if smooth else {"smooth": False}
        made = Foreign(step, params, carry, x, gates, oracle, params, states, converts, n, settings)
        ZOO[step.__name__] = lambda: made
        return step

    return register


def package(name, gates, carry, **expected):
    """Registers a package's cell, which a function makes: the cell, its parameters, and its step as a function."""

    def register(make):
        def made():
            thing, params, own, step = make()
            carried = jax.tree.map(jnp.asarray, carry)
            return Foreign(thing, params, carried, jnp.asarray(INPUT), gates, step, own, **expected)

        ZOO[name] = made
        return make

    return register


# Cells of packages.


def of_equinox(module):
    own, rest = eqx.partition(module, eqx.is_inexact_array)
    return module, None, own, lambda own, carry, x: eqx.combine(own, rest)(x, carry)


def of_linen(cell, carry, shake=0.3):
    """With biases that are not zero, which would leave mistakes in them unseen."""
    params = cell.init(jax.random.key(0), jax.tree.map(jnp.asarray, carry), jnp.asarray(INPUT))
    params = jax.tree.map(lambda w: w + shake * jax.random.normal(jax.random.key(w.size), w.shape, w.dtype), params)
    return cell, params, params, lambda params, carry, x: cell.apply(params, carry, x)[0]


def of_nnx(cell):
    definition, own, rest = nnx.split(cell, nnx.Param, ...)
    own = jax.tree.map(lambda w: w + 0.3 * jax.random.normal(jax.random.key(w.size), w.shape, w.dtype), own)
    return nnx.merge(definition, own, rest), None, own, lambda own, h, x: nnx.merge(definition, own, rest)(h, x)[0]


KEY = jax.random.key(3)
TWO = (HIDDEN, HIDDEN)
WIDE = {"dtype": jnp.float64, "param_dtype": jnp.float64}

package("eqx.nn.GRUCell", 4, HIDDEN)(lambda: of_equinox(eqx.nn.GRUCell(M, N, key=KEY)))
package("eqx.nn.GRUCell without biases", 4, HIDDEN)(lambda: of_equinox(eqx.nn.GRUCell(M, N, use_bias=False, key=KEY)))
package("eqx.nn.LSTMCell", 4, TWO, states=2)(lambda: of_equinox(eqx.nn.LSTMCell(M, N, key=KEY)))
package("linen.SimpleCell", 1, HIDDEN)(lambda: of_linen(nn.SimpleCell(N, **WIDE), HIDDEN))
package("linen.GRUCell", 4, HIDDEN)(lambda: of_linen(nn.GRUCell(N, **WIDE), HIDDEN))
package("linen.MGUCell", 3, HIDDEN)(lambda: of_linen(nn.MGUCell(N, **WIDE), HIDDEN))
package("linen.LSTMCell", 4, TWO, states=2)(lambda: of_linen(nn.LSTMCell(N, **WIDE), TWO))
package("linen.OptimizedLSTMCell", 4, TWO, states=2)(lambda: of_linen(nn.OptimizedLSTMCell(N, **WIDE), TWO))
package("nnx.SimpleCell", 1, HIDDEN)(lambda: of_nnx(nnx.SimpleCell(M, N, rngs=nnx.Rngs(0), **WIDE)))
package("nnx.GRUCell", 4, HIDDEN)(lambda: of_nnx(nnx.GRUCell(M, N, rngs=nnx.Rngs(0), **WIDE)))
package("nnx.LSTMCell", 4, TWO, states=2)(lambda: of_nnx(nnx.LSTMCell(M, N, rngs=nnx.Rngs(0), **WIDE)))
package("nnx.OptimizedLSTMCell", 4, TWO, states=2)(
    lambda: of_nnx(nnx.OptimizedLSTMCell(M, N, rngs=nnx.Rngs(0), **WIDE))
)


# Functions. W and U are the weights of one gate, A and B those of several.

SQUARE = {"W": (N, N), "U": (N, M)}
STACKED = {"A": (2 * N, N), "B": (2 * N, M)}


def sigmoid(v):
    return jax.nn.sigmoid(v)


@plain(1, **SQUARE, b=(N,))
def leaky(p, h, x):
    return 0.7 * h + 0.3 * jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])


@plain(1, **SQUARE)
def without_bias(p, h, x):
    return jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(1, W=(N, N), b=(N,))
def without_input(p, h, x):
    return jnp.tanh(p["W"] @ h + p["b"])


@plain(2, V=(2, N, M))
def without_recurrence(p, h, x):
    keep, new = p["V"] @ x
    return sigmoid(keep) * h + (1 - sigmoid(keep)) * jnp.tanh(new)


@plain(1, **SQUARE)
def linear(p, h, x):
    return p["W"] @ h + p["U"] @ x


@plain(1, K=(M + N, N))
def one_kernel(p, h, x):
    return jnp.tanh(jnp.concatenate([x, h]) @ p["K"])


@plain(1, K=(N, N + M + 1))
def one_kernel_with_a_one(p, h, x):
    return jnp.tanh(p["K"] @ jnp.concatenate([h, x, jnp.ones(1)]))


@plain(2, **STACKED)
def stacked(p, h, x):
    u, c = jnp.split(p["A"] @ h + p["B"] @ x, 2)
    return sigmoid(u) * h + (1 - sigmoid(u)) * jnp.tanh(c)


@plain(2, **STACKED)
def interleaved(p, h, x):
    z = (p["A"] @ h + p["B"] @ x).reshape(N, 2)
    return sigmoid(z[:, 0]) * h + jnp.tanh(z[:, 1])


@plain(2, A=(2, N, N), B=(2, N, M))
def einsum(p, h, x):
    z = jnp.einsum("gij,j->gi", p["A"], h) + jnp.einsum("gij,j->gi", p["B"], x)
    return sigmoid(z[0]) * h + jnp.tanh(z[1])


@plain(2, A=(N, 2, N), B=(M, 2, N))
def einsum_of_kernels(p, h, x):
    """Gates on an axis in the middle."""
    z = jnp.einsum("j,jgi->ig", h, p["A"]) + jnp.einsum("j,jgi->ig", x, p["B"])
    return sigmoid(z[:, 0]) * h + jnp.tanh(z[:, 1])


@plain(2, **STACKED, b=(2 * N,))
def relu_of_all_gates(p, h, x):
    """A function with a derivative of its own, of gates that lie in one array."""
    z = jax.nn.relu(p["A"] @ h + p["B"] @ x + p["b"])
    return 0.3 * z[:N] * h + z[N:]


@plain(3, A=(3 * N, N), B=(3 * N, M))
def silu_gelu_and_leaky_relu(p, h, x):
    a, b, c = jnp.split(jax.nn.silu(p["A"] @ h + p["B"] @ x), 3)
    return 0.2 * h + jax.nn.gelu(a) * jax.nn.leaky_relu(b) - c


@plain(2, **STACKED)
def clipped(p, h, x):
    z = jnp.clip(p["A"] @ h + p["B"] @ x, -0.8, 0.9)
    return jax.nn.hard_tanh(0.5 * h + z[:N]) + jnp.where(z[N:] > 0, z[N:], 0.1 * z[N:] * h)


@plain(2, A=(N, 2 * N), B=(M, 2 * N))
def moved_about(p, h, x):
    """Entries are moved by constant numbers, and come back to their own."""
    z = (h @ p["A"] + x @ p["B"])[np.arange(2 * N)[::-1]].reshape(2, N).T
    first, second = jnp.concatenate([z[:, 1:], z[:, :1]], axis=1).T
    return jnp.take(sigmoid(first), np.arange(N)) * h[::-1][::-1] + jnp.tanh(second)


@plain(2, **SQUARE, V=(N, N))
def under_checkpoint_and_jit(p, h, x):
    @jax.checkpoint
    def gate(W, h):
        return sigmoid(W @ h)

    @jax.jit
    def mix(u, h, new):
        return jax.jit(lambda u: u * h)(u) + (1 - u) * new

    return mix(gate(p["V"], h), h, jnp.tanh(p["W"] @ h + p["U"] @ x))


@plain(1, **SQUARE, converts=True)
def tied(p, h, x):
    return jnp.tanh((p["W"] + p["W"].T) @ h + p["U"] @ x)


@plain(2, **SQUARE, b=(N,), converts=True)
def shared_between_gates(p, h, x):
    return sigmoid(p["W"] @ h + p["b"]) * h + jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(1, **SQUARE, g=(N,), converts=True)
def normalised_weights(p, h, x):
    W = p["g"][:, None] * p["W"] / jnp.linalg.norm(p["W"], axis=1, keepdims=True)
    return jnp.tanh(W @ h + p["U"] @ x)


@plain(1, **SQUARE, converts=True)
def masked(p, h, x):
    mask = np.random.default_rng(0).random((N, N)) < 0.6
    return jnp.tanh((p["W"] * mask.astype(float)) @ h + p["U"] @ x)


@plain(1, L=(N, 2), R=(2, N), U=(N, M), converts=True)
def low_rank(p, h, x):
    return jnp.tanh(p["L"] @ (p["R"] @ h) + p["U"] @ x)


@plain(1, **SQUARE, E=(M, M), converts=True)
def linear_encoder(p, h, x):
    return jnp.tanh(p["W"] @ h + p["U"] @ (p["E"] @ x))


@plain(3, **SQUARE, tau=(N,), converts=True)
def own_time_constants(p, h, x):
    alpha = sigmoid(p["tau"])
    return (1 - alpha) * h + alpha * jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(3, **SQUARE, tau=(), converts=True)
def one_time_constant(p, h, x):
    alpha = sigmoid(p["tau"])
    return (1 - alpha) * h + alpha * jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(3, **SQUARE, converts=True)
def fixed_time_constants(p, h, x):
    """Numbers that differ between units, which no parameter changes: gates too."""
    alpha = np.linspace(0.1, 0.9, N)
    return (1 - alpha) * h + alpha * jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(3, **SQUARE, converts=True)
def zoneout(p, h, x):
    """Some units keep what they have."""
    keeps = np.array([0.0, 1.0] * (N // 2))
    return keeps * h + (1.0 - keeps) * jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(2, **SQUARE, converts=True)
def choosing_by_unit(p, h, x):
    return jnp.where(np.array([True, False, True, False]), h, jnp.tanh(p["W"] @ h + p["U"] @ x))


TIMESCALES = np.array([[0.1, 0.5, 0.9]])
GAINS = np.random.default_rng(1).normal(size=(N, 3))


@plain(1, **SQUARE, carry=np.zeros((N, 3)), states=3)
def several_timescales(p, carry, x):
    """Axes of length 1 meet longer ones."""
    drive = jnp.tanh(p["W"] @ carry[:, 0] + p["U"] @ x)[:, None]
    return (1 - TIMESCALES) * carry + TIMESCALES * drive


@plain(4, **SQUARE, carry=np.zeros((N, 3)), states=3, converts=True)
def several_timescales_of_each_unit(p, carry, x):
    return 0.5 * carry + GAINS * jnp.tanh(p["W"] @ carry[:, 0] + p["U"] @ x)[:, None]


@plain(2, W=(N, N), U=(N, M), V=(N, N), b=(N,), carry=(np.zeros(N), np.zeros(N)), states=2)
def two_variables_that_meet_in_weights_alone(p, carry, x):
    h, s = carry
    return jnp.tanh(p["W"] @ h + p["U"] @ x), 0.9 * s + jnp.tanh(p["V"] @ h + p["b"])


@plain(2, A=(N, N), B=(N, M), g=(1, N), carry=np.zeros((1, N)), x=np.zeros((1, M)))
def batch_of_one(p, h, x):
    return jnp.tanh(h @ p["A"].T + x @ p["B"].T) * p["g"] + 0.5 * h


@plain(2, **SQUARE, states=2)
def ctrnn(p, v, x):
    """Gates hear a function of what is carried."""
    return v + 0.1 * (-v + p["W"] @ jnp.tanh(v) + p["U"] @ x)


@plain(4, **SQUARE, b=(N,), tau=(N,), states=2, converts=True)
def ctrnn_with_time_constants(p, v, x):
    return v + sigmoid(p["tau"]) * (-v + p["W"] @ jax.nn.relu(v) + p["U"] @ x + p["b"])


@jax.custom_jvp
def spike(v):
    return jnp.where(v > 0, jnp.ones_like(v), jnp.zeros_like(v))


@spike.defjvp
def _surrogate(primals, tangents):
    (v,), (dot,) = primals, tangents
    return spike(v), dot * 0.3 * jnp.maximum(0.0, 1 - jnp.abs(v))


@plain(2, **SQUARE, carry=TWO, states=2, smooth=False)
def lif(p, carry, x):
    v, z = carry
    v = 0.9 * v + p["W"] @ z + p["U"] @ x - z
    return v, spike(v - 0.5)


@plain(2, **SQUARE, states=2, smooth=False)
def lif_that_carries_voltages(p, v, x):
    """Spikes are a function of the voltage alone, and gates hear them."""
    z = spike(v - 0.5)
    return 0.9 * v * (1 - z) + p["W"] @ z + p["U"] @ x


@plain(3, **SQUARE, b=(N,), A=(N,), tau=(N,), converts=True)
def liquid_time_constants(p, h, x):
    f = sigmoid(p["W"] @ h + p["U"] @ x + p["b"])
    return (h + 0.1 * f * p["A"]) / (1 + 0.1 * (jnp.exp(p["tau"]) + f))


@plain(7, carry=TWO, states=2, **{k: (N, s) for k in "ifgo" for s in (N,)}, pi=(N,), pf=(N,), po=(N,), U=(4, N, M))
def lstm_with_peepholes(p, carry, x):
    h, c = carry
    u = p["U"] @ x
    i = sigmoid(p["i"] @ h + u[0] + p["pi"] * c)
    f = sigmoid(p["f"] @ h + u[1] + p["pf"] * c)
    c = f * c + i * jnp.tanh(p["g"] @ h + u[2])
    return sigmoid(p["o"] @ h + u[3] + p["po"] * c) * jnp.tanh(c), c


@plain(3, **SQUARE, tau=(N,), x=(np.zeros(()), INPUT), converts=True)
def time_between_rows(p, h, x):
    dt, x = x
    return h * jnp.exp(-dt * jax.nn.softplus(p["tau"])) + dt * jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(2, **SQUARE, x={"time": np.zeros(1), "x": INPUT}, converts=True)
def time_between_rows_of_a_dict(p, h, x):
    return h * jnp.exp(-x["time"]) + jnp.tanh(p["W"] @ h + p["U"] @ x["x"])


@plain(2, **SQUARE, v=(N,), c=(), converts=True)
def one_gate_for_all(p, h, x):
    return sigmoid(p["v"] @ h + p["c"]) * h + jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(2, **STACKED, carry=np.zeros(2 * N), states=2)
def packed(p, carry, x):
    """Two variables side by side in one array."""
    h, c = carry[:N], carry[N:]
    z = p["A"] @ h + p["B"] @ x
    c = sigmoid(z[:N]) * c + z[N:]
    return jnp.concatenate([jnp.tanh(c), c])


@plain(1, A=(2 * N, 2 * N), B=(2 * N, M), carry=np.zeros((N, 2)), n=2 * N)
def matrix(p, carry, x):
    return jnp.tanh((p["A"] @ carry.reshape(-1) + p["B"] @ x).reshape(N, 2) + 0.1 * carry)


@plain(1, A=(N, N), B=(N, M), carry=np.zeros((N, 2)), states=2)
def columns(p, carry, x):
    """A matrix whose columns are two variables."""
    fast, slow = carry.T
    slow = 0.9 * slow + 0.1 * fast
    return jnp.stack([jnp.tanh(p["A"] @ fast + p["B"] @ x - slow), slow], axis=1)


@plain(2, **STACKED, carry=np.zeros((2, N)), states=2)
def rows(p, carry, x):
    """A matrix whose rows are two variables, put there one by one."""
    z = p["A"] @ carry[0] + p["B"] @ x
    carry = carry.at[1].set(sigmoid(z[:N]) * carry[1] + z[N:])
    return jax.lax.dynamic_update_slice(carry, jnp.tanh(carry[1:]), (0, 0))


@plain(1, **SQUARE)
def named_and_copied(p, h, x):
    """Operations that change no number."""
    z = checkpoint_name(p["W"] @ h + 0.0, "z") + jnp.copy(p["U"] @ x)
    return jnp.tanh(jnp.zeros(N) + z.astype(h.dtype))


@plain(2, **SQUARE, b=(N,))
def tiled(p, h, x):
    return jnp.tanh(jnp.tile(p["W"] @ h, 2).reshape(2, N)[1] + p["U"] @ x) + jnp.tile(p["b"] * 1.0, 1) * h


@plain(1, **SQUARE, carry={"tired": HIDDEN, "h": HIDDEN}, states=2)
def dictionary(p, carry, x):
    h = jnp.tanh(p["W"] @ carry["h"] + p["U"] @ x - carry["tired"])
    return {"h": h, "tired": 0.9 * carry["tired"] + 0.1 * carry["h"]}


class Held(NamedTuple):
    slow: Any
    fast: Any


@plain(2, **STACKED, carry=Held(HIDDEN, HIDDEN), states=2)
def named(p, carry, x):
    """The gates hear the second leaf, and the step returns something else too."""
    z = p["A"] @ carry.fast + p["B"] @ x
    slow = sigmoid(z[:N]) * carry.slow + z[N:]
    return Held(slow, jnp.tanh(slow)), {"rates": slow}


@plain(2, **SQUARE, V=(N, 2), x=(INPUT, np.zeros(2)), converts=True)
def two_inputs(p, h, x):
    x, context = x
    return sigmoid(p["V"] @ context) * h + jnp.tanh(p["W"] @ h + p["U"] @ x)


@plain(2, A=(2, 2, N, N), B=(2, 2, N, M), converts=True)
def averages_of_weights(p, h, x):
    """A loop over parameters alone."""
    A, B = (jax.lax.fori_loop(0, 2, lambda i, s, w=p[k]: s + w[i], jnp.zeros_like(p[k][0])) for k in "AB")
    return sigmoid(A[0] @ h + B[0] @ x) * h + jnp.tanh(A[1] @ h + B[1] @ x)


@plain(1, **SQUARE, b=(N,), dtype="float32")
def single_precision(p, h, x):
    return 0.7 * h + 0.3 * jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])


@plain(2, **STACKED, dtype="float32")
def interleaved_in_single_precision(p, h, x):
    z = (p["A"] @ h + p["B"] @ x).reshape(N, 2)
    return sigmoid(z[:, 0]) * h + jnp.tanh(z[:, 1])

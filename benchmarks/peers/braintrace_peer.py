"""Online learning in braintrace, the nearest peer library: the gradient of every step applied, in one compiled loop.

A step is `brainstate.transform.grad` of the loss of the learner's output, then plain gradient descent on all weights;
the steps are a `brainstate.transform.for_loop` inside `brainstate.transform.jit`. Descent is written out, which takes
a little less time than `braintools.optim.SGD`. UORO's usual way is by windows of steps, one update for each; with
`vjp_method="single-step"` it answers every step as the library does. The readout stands outside what is compiled into
the learner, since inside it gets a gradient of zero there (braintrace 0.2.6).

"vanilla" is braintrace's own cell. There D_RTRL has nothing to remember: its diagonal leaves the recurrent weights out,
and nothing else links a unit's state with the next. "leaky" is the library's cell with its leak as an argument of the
compiled program; there D_RTRL is RFLO.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.report import micros_a_step, script, use_one_core, usual_steps

if __name__ == "__main__":
    use_one_core()

import brainstate
import braintrace
import jax
import jax.numpy as jnp
import numpy as np

from textbook.loop import N_IN, N_OUT, RATE, Add

OPTIONS: dict[str, dict] = {
    "D_RTRL": {},
    "pp_prop": {"decay_or_rank": 0.9},
    "UORO": {"vjp_method": "single-step"},
}


class LeakyCell(brainstate.nn.RNNCell):
    """a = (1 - α) a + α tanh(W ahat)."""

    def __init__(self, n: int, alpha: float):
        super().__init__()
        self.n, self.W = n, braintrace.nn.Linear(N_IN + n, n)
        self.alpha = brainstate.ShortTermState(jnp.asarray(alpha))

    def init_state(self, batch_size: int | None = None, **kwargs) -> None:
        self.h = brainstate.HiddenState(jnp.zeros((batch_size, self.n)))

    def update(self, x):
        alpha, h = self.alpha.value, self.h.value
        self.h.value = (1 - alpha) * h + alpha * jnp.tanh(self.W(jnp.concatenate([x, h], axis=-1)))
        return self.h.value


CELLS: dict[str, Callable] = {
    "vanilla": lambda n: braintrace.nn.ValinaRNNCell(N_IN, n, activation="tanh"),
    "leaky": lambda n: LeakyCell(n, alpha=1.0),
}
KNOWN = [f"{algorithm} {cell}" for algorithm in OPTIONS for cell in CELLS]


def trainer(learner, readout) -> Callable:
    """A compiled call: a step for each row of inputs and labels, (step, stream, unit), and the mean loss of each."""
    weights = {"cell": learner.param_states, "readout": readout.states(brainstate.ParamState)}

    def loss(x, label):
        return -jnp.sum(label * jax.nn.log_softmax(readout(learner(x)))) / len(x)

    def step(x, label):
        gradients, value = brainstate.transform.grad(loss, weights, return_value=True)(x, label)
        for part in weights:
            for path, weight in weights[part].items():
                weight.value = jax.tree.map(lambda w, g: w - RATE * g, weight.value, gradients[part][path])
        return value

    return brainstate.transform.jit(lambda x, label: brainstate.transform.for_loop(step, x, label))


def runner(what: str, n: int, steps: int, streams: int = 1) -> Callable[[], np.ndarray]:
    """A call that takes `steps` steps and returns the loss of each; its first two calls compile."""
    algorithm, cell = what.split()
    example, options = jnp.zeros((streams, N_IN)), OPTIONS[algorithm]
    learner = braintrace.compile(CELLS[cell](n), algorithm, example, batch_size=streams, **options)
    advance = trainer(learner, brainstate.nn.Linear(n, N_OUT))
    rng, task = np.random.default_rng(0), Add(streams)

    def run() -> np.ndarray:
        return np.asarray(advance(*task.draw(rng, steps)))

    return run


def measure(what: str, n: int, repeats: int, steps: int | None = None) -> tuple[float, list[float]]:
    """The median of µs a step, and every repeat."""
    steps = steps or usual_steps(n)
    return micros_a_step(runner(what, n, steps), steps, repeats)


if __name__ == "__main__":
    script("braintrace", f"{braintrace.__version__}, jax {jax.__version__}", KNOWN, runner)

"""Do the libraries mean the same by exact RTRL? From the same weights, on the same stream, in double precision.

    python benchmarks/side_by_side/same_start.py

It prints how far the losses of single steps are from those of recurra, at most, over 20,000 steps, and how far they
would be with a rate that is 1 % larger. The numbers go to docs/comparison/results.json.
"""

import json
from collections.abc import Callable

import jax
import numpy as np
from run import RESULTS

from data import stream

N, RATE, SEED = 32, 0.001, 0


def with_recurra(weights: tuple, x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    import recurra as rc

    network = rc.Network(rc.RNN(2, N, dtype="float64"), 2)
    like = network.init(jax.random.key(0))
    W_in, W_rec, W_out = weights
    (gate,) = like.cell
    gate = gate._replace(inp=W_in, rec=W_rec, bias=np.zeros_like(gate.bias))
    readout = like.readout._replace(W=W_out, b=np.zeros(2))
    start = jax.tree.map(jax.numpy.asarray, like._replace(cell=(gate,), readout=readout))
    task = rc.Arrays(x, np.eye(2)[y])
    result = rc.train(network, rc.RTRL(), task, steps=len(x), optimizer=rate, start=start, window=1, progress=False)
    return np.asarray(result.loss)[0]


def with_vanilla_rtrl(weights: tuple, x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    from core import RNN, Simulation
    from functions import softmax, softmax_cross_entropy, tanh
    from learning_algorithms import RTRL
    from optimizers import Stochastic_Gradient_Descent

    rnn = RNN(*weights, np.zeros(N), np.zeros(2), tanh, 1, softmax, softmax_cross_entropy)
    simulation = Simulation(rnn)
    descent = Stochastic_Gradient_Descent(lr=rate)
    data = {"train": {"X": x, "Y": np.eye(2)[y]}}
    usual = {"monitors": ["rnn.loss_"], "a_initial": np.zeros(N), "verbose": False}
    simulation.run(data, learn_alg=RTRL(rnn), optimizer=descent, **usual)
    return simulation.mons["rnn.loss_"]


def with_braintrace(weights: tuple, x: np.ndarray, y: np.ndarray, rate: float) -> np.ndarray:
    import brainstate
    import braintools
    import braintrace
    import jax.numpy as jnp

    brainstate.environ.set(precision=64)
    cell, readout = braintrace.nn.ValinaRNNCell(2, N, activation="tanh"), brainstate.nn.Linear(N, 2)
    learner = braintrace.compile(cell, braintrace.SnAp, jnp.zeros((1, 2)), batch_size=1, n=2)
    W_in, W_rec, W_out = weights
    cell.W.weight.value = {"weight": jnp.asarray(np.hstack([W_in, W_rec]).T), "bias": jnp.zeros(N)}
    readout.weight.value = {"weight": jnp.asarray(W_out.T), "bias": jnp.zeros(2)}
    weights = {"cell": cell.states(brainstate.ParamState), "readout": readout.states(brainstate.ParamState)}

    def loss(row, label):
        return braintools.metric.softmax_cross_entropy_with_integer_labels(readout(learner(row)), label).mean()

    def step(row, label):
        gradients, value = brainstate.transform.grad(loss, weights, return_value=True)(row, label)
        for part in weights:
            for path, weight in weights[part].items():
                weight.value = jax.tree.map(lambda w, g: w - rate * g, weight.value, gradients[part][path])
        return value

    run = brainstate.transform.jit(lambda x, y: brainstate.transform.for_loop(step, x, y))
    return np.asarray(run(jnp.asarray(x[:, None], "float64"), jnp.asarray(y[:, None])))


OTHERS: dict[str, Callable] = {"vanilla-rtrl": with_vanilla_rtrl, "braintrace": with_braintrace}


def main() -> None:
    """Compare, print, and keep the numbers."""
    jax.config.update("jax_enable_x64", True)
    rng, (x, y) = np.random.default_rng(SEED), stream(SEED).values()
    W_rec = np.linalg.qr(rng.normal(size=(N, N)))[0]
    weights = rng.normal(size=(N, 2)) / 2**0.5, W_rec, rng.normal(size=(2, N)) / N**0.5
    own, known = with_recurra(weights, x, y, RATE), json.loads(RESULTS.read_text())
    for name, train in OTHERS.items():
        try:
            theirs = [train(weights, x, y, rate) for rate in (RATE, 1.01 * RATE)]
        except ImportError as error:
            print(f"{name:14} skipped, since it cannot be imported here: {error}")
            continue
        same, other = (float(np.abs(losses - own).max()) for losses in theirs)
        print(f"{name:14} {same:.1e}, with another rate {other:.1e}", flush=True)
        known.setdefault("same_start", {})[name] = {"difference": same, "with_another_rate": other}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()

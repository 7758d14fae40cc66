"""Microseconds that one row takes, from Python: `learn_one` with its prediction, beside what others take for a row.

    python benchmarks/latency.py --out bench

Every contestant gets the same rows, one call after the other, in rounds that alternate between contestants. The median
and the 99th percentile over all rows are reported. JAX starts the processor's programs from another thread unless it is
told otherwise before it first computes, so everything is measured in two processes, with that and without.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

#: rows of a round, and rounds
ROWS, ROUNDS = 400, 8
#: rows that are taken before anything counts
FIRST = 50
N_IN, N = 3, 32

Contestant = Callable[[np.ndarray, np.ndarray], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for latency.json")
    parser.add_argument("--one", choices=("synchronous", "asynchronous"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        json.dump(measured(options.one == "synchronous"), sys.stdout)
        return
    found = {kind: in_process(kind) for kind in ("synchronous", "asynchronous")}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "latency.json").write_text(json.dumps(found, indent=2) + "\n")
    print("| µs a row, median (99th percentile) | synchronous dispatch | JAX's default |\n|---|---|---|")
    for name in found["synchronous"]:
        print(f"| {name} | " + " | ".join(told(found[kind].get(name)) for kind in found) + " |")


def told(timing: dict[str, float] | None) -> str:
    return "–" if timing is None else f"{timing['median']:.1f} ({timing['p99']:.0f})"


def in_process(kind: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", kind]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measured(synchronous: bool) -> dict[str, dict[str, float]]:
    import jax

    if synchronous:
        jax.config.update("jax_cpu_enable_async_dispatch", False)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(FIRST + ROWS * ROUNDS, N_IN))
    Y = np.cumsum(X, axis=0)[:, :1] * 0.01 + np.tanh(X[:, 1:2])
    everyone = contestants()
    seconds: dict[str, list[float]] = {name: [] for name in everyone}
    for learn in everyone.values():
        for x, y in zip(X[:FIRST], Y[:FIRST], strict=True):
            learn(x, y)
    for k in range(ROUNDS):
        rows = slice(FIRST + k * ROWS, FIRST + (k + 1) * ROWS)
        for name, learn in everyone.items():
            for x, y in zip(X[rows], Y[rows], strict=True):
                began = time.perf_counter()
                learn(x, y)
                seconds[name].append(time.perf_counter() - began)
    microseconds = {name: [1e6 * each for each in taken] for name, taken in seconds.items()}
    return {
        name: {"median": statistics.median(taken), "p99": float(np.quantile(taken, 0.99))}
        for name, taken in microseconds.items()
    }


def contestants() -> dict[str, Contestant]:
    import jax

    import recurra as rc

    add = jax.jit(lambda state, row: state + row[0])
    state = jax.numpy.zeros(2500, "float32")
    found: dict[str, Contestant] = {
        "a compiled call that does nothing": lambda x, y: np.asarray(add(state, np.zeros(8, "float32"))),
        "RFLO, RNN": online(rc.RNN(N_IN, N), rc.RFLO(), 1e-3),
        "RFLO, RNN, Adam": online(rc.RNN(N_IN, N), rc.RFLO(), rc.Adam(1e-3)),
        "RFLO, RNN, least squares": online(rc.RNN(N_IN, N), rc.RFLO(), rc.Adam(1e-3), rc.RLS()),
        "RFLO, GRU": online(rc.GRU(N_IN, N), rc.RFLO(), 1e-3),
        "UORO, RNN": online(rc.RNN(N_IN, N), rc.UORO(), 1e-3),
        "E-BPTT, GRU": online(rc.GRU(N_IN, N), rc.EfficientBPTT(), 1e-3),
        "RTRL, RNN": online(rc.RNN(N_IN, N), rc.RTRL(), 1e-3),
        "race of six forecasters": rc.race(N_IN, horizon=0).learn_one,
        "RFLO, RNN, in NumPy": in_numpy(),
    }
    native: dict[str, tuple[Any, ...]] = {
        "RFLO, RNN": (rc.RNN(N_IN, N), rc.RFLO(), 1e-3),
        "RFLO, RNN, Adam": (rc.RNN(N_IN, N), rc.RFLO(), rc.Adam(1e-3)),
        "RFLO, RNN, least squares": (rc.RNN(N_IN, N), rc.RFLO(), rc.Adam(1e-3), rc.RLS()),
        "RFLO, GRU": (rc.GRU(N_IN, N), rc.RFLO(), 1e-3),
        "SnAp-1, GRU": (rc.GRU(N_IN, N), rc.SnAp1(), 1e-3),
        "UORO, RNN": (rc.RNN(N_IN, N), rc.UORO(), 1e-3),
        "E-BPTT, GRU": (rc.GRU(N_IN, N), rc.EfficientBPTT(), 1e-3),
        "RTRL, RNN": (rc.RNN(N_IN, N), rc.RTRL(), 1e-3),
    }
    for name, parts in native.items():
        found[f"{name}, native"] = online(*parts, native=True)
    race = rc.race(N_IN, horizon=0)
    race.native = True
    found["race of six forecasters, native"] = race.learn_one
    if find_spec("river"):
        from river import linear_model, preprocessing, tree

        scaled = lambda model: of_river(preprocessing.StandardScaler() | model)
        found["River: linear regression"] = scaled(linear_model.LinearRegression())
        found["River: Hoeffding tree"] = scaled(tree.HoeffdingTreeRegressor())
    return found


def online(cell: Any, learner: Any, optimizer: Any, readout: Any = None, native: bool = False) -> Contestant:
    import recurra as rc

    network = rc.Network(cell, 1, rc.SquaredError())
    step = rc.LearningStep(network, learner, optimizer, readout=readout)
    return rc.Online(rc.OnlineStep(step), native=native).learn_one


def of_river(model: Any) -> Contestant:
    def learn(x: np.ndarray, y: np.ndarray) -> object:
        row, label = dict(enumerate(x.tolist())), float(y[0])
        predicted = model.predict_one(row)
        model.learn_one(row, label)
        return predicted

    return learn


def in_numpy() -> Contestant:
    """RFLO with plain gradient descent, as a textbook would write it; inputs are not standardised."""
    rng = np.random.default_rng(0)
    W, W_out = rng.normal(size=(N, N + N_IN + 1)) / N**0.5, rng.normal(size=(1, N)) / N**0.5
    b_out, a, B = np.zeros(1), np.zeros(N), np.zeros((N, N + N_IN + 1))

    def learn(x: np.ndarray, y: np.ndarray) -> object:
        nonlocal a, B, W, W_out, b_out
        ahat = np.concatenate([a, x, [1.0]])
        a = np.tanh(W @ ahat)
        B = np.outer(1 - a * a, ahat)  # with α = 1 nothing of the past stays in RFLO's trace
        z = W_out @ a + b_out
        error = z - y
        gradient = (error @ W_out)[:, None] * B
        W_out, b_out, W = W_out - 1e-3 * np.outer(error, a), b_out - 1e-3 * error, W - 1e-3 * gradient
        return z

    return learn


if __name__ == "__main__":
    main()

"""Cells that are read from people's steps, beside the same cells of the library: in `train`, and in `online_grad`.

    python benchmarks/your_cell.py --out bench
    python benchmarks/your_cell.py --n 64 --rows train

Every row is a ratio of two contestants, which are called in turn on one core: see `turns`. CPU seconds are counted, and
the ratio is the median over rounds. Writes your_cell.json, and prints the table. It needs Flax.
"""

import argparse
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: the most that a ratio may be
WANTED = {"train": 1.05, "packed": 1.5, "own tree": 1.5}
LEARNERS = ("rflo", "snap-1", "uoro", "kf-rtrl")


def main() -> None:
    """Measure, print, write."""
    options = parse()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[options.core :][:1])
    from after import row
    from recurra.training.provenance import machine, versions

    rows = []
    for kind, what, n, runs in contests(options):
        measured = row(runs, 1, options.repeats)
        rows.append({"kind": kind, "what": what, "n": n, "wanted": WANTED[kind], **measured})
        middle, least, most = measured["ratio"]
        print(f"{kind:9} {what:34} n = {n:4}  {middle:5.2f}  ({least:.2f} to {most:.2f})", flush=True)
        if options.out:  # as it is measured
            options.out.mkdir(parents=True, exist_ok=True)
            report = {"machine": machine(), "versions": versions(), "rows": rows}
            (options.out / "your_cell.json").write_text(json.dumps(report, indent=1) + "\n")


def foreign(n: int) -> dict[str, tuple[Any, Any, Any, Any]]:
    """By name a thing, its parameters, its carry, and the cell of the library that is the same."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    from flax import nnx

    import recurra as rc

    key, h = jax.random.key(0), jnp.zeros(n)
    own = {"W": jnp.eye(n), "U": jnp.ones((n, 2)), "b": jnp.zeros(n)}
    step = lambda p, h, x: jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])
    return {
        "eqx GRU": (eqx.nn.GRUCell(2, n, key=key), None, h, rc.GRU(2, n, dtype="float32")),
        "eqx LSTM": (eqx.nn.LSTMCell(2, n, key=key), None, (h, h), rc.LSTM(2, n, dtype="float32")),
        "nnx GRU": (nnx.GRUCell(2, n, rngs=nnx.Rngs(0)), None, h, rc.GRU(2, n, dtype="float32")),
        "function": (step, own, h, rc.RNN(2, n, dtype="float32")),
    }


def contests(options: argparse.Namespace) -> Iterator[tuple[str, str, int, dict[str, Callable]]]:
    """Each row: its kind, what it is, its units, and who runs."""
    import recurra as rc
    from after import library_run

    for n in options.n:
        for name, (thing, params, carry, native) in foreign(n).items():
            cell = rc.cell_of(thing, params, carry=carry, x=2, unitwise=True)
            for learner in (rc.LEARNERS[each]() for each in options.learners):
                of = lambda cell, learner=learner: functools.partial(library_run, cell, learner, 1)
                runs = {"train": {"read": of(cell), "native": of(native)}}
                loop = lambda cell, form, learner=learner: functools.partial(own_loop, cell, learner, form)
                runs["packed"] = {"packed": loop(cell, "packed"), "native": loop(native, "packed")}
                runs["own tree"] = {"own tree": loop(cell, "own tree"), "native": loop(native, "packed")}
                for kind in options.rows:
                    yield kind, f"{learner.name}, {name}", n, runs[kind]


def own_loop(cell: Any, learner: Any, form: str) -> Callable[[int], Callable[[], object]]:
    """A scan of one's own: a gradient of the sum of squares of the state at every step, and plain descent."""
    import jax
    import jax.numpy as jnp

    import recurra as rc

    grad = rc.online_grad(cell, learner)
    params = cell.parameters(cell.init_weights(jax.random.key(0)))
    params = grad.pack(params) if form == "packed" else params
    running = params, grad.init(params, jax.random.key(1))

    def step(running: Any, x: Any) -> tuple[Any, Any]:
        params, state = running
        state = grad.observe(params, state, x)
        h = grad.shown(state)
        gradients = grad.gradient(params, state, h)
        return (jax.tree.map(lambda w, g: w - 1e-6 * g, params, gradients), state), jnp.sum(h * h)

    def taking(steps: int) -> Callable[[], object]:
        xs = jax.random.normal(jax.random.key(2), (steps, 2))
        go = jax.jit(lambda running: jax.lax.scan(step, running, xs))
        return lambda: jax.block_until_ready(go(running))

    return taking


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, nargs="+", default=[64, 256], help="units")
    parser.add_argument("--rows", nargs="+", choices=[*WANTED], default=[*WANTED], help="kinds of rows")
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=LEARNERS, help="learners")
    parser.add_argument("--repeats", type=int, default=5, help="rounds")
    parser.add_argument("--core", type=int, default=0, help="the core that it runs on")
    parser.add_argument("--out", type=Path, help="the folder of your_cell.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()

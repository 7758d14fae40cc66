"""Every algorithm as a plain NumPy loop: what most labs have, and the first thing the library is compared with."""

from collections.abc import Callable

import numpy as np

from textbook import future, past
from textbook.loop import Add, Learner, Network, train

ALGORITHMS: dict[str, type[Learner]] = {
    "rtrl": past.RTRL,
    "uoro": past.UORO,
    "kf-rtrl": past.KFRTRL,
    "r-kf-rtrl": past.RKFRTRL,
    "r-ok": past.ROK,
    "kernl": past.KeRNL,
    "rflo": past.RFLO,
    "e-bptt": future.EBPTT,
    "f-bptt": future.FBPTT,
    "dni": future.DNI,
    "dni-b": future.DNIb,
    "fixed": future.Fixed,
}


def runner(name: str, n: int, steps: int, dtype: str = "float32", seed: int = 0) -> Callable[[], np.ndarray]:
    """A call that takes one network of n units `steps` steps further on the Add task, and returns the loss of each."""
    rng, task, done = np.random.default_rng(seed), Add(), 0
    net = Network.random(n, rng, dtype)
    learner = ALGORITHMS[name](net, rng)

    def run() -> np.ndarray:
        nonlocal done
        inputs, labels = task.draw(rng, steps, dtype)
        losses = train(net, learner, inputs, labels, learner.draw(rng, steps), first=done)
        done += steps
        return losses

    return run

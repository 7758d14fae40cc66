"""The NumPy loops of `textbook`, measured as the other peers are."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.report import micros_a_step, script, use_one_core, usual_steps

if __name__ == "__main__":
    use_one_core()

import numpy as np

from textbook import ALGORITHMS, runner


def measure(what: str, n: int, repeats: int, steps: int | None = None) -> tuple[float, list[float]]:
    """The median of µs a step, and every repeat."""
    steps = steps or usual_steps(n)
    return micros_a_step(runner(what, n, steps), steps, repeats)


if __name__ == "__main__":
    script("NumPy", np.__version__, list(ALGORITHMS), runner)

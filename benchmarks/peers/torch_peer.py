"""Truncated backpropagation through time in PyTorch: T = 10, one network, one core, gradient descent every T steps.

`nn.RNN` is one call for T steps; `nn.RNNCell` is the loop one writes when each step depends on what came before it.
Arrays always have an axis for streams, if only for one: both modules would otherwise add and remove it at every call.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.report import micros_a_step, script, use_one_core, usual_steps

if __name__ == "__main__":
    use_one_core()

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from textbook.loop import N_IN, N_OUT, RATE, Add

T = 10


class Whole(nn.Module):
    """T steps in one call."""

    def __init__(self, n: int):
        super().__init__()
        self.rnn, self.readout = nn.RNN(N_IN, n), nn.Linear(n, N_OUT)

    def forward(self, x, a):
        activity, last = self.rnn(x, a[None])
        return self.readout(activity), last[0]


class Stepwise(nn.Module):
    """A Python loop over T steps."""

    def __init__(self, n: int):
        super().__init__()
        self.cell, self.readout = nn.RNNCell(N_IN, n), nn.Linear(n, N_OUT)

    def forward(self, x, a):
        activity = []
        for row in x.unbind():
            a = self.cell(row, a)
            activity.append(a)
        return self.readout(torch.stack(activity)), a


MODELS: dict[str, type[nn.Module]] = {"nn.RNN": Whole, "nn.RNNCell": Stepwise}


def runner(what: str, n: int, steps: int, streams: int = 1) -> Callable[[], np.ndarray]:
    """A call that takes `steps` steps, a multiple of T, and returns every loss."""
    if steps % T:
        raise ValueError(f"steps is {steps}: the weights change every {T} steps, so it must be a multiple of {T}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng, task, model, a = np.random.default_rng(0), Add(streams), MODELS[what](n), torch.zeros(streams, n)
    descent = torch.optim.SGD(model.parameters(), RATE / streams)  # along the mean of their gradients

    def run() -> np.ndarray:
        nonlocal a
        inputs, labels = map(torch.from_numpy, task.draw(rng, steps))
        losses = []
        for x, label in zip(inputs.split(T), labels.split(T), strict=True):
            descent.zero_grad()
            logits, a = model(x, a)
            loss = cross_entropy(logits.flatten(0, 1), label.flatten(0, 1), reduction="none")
            loss.sum().backward()
            descent.step()
            a = a.detach()
            losses.append(loss.detach())
        return torch.cat(losses).numpy()

    return run


def measure(what: str, n: int, repeats: int, steps: int | None = None) -> tuple[float, list[float]]:
    """The median of µs a step, and every repeat."""
    steps = steps or usual_steps(n)
    return micros_a_step(runner(what, n, steps), steps, repeats)


if __name__ == "__main__":
    script("PyTorch", torch.__version__, list(MODELS), runner)

"""Stand-ins for what a worker computes. Workers import this module, so it needs nothing but NumPy and orders."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from recurra.training.cases import Sent
from recurra.training.places.base import Computed, Member, Order, versions


class Told(Sent):
    """What a stand-in is to do, in the place of cases."""

    def __init__(self, told):
        self.told = told

    def __getstate__(self):
        return vars(self)


def order(number=0, **settings):
    """An order that a stand-in understands: what it is to do stands in the place of its cases."""
    settings = {"number": number, **settings}
    gains, installed = settings.pop("gains", False), settings.pop("versions", None) or versions()
    key = np.zeros(2, np.uint32), "fry"
    return Order(Told(settings), (number,), (Member(0, 0),), 10, key, installed, learners=("rflo",), gains=gains)


def computed(order):
    """An outcome that depends on the order alone, and tells which process and cores it came from."""
    number = order.cases.told["number"]
    loss = np.random.default_rng(number).normal(size=(1, 5))
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    values = {"loss": loss, "final_loss": loss[:, -1], "diverged_at": np.array([-1])}
    return Computed(values, {"step": np.arange(5)}, {"loss": ("step",)}, 0.0, 0.0, str(os.getpid()), cores)


def compute(order):
    """Takes `seconds`; raises, or ends its process, if a file of that name is not there yet."""
    task = order.cases.told
    time.sleep(task.get("seconds", 0))
    if "raises" in task:
        raise ValueError(task["raises"])
    if "raises_once" in task and _is_first(task["raises_once"]):
        raise MemoryError("out of memory\nwith more lines")
    if "dies" in task or ("dies_once" in task and _is_first(task["dies_once"])):
        time.sleep(0.2)  # until it is known that what was before it has ended
        os.kill(os.getpid(), signal.SIGKILL)
    return computed(order)


def _is_first(path):
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def continues(order):
    """Gives back a state that has become larger by 1."""
    import dataclasses

    return dataclasses.replace(computed(order), state=tuple(tuple(each + 1 for each in one) for one in order.state))

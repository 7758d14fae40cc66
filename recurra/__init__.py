"""Online learning for recurrent networks: every algorithm behind one small interface."""

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what tools and readers see; at run time each name is imported on first use, see `_HOMES`
    from recurra import cells as cells
    from recurra import learners as learners
    from recurra import noise as noise
    from recurra import record as record
    from recurra import tasks as tasks
    from recurra.cells import GRU as GRU
    from recurra.cells import LSTM as LSTM
    from recurra.cells import RNN as RNN
    from recurra.cells import GeneralCell as GeneralCell
    from recurra.learners import DNI as DNI
    from recurra.learners import KFRTRL as KFRTRL
    from recurra.learners import LEARNERS as LEARNERS
    from recurra.learners import RFLO as RFLO
    from recurra.learners import RKFRTRL as RKFRTRL
    from recurra.learners import ROK as ROK
    from recurra.learners import RTRL as RTRL
    from recurra.learners import UORO as UORO
    from recurra.learners import DNIb as DNIb
    from recurra.learners import EfficientBPTT as EfficientBPTT
    from recurra.learners import Fixed as Fixed
    from recurra.learners import FutureBPTT as FutureBPTT
    from recurra.learners import KeRNL as KeRNL
    from recurra.losses import SigmoidCrossEntropy as SigmoidCrossEntropy
    from recurra.losses import SoftmaxCrossEntropy as SoftmaxCrossEntropy
    from recurra.losses import SquaredError as SquaredError
    from recurra.moment import Moment as Moment
    from recurra.network import Network as Network
    from recurra.result import Result as Result
    from recurra.result import standard_error as standard_error
    from recurra.tasks import Add as Add
    from recurra.tasks import Arrays as Arrays
    from recurra.tasks import Mimic as Mimic
    from recurra.training import train as train

__version__ = "0.1.0"

# A step of a small network takes less time than starting the dozens of kernels it is cut into. Up to this many bytes
# touched a step, JAX's compiler for CPUs makes one kernel of a whole training loop instead, and runs it up to three
# times as fast. JAX reads it when it first computes; what a user has set there stays.
if "xla_backend_extra_options" not in (_flags := os.environ.get("XLA_FLAGS", "")):
    _limit = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={2**24}"
    os.environ["XLA_FLAGS"] = f"{_flags} {_limit}".strip()

#: The module each public name comes from. JAX takes a second to import, and the command line must answer `--help`
#: without it, so nothing is imported before it is asked for.
_HOMES = {
    "": ("cells", "learners", "noise", "record", "tasks"),
    "cells": ("GRU", "LSTM", "RNN", "GeneralCell"),
    "learners": (
        "DNI", "KFRTRL", "LEARNERS", "RFLO", "RKFRTRL", "ROK", "RTRL", "UORO", "DNIb", "EfficientBPTT", "Fixed",
        "FutureBPTT", "KeRNL",
    ),
    "moment": ("Moment",),
    "losses": ("SigmoidCrossEntropy", "SoftmaxCrossEntropy", "SquaredError"),
    "network": ("Network",),
    "result": ("Result", "standard_error"),
    "tasks": ("Add", "Arrays", "Mimic"),
    "training": ("train",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` believes in every name

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "__all__":  # asked for by `from recurra import *`
            return list(_MODULE_OF)
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'recurra' has no attribute {name!r}")
        module = _MODULE_OF[name]
        value = getattr(import_module(f"recurra.{module}"), name) if module else import_module(f"recurra.{name}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *(name for name in globals() if name.startswith("__"))])

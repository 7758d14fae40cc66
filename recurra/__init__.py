"""Online learning for recurrent networks: every algorithm behind one small interface."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what tools and readers see; at run time each name is imported on first use, see `_HOMES`
    from recurra import cells as cells
    from recurra import learners as learners
    from recurra import tasks as tasks
    from recurra.cells import ALIF as ALIF
    from recurra.cells import ELSTM as ELSTM
    from recurra.cells import GRU as GRU
    from recurra.cells import LIF as LIF
    from recurra.cells import LRU as LRU
    from recurra.cells import LSTM as LSTM
    from recurra.cells import RNN as RNN
    from recurra.cells import RTU as RTU
    from recurra.cells import ColumnarLSTM as ColumnarLSTM
    from recurra.cells import GeneralCell as GeneralCell
    from recurra.cells import MinGRU as MinGRU
    from recurra.cells import NonlinearRTU as NonlinearRTU
    from recurra.cells import Stack as Stack
    from recurra.cells import UnitwiseCell as UnitwiseCell
    from recurra.engine.on_chip.engine import OnChipEngine as OnChipEngine
    from recurra.engine.scan import ScanEngine as ScanEngine
    from recurra.learners import *  # noqa: F403
    from recurra.linalg import noise as noise
    from recurra.losses import FiringRate as FiringRate
    from recurra.losses import Loss as Loss
    from recurra.losses import Regularizer as Regularizer
    from recurra.losses import SigmoidCrossEntropy as SigmoidCrossEntropy
    from recurra.losses import SoftmaxCrossEntropy as SoftmaxCrossEntropy
    from recurra.losses import SquaredError as SquaredError
    from recurra.network import Network as Network
    from recurra.network import NetworkWeights as NetworkWeights
    from recurra.online.defaults import forecaster as forecaster
    from recurra.online.defaults import race as race
    from recurra.online.diverging import Diverged as Diverged
    from recurra.online.files import load as load
    from recurra.online.files import save as save
    from recurra.online.intervals import Intervals as Intervals
    from recurra.online.model import Online as Online
    from recurra.online.race import Race as Race
    from recurra.online.step import OnlineStep as OnlineStep
    from recurra.saved.archive import SavedFileError as SavedFileError
    from recurra.step import RLS as RLS
    from recurra.step import SGD as SGD
    from recurra.step import Adam as Adam
    from recurra.step import DelayedStep as DelayedStep
    from recurra.step import GivenCredit as GivenCredit
    from recurra.step import GivenError as GivenError
    from recurra.step import LearningStep as LearningStep
    from recurra.step import Outcome as Outcome
    from recurra.step import PerGate as PerGate
    from recurra.step import Sensitivity as Sensitivity
    from recurra.tasks import BLOCK as BLOCK
    from recurra.tasks import Add as Add
    from recurra.tasks import Adding as Adding
    from recurra.tasks import Arrays as Arrays
    from recurra.tasks import Copy as Copy
    from recurra.tasks import Digits as Digits
    from recurra.tasks import Evidence as Evidence
    from recurra.tasks import Mimic as Mimic
    from recurra.tasks import Parity as Parity
    from recurra.tasks import Pattern as Pattern
    from recurra.tasks import Rows as Rows
    from recurra.tasks import Task as Task
    from recurra.training import provenance as provenance
    from recurra.training import record as record
    from recurra.training.checkpoint import CheckpointError as CheckpointError
    from recurra.training.checkpoint import UselessCheckpointError as UselessCheckpointError
    from recurra.training.interrupts import Interrupted as Interrupted
    from recurra.training.result import Result as Result
    from recurra.training.result import standard_error as standard_error
    from recurra.training.sweep import sweep as sweep
    from recurra.training.train import train as train

from recurra.engine import one_kernel as _one_kernel

__version__ = "0.1.0"

_one_kernel.request()

#: The module each public name comes from. JAX takes a second to import, and the command line must answer `--help`
#: without it, so nothing is imported before it is asked for. Learners are not listed: see `recurra.learners`.
_HOMES = {
    "": ("cells", "learners", "tasks"),
    "cells": (
        *("ALIF", "ELSTM", "GRU", "LIF", "LRU", "LSTM", "RNN", "RTU", "ColumnarLSTM", "MinGRU", "NonlinearRTU"),
        *("GeneralCell", "Stack", "UnitwiseCell"),
    ),
    "engine.on_chip.engine": ("OnChipEngine",),
    "engine.scan": ("ScanEngine",),
    "linalg": ("noise",),
    "losses": ("FiringRate", "Loss", "Regularizer", "SigmoidCrossEntropy", "SoftmaxCrossEntropy", "SquaredError"),
    "network": ("Network", "NetworkWeights"),
    "online.defaults": ("forecaster", "race"),
    "online.diverging": ("Diverged",),
    "online.files": ("load", "save"),
    "online.intervals": ("Intervals",),
    "online.model": ("Online",),
    "online.race": ("Race",),
    "online.step": ("OnlineStep",),
    "saved.archive": ("SavedFileError",),
    "step": (
        *("RLS", "SGD", "Adam", "DelayedStep", "GivenCredit", "GivenError", "LearningStep", "Outcome", "PerGate"),
        "Sensitivity",
    ),
    "tasks": (
        *("BLOCK", "Add", "Adding", "Arrays", "Copy", "Digits", "Evidence", "Mimic", "Parity", "Pattern"),
        *("Rows", "Task"),
    ),
    "training": ("provenance", "record"),
    "training.checkpoint": ("CheckpointError", "UselessCheckpointError"),
    "training.interrupts": ("Interrupted",),
    "training.result": ("Result", "standard_error"),
    "training.sweep": ("sweep",),
    "training.train": ("train",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` would accept every name

    def __getattr__(name: str) -> Any:
        if name == "__all__":  # asked for by `from recurra import *`
            return [*_MODULE_OF, *_of_learners()]
        # Learners begin with a capital letter. Any other name may be a module that is just being imported.
        if name not in _MODULE_OF and not (name[:1].isupper() and name in _of_learners()):
            raise AttributeError(f"module 'recurra' has no attribute {name!r}")
        globals()[name] = value = _found(_MODULE_OF.get(name, "learners"), name)
        return value


def _found(module: str, name: str) -> Any:
    """A public name from its module, or a module itself."""
    from importlib import import_module

    if not module:
        return import_module(f"recurra.{name}")
    home = import_module(f"recurra.{module}")
    return getattr(home, name) if hasattr(home, name) else import_module(f"recurra.{module}.{name}")


def _of_learners() -> list[str]:
    """The names of every learner and of their bases."""
    from recurra import learners

    return vars(learners)["__all__"]


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, *_of_learners(), *(name for name in globals() if name.startswith("__"))])

"""What a training run leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from recurra.network import NetworkWeights
from recurra.online import files
from recurra.saved.whole_files import write_whole
from recurra.step import LearningState
from recurra.training.handover import Handover, warn_of_weights_alone

if TYPE_CHECKING:
    import xarray

    from recurra.online.model import Online


#: what the variables of data sets are
LONG_NAMES = {
    "loss": "loss, mean over a window",
    "step": "steps at the end of the window",
    "final_loss": "mean loss over the last tenth of the steps; nan where it diverged",
    "diverged_at": "first step with a non-finite loss; -1 for none",
    "steps_done": "steps that were taken; 0: it was not computed",
    "seconds": "a network's share of the time that its group took",
    "evaluated_loss": "held-out loss",
    "best_step": "step with the lowest held-out loss; -1 for none",
}


@dataclass(frozen=True)
class Result:
    """One learner over many seeds.

    `loss[s, w]` is the mean loss of seed s over the labelled steps of window w, which ends after step `step[w]`; the
    last window may be shorter. `records[name]` holds what was asked for, leaves (seed, step, ...), of every
    `record_every`-th step from step 0 on. `diverged` maps a seed to the first step at which its loss was not finite.

    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
    >>> result = rc.train(network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200, seeds=2)
    >>> result.final_loss().shape
    (2,)
    >>> network.run(result.weights_of(seed=1), np.zeros((5, 2))).shape
    (5, 2)
    """

    seeds: tuple[int, ...]
    step: np.ndarray
    loss: np.ndarray
    weights: NetworkWeights
    records: dict[str, PyTree[np.ndarray]]
    record_every: int
    diverged: dict[int, int]
    steps: int
    interrupted: bool
    seconds: float
    compile_seconds: float
    #: how many steps of each window had a label, (seed, window); None: all of them
    labelled: np.ndarray | None = None
    #: with `evaluate`: the steps after which the held-out loss was taken, and the losses, (seed, evaluation)
    evaluated_step: np.ndarray | None = None
    evaluated_loss: np.ndarray | None = None
    #: with `metrics`: each of them by its name, (seed, evaluation)
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    #: where each seed's held-out loss was lowest, and the weights there; -1 and nan for a seed that has no finite one
    best_step: np.ndarray | None = None
    best_weights: NetworkWeights | None = None
    # what `online` and `states` need
    handover: Handover | None = None

    def __repr__(self) -> str:
        loss = self.final_loss()
        kept = loss[np.isfinite(loss)]
        spread = f" ± {standard_error(kept):.2g}" if len(kept) > 1 else ""
        parts = [
            f"{len(self.seeds)} seed{'s' * (len(self.seeds) > 1)}",
            f"{self.steps:,} steps" + " (interrupted)" * self.interrupted,
            f"final loss {kept.mean():.4g}{spread}" if len(kept) else "no final loss",
            *([f"{len(self.diverged)} diverged"] if self.diverged else []),
            *(f"{name} {np.nanmean(values[:, -1]):.4g}" for name, values in self.metrics.items() if values.size),
            *([f"records of {', '.join(self.records)}"] if self.records else []),
        ]
        return f"Result({', '.join(parts)})"

    def final_loss(self, last: float = 0.1) -> np.ndarray:
        """Each seed's mean loss over the labelled steps of all windows that end in the last part of the run, a tenth.

        It is nan for a seed that diverged, whether or not its loss came back. A `last` outside (0, 1] is a ValueError.
        """
        if not 0 < last <= 1:
            raise ValueError(f"`last` is the part of the run to average over, in (0, 1], and is {last}.")
        if not len(self.step):
            return np.full(len(self.seeds), np.nan)
        length = np.broadcast_to(np.diff(self.step, prepend=0), self.loss.shape)
        weight = length if self.labelled is None else self.labelled
        return mean_at_end(self.step, self.loss, weight, [seed in self.diverged for seed in self.seeds], last)

    @property
    def states(self) -> LearningState | None:
        """Each seed's whole state after the run, leaves (seed, ...), from which `train(start=...)` goes on.

        It has weights, optimizer, network state and traces. With a horizon, rows that wait for their labels are not
        among them. It is None where the states take more than 256 MB.
        """
        return None if self.handover is None else self.handover.states

    def online(self, seed: int | None = None, best: bool = False) -> "Online":
        """The trained network of a seed as a `recurra.Online`, ready to predict and to go on learning.

        It takes rows as the task has them, without any scaling, and has the learner, the optimizer and the horizon of
        the run. It goes on where the run ended: with its weights, network state, traces, optimizer and random numbers.
        So `learn_many` on the task's next rows does what a longer run would have done, up to rounding. After a task
        that sets the network back, rows may say that a sequence begins, `learn_one(x, y, reset=True)`. The weights and
        the state that it starts with have the bits of the run. What comes after has not, since the same sums are
        compiled otherwise. `seed` may be left out if there is only one.

        States of more than 256 MB are not kept in a result. A model then starts with the weights alone, and a warning
        says so. With `best` it starts with the weights alone too: those with the lowest held-out loss. A seed that is
        not there, or whose numbers are not finite, is a ValueError.
        """
        row, handover = self._row(seed), self._handed_over()
        of_seed = self.weights_of(seed, best)
        state = None if best or handover.ends is None else jax.tree.map(lambda leaf: leaf[row], handover.ends)
        self._check_finite(row, (of_seed, state))
        if state is None and not best:
            warn_of_weights_alone()
        return handover.model(of_seed, None if state is None else row)

    def save(self, path: Path | str, seed: int | None = None, best: bool = False) -> None:
        """Put the trained network of a seed into a file, which `recurra.load` makes a `recurra.TrainedNetwork` of.

        It works after any task. The file has the network and its weights; with `best` those with the lowest held-out
        loss. To keep the state, the traces and the optimizer too, save the model that goes on learning:
        `recurra.save(path, result.online(seed))`. `seed` may be left out if there is only one. A seed that is not
        there, or whose weights are not finite, is a ValueError, and a file that cannot be written a
        `recurra.SavedFileError`.

        >>> import tempfile
        >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2)
        >>> result = rc.train(network, rc.RFLO(), rc.Add(t1=1, t2=2), steps=200)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result.save(f"{folder}/network.safetensors")
        ...     trained = rc.load(f"{folder}/network.safetensors")
        >>> trained.run(np.zeros((5, 2))).shape
        (5, 2)
        """
        row, network = self._row(seed), self._handed_over().network
        weights = self.weights_of(seed, best)
        self._check_finite(row, weights)
        files.save(path, network, weights)

    def _handed_over(self) -> Handover:
        if self.handover is None:
            raise ValueError(
                "This result was not made by `train`, and has no network: use recurra.Online, or "
                "recurra.save(path, network, weights)."
            )
        return self.handover

    def _check_finite(self, row: int, tree: PyTree) -> None:
        """Raise unless all numbers of the seed in this row are finite."""
        floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        if not all(np.isfinite(leaf).all() for leaf in floats):
            raise ValueError(
                f"The network of seed {self.seeds[row]} is not finite, and cannot go on: choose another seed, or with "
                "`evaluate` the best weights, best=True."
            )

    def weights_of(self, seed: int | None = None, best: bool = False) -> NetworkWeights:
        """The weights of one seed, as `Network.run` takes them; with `best`, those with its lowest held-out loss.

        `seed` may be left out if there is only one. A seed that is not there is a ValueError.
        """
        row, weights = self._row(seed), self.best_weights if best else self.weights
        if weights is None:
            raise ValueError("`best` needs held-out losses, and there are none: pass `evaluate` to `train`.")
        return jax.tree.map(lambda leaf: leaf[row], weights)

    def _row(self, seed: int | None) -> int:
        """Where a seed is in arrays."""
        if seed is None and len(self.seeds) == 1:
            return 0
        if seed not in self.seeds:
            raise ValueError(f"`seed` must be one of {self.seeds}, and is {seed!r}.")
        return self.seeds.index(seed)

    def to_xarray(self) -> "xarray.Dataset":
        """The losses as a data set, with the names that `sweep` gives them. Without xarray there is an ImportError."""
        try:
            import xarray
        except ImportError as error:
            raise ImportError(
                "`to_xarray` needs xarray, which is not installed: pip install 'recurra[results]'"
            ) from error

        data = xarray.Dataset(
            {"loss": (("seed", "step"), self.loss)},
            coords={"seed": list(self.seeds), "step": self.step},
            attrs={"interrupted": int(self.interrupted), "steps": self.steps},
        )
        diverged = np.array([self.diverged.get(seed, -1) for seed in self.seeds])
        data["final_loss"] = ("seed", self.final_loss())
        data["diverged_at"] = ("seed", diverged)
        data["steps_done"] = ("seed", np.full(len(self.seeds), self.steps))
        if self.evaluated_loss is not None:
            data["evaluated_step"] = ("evaluated_step", self.evaluated_step)
            data["evaluated_loss"] = (("seed", "evaluated_step"), self.evaluated_loss)
            data["best_step"] = ("seed", self.best_step)
            for name, values in self.metrics.items():
                data[f"evaluated_{name}"] = (("seed", "evaluated_step"), values)
                data[f"evaluated_{name}"].attrs["long_name"] = f"held-out {name}"
        return with_long_names(data)


def with_long_names(data: "xarray.Dataset") -> "xarray.Dataset":
    """The data set, whose variables say what they are."""
    for name in LONG_NAMES.keys() & data.variables.keys():
        data[name].attrs["long_name"] = LONG_NAMES[name]
    return data


def mean_at_end(
    step: np.ndarray, loss: np.ndarray, labelled: np.ndarray, diverged: Sequence[bool], last: float = 0.1
) -> np.ndarray:
    """Each row's mean loss over labelled steps of all windows that end in the last part of the steps, a tenth.

    Windows end after the steps `step`, and have so many labelled ones each. Rows that diverged have nan.
    """
    inside = step > step[-1] * (1 - last)
    loss, weight = loss[:, inside], labelled[:, inside]
    total = weight.sum(axis=1)
    # A window without a label has no loss.
    mean = np.where(total > 0, np.where(weight > 0, weight * loss, 0).sum(axis=1) / np.maximum(total, 1), np.nan)
    return np.where(diverged, np.nan, mean)


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean over seeds; nan for a single one.

    >>> round(rc.standard_error(np.array([1.0, 2.0, 3.0])), 3)
    0.577
    """
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def save(data: "xarray.Dataset", path: Path, *, new: bool = False) -> None:
    """Write a netCDF file, whole or not at all; with `new` there must be no such file."""
    content = data.to_netcdf(engine="h5netcdf")  # HDF5 crashes where a disk is full, so it writes to memory
    write_whole(path, lambda file: file.write(content), new=new)

"""Held-out losses and metrics along a run: what the network makes, at times, of rows it does not learn from."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray

from recurra import checks
from recurra.engine.experiment import Experiment
from recurra.engine.protocol import Engine, Members, Run
from recurra.learners import Fixed
from recurra.losses import Loss
from recurra.network import Network, NetworkWeights
from recurra.saved.trees import arrays_of, filled
from recurra.step import APPLIED
from recurra.tasks.arrays import Arrays
from recurra.tasks.base import Rows, Task
from recurra.training.checkpoint import Gathered
from recurra.training.gathering import LossWindows
from recurra.training.metrics import MetricFunction, checked_metrics, finished, of_step
from recurra.training.recording import StepRecorder

#: steps of an endless task
STEPS = 1000
#: parts of a run after which it is evaluated, if nothing is said
PARTS = 10
#: what tells the rows of an evaluation from those of training
OTHER_ROWS = 0x0E7A1
#: how the arrays of evaluations are called in a checkpoint
PREFIX = "held_out/"


class HeldOut(Task):
    """Rows of a task that training does not see. What there is to learn, such as a network to mimic, is the same."""

    task: Task

    @property
    def horizon(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.task.horizon

    @property
    def n_in(self) -> int:
        return self.task.n_in

    @property
    def n_out(self) -> int:
        return self.task.n_out

    @property
    def streams(self) -> int:
        return self.task.streams

    @property
    def epoch(self) -> int | None:
        return self.task.epoch

    def traced(self) -> Task:
        return HeldOut(self.task.traced())

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        self.task.check(loss, steps, streams, dtype)

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Any:
        return self.task.init(key, dtype)

    def in_stream(self, state: Any, stream: Int[jax.Array, ""]) -> Any:
        return self.task.in_stream(state, stream)

    def block(self, state: Any, key: PRNGKeyArray, number: Int[jax.Array, ""], dtype: jnp.dtype) -> tuple[Rows, Any]:
        return self.task.block(state, jax.random.fold_in(key, OTHER_ROWS), number, dtype)


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated after every `every` steps, on so many `steps` of its own: the loss, and the metrics."""

    experiment: Experiment
    steps: int
    every: int
    metrics: dict[str, Any]

    @staticmethod
    def of(
        network: Network,
        task: Task | None,
        every: int | None,
        steps: int | None,
        run_steps: int,
        streams: int,
        metrics: Mapping[str, MetricFunction] | None = None,
    ) -> "Evaluation | None":
        """The plan, checked; None if there is nothing to evaluate."""
        if task is None:
            if every is not None or steps is not None or metrics is not None:
                raise ValueError(
                    "`evaluate_every`, `evaluate_steps` and `metrics` say how to evaluate: give a task to `evaluate` "
                    "too."
                )
            return None
        metrics = checked_metrics(metrics, network.n_out, network.cell.dtype)
        if not isinstance(task, Task):
            raise TypeError(f"`evaluate` must be a task such as recurra.Arrays(inputs, labels), and is {task!r}.")
        for what, ours, theirs in (("inputs", network.cell.n_in, task.n_in), ("outputs", network.n_out, task.n_out)):
            if ours != theirs:
                raise ValueError(f"The network has {ours} {what} and the task of `evaluate` {theirs}: make them equal.")
        streams, whole = (streams, STEPS) if task.epoch is None else (task.streams, task.epoch)
        steps = checks.whole_number("`evaluate_steps`", whole if steps is None else steps)
        every = checks.whole_number("`evaluate_every`", max(run_steps // PARTS, 1) if every is None else every)
        task.check(network.loss, steps, streams, network.cell.dtype)
        if steps <= task.horizon:
            raise ValueError(
                f"`evaluate_steps` is {steps} and the horizon of `evaluate` {task.horizon}, so no forecast would meet "
                "its label: evaluate more steps."
            )
        if isinstance(task, Arrays) and task.present is not None and not np.asarray(task.present)[:, :steps].any():
            raise ValueError("No row of `evaluate` has a label: there would be no loss.")
        # At a rate of 0 nothing is learned; labels, resets and horizons mean what they mean in training.
        fixed, functions = {APPLIED: Fixed()}, {name: of_step(metric) for name, metric in metrics.items()}
        experiment = Experiment.of(network, fixed, 0.0, task, streams, StepRecorder.of(functions, fixed))
        held_out = eqx.tree_at(lambda each: each.task, experiment, HeldOut(task))
        return Evaluation(held_out, steps, every, metrics)

    @property
    def names(self) -> list[str]:
        """What is found: the loss, and each metric."""
        return ["loss", *self.metrics]

    def found(self, run: Run, weights: NetworkWeights) -> dict[str, np.ndarray]:
        """Each member's mean loss over all labels and its metrics, from the first state, in a run of the experiment."""
        windows = {name: LossWindows(range(_members(weights)), self.steps) for name in self.names}
        run.restart(weights)
        for piece in run.advance(self.steps):
            windows["loss"].append(piece.loss, piece.labelled, piece.every, piece.diverged)
            for name in self.metrics:
                windows[name].append(np.asarray(piece.records[name]), piece.labelled)
        means = {name: each.means()[:, 0] for name, each in windows.items()}
        return {name: finished(self.metrics.get(name), mean) for name, mean in means.items()}


class Best(NamedTuple):
    """The lowest held-out loss of each seed so far, the step it was found after, and the weights of that time."""

    loss: np.ndarray
    step: np.ndarray
    weights: NetworkWeights


def _members(weights: NetworkWeights) -> int:
    return len(jax.tree.leaves(weights)[0])


class Evaluations:
    """What was found at multiples of `every` steps, and the best weights so far."""

    def __init__(
        self, plan: Evaluation, find: Callable[[NetworkWeights], dict[str, np.ndarray]], weights: NetworkWeights
    ):
        self.every, self._names, self._find = plan.every, plan.names, find
        seeds = _members(weights)
        self._steps: list[int] = []
        self._found: list[dict[str, np.ndarray]] = []
        unknown = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), weights)
        self._best = Best(np.full(seeds, np.inf), np.full(seeds, -1), unknown)

    @staticmethod
    @contextlib.contextmanager
    def of(plan: Evaluation, engine: Engine, members: Members, weights: NetworkWeights) -> "Iterator[Evaluations]":
        """Evaluations of the members of a run, whose first weights these are. They are prepared once, for all times."""
        with engine.prepare(plan.experiment, members._replace(start=weights), plan.steps) as run:
            yield Evaluations(plan, lambda now: plan.found(run, now), weights)

    def next_stop(self, done: int, steps: int) -> int:
        """The step at which the run has to stop next, to be evaluated or for good."""
        return min((done // self.every + 1) * self.every, steps)

    def look(self, done: int, weights: Callable[[], NetworkWeights]) -> bool:
        """Evaluate, if it is time to and was not done. Returns whether it did."""
        is_due = bool(done) and done % self.every == 0 and done not in self._steps[-1:]
        if is_due:
            self._add(done, weights())
        return is_due

    def last(self) -> str:
        """What was found last, in words: means over the members whose loss is finite."""
        found = self._found[-1]
        finite = np.isfinite(found["loss"])
        mean = lambda values: f"{values[finite].mean():.4g}" if finite.any() else "nan"
        return ", ".join(f"{'held-out loss' if name == 'loss' else name} {mean(found[name])}" for name in self._names)

    def _add(self, done: int, weights: NetworkWeights) -> None:
        found = self._find(weights)
        loss, best = found["loss"], self._best
        better = loss < best.loss  # not where it is nan
        choose = lambda new, old: jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
        kept = jax.tree.map(choose, weights, best.weights)
        self._best = Best(np.where(better, loss, best.loss), np.where(better, done, best.step), kept)
        self._found.append(found)
        self._steps.append(done)  # last: an interruption may come anywhere

    def all(self, run: Run, is_over: bool) -> dict[str, Any]:
        """The fields of a result. Where the run `is_over`, they have what is found after the last step.

        That is not kept, since a run may go on from its checkpoint.
        """
        found = copy.copy(self)
        found._steps, found._found = list(self._steps), list(self._found)
        if is_over and run.done not in self._steps:
            found._add(run.done, run.weights())
        by_name = found._by_name()
        return {
            "evaluated_step": np.array(found._steps, np.int64),
            "evaluated_loss": by_name.pop("loss"),
            "metrics": by_name,
            "best_step": found._best.step,
            "best_weights": jax.tree.map(np.array, found._best.weights),
        }

    def _by_name(self) -> dict[str, np.ndarray]:
        """All that was found, (member, evaluation)."""
        nothing = np.zeros((len(self._best.loss), 0))
        return {
            name: np.stack([each[name] for each in self._found], axis=1) if self._found else nothing
            for name in self._names
        }

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        best = self._best
        every = {
            "steps": np.array(self._steps, np.int64),
            **{f"found/{name}": values for name, values in self._by_name().items()},
            "best_loss": best.loss,
            "best_step": best.step,
            **{f"best/{name}": np.asarray(leaf) for name, leaf in arrays_of(best.weights).items()},
        }
        return {f"{PREFIX}{name}": array for name, array in every.items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        own = {name[len(PREFIX) :]: array for name, array in state.items() if name.startswith(PREFIX)}
        best = {name[5:]: own.pop(name) for name in list(own) if name.startswith("best/")}
        steps, best_loss, best_step = (own[name] for name in ("steps", "best_loss", "best_step"))
        found, seeds = {name: own[f"found/{name}"] for name in self._names}, len(self._best.loss)
        is_whole = all(values.shape == (seeds, len(steps)) for values in found.values())
        if not is_whole or best_loss.shape != (seeds,) or best_step.shape != (seeds,):
            raise ValueError("held-out losses of another shape")
        weights = filled(self._best.weights, best)
        self._steps = [int(step) for step in steps]
        self._found = [{name: values[:, i] for name, values in found.items()} for i in range(len(steps))]
        self._best = Best(best_loss, best_step, weights)


class GatheredParts:
    """What a run has gathered, and its evaluations, as one thing that a checkpoint keeps."""

    def __init__(self, *parts: Gathered):
        self._parts = parts

    def state(self) -> dict[str, np.ndarray]:
        """All of it as plain arrays."""
        return {name: array for part in self._parts for name, array in part.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take up what `state` returned; KeyError or ValueError if it is not whole."""
        for part in self._parts:
            part.restore(state)

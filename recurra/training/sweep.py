"""`sweep`: `train` at many points, over points as well as over seeds, and the data set of their results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.engine.choosing import engine_of
from recurra.engine.experiment import Experiment, KnownRows
from recurra.engine.fold import first_step
from recurra.engine.on_chip.engine import OnChipEngine
from recurra.engine.programs import Program, programs
from recurra.engine.protocol import Engine, Members
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.step import APPLIED, Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.checkpoint import Checkpoint
from recurra.training.evaluating import Plan
from recurra.training.interrupts import Interrupted, asked_to_stop
from recurra.training.progress import progress as show_progress
from recurra.training.recording import RecordFunction, StepRecorder
from recurra.training.running import Job, run
from recurra.training.train import LEARNING_RATE
from recurra.training.varying import Points, with_settings

if TYPE_CHECKING:
    import xarray
from importlib.util import find_spec
from typing import TYPE_CHECKING

from recurra.saved.trees import arrays_of
from recurra.training.result import Result
from recurra.training.varying import POINT

if TYPE_CHECKING:
    import xarray

#: the most networks that are computed at once: their states are in memory together
MOST_AT_ONCE = 4096


def sweep(
    network: Network,
    learner: Learner,
    task: Task,
    *,
    vary: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    steps: int,
    seeds: int | Sequence[int] = 1,
    streams: int = 1,
    key: int | PRNGKeyArray = 0,
    optimizer: Optimizer = LEARNING_RATE,
    window: int | None = None,
    probes: Mapping[str, Learner] | None = None,
    record: Mapping[str, RecordFunction] | None = None,
    record_every: int = 1,
    evaluate: Task | None = None,
    evaluate_every: int | None = None,
    evaluate_steps: int | None = None,
    engine: Engine | str = "auto",
    progress: bool | Callable[[int], None] = True,
) -> "xarray.Dataset":
    """Train a network at every point of a grid, or at a list of points, each over all seeds, on all cores or the GPU.

    `vary` maps settings to their values. A setting is an argument, or a field of one, by its path: "optimizer",
    "learner", "learner.perturbation", "network.cell.alpha", "task.t1", "streams". Values are a list, or map names to
    things that are no numbers, such as {"add": recurra.Add(), "mimic": ...}. All combinations are taken. For points
    that make no grid, such as draws at random, `vary` is a list of dictionaries. The numbers of an Optax optimizer vary
    if `optax.inject_hyperparams` made it, as "optimizer.learning_rate". All other arguments are those of
    `recurra.train`.

    Networks that differ in numbers alone share one compiled program. On cores, a network has the bits that it would
    have alone, in any other sweep, or with more cores of the same kind: see `alike` of `recurra.ScanEngine`.

    The data set has a dimension for each setting that varies, or one called "point"; then "seed", and "step" for the
    ends of loss windows. `loss` is the mean over a window, `final_loss` over the last tenth of the steps; it is nan
    where a network diverged, and `diverged_at` is the step at which it did, -1 for none. What is recorded is under
    `record.NAME`. With `evaluate` there are `evaluated_loss` and `best_step`.

    Ctrl-C, SIGTERM and SIGHUP end the sweep and raise `recurra.Interrupted` with the data set so far, in which networks
    that were not trained to the end have `steps_done` below `steps`.

    A ValueError or TypeError names the point at which it arises. Without xarray there is an ImportError.

    >>> network, rates = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), {"optimizer": [1e-3, 1e-2]}
    >>> data = rc.sweep(network, rc.RFLO(), rc.Add(t1=1, t2=2), vary=rates, steps=200, seeds=2)
    >>> dict(data.final_loss.sizes)
    {'optimizer': 2, 'seed': 2}
    """
    arguments.check_outside(network, learner, task, optimizer, key, probes, evaluate)
    runs = engine_of(engine, alike=True)
    points, which, root = Points.of(vary), arguments.which(seeds), arguments.key_of(key)
    steps = checks.whole_number("`steps`", steps)
    window = checks.whole_number("`window`", max(steps // 100, 1) if window is None else window)
    record_every = checks.whole_number("`record_every`", record_every)
    given = {
        "network": network,
        "learner": learner,
        "task": task,
        "optimizer": optimizer,
        "streams": streams,
        "probes": arguments.named("probes", probes),
        "evaluate": evaluate,
    }
    recorded = arguments.named("record", record)
    looks = evaluate_every, evaluate_steps
    found = Swept(points, which, steps, window, record_every)
    shapes = KnownRows()
    with_record = lambda settings: {**with_settings(given, settings), "record": recorded}
    cases = [_case(with_record(settings), settings, steps, looks, shapes) for settings in points.settings]
    all_programs = programs([case.trees for case in cases])
    _check_records(all_programs)
    if isinstance(runs, OnChipEngine):  # before anything is trained
        for program in all_programs:
            runs.check(program.experiment[0])
    total = len(cases) * len(which) * steps
    label = f"{len(cases):,} point{'s' * (len(cases) > 1)}, {len(which)} seed{'s' * (len(which) > 1)}"
    before = 0
    with asked_to_stop() as asked, show_progress(label, total, progress, "network-steps") as report:
        for program in all_programs:
            plan = cases[program.rows[0]].held_out
            for rows, job in _jobs(program, plan, which, root, steps, window, record_every):
                count = len(rows)
                result = run(
                    job,
                    runs,
                    Checkpoint(None, 0, steps, str),
                    asked,
                    lambda done, before=before, count=count: report(before + done * count),
                )
                found.add(rows, result)
                before += count * result.steps
                if asked.signal:
                    message = f"Stopped after {before:,} of {total:,} network-steps: what there is is in `result`."
                    raise Interrupted(message, found.dataset(), asked.signal)
    return found.dataset()


class _Case(NamedTuple):
    """What one point trains, and how it is evaluated."""

    experiment: Experiment
    held_out: Plan | None

    @property
    def trees(self) -> tuple[Experiment, ...]:
        """All that a program is made of."""
        return (self.experiment,) if self.held_out is None else (self.experiment, self.held_out.experiment)


def _case(
    given: dict[str, Any],
    settings: Mapping[str, Any],
    steps: int,
    looks: tuple[int | None, int | None],
    shapes: KnownRows,
) -> _Case:
    network, learner, task, streams = (given[name] for name in ("network", "learner", "task", "streams"))
    probes, record = given["probes"], given["record"]
    try:
        arguments.check(network, learner, task, steps, streams, probes, record)
        learners = {APPLIED: learner, **probes}
        recorder = StepRecorder.of(record, learners)
        rows = shapes(task, network.cell.dtype)
        experiment = Experiment.of(network, learners, given["optimizer"], task, int(streams), recorder, rows)
        return _Case(experiment, Plan.of(network, given["evaluate"], *looks, steps, int(streams)))
    except (ValueError, TypeError) as error:
        if not settings:
            raise
        told = ", ".join(f"{path} = {value!r:.60}" for path, value in settings.items())
        raise type(error)(f"{error} This is at the point {told}.") from error


def _check_records(found: Sequence[Program]) -> None:
    """Raise before the first step unless what is recorded has one shape at all points."""

    def shapes(experiment: Experiment) -> dict[str, tuple[int, ...]]:
        traced = experiment.traced
        kept = jax.eval_shape(lambda key: first_step(traced, *traced.init(key))[1], jax.random.key(0))
        return {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(kept.records)}

    if found[0].experiment[0].recorder is None:
        return
    first = shapes(found[0].experiment[0])
    for program in found[1:]:
        if (other := shapes(program.experiment[0])) != first:
            raise ValueError(
                f"What is recorded has shapes {first} at some points and {other} at others, which make no table: "
                "record something of one shape, or sweep over these points in two calls."
            )


def _jobs(
    program: Program,
    plan: Plan | None,
    seeds: Sequence[int],
    key: PRNGKeyArray,
    steps: int,
    window: int,
    record_every: int,
) -> Iterator[tuple[list[tuple[int, int]], Job]]:
    """The networks of a program, at most so many at once: which they are, as (point, row of the seed), and a job."""
    all_keys = Members.of_seeds(key, seeds).keys
    pairs = [(row, column) for row in range(len(program.rows)) for column in range(len(seeds))]
    for first in range(0, len(pairs), MOST_AT_ONCE):
        some = pairs[first : first + MOST_AT_ONCE]
        numbers = program.numbers_of([row for row, _ in some])
        members = Members(all_keys[np.array([column for _, column in some])], numbers[0])
        held_out = {} if plan is None else {"held_out": plan, "held_out_numbers": numbers[1]}
        job = Job(program.experiment[0], members, range(len(some)), steps, window, record_every, **held_out)
        yield [(program.rows[row], column) for row, column in some], job


ABOUT = {
    "loss": "loss, mean over a window",
    "final_loss": "mean loss over the last tenth of the steps; nan where it diverged",
    "diverged_at": "first step with a non-finite loss; -1 for none",
    "steps_done": "steps that were taken",
    "evaluated_loss": "held-out loss",
    "best_step": "step with the lowest held-out loss; -1 for none",
}


class Swept:
    """Results of networks, gathered by point and seed. Where there is none yet, numbers are nan, and steps 0 or -1."""

    def __init__(self, points: Points, seeds: Sequence[int], steps: int, window: int, record_every: int):
        if not find_spec("xarray"):  # which `dataset` needs, once all is computed
            raise ImportError("`sweep` needs xarray, which is not installed: pip install 'recurra[results]'")
        self._points, self._seeds = points, seeds
        self._shape = len(points.settings), len(seeds)
        ends = np.append(np.arange(window, steps, window), steps)
        self._axes: dict[str, np.ndarray] = {"step": ends}
        self._values: dict[str, np.ndarray] = {}
        self._dims: dict[str, tuple[str, ...]] = {}
        self._record_every = record_every
        self._steps = steps

    def add(self, members: Sequence[tuple[int, int]], result: Result) -> None:
        """The result of some networks, each known by its point and the row of its seed."""
        at = tuple(np.array(members).T)
        self._put("loss", at, result.loss, ("step",))
        self._put("final_loss", at, result.final_loss())
        diverged = np.array([result.diverged.get(label, -1) for label in result.seeds])
        self._put("diverged_at", at, diverged, none=-1)
        self._put("steps_done", at, np.full(len(members), result.steps), none=0)
        if result.evaluated_loss is not None and result.evaluated_step is not None and result.best_step is not None:
            self._axes.setdefault("evaluated_step", result.evaluated_step)
            self._put("evaluated_loss", at, result.evaluated_loss, ("evaluated_step",))
            self._put("best_step", at, result.best_step, none=-1)
        for name, array in arrays_of(result.records).items():
            self._axes.setdefault("recorded_step", np.arange(0, self._steps, self._record_every))
            more = tuple(f"record.{name}.{axis}" for axis in range(1, array.ndim - 1))
            self._put(f"record.{name}", at, _floating(array), ("recorded_step", *more))

    def _put(self, name: str, at: tuple, new: np.ndarray, dims: tuple[str, ...] = (), none: Any = np.nan) -> None:
        """Write rows. The first axis of some may be shorter than that of all: a run may stop, and records come late."""
        whole = (len(self._axes[dims[0]]), *new.shape[2:]) if dims else ()
        if name not in self._values:
            self._values[name], self._dims[name] = np.full((*self._shape, *whole), none, new.dtype), dims
        values = self._values[name] = self._values[name].astype(np.result_type(self._values[name], new), copy=False)
        values[at if not dims else (*at, slice(0, new.shape[1]))] = new

    def dataset(self) -> "xarray.Dataset":
        """All of it, with a dimension for each setting that varies, or one for points that make no grid."""
        import xarray

        grid = self._points.dimensions
        outer, sizes = (POINT,), self._shape[:1]
        if grid is not None:
            outer, sizes = tuple(grid), tuple(len(labels) for labels in grid.values())
        coordinates: dict[str, Any] = {"seed": list(self._seeds), **self._axes}
        coordinates |= self._settings() if grid is None else {path: list(labels) for path, labels in grid.items()}
        variables = {
            name: ((*outer, "seed", *self._dims[name]), values.reshape(*sizes, *values.shape[1:]))
            for name, values in self._values.items()
        }
        data = xarray.Dataset(variables, coordinates, {"steps": self._steps})
        for name in variables:
            if name in ABOUT:
                data[name].attrs["long_name"] = ABOUT[name]
        data["step"].attrs["long_name"] = "steps at the end of the window"
        return data

    def _settings(self) -> dict[str, Any]:
        """The settings of each point as coordinates: nan, or no text, where a point does not have one."""
        labels = self._points.labels
        paths = dict.fromkeys(path for each in labels for path in each)
        blank = {path: "" if any(isinstance(each.get(path), str) for each in labels) else np.nan for path in paths}
        return {path: (POINT, [each.get(path, blank[path]) for each in labels]) for path in paths}


def _floating(array: np.ndarray) -> np.ndarray:
    """What is recorded, as numbers among which nan stands for what is missing."""
    if array.dtype.kind not in "biufc":  # bfloat16, which is no type of NumPy's own
        array = array.astype(np.float32)
    return array.astype(np.result_type(array, np.float32), copy=False)

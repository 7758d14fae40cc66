"""`sweep`: `train` at many points, over points as well as over seeds, and the data set of their results."""

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from recurra import checks
from recurra.engine.choosing import engine_of
from recurra.engine.experiment import Experiment, KnownRows
from recurra.engine.fold import first_step
from recurra.engine.on_chip.engine import OnChipEngine
from recurra.engine.programs import SharedProgram
from recurra.engine.protocol import Engine
from recurra.learners.base import Learner
from recurra.network import Network
from recurra.step import Optimizer
from recurra.tasks.base import Task
from recurra.training import arguments
from recurra.training.cases import Case, Made
from recurra.training.computing import BLANK, Collected, compute, ends_of_windows
from recurra.training.console import say
from recurra.training.folder import Groups, Kept
from recurra.training.interrupts import Asked, Interrupted, asked_to_stop
from recurra.training.metrics import MetricFunction
from recurra.training.orders import Batch, Networks, network_steps
from recurra.training.places.base import Computed, Failure, Order, Place, ReportError
from recurra.training.places.dispatching import Local
from recurra.training.progress import Report
from recurra.training.progress import progress as show_progress
from recurra.training.recording import RecordFunction
from recurra.training.result import with_long_names
from recurra.training.train import LEARNING_RATE
from recurra.training.varying import POINT, NoEffectError, SweepPoints, with_settings

if TYPE_CHECKING:
    import xarray

#: the arguments that may vary
VARYING = ("network", "learner", "task", "optimizer", "streams", "probes", "evaluate")


def sweep(
    network: Network,
    learner: Learner,
    task: Task,
    *,
    vary: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    steps: int,
    seeds: int | Sequence[int] = 1,
    streams: int | None = None,
    key: int | PRNGKeyArray = 0,
    optimizer: Optimizer = LEARNING_RATE,
    window: int | None = None,
    probes: Mapping[str, Learner] | None = None,
    exact_probes: Sequence[str] = (),
    record: Mapping[str, RecordFunction] | None = None,
    record_every: int = 1,
    evaluate: Task | None = None,
    evaluate_every: int | None = None,
    evaluate_steps: int | None = None,
    metrics: Mapping[str, MetricFunction] | None = None,
    engine: Engine | str = "auto",
    folder: Path | str | None = None,
    place: Place | None = None,
    progress: bool | Callable[[int], None] = True,
) -> "xarray.Dataset":
    """Train a network at every point of a grid, or at a list of points, each over all seeds, on all cores or the GPU.

    `vary` maps settings to their values. A setting is an argument, or a field of one, by its path: "optimizer",
    "learner", "learner.perturbation", "network.cell.alpha", "task.t1", "streams". Values are a list, or map names to
    things that are no numbers, such as {"add": recurra.Add(), "mimic": ...}. Parts of the library with their
    defaults, and its functions, may be given by name, as {"learner": ["rflo", "uoro"]} or {"network.cell.w_rec":
    ["gaussian"]}; a cell then has the size and the type of the network's. All combinations are taken, without what has
    no effect in them, such as "learner.kernl.perturbation" where another learner learns. For points that make no grid,
    such as draws at random, `vary` is a list of dictionaries. The numbers of an Optax optimizer vary if
    `optax.inject_hyperparams` made it, as "optimizer.learning_rate". All other arguments are those of `recurra.train`.

    Networks that differ in numbers alone share one compiled program. On cores, a network has the bits that it would
    have alone, in any other sweep, or with more cores of the same kind: see `alike` of `recurra.ScanEngine`.

    The data set has a dimension for each setting that varies, or one called "point" where they make no grid; then
    "seed", and "step" for the ends of loss windows. `loss` is the mean over a window, `final_loss` over the last
    tenth of the steps; it is nan where a network diverged, and `diverged_at` is the step at which it did, -1 for
    none. What is recorded is under `record.NAME`. With `evaluate` there are `evaluated_loss` and `best_step`, and
    `evaluated_NAME` for each of `metrics`.

    With a `folder`, networks are kept there in groups as they are finished, and the same call goes on from what is
    there, after any end. So does a call with more points, more seeds or other settings: what the folder has of its
    networks is not computed again. A network is known by everything that its losses depend on.

    `place` says where networks are computed: in this process, or for example in four others,
    `recurra.places.Processes(4)`, or on a cluster, `recurra.places.Cluster("tcp://host:8786")`. These need the extra
    `recurra[scale]`. Elsewhere, networks that cannot be computed are named in a warning, and their numbers are nan.

    Ctrl-C, SIGTERM and SIGHUP end the sweep and raise `recurra.Interrupted` with the data set so far, in which networks
    that were not trained to the end have `steps_done` below `steps`.

    A ValueError or TypeError names the point at which it arises. Without xarray there is an ImportError.

    >>> network, rates = rc.Network(rc.RNN(n_in=2, n=8), n_out=2), {"optimizer": [1e-3, 1e-2]}
    >>> data = rc.sweep(network, rc.RFLO(), rc.Add(t1=1, t2=2), vary=rates, steps=200, seeds=2)
    >>> dict(data.final_loss.sizes)
    {'optimizer': 2, 'seed': 2}
    """
    arguments.check_outside(network, learner, task, optimizer, key, probes, evaluate)
    if not find_spec("xarray"):  # which the result needs, once all is computed
        raise ImportError("`sweep` needs xarray, which is not installed: pip install 'recurra[results]'")
    runs = engine_of(engine, alike=True)
    points, which, root, where = SweepPoints.of(vary), arguments.which(seeds), checks.key_of(key), _place_of(place)
    looks = evaluate, evaluate_every, evaluate_steps
    case = Case.of(
        network, learner, task, optimizer, steps, window, streams, probes, record, record_every, *looks, exact_probes,
        metrics,
    )  # fmt: skip
    is_here = isinstance(where, Local)
    points, made = _made(case, points)
    networks = Networks(made, which, root, runs, at_once=is_here and folder is None)
    _check_records(networks.programs)
    check_on_chip(runs, networks.programs)
    label = f"{len(made):,} point{'s' * (len(made) > 1)}, {len(which)} seed{'s' * (len(which) > 1)}"
    with ExitStack() as stack:
        kept = None
        if folder is not None:
            groups = Groups(Path(folder).absolute())  # the program may go to another folder
            stack.enter_context(groups.held())
            kept = Kept(groups, networks)
        found = found_of(networks, kept)
        ended = carry_out(networks, found, kept, where, label, progress, raises=is_here)
    grid = {POINT: points.labels} if points.dimensions is None else points.dimensions
    data = dataset(found, grid, which, _settings(points), {"steps": case.steps}).drop_vars("seconds")
    taken = int(data["steps_done"].sum())
    if ended.signal:
        message = f"Stopped after {taken:,} of {data['steps_done'].size * case.steps:,} network-steps"
        raise Interrupted(f"{message}: the data set so far is the exception's `result`.", data, ended.signal)
    reasons = [failure.reason for _, failure in ended.failures]
    if reasons and not taken:
        raise RuntimeError(f"No network could be computed: {reasons[0]}.")
    if reasons:
        warnings.warn(f"Some networks could not be computed, and their numbers are nan: {reasons[0]}.", stacklevel=2)
    return data


class Ended(NamedTuple):
    """How a sweep ended: with which signal, if any, and the orders that could not be computed."""

    signal: int | None
    failures: list[tuple[Order, Failure]]


def found_of(networks: Networks, kept: Kept | None = None) -> Collected:
    """What there is of the networks, by point and seed: what the folder has of them, and room for the others."""
    runs = [(each.case.steps, each.case.window) for each in networks.made]
    ends = {each: ends_of_windows(0, *each) for each in dict.fromkeys(runs)}
    step = next(iter(ends.values()))
    if len(ends) > 1:  # each point has its own, with zeros after the last
        step = np.zeros((len(runs), max(map(len, ends.values()))), np.int64)
        for row, each in zip(step, runs, strict=True):
            row[: len(ends[each])] = ends[each]
    found = Collected((len(runs), len(networks.seeds)))
    found.axes["step"] = step
    nothing = np.zeros(0, int), np.zeros(0, int)
    found.put("loss", nothing, np.zeros((0, step.shape[-1])), ("step",))
    for name in ("final_loss", "diverged_at", "steps_done", "seconds"):
        blank = BLANK.get(name, np.nan)
        found.put(name, nothing, np.full(0, blank), none=blank)
    for group, places in () if kept is None else kept.read():
        if places:
            rows = [row for _, row in places]
            values = {name: array[rows] for name, array in group.outcome.values.items()}
            _enter(found, [place for place, _ in places], replace(group.outcome, values=values), len(group.known_as))
    return found


def carry_out(
    networks: Networks,
    found: Collected,
    kept: Kept | None,
    place: Place,
    label: str,
    show: bool | Report,
    raises: bool = False,
) -> Ended:
    """Compute the networks that are not in `found` yet, and keep each order as it is finished.

    An order that fails costs its networks; where it `raises`, the sweep ends with the order's error, if that was raised
    in this process.
    """
    batches = networks.batches(done(networks, found))
    failures: list[tuple[Order, Failure]] = []
    with (
        nullcontext() if kept is None else kept,
        asked_to_stop() as asked,
        show_progress(label, network_steps(batches), show, "network-steps") as report,
        place,
    ):
        for order, failure in compute_all(networks, batches, found, place, asked, report, kept):
            if raises and failure.error is not None:
                raise failure.error
            failures.append((order, failure))
            say(f"{order.label()} failed: {failure.reason}. The sweep goes on without them.")
    return Ended(asked.signal, failures)


def done(networks: Networks, found: Collected) -> set[tuple[int, int]]:
    """The networks that are found already, each a point's number and a seed."""
    places = np.argwhere(found.values["steps_done"]).tolist()
    return {(point, networks.seeds[column]) for point, column in places}


def compute_all(
    networks: Networks,
    batches: Sequence[Batch],
    found: Collected,
    place: Place,
    asked: Asked,
    report: Callable[[int], None] = lambda done: None,
    kept: Kept | None = None,
) -> Iterator[tuple[Order, Failure]]:
    """Compute networks at a place, and yield the orders that fail. This runs every sweep, and every search.

    Each outcome is entered into `found`, also that of an order which a signal has cut short; those of whole orders are
    `kept` too. `report` is told of network-steps.
    """
    networks.workers, taken = place.workers(), 0

    def during(done: int) -> None:
        try:
            report(taken + done)
        except Exception as error:
            raise ReportError from error

    # Elsewhere the function is imported by its name.
    work = functools.partial(compute, report=during, asked=asked) if isinstance(place, Local) else compute
    for order, outcome in place.each(work, networks.orders(batches), asked):
        taken += order.steps
        if isinstance(outcome, Failure):
            yield order, outcome
        else:
            networks.learn(order, outcome)
            places = [(order.points[member.row], networks.columns[member.seed]) for member in order.members]
            _enter(found, places, outcome, len(places))
            if kept is not None and outcome.signal is None:
                kept.keep(order, outcome)
        report(taken)


def _enter(found: Collected, places: Sequence[tuple[int, int]], outcome: Computed, among: int) -> None:
    """Note the outcome of the networks at these places, (point, seed's column), which were computed `among` so many."""
    at = tuple(np.array(places).T)
    found.add(at, outcome)
    found.put("seconds", at, np.full(len(places), outcome.seconds / among))


def _place_of(place: Any) -> Place:
    if place is None:
        return Local()
    if isinstance(place, type) or not isinstance(place, Place):
        raise TypeError(f"`place` must be a place such as recurra.places.Processes(4), and is {place!r}.")
    return place


def _made(case: Case, points: SweepPoints) -> tuple[SweepPoints, list[Made]]:
    """What each point trains.

    What has no effect at a point of a grid is left out of it. Points that then coincide are taken once, and are a list.
    """
    given, shapes = {name: getattr(case, name) for name in VARYING}, KnownRows()
    found: dict[str, tuple[dict[str, Any], dict[str, Any], Made]] = {}
    missing: dict[str, NoEffectError] = {}
    for settings, labels in zip(points.settings, points.labels, strict=True):
        left_out: dict[str, NoEffectError] = {}
        try:
            arguments = with_settings(given, settings, None if points.dimensions is None else left_out)
            labels = {path: label for path, label in labels.items() if path not in left_out}
            missing |= left_out
            if repr(labels) not in found:
                found[repr(labels)] = settings, labels, replace(case, **arguments).made(shapes)
        except (ValueError, TypeError) as error:
            if not settings:
                raise
            told = ", ".join(f"{path} = {value!r:.60}" for path, value in settings.items())
            raise type(error)(f"{error} This is at the point {told}.") from error
    settings, labels, made = map(list, zip(*found.values(), strict=True))
    for path in missing.keys() - {path for each in labels for path in each}:
        raise missing[path]
    return SweepPoints(settings, labels, None) if missing else points, made


def _check_records(found: Sequence[SharedProgram]) -> None:
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


def check_on_chip(engine: Engine, found: Sequence[SharedProgram]) -> None:
    """Raise before the first step if this is the on-chip engine, and it cannot run one of these programs."""
    if isinstance(engine, OnChipEngine):
        for program in found:
            engine.check(program.experiment[0])


def dataset(
    found: Collected,
    points: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    coordinates: Mapping[str, Any],
    about: Mapping[str, Any],
    window: str = "step",
) -> "xarray.Dataset":
    """All that is found, with a dimension for each of `points`, then "seed", and one called `window` for losses."""
    import xarray

    sizes = {name: len(labels) for name, labels in points.items()}
    named = lambda dims: tuple(window if each == "step" else each for each in dims)
    laid_out = lambda array, *dims: ((*sizes, *dims), array.reshape(*sizes.values(), *array.shape[1:]))
    variables = {
        name: laid_out(array, "seed", *named(found.dims.get(name, ()))) for name, array in found.values.items()
    }
    axes = {
        name: laid_out(axis, *named((name,))) if axis.ndim > 1 else (*named((name,)), axis)
        for name, axis in found.axes.items()
    }
    return with_long_names(xarray.Dataset(variables, {"seed": list(seeds), **axes, **coordinates}, about))


def _settings(points: SweepPoints) -> dict[str, Any]:
    """The settings of the points as coordinates: nan, or no text, where one of a list does not have a setting."""
    if points.dimensions is not None:
        return {path: list(labels) for path, labels in points.dimensions.items()}
    labels = points.labels
    paths = dict.fromkeys(path for each in labels for path in each)
    blank = {path: "" if any(isinstance(each.get(path), str) for each in labels) else np.nan for path in paths}
    return {path: (POINT, [each.get(path, blank[path]) for each in labels]) for path in paths}

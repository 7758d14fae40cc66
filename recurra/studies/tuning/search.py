"""`recurra tune`: the settings of each case are searched, chosen on fresh seeds, and confirmed on further ones.

A search computes batches of trials side by side, from one comparison to the next. The lowest of many noisy losses is
too low, because it was chosen for being low. So the best few trials are computed again on fresh seeds, and the best of
these is chosen. Its loss on further seeds, which chose nothing, is the one to report.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from recurra.studies.choices import Random
from recurra.studies.folder import TRIALS, Folder
from recurra.studies.settings import SettingsError
from recurra.studies.study import Study, TuneSettings
from recurra.studies.tuning.importance import importance
from recurra.studies.tuning.sampling import (
    LARGEST,
    Halving,
    Samples,
    combinations,
    comparison_steps,
    distributions,
    diverged_seeds,
    merit,
)
from recurra.studies.tuning.storage import (
    DONE,
    TrialQueue,
    exclusive,
    open_storage,
    optuna_silenced,
    registered_process,
)
from recurra.studies.tuning.tuned import (
    Chosen,
    Finalist,
    Losses,
    Point,
    Spent,
    TriedTrial,
    Tuned,
    TuningError,
    described,
    write_tuned,
)
from recurra.training.console import say
from recurra.training.places.base import Place

#: rounds that a search has at least: a batch of all trials could learn nothing from any of them
ROUNDS = 4
#: seconds between two looks at whether the others are done
PATIENCE = 0.25


@runtime_checkable
class Objective(Protocol):
    """Computes the networks of trials that are compared with each other."""

    def start(self, points: Sequence[Point], seeds: Sequence[int]) -> Any:
        """A handle for a network of each point and seed. Nothing is computed yet."""
        ...

    def advance(self, handle: Any, rows: Sequence[int], stop: int) -> tuple[Any, np.ndarray]:
        """Take these rows (indices into the handle's present points) to step `stop`.

        Returns a new handle with these points alone, and their losses (point, seed): the mean over the last tenth of
        the steps so far, nan where the network diverged.
        """
        ...


@dataclass(frozen=True)
class Progress:
    """Where the search of one case stands; reported whenever networks have been taken further."""

    #: "search", "finalists" or "confirmation"
    phase: str
    #: trials that are done, among all processes, and how many there will be
    finished: int
    trials: int
    #: network-steps that this process took in the work just done
    network_steps: int
    #: lowest loss of a trial that reached the last step, None before there is one
    best: float | None


def tune(study: Study, folder: Folder, place: Place) -> list[Tuned]:
    """Search every case, and write what was found after each."""
    from recurra.studies.networks import TrialNetworks, batch_of
    from recurra.studies.sweep import window_of

    cases = study.cases()
    spaces = [study.space(case) for case in cases]
    if not all(spaces):
        raise SettingsError(
            "There is nothing to search: `recurra tune` searches random choices, so write for example "
            "learning_rate = { log_uniform = [1e-5, 1e-1] } under [vary]."
        )
    if any("steps" in space for space in spaces):
        raise SettingsError("`steps` cannot be searched, since trials are compared after as many: list its values.")
    doubles = lambda case, space: "float64" in getattr(space.get("dtype"), "values", [study.settings(case).dtype])
    networks = TrialNetworks(study, place, x64=any(map(doubles, cases, spaces)))
    batch, trials, found = batch_of(study, place), folder.path / TRIALS, []
    for case, space in zip(cases, spaces, strict=True):
        run = study.settings(case)
        bounds = run.steps, window_of(run), study.seeds, run.key
        found.append(tune_case(case, space, networks, study.tune, *bounds, trials, batch, _announcer(case, study)))
        write_tuned(folder.path, found)
        if find_spec("matplotlib") and find_spec("jinja2"):
            from recurra.studies.tuning.page import write_search

            write_search(folder.path, found, folder.path.resolve().name)
    return found


def _announcer(case: Point, study: Study) -> Callable[[Progress], None]:
    """A function that prints how far the search of a case is, whenever that has changed."""
    name = ", ".join(str(case[name]) for name in case if name in study.varied) or str(case["learner"])
    last: tuple[str, int] | None = None

    def announce(progress: Progress) -> None:
        nonlocal last
        now = progress.phase, progress.finished
        if now == last:
            return
        last = now
        best = "" if progress.best is None else f", lowest loss {progress.best:.4g}"
        counted = f"{progress.finished} of {progress.trials} trials{best}"
        say(f"{name}: {counted if progress.phase == 'search' else f'{progress.phase} on fresh seeds'}")

    return announce


def tune_case(
    case: Point,
    space: Mapping[str, Random],
    objective: Objective,
    settings: TuneSettings,
    steps: int,
    window: int,
    seeds: Sequence[int],
    key: int,
    folder: Path,
    batch: int,
    report: Callable[[Progress], object] = lambda progress: None,
) -> Tuned:
    """Search the settings of one case, choose among the best on fresh seeds, and measure the chosen one on others.

    The folder keeps all of it: a process that is killed, or stopped with Ctrl-C, goes on later with the same call, and
    several processes may make it at the same time. `batch` trials or fewer are computed side by side.
    """
    with optuna_silenced(), registered_process(folder) as owner:
        free = distributions(space)
        trials = int(min(settings.trials, combinations(free)))
        startup = settings.startup or 4 + 4 * len(free)
        own = (*seeds, *_fresh(max(seeds), settings.seeds or 0))[: settings.seeds or len(seeds)]
        stops = comparison_steps(steps, window, settings.rungs, settings.eta)
        study = _study(folder, case, Halving(settings.eta, len(own)))
        plan = {"settings": described(space), "seeds": [*own], "comparisons after steps": [*stops], "key": key}
        _check_plan(study, plan | {"eta": settings.eta}, folder)
        queue = TrialQueue(study, folder, owner, Samples(key, case, trials, free, startup))

        def tell(phase: str, taken: int) -> None:
            report(Progress(phase, queue.finished(), trials, taken, _lowest(study)))

        work = _Work(objective, case, own, stops, tell)
        _search(queue, work, _width(batch, trials, startup))
        # One process confirms, and those that come later read what it found.
        with exclusive(folder / f"confirming-{hashlib.sha256(study.study_name.encode()).hexdigest()[:16]}"):
            return _confirmed(study, work, space, settings, max(*seeds, *own))


def _width(batch: int, trials: int, startup: int) -> int:
    """How many trials are computed at the same time, where `batch` would be welcome: fewer, if that finds better ones.

    Those that are spread evenly learn nothing from each other, and are best compared all at once.
    """
    return min(batch, max(startup, -(-trials // ROUNDS)))


def _study(folder: Path, case: Point, pruner: Halving) -> optuna.Study:
    name, storage = json.dumps(case, sort_keys=True), open_storage(folder)
    if name in optuna.get_all_study_names(storage):  # a search that is done is read, and nothing is written
        return optuna.load_study(study_name=name, storage=storage, pruner=pruner)
    return optuna.create_study(study_name=name, storage=storage, pruner=pruner, load_if_exists=True)


def _check_plan(study: optuna.Study, plan: dict[str, Any], folder: Path) -> None:
    """Raise a `TuningError` if the search was begun with another plan."""
    before = study.user_attrs.get("plan")
    if before is None:
        study.set_user_attr("plan", plan)
    elif differ := [name for name in plan if before[name] != plan[name]]:
        lines = [f"    {name}: {before[name]} then, {plan[name]} now" for name in differ]
        raise TuningError("\n".join([f"{folder} has a search with other settings. Take a new folder.", *lines]))


def _lowest(study: optuna.Study) -> float | None:
    """The lowest loss of a trial at the last step."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return _without_diverged(min((trial.values[0] for trial in done), default=None))


def _without_diverged(value: float | None) -> float | None:
    """A trial's merit where it is a mean loss; None where seeds diverged."""
    return None if value is None or diverged_seeds(value) else value


@dataclass(frozen=True)
class _Work:
    """What is computed for a case, and the function that is told of it."""

    objective: Objective
    case: Point
    seeds: Sequence[int]
    #: after which steps trials are compared; the last is where they end
    stops: Sequence[int]
    #: takes the phase of the search, and how many network-steps were taken
    report: Callable[[str, int], object]

    def start(self, trials: Sequence[Trial | FrozenTrial], seeds: Sequence[int]) -> Any:
        """A handle for networks with the settings of these trials."""
        return self.objective.start([{**self.case, **trial.params} for trial in trials], seeds)

    def advance(self, handle: Any, rows: Sequence[int], stop: int, seeds: int) -> tuple[Any, np.ndarray]:
        """The objective's answer, whose shape is checked."""
        handle, losses = self.objective.advance(handle, rows, stop)
        if np.shape(losses) != (len(rows), seeds):
            raise TuningError(f"{len(rows)} trials of {seeds} seeds were computed, and losses are {np.shape(losses)}.")
        return handle, losses


def _search(queue: TrialQueue, work: _Work, batch: int) -> None:
    """Compute trials until there are enough of them, among all processes."""
    try:
        while queue.finished() < queue.samples.trials:
            trials = queue.take(batch)
            if trials:
                _compute_batch(queue.study, trials, work)
            else:
                time.sleep(PATIENCE)  # others have the last ones; should they die, these are taken up here
    except UpdateFinishedTrialError:
        raise TuningError(
            f"Trials of this process were taken over by another, as if this one had ended: {queue.folder} is on a file "
            "system without locks. Use one process there, or another folder."
        ) from None
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk may be why it ends; the next process takes them then
            queue.give_back()
        raise


def _compute_batch(study: optuna.Study, trials: Sequence[Trial], work: _Work) -> None:
    """Take a batch from comparison to comparison, and tell the study what became of it."""
    handle = work.start(trials, work.seeds)
    rows, before = list(range(len(trials))), 0
    for stop in work.stops:
        last = stop == work.stops[-1]
        handle, losses = work.advance(handle, rows, stop, len(work.seeds))
        trials = [trials[row] for row in rows]
        values = [merit(row) for row in losses]
        for trial, row, value in zip(trials, losses, values, strict=True):
            trial.set_user_attr(f"losses {stop}", _plain(row))
            trial.report(value, stop)
        # The whole batch is reported before any trial is compared, and compared before the study is told of any.
        ends = [last or trial.should_prune() for trial in trials]
        for trial, value, end in zip(trials, values, ends, strict=True):
            if not end:
                continue
            if diverged := diverged_seeds(value):  # else TPE takes it for better than all that were stopped before
                trial.set_constraint("diverged seeds", diverged)
            study.tell(trial, value if last else None, None if last else TrialState.PRUNED)
        work.report("search", len(trials) * len(work.seeds) * (stop - before))
        rows, before = [row for row, end in enumerate(ends) if not end], stop
        if not rows:
            break


def _plain(losses: np.ndarray) -> list[float | None]:
    """Losses as JSON has them: None where a network diverged."""
    return [float(loss) if abs(loss) <= LARGEST else None for loss in losses]


def _confirmed(
    study: optuna.Study, work: _Work, space: Mapping[str, Random], settings: TuneSettings, last: int
) -> Tuned:
    """The result of a search whose trials are done: the finalists and the chosen settings on fresh seeds."""
    steps, seeds = work.stops[-1], work.seeds
    best = _best_trials(study, settings.finalists, len(seeds))
    others, final, choice = _fresh(last, len(seeds)), (), None
    if len(best) > 1:
        losses = _measured(study, "finalists", work, best, others)
        final = tuple(Finalist(trial.user_attrs["place"], row) for trial, row in zip(best, losses, strict=True))
        best = [best[int(np.argmin([merit(row) for row in losses]))]]
    if best:
        further = _fresh(others[-1], settings.confirm_seeds)
        choice = _chosen(best[0], further, *_measured(study, "confirmation", work, best, further))
    done = sorted(study.get_trials(deepcopy=False, states=DONE), key=lambda trial: trial.user_attrs["place"])
    return Tuned(
        case=work.case,
        space=described(space),
        seeds=tuple(seeds),
        steps=steps,
        looks=tuple(work.stops),
        trials=tuple(map(_tried, done)),
        finalist_seeds=others if final else (),
        finalists=final,
        chosen=choice,
        importance=importance(done),
        network_steps=Spent(
            search=sum((trial.last_step or 0) * len(seeds) for trial in done),
            finalists=len(final) * len(others) * steps,
            confirmation=len(choice.seeds) * steps if choice else 0,
            grid=len(done) * len(seeds) * steps,
        ),
    )


def _best_trials(study: optuna.Study, most: int, seeds: int) -> list[FrozenTrial]:
    """The best trials that reached the last step: their settings differ, and as few seeds diverged as in the best."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    best: list[FrozenTrial] = []
    for trial in sorted(done, key=lambda trial: (trial.values[0], trial.user_attrs["place"])):
        diverged = diverged_seeds(trial.values[0])
        if diverged == seeds or (best and diverged > diverged_seeds(best[0].values[0])) or len(best) == most:
            break
        if all(trial.params != other.params for other in best):
            best.append(trial)
    return best


def _fresh(last: int, count: int) -> tuple[int, ...]:
    """So many seeds after the last that was used."""
    return tuple(range(last + 1, last + 1 + count))


def _measured(
    study: optuna.Study, phase: str, work: _Work, trials: Sequence[FrozenTrial], seeds: Sequence[int]
) -> list[Losses]:
    """Losses of these trials on these seeds: those that the study has kept under this phase, or computed and kept."""
    places = [trial.user_attrs["place"] for trial in trials]
    kept: dict[str, Any] = study.user_attrs.get(phase, {})
    if (kept.get("places"), kept.get("seeds")) != (places, [*seeds]):
        _, losses = work.advance(work.start(trials, seeds), range(len(trials)), work.stops[-1], len(seeds))
        kept = {"places": places, "seeds": [*seeds], "losses": [_plain(row) for row in losses]}
        study.set_user_attr(phase, kept)
        work.report(phase, len(trials) * len(seeds) * work.stops[-1])
    return [tuple(row) for row in kept["losses"]]


def _tried(trial: FrozenTrial) -> TriedTrial:
    """One of the study's trials as plain data."""
    reached = sorted(trial.intermediate_values)
    return TriedTrial(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        complete=trial.state == TrialState.COMPLETE,
        steps=tuple(reached),
        means=tuple(_without_diverged(trial.intermediate_values[step]) for step in reached),
        losses=tuple(trial.user_attrs[f"losses {reached[-1]}"]),
    )


def _chosen(trial: FrozenTrial, seeds: Sequence[int], losses: Losses) -> Chosen:
    """What a trial is worth, by its losses on seeds that chose nothing."""
    kept = np.array([loss for loss in losses if loss is not None])
    mean = float(kept.mean()) if len(kept) else None
    search = _without_diverged(trial.values[0])
    return Chosen(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        search=search,
        confirmed=mean,
        standard_error=float(kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None,
        diverged=len(losses) - len(kept),
        seeds=tuple(seeds),
        losses=losses,
        optimism=None if mean is None or search is None else mean - search,
    )

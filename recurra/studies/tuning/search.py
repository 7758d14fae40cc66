"""`recurra tune`: the settings of each case are searched, chosen on fresh seeds, and confirmed on further ones.

A search computes batches of trials side by side, from one comparison to the next. The lowest of many noisy losses is
too low, because it was chosen for being low. So the best few trials are computed again on fresh seeds, and the best of
these is chosen. Its loss on further seeds, which chose nothing, is the one to report.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from recurra.saved.whole_files import held
from recurra.studies.choices import Point, Random
from recurra.studies.folder import TRIALS, Folder
from recurra.studies.study import Study, TuneSettings
from recurra.studies.tuning import sampling, storage
from recurra.studies.tuning.importance import importance
from recurra.studies.tuning.sampling import diverged_seeds, merit
from recurra.studies.tuning.tuned import Confirmed, Finalist, Losses, Spent, TriedTrial, Tuned, TuningError, write_tuned
from recurra.training.console import say
from recurra.training.places.base import Place

#: rounds that a search has at least: a batch of all trials could learn nothing from any of them
ROUNDS = 4
#: seconds between two looks at whether the others are done
PATIENCE = 0.25


@runtime_checkable
class TrialRuns(Protocol):
    """The networks of trials that are compared with each other."""

    def advance(self, rows: Sequence[int], stop: int) -> np.ndarray:
        """Take these of the trials, and from now on no others, to step `stop`.

        Returns their losses (row, seed): the mean over the last tenth of the steps so far, nan where the network
        diverged.
        """
        ...


#: makes a network of each point and seed. Nothing is computed yet
Objective = Callable[[Sequence[Point], Sequence[int]], TrialRuns]


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
    from recurra.training.arguments import window_of

    searches = study.searches()
    doubles = lambda case, space: "float64" in getattr(space.get("dtype"), "values", [study.settings(case).dtype])
    objective = functools.partial(TrialNetworks, study, place, any(itertools.starmap(doubles, searches)))
    batch, trials, found = batch_of(study, place), folder.path / TRIALS, []
    for case, space in searches:
        run = study.settings(case)
        bounds = run.steps, window_of(run.window, run.steps), study.seeds, run.key
        found.append(tune_case(case, space, objective, study.tune, *bounds, trials, batch, _announcer(case, study)))
        write_tuned(folder.path, found)
        if find_spec("matplotlib") and find_spec("jinja2"):
            from recurra.studies.tuning.page import write_search

            write_search(folder.path, found, folder.path.resolve().name)
    return found


def _announcer(case: Point, study: Study) -> Callable[[Progress], None]:
    """A function that prints how far the search of a case is, whenever that has changed."""
    name = ", ".join(str(case[name]) for name in case if name in study.varied) or str(case["learner"])
    known: set[tuple[str, int]] = set()

    def announce(progress: Progress) -> None:
        if (progress.phase, progress.finished) not in known:
            known.add((progress.phase, progress.finished))
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
    with storage.optuna_silenced(), storage.registered_process(folder) as owner:
        trials = int(min(settings.trials, sampling.combinations(space)))
        startup = settings.startup or 4 + 4 * len(space)
        own = (*seeds, *_fresh(max(seeds), settings.seeds or 0))[: settings.seeds or len(seeds)]
        stops = sampling.comparison_steps(steps, window, settings.rungs, settings.eta)
        study = _study(folder, case, sampling.Halving(settings.eta, len(own)))
        described = {name: asdict(choice) for name, choice in space.items()}
        plan = {"settings": described, "seeds": own, "comparisons after steps": stops, "key": key, "eta": settings.eta}
        _check_plan(study, plan, folder)
        queue = storage.TrialQueue(study, folder, owner, sampling.Proposals(key, case, trials, space, startup))
        # Fewer side by side than would be welcome, if that finds better ones: those that are spread evenly learn
        # nothing from each other, and are best compared all at once.
        batch = min(batch, max(startup, -(-trials // ROUNDS)))
        search = _Search(queue, objective, case, space, settings, own, stops, report)
        search.compute(batch)
        # One process confirms, and those that come later read what it found.
        with held(folder / f"confirming-{hashlib.sha256(study.study_name.encode()).hexdigest()[:16]}", wait=True):
            return search.confirmed(max(*seeds, *own))


def _study(folder: Path, case: Point, pruner: sampling.Halving) -> optuna.Study:
    name, journal = json.dumps(case, sort_keys=True), storage.open_storage(folder)
    if name in optuna.get_all_study_names(journal):  # a search that is done is read, and nothing is written
        return optuna.load_study(study_name=name, storage=journal, pruner=pruner)
    return optuna.create_study(study_name=name, storage=journal, pruner=pruner, load_if_exists=True)


def _check_plan(study: optuna.Study, plan: dict[str, Any], folder: Path) -> None:
    """Raise a `TuningError` if the search was begun with another plan."""
    plan = json.loads(json.dumps(plan))  # as the journal gives it back
    before = study.user_attrs.get("plan")
    if before is None:
        study.set_user_attr("plan", plan)
    elif differ := [name for name in plan if before[name] != plan[name]]:
        lines = [f"    {name}: {before[name]} then, {plan[name]} now" for name in differ]
        raise TuningError("\n".join([f"{folder} has a search with other settings. Take a new folder.", *lines]))


def _without_diverged(value: float) -> float | None:
    """A trial's merit where it is a mean loss; None where seeds diverged."""
    return None if diverged_seeds(value) else value


@dataclass(frozen=True)
class _Search:
    """The search of one case: what is computed, in which order, and who is told."""

    queue: storage.TrialQueue
    objective: Objective
    case: Point
    space: Mapping[str, Random]
    settings: TuneSettings
    seeds: tuple[int, ...]
    #: after which steps trials are compared; the last is where they end
    stops: tuple[int, ...]
    report: Callable[[Progress], object]

    def compute(self, batch: int) -> None:
        """Compute trials until there are enough of them, among all processes."""
        try:
            while self.queue.finished() < self.queue.proposals.trials:
                if trials := self.queue.take(batch):
                    self._compute_batch(trials)
                else:
                    time.sleep(PATIENCE)  # others have the last ones; should they die, these are taken up here
        except UpdateFinishedTrialError:
            raise TuningError(
                f"Trials of this process were taken over by another, as if this one had ended: {self.queue.folder} is "
                "on a file system without locks. Use one process there, or another folder."
            ) from None
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk may be why it ends; the next process takes them then
                self.queue.give_back()
            raise

    def _compute_batch(self, trials: Sequence[Trial]) -> None:
        """Take a batch from comparison to comparison, and tell the study what became of it."""
        networks, going, before = self._networks(trials, self.seeds), dict(enumerate(trials)), 0
        for stop in self.stops:
            last = stop == self.stops[-1]
            losses = self._losses(networks, [*going], stop, self.seeds)
            values = [merit(row) for row in losses]
            for trial, row, value in zip(going.values(), losses, values, strict=True):
                trial.set_user_attr(f"losses {stop}", row)
                trial.report(value, stop)
            # The whole batch is reported before any trial is compared, and compared before the study is told of any.
            ends = [last or trial.should_prune() for trial in going.values()]
            for trial, value in itertools.compress(zip(going.values(), values, strict=True), ends):
                if diverged := diverged_seeds(value):  # else TPE takes it for better than all that were stopped before
                    trial.set_constraint("diverged seeds", diverged)
                self.queue.study.tell(trial, value if last else None, None if last else TrialState.PRUNED)
            self._tell("search", len(going) * len(self.seeds) * (stop - before))
            going, before = {row: going[row] for row, end in zip(going, ends, strict=True) if not end}, stop
            if not going:
                break

    def _networks(self, trials: Sequence[Trial | FrozenTrial], seeds: Sequence[int]) -> TrialRuns:
        return self.objective([{**self.case, **trial.params} for trial in trials], seeds)

    def _losses(self, networks: TrialRuns, rows: Sequence[int], stop: int, seeds: Sequence[int]) -> list:
        """Losses of these trials at step `stop`, as JSON has them: None where a network diverged."""
        losses = networks.advance(rows, stop)
        if np.shape(losses) != (len(rows), len(seeds)):
            raise TuningError(
                f"{len(rows)} trials of {len(seeds)} seeds were computed, and losses are {np.shape(losses)}."
            )
        return np.where(np.abs(losses) <= sampling.LARGEST, losses, np.array(None)).tolist()

    def _tell(self, phase: str, taken: int) -> None:
        merits = [trial.values[0] for trial in self._complete()]
        best = _without_diverged(min(merits)) if merits else None
        self.report(Progress(phase, self.queue.finished(), self.queue.proposals.trials, taken, best))

    def _complete(self) -> list[FrozenTrial]:
        """The trials that reached the last step."""
        return self.queue.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def confirmed(self, last: int) -> Tuned:
        """The result of a search whose trials are done: the finalists and the chosen settings on fresh seeds.

        `last` is the last seed that was used.
        """
        steps, seeds = self.stops[-1], self.seeds
        best = self._best_trials()
        others, finalists, chosen = _fresh(last, len(seeds)), (), None
        if len(best) > 1:
            losses = self._measured("finalists", best, others)
            finalists = tuple(Finalist(trial.user_attrs["place"], row) for trial, row in zip(best, losses, strict=True))
            best = [best[int(np.argmin([merit(row) for row in losses]))]]
        if best:
            further = _fresh(others[-1], self.settings.confirm_seeds)
            chosen = _worth(best[0], further, *self._measured("confirmation", best, further))
        done = self.queue.study.get_trials(deepcopy=False, states=storage.DONE)
        done.sort(key=lambda trial: trial.user_attrs["place"])
        return Tuned(
            case=self.case,
            space=dict(self.space),
            seeds=seeds,
            steps=steps,
            looks=self.stops,
            trials=tuple(map(_tried, done)),
            finalist_seeds=others if finalists else (),
            finalists=finalists,
            chosen=chosen,
            importance=importance(done),
            network_steps=Spent(
                search=sum((trial.last_step or 0) * len(seeds) for trial in done),
                finalists=len(finalists) * len(others) * steps,
                confirmation=len(chosen.seeds) * steps if chosen else 0,
                grid=len(done) * len(seeds) * steps,
            ),
        )

    def _best_trials(self) -> list[FrozenTrial]:
        """The best trials that took all steps: their settings differ, and as few seeds diverged as in the best."""
        done = sorted(self._complete(), key=lambda trial: (trial.values[0], trial.user_attrs["place"]))
        fewest = diverged_seeds(done[0].values[0]) if done else 0
        best: dict[str, FrozenTrial] = {}
        for trial in done:
            if diverged_seeds(trial.values[0]) == fewest < len(self.seeds):
                best.setdefault(repr(trial.params), trial)
        return list(best.values())[: self.settings.finalists]

    def _measured(self, phase: str, trials: Sequence[FrozenTrial], seeds: Sequence[int]) -> list[Losses]:
        """Losses of these trials on these seeds: what the study keeps of this phase, or else computed, and kept."""
        asked = {"places": [trial.user_attrs["place"] for trial in trials], "seeds": [*seeds]}
        kept: dict[str, Any] = self.queue.study.user_attrs.get(phase, {})
        if kept != asked | {"losses": kept.get("losses")}:
            steps = self.stops[-1]
            losses = self._losses(self._networks(trials, seeds), range(len(trials)), steps, seeds)
            kept = asked | {"losses": losses}
            self.queue.study.set_user_attr(phase, kept)
            self._tell(phase, len(trials) * len(seeds) * steps)
        return [tuple(row) for row in kept["losses"]]


def _fresh(last: int, count: int) -> tuple[int, ...]:
    """So many seeds after the last that was used."""
    return tuple(range(last + 1, last + 1 + count))


def _tried(trial: FrozenTrial) -> TriedTrial:
    """One of the study's trials as plain data."""
    reached = tuple(sorted(trial.intermediate_values))
    return TriedTrial(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        complete=trial.state == TrialState.COMPLETE,
        steps=reached,
        means=tuple(_without_diverged(trial.intermediate_values[step]) for step in reached),
        losses=tuple(trial.user_attrs[f"losses {reached[-1]}"]),
    )


def _worth(trial: FrozenTrial, seeds: Sequence[int], losses: Losses) -> Confirmed:
    """What a trial is worth, by its losses on seeds that chose nothing."""
    kept = [loss for loss in losses if loss is not None]
    mean, search = statistics.fmean(kept) if kept else None, _without_diverged(trial.values[0])
    return Confirmed(
        place=trial.user_attrs["place"],
        settings=dict(trial.params),
        search=search,
        confirmed=mean,
        standard_error=statistics.stdev(kept) / math.sqrt(len(kept)) if len(kept) > 1 else None,
        diverged=len(losses) - len(kept),
        seeds=tuple(seeds),
        losses=losses,
        optimism=None if mean is None or search is None else mean - search,
    )

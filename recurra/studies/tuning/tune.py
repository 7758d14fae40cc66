"""`tune_case`: the settings of one case searched, chosen and confirmed."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.study import Study
from optuna.trial import TrialState

from recurra.studies.choices import Random
from recurra.studies.tuning import sampling
from recurra.studies.tuning.confirm import finalists, fresh, measured
from recurra.studies.tuning.halving import Halving, looks, lost_seeds
from recurra.studies.tuning.importance import importance
from recurra.studies.tuning.objective import Bounds, Objective, Point, Progress, Report, TuningError
from recurra.studies.tuning.queue import DONE, Queue, alone, present
from recurra.studies.tuning.search import Work, search, width
from recurra.studies.tuning.storage import open_storage, quiet
from recurra.studies.tuning.tuned import Finalist, Spent, Tuned, chosen, described, tried


def tune_case(
    case: Point,
    space: Mapping[str, Random],
    objective: Objective,
    settings: Bounds,
    steps: int,
    window: int,
    seeds: Sequence[int],
    key: int,
    folder: Path,
    batch: int,
    report: Report = lambda progress: None,
) -> Tuned:
    """Search the settings of one case, choose among the best on fresh seeds, and measure the chosen one on others.

    The folder keeps all of it: whoever is killed, or stopped with Ctrl-C, goes on later with the same call, and several
    processes may make it at the same time. `batch` trials or fewer are computed side by side.
    """
    with quiet(), present(folder) as owner:
        free = sampling.distributions(space)
        trials = int(min(settings.trials, sampling.combinations(free)))
        startup = settings.startup or 4 + 4 * len(free)
        own = (*seeds, *fresh(max(seeds), settings.seeds or 0))[: settings.seeds or len(seeds)]
        stops = looks(steps, window, settings.rungs, settings.eta)
        study = _study(folder, case, Halving(settings.eta, len(own)))
        plan = {"settings": described(space), "seeds": [*own], "comparisons after steps": [*stops], "key": key}
        _same(study, plan | {"eta": settings.eta}, folder)
        queue = Queue(study, folder, owner, sampling.Samples(key, case, trials, free, startup))

        def tell(phase: str, taken: int) -> None:
            report(Progress(case, phase, queue.finished(), trials, taken, _lowest(study)))

        work = Work(objective, case, own, stops, tell)
        search(queue, work, width(batch, trials, startup))
        # one process confirms, and those that came later read what it found
        with alone(folder / f"confirming-{hashlib.sha256(study.study_name.encode()).hexdigest()[:16]}"):
            return _confirmed(study, work, space, settings, max(*seeds, *own))


def _study(folder: Path, case: Point, pruner: Halving) -> Study:
    name, storage = json.dumps(case, sort_keys=True), open_storage(folder)
    if name in optuna.get_all_study_names(storage):  # a search that is done is read, and nothing is written
        return optuna.load_study(study_name=name, storage=storage, pruner=pruner)
    return optuna.create_study(study_name=name, storage=storage, pruner=pruner, load_if_exists=True)


def _same(study: Study, plan: dict[str, Any], folder: Path) -> None:
    """See that the study was begun with this plan."""
    before = study.user_attrs.get("plan")
    if before is None:
        study.set_user_attr("plan", plan)
    elif differ := [name for name in plan if before[name] != plan[name]]:
        lines = [f"    {name}: {before[name]} then, {plan[name]} now" for name in differ]
        raise TuningError("\n".join([f"{folder} has a search with other settings. Take a new folder.", *lines]))


def _lowest(study: Study) -> float | None:
    """The lowest loss of a trial at the last step."""
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    value = min((trial.values[0] for trial in done), default=None)
    return None if value is None or lost_seeds(value) else value


def _confirmed(study: Study, work: Work, space: Mapping[str, Random], settings: Bounds, last: int) -> Tuned:
    steps, seeds = work.stops[-1], work.seeds
    best = finalists(study, settings.finalists, len(seeds))
    others = fresh(last, len(seeds))
    final, choice, spent = None, None, 0
    if len(best) > 1:
        final = measured(study, "finalists", work, best, others)
        best.sort(key=lambda trial: trial.user_attrs["place"] != final.best())
        spent = len(best) * len(others) * steps
    if best:
        further = fresh(others[-1], settings.confirm_seeds)
        choice = chosen(best[0], further, measured(study, "confirmation", work, best[:1], further).losses[0])
    done = sorted(study.get_trials(deepcopy=False, states=DONE), key=lambda trial: trial.user_attrs["place"])
    return Tuned(
        case=work.case,
        space=described(space),
        seeds=tuple(seeds),
        steps=steps,
        looks=tuple(work.stops),
        trials=tuple(map(tried, done)),
        finalist_seeds=final.seeds if final else (),
        finalists=tuple(map(Finalist, final.places, final.losses)) if final else (),
        chosen=choice,
        importance=importance(done),
        network_steps=Spent(
            search=sum((trial.last_step or 0) * len(seeds) for trial in done),
            finalists=spent,
            confirmation=len(choice.seeds) * steps if choice else 0,
            grid=len(done) * len(seeds) * steps,
        ),
    )

"""How much each setting matters for being among the best: PED-ANOVA compares where these lie with an even spread.

It asks for the order of trials alone. So all trials count, also those that were stopped early: one that came further is
better, and of those that came as far the one with the lower loss. Those that reached the last step are too few: of 40
trials some 8, by which it could not tell a setting that matters from one without any effect. Nor are the best compared
with all trials, as is the default: the search leaves bad values alone, so that what it avoids most would seem not to
matter.
"""

from collections.abc import Sequence

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, create_trial

#: the part of the trials that are the best
BEST = 0.25
#: fewer trials say too little
FEWEST = 20


def importance(trials: Sequence[FrozenTrial]) -> dict[str, float] | None:
    """For each setting its share, all together 1, largest first; None if there are too few trials to say."""
    free = [name for name, each in trials[0].distributions.items() if not each.single()] if trials else []
    if len(trials) < FEWEST or not free:
        return None
    ranked = optuna.create_study()
    furthest_and_lowest = lambda trial: (-trial.last_step, trial.intermediate_values[trial.last_step], trial.number)
    for rank, trial in enumerate(sorted(trials, key=furthest_and_lowest)):
        ranked.add_trial(create_trial(params=trial.params, distributions=trial.distributions, value=float(rank)))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=BEST, evaluate_on_local=False)
    return get_param_importances(ranked, evaluator=evaluator, params=free)

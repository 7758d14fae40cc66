"""The parts of a search, each against what is known of it."""

import itertools
import math
import statistics

import numpy as np
import optuna
import pytest
from optuna.pruners import SuccessiveHalvingPruner
from optuna.trial import TrialState, create_trial

from recurra.studies.choices import Choices, Uniform
from recurra.studies.tuning.importance import importance
from recurra.studies.tuning.sampling import (
    Halving,
    Proposals,
    combinations,
    comparison_steps,
    distributions,
    diverged_seeds,
    merit,
    spread,
)
from recurra.studies.tuning.tuned import TuningError
from tuning_standin import BOTH, CASE, MIXED, RATE, Bounds, Noisy, NoisyNetworks, tuned

NAN = math.nan


@pytest.fixture(autouse=True)
def _quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.mark.parametrize(
    ("steps", "window", "rungs", "eta", "wanted"),
    [
        (90_000, 100, 3, 3, (10_000, 30_000, 90_000)),
        (100_000, 1000, 3, 2, (25_000, 50_000, 100_000)),
        (100_000, 1000, 3, 3, (11_000, 33_000, 100_000)),
        (1000, 100, 1, 2, (1000,)),
        (1000, 400, 4, 2, (400, 1000)),  # looks that fall together are one
        (50, 100, 3, 2, (50,)),  # no whole window before the end
    ],
)
def test_looks_are_whole_windows(steps, window, rungs, eta, wanted):
    assert comparison_steps(steps, window, rungs, eta) == wanted


def test_a_diverged_seed_is_worse_than_any_loss():
    rows = [[0.3, 0.5], [0.4, 0.45], [9e5, 9e5], [0.1, NAN], [0.2, NAN], [0.2, 1e7], [-math.inf, NAN], [NAN, NAN]]
    merits = [merit(row) for row in rows]
    assert merits[0] == 0.4
    assert merits[4] == merits[5]
    assert sorted(merits) == merits
    assert [diverged_seeds(each) for each in merits] == [0, 0, 0, 1, 1, 1, 2, 2]


def survivors(pruner, values, states=None):
    """The values that go on, where trials of these were reported and are then asked about in this order."""
    study = optuna.create_study(pruner=pruner)
    trials = [study.ask() for _ in values]
    for trial, value in zip(trials, values, strict=True):
        trial.report(value, 10)
    for trial, state in zip(trials, states or [], strict=False):
        if state is not None:
            study.tell(trial, state=state)
    return sorted(value for trial, value in zip(trials, values, strict=True) if not trial.should_prune())


def test_the_best_go_on_whatever_their_order():
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    for order in itertools.permutations(values):
        assert survivors(Halving(2, 3), order) == [0.1, 0.2, 0.3]
    assert survivors(Halving(3, 3), values) == [0.1, 0.2]
    assert survivors(Halving(7, 3), values) == [0.1]
    assert survivors(Halving(2, 3), [0.5]) == [0.5]


def test_with_optunas_pruner_the_order_decides():
    """Why there is one of our own."""
    values = [0.1, 0.2, 0.3, 0.4, 0.5]
    pruner = lambda: SuccessiveHalvingPruner(min_resource=10, reduction_factor=2)
    assert survivors(pruner(), values) != survivors(pruner(), values[::-1])


def test_earlier_trials_count_and_failed_ones_do_not():
    values = [0.1, 0.2, 0.3, 0.4]
    assert 0.3 not in survivors(Halving(2, 3), values, [TrialState.PRUNED, TrialState.PRUNED])
    assert 0.3 in survivors(Halving(2, 3), values, [TrialState.FAIL, TrialState.FAIL])


def test_trials_that_diverged_altogether_go_no_further():
    lost = merit([NAN, NAN])
    assert survivors(Halving(2, 2), [lost, lost, lost]) == []
    partly = merit([NAN, 0.3])
    assert survivors(Halving(2, 2), [lost, partly, lost]) == [partly]


def test_the_search_space_in_optunas_words():
    space = MIXED | {"alpha": Uniform(0, 1, log=False, whole=False)}
    found = distributions(space)
    assert found["learning_rate"] == optuna.distributions.FloatDistribution(1e-5, 1e-1, log=True)
    assert found["n"] == optuna.distributions.IntDistribution(2, 64, log=True)
    assert found["w_rec"] == optuna.distributions.CategoricalDistribution(("orthogonal", "gaussian"))
    assert found["alpha"] == optuna.distributions.FloatDistribution(0.0, 1.0)
    assert combinations(space) == math.inf


def drawn(space, count, seed=0):
    return [spread(seed, place, space) for place in range(count)]


@pytest.mark.parametrize("count", [3, 8, 13, 50])
def test_spread_trials_leave_no_large_gap(count):
    for seed in range(20):
        exponents = sorted((math.log10(each["learning_rate"]) + 5) / 4 for each in drawn(RATE, count, seed))
        gaps = np.diff([*exponents, exponents[0] + 1])  # around a circle
        assert gaps.max() < 2 / count  # a random start leaves gaps of about log(count) / count
        assert gaps.min() > 0.3 / count


def test_spread_trials_of_two_settings_are_everywhere():
    for seed in range(20):
        cells = {(int(math.log10(each["learning_rate"]) + 5), int(4 * each["alpha"])) for each in drawn(BOTH, 40, seed)}
        assert len(cells) == 16


def test_spread_trials_of_whole_numbers_and_choices():
    found = drawn({"n": Uniform(2, 5, log=False, whole=True), "w_rec": Choices(("a", "b", "c"))}, 600)
    counts = {pair: sum(tuple(each.values()) == pair for each in found) for pair in {tuple(e.values()) for e in found}}
    assert len(counts) == 12
    assert min(counts.values()) > 40
    assert all(type(each["n"]) is int for each in found)
    assert {each["n"] for each in drawn({"n": Uniform(1, 6, log=True, whole=True)}, 100)} == {1, 2, 3, 4, 5, 6}


def test_where_settings_are_few_each_is_tried_once(tmp_path):
    space = {"learning_rate": Choices((1e-4, 1e-3, 1e-2)), "n": Uniform(4, 5, log=False, whole=True)}
    found = tuned(tmp_path, bounds=Bounds(trials=50), space=space)
    tried = sorted((trial.settings["learning_rate"], trial.settings["n"]) for trial in found.trials)
    assert tried == sorted(itertools.product((1e-4, 1e-3, 1e-2), (4, 5)))
    assert found.chosen.settings["learning_rate"] in (1e-3, 1e-2)


def test_a_case_without_anything_to_search_is_measured(tmp_path):
    class One(Noisy):
        def loss(self, point, seed, steps):
            assert point == CASE
            return seed / 10

    found = tuned(tmp_path, One(), space={}, seeds=range(2))
    assert [trial.settings for trial in found.trials] == [{}]
    assert (found.chosen.search, found.chosen.confirmed) == (0.05, pytest.approx(np.mean(range(4, 24)) / 10))
    assert found.finalists == ()


def test_samplers_depend_on_key_case_and_place():
    def asked(key, case, place):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        for seed in range(20):
            trial = study.ask(distributions(BOTH))
            study.tell(trial, (trial.params["alpha"] - 0.3) ** 2 + seed)
        proposals = Proposals(key, case, 99, BOTH, startup=5)
        assert proposals.given(place, finished=20) == {}
        study.sampler = proposals.sampler(place)
        return study.ask(distributions(BOTH)).params["alpha"]

    assert asked(0, CASE, 7) == asked(0, CASE, 7)
    numbers = {asked(*each) for each in [(0, CASE, 7), (1, CASE, 7), (0, {"learner": "uoro"}, 7), (0, CASE, 8)]}
    assert len(numbers) == 4


def ranked(count, matters, seed=0):
    """Trials of two settings, of which one matters; half were stopped early."""
    random = np.random.default_rng(seed)
    space = {"a": Uniform(0.0, 1.0, log=False, whole=False), "b": Uniform(0.0, 1.0, log=False, whole=False)}
    trials = []
    for number in range(count):
        params = {"a": float(random.uniform()), "b": float(random.uniform())}
        loss = abs(params[matters] - 0.7) + 0.05 * float(random.normal())
        stopped = loss > 0.3
        # those that were stopped have lower losses, as happens where losses grow: what counts is how far they came
        reached = {5: loss - 10} if stopped else {5: loss - 10, 20: loss}
        trial = create_trial(
            state=TrialState.PRUNED if stopped else TrialState.COMPLETE,
            value=list(reached.values())[-1],
            params=params,
            distributions=distributions(space),
            intermediate_values=reached,
        )
        trial.number = number
        trials.append(trial)
    return trials


@pytest.mark.parametrize("matters", ["a", "b"])
def test_the_setting_that_matters_is_important(matters):
    for seed in range(5):
        shares = importance(ranked(40, matters, seed))
        assert next(iter(shares)) == matters
        assert shares[matters] > 2 / 3
        assert sum(shares.values()) == pytest.approx(1)


def test_importance_needs_trials_and_settings():
    assert importance([]) is None
    assert importance(ranked(19, "a")) is None
    trials = ranked(25, "a")
    for trial in trials:
        del trial.params["b"], trial.distributions["b"]
    assert importance(trials) == {"a": 1.0}


class Strict(Noisy):
    """Checks how it is asked: rows are of points that went on the last time, and stops only grow."""

    taken = 0

    def __call__(self, points, seeds):
        assert all(point.items() >= CASE.items() for point in points)
        return StrictNetworks(self, list(points), list(seeds))


class StrictNetworks(NoisyNetworks):
    rows, at = None, 0

    def advance(self, rows, stop):
        assert stop > self.at
        assert list(rows) == sorted(set(rows))
        assert set(rows) <= set(range(len(self.points)) if self.rows is None else self.rows)
        self.function.taken += len(rows) * len(self.seeds) * (stop - self.at)
        self.rows, self.at = list(rows), stop
        return super().advance(rows, stop)


def test_what_comes_of_a_search(tmp_path):
    """Each number of the result is what the function says of the settings."""
    objective, told = Strict(), []
    found = tuned(tmp_path, objective, Bounds(20, seeds=3), report=told.append)
    spent = found.network_steps
    assert (found.seeds, found.looks, found.case) == ((0, 1, 2), (2200, 4500, 9000), CASE)
    assert spent.search + spent.finalists + spent.confirmation == objective.taken
    assert spent.grid == 20 * 3 * 9000
    assert sum(progress.network_steps for progress in told) == objective.taken
    assert [each.phase for each in told[-2:]] == ["finalists", "confirmation"]
    assert told[-1].finished == told[-1].trials == 20
    for trial in found.trials:
        means = [np.mean([objective.loss(trial.settings, seed, stop) for seed in range(3)]) for stop in trial.steps]
        assert [NAN if mean is None else mean for mean in trial.means] == pytest.approx(means, nan_ok=True)
        assert trial.complete == (trial.steps[-1] == 9000)
    complete = sorted((trial.means[-1], trial.place) for trial in found.trials if trial.complete)
    assert [each.place for each in found.finalists] == [place for _, place in complete[:3]]
    assert told[-1].best == complete[0][0]


def test_the_chosen_one_is_measured_on_seeds_that_chose_nothing(tmp_path):
    objective = Noisy()
    found = tuned(tmp_path, objective, Bounds(20, seeds=3))
    chosen, settings = found.chosen, {trial.place: trial.settings for trial in found.trials}
    assert found.finalist_seeds == (8, 9, 10)  # after those of the study, though only three of these were used
    assert chosen.seeds == tuple(range(11, 31))
    mean = lambda place: np.mean([objective.loss(settings[place], seed, 9000) for seed in (8, 9, 10)])
    assert chosen.place == min((each.place for each in found.finalists), key=mean)
    losses = [objective.loss(chosen.settings, seed, 9000) for seed in range(11, 31)]
    assert chosen.confirmed == pytest.approx(statistics.mean(losses))
    assert chosen.standard_error == pytest.approx(statistics.stdev(losses) / math.sqrt(20))
    assert chosen.optimism == pytest.approx(chosen.confirmed - chosen.search)
    assert chosen.search == next(trial.means[-1] for trial in found.trials if trial.place == chosen.place)


class Flat(Noisy):
    """All settings are equally good, and their loss is 0 but for noise."""

    def loss(self, point, seed, steps):
        return float(np.random.default_rng([self.problem, seed, hash(point["learning_rate"]) % 2**32]).normal())


def test_the_confirmed_loss_is_free_of_selection(tmp_path):
    searched, confirmed = [], []
    for problem in range(8):
        (tmp_path / str(problem)).mkdir()
        found = tuned(
            tmp_path / str(problem),
            Flat(problem),
            Bounds(12, finalists=2, confirm_seeds=8),
            RATE,
            key=problem,
            seeds=range(2),
        )
        searched.append(found.chosen.search)
        confirmed.append(found.chosen.confirmed)
    error = lambda values: abs(np.mean(values)) / (np.std(values, ddof=1) / math.sqrt(len(values)))
    assert error(confirmed) < 3
    assert error(searched) > 6  # the control: the search's own figure is far too low


class Doomed(Noisy):
    """Networks diverge, all of them or those of some seeds."""

    lost: tuple = ()

    def loss(self, point, seed, steps):
        return NAN if not self.lost or seed in self.lost else super().loss(point, seed, steps)


def test_where_every_network_diverges_nothing_is_chosen(tmp_path):
    found = tuned(tmp_path, Doomed())
    assert found.chosen is None
    assert found.finalists == ()
    assert not any(trial.complete for trial in found.trials)
    assert found.network_steps.search == 12 * 8 * 2200


def test_where_a_seed_diverges_with_every_setting_one_is_chosen_all_the_same(tmp_path):
    objective = Doomed()
    objective.lost = (1, 12)
    found = tuned(tmp_path, objective, seeds=range(4))
    assert found.chosen.search is None
    assert found.chosen.optimism is None
    assert found.chosen.diverged == 1
    kept = [objective.loss(found.chosen.settings, seed, 9000) for seed in found.chosen.seeds if seed != 12]
    assert found.chosen.confirmed == pytest.approx(np.mean(kept))


def test_settings_under_which_some_seeds_diverge_are_not_chosen(tmp_path):
    class Cliff(Noisy):
        """The lowest losses are beside a cliff, behind which one seed diverges."""

        def loss(self, point, seed, steps):
            exponent = math.log10(point["learning_rate"])
            return NAN if exponent > -2 and seed == 0 else -exponent

    found = tuned(tmp_path, Cliff(), Bounds(30), RATE)
    assert -2.5 < math.log10(found.chosen.settings["learning_rate"]) <= -2


def test_losses_of_another_shape_are_refused(tmp_path):
    class Short(Noisy):
        def advance(self, points, seeds, stop):
            return super().advance(points, seeds, stop)[:, 1:]

    with pytest.raises(TuningError, match=r"8 trials of 8 seeds were computed, and losses are \(8, 7\)"):
        tuned(tmp_path, Short())

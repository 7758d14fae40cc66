"""What a run does without an error and hardly as it was meant: one warning each, and none where all is well."""

import warnings

import jax
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import KnownRows
from recurra.training.arguments import warn_if_short
from recurra.training.cases import Case
from recurra.training.orders import Networks
from small_runs import arrays, network, regression, series, train

LATE = {
    "e-bptt": (rc.EfficientBPTT(T=6), 6),
    "edge-bptt": (rc.EdgeBPTT(T=6), 6),
    "f-bptt": (rc.FutureBPTT(T=6), 7),
}


def remarks(run):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = run()
    return [str(each.message) for each in found], result


@pytest.mark.parametrize("name", LATE)
def test_a_run_that_ends_before_the_first_gradient(name):
    learner, least = LATE[name]
    few, before = remarks(lambda: train(learner, steps=least - 1))
    assert len(few) == 1
    said = f"The recurrent weights will not change: with `T` = 6, {learner.name} has its first gradient after {least}"
    assert few[0].startswith(f"{said} steps that are learned from, and the run has {least - 1}.")
    enough, after = remarks(lambda: train(learner, steps=least))
    assert enough == []
    # It is so: biases start at zero.
    assert not before.weights.cell[0].bias.any()
    assert after.weights.cell[0].bias.all()


def test_a_run_that_goes_on_from_a_state():
    """A period goes on where it was, and a lag has passed."""
    e_bptt, f_bptt = rc.EfficientBPTT(T=6), rc.FutureBPTT(T=6)
    for learner, learned, began, is_said in (
        (e_bptt, 3, 4, False),
        (e_bptt, 3, 6, True),
        (f_bptt, 1, 6, False),
        (f_bptt, 1, 5, True),
        (rc.RFLO(), 1, 0, False),
        (rc.Fixed(), 1, 0, False),
    ):
        assert bool(remarks(lambda: warn_if_short(learner, learned, began))[0]) == is_said  # noqa: B023


def test_steps_before_a_late_label_are_not_learned_from():
    x, y = series(12)
    task = rc.Arrays(x, y, horizon=4)
    run = lambda steps: train(rc.EfficientBPTT(T=6), task, regression(), steps=steps)
    assert "after 6 steps that are learned from, and the run has 5" in remarks(lambda: run(9))[0][0]
    assert remarks(lambda: run(10))[0] == []


def test_a_sweep_says_it_too():
    """Each of its networks is such a case."""
    case = Case(network(), rc.EfficientBPTT(T=6), rc.Add(1, 2), 0.1, steps=5, window=5)
    (said,) = remarks(lambda: Networks([case.made(KnownRows())], (0,), jax.random.key(0)))[0]
    assert "with `T` = 6, E-BPTT has its first gradient after 6" in said


def test_seeds_that_diverge_are_named_once():
    x, y = series(40)
    task = rc.Arrays(x, 1e6 * y)
    found, result = remarks(lambda: train(rc.RFLO(), task, regression(), steps=40, seeds=[3, 5], optimizer=1e9))
    assert set(result.diverged) == {3, 5}
    assert len(found) == 1
    assert found[0].startswith("2 of 2 seeds diverged, as `Result.diverged` has it: seed ")
    assert all(f"seed {seed} at step {step}" in found[0] for seed, step in result.diverged.items())
    assert remarks(lambda: train(task=arrays(), steps=40))[0] == []


@pytest.mark.parametrize("name", ["inputs", "labels"])
def test_numbers_whose_squares_are_infinite(name):
    rows = {"inputs": np.zeros((9, 2), "float32"), "labels": np.zeros((9, 1), "float32")}
    assert remarks(lambda: rc.Arrays(**rows))[0] == []
    rows[name][4, 0] = 1e30
    (said,) = remarks(lambda: rc.Arrays(**rows))[0]
    assert said.startswith(
        f"`{name}` hold 1e+30 in row 4, column 0 (1 such values in all), whose square float32 cannot"
    )
    assert ("`present`" in said) == (name == "labels")
    rows[name][4, 0] = 1e18
    assert remarks(lambda: rc.Arrays(**rows))[0] == []
    if name == "labels":  # one that does not count
        rows[name][4, 0] = 1e30
        assert remarks(lambda: rc.Arrays(**rows, present=np.arange(9) != 4))[0] == []

"""River's own checks of estimators, all that apply, with nothing skipped."""

import doctest
import sys
import types

import pytest
from river import checks

from recurra.river import RNNClassifier, RNNForecaster, RNNRegressor


@pytest.fixture(autouse=True)
def _scikit_learn(monkeypatch):
    """River's checks import scikit-learn for regressors of several targets, and ours need it for nothing."""
    try:
        import sklearn  # noqa: F401  # pyright: ignore
    except ImportError:
        package = types.ModuleType("sklearn")
        package.datasets = types.ModuleType("sklearn.datasets")
        monkeypatch.setitem(sys.modules, "sklearn", package)
        monkeypatch.setitem(sys.modules, "sklearn.datasets", package.datasets)


def of_model(model):
    """The checks that need no data, which are quick."""
    return [check for check in checks.yield_checks(model) if not hasattr(check, "keywords")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RNNRegressor, RNNClassifier, RNNForecaster])
def test_it_passes_all_of_rivers_checks(kind):
    assert kind()._unit_test_skips() == set()
    checks.check_estimator(kind())


@pytest.mark.parametrize("kind", [RNNRegressor, RNNClassifier, RNNForecaster])
def test_it_is_an_estimator_of_rivers(kind):
    found = of_model(kind())
    assert len(found) >= 14
    for check in found:
        check(kind(n=4))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RNNRegressor, RNNClassifier, RNNForecaster])
def test_the_examples_of_its_documentation_are_true(kind):
    found = doctest.testmod(sys.modules[kind.__module__])
    assert (found.failed, found.attempted > 3) == (0, True)


def test_the_checks_notice_what_is_wrong():
    class Undocumented(RNNRegressor):
        __doc__ = None

    with pytest.raises(AssertionError):
        checks.check_estimator(Undocumented())

"""Recurrent networks as estimators for River: a regressor, a classifier and a forecaster.

They take dictionaries of features, which may come and go, and can stand wherever River has an estimator: in pipelines,
beside metrics and in `evaluate`. Behind each is a `recurra.Online`. They need `pip install 'recurra[river]'`.
"""

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError("recurra.river needs River, which is not installed: pip install 'recurra[river]'") from error

from recurra.river.classifier import RNNClassifier as RNNClassifier
from recurra.river.forecaster import RNNForecaster as RNNForecaster
from recurra.river.regressor import RNNRegressor as RNNRegressor

__all__ = ["RNNClassifier", "RNNForecaster", "RNNRegressor"]

"""What else is measured on held-out rows, beside the loss: a function of each output and its label, and its mean."""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recurra import checks
from recurra.step import Outcome


class Metric(checks.Part):
    """A number for each output and its label. What is reported is `finish` of its mean over all labels.

    A plain function of output and label is a metric too, whose mean is reported as it is.

    >>> class Confidence(rc.Metric):
    ...     def __call__(self, output, label):
    ...         return jnp.max(jax.nn.softmax(output))
    """

    @abc.abstractmethod
    def __call__(self, output: Float[Array, " n_out"], label: Float[Array, " n_out"]) -> Float[Array, ""]: ...

    def finish(self, mean: Any) -> Any:
        """The number to report, from the mean."""
        return mean


class Accuracy(Metric):
    """How often the largest output is the right class; with a single output, how often it is on the right side.

    >>> float(rc.Accuracy()(jnp.array([0.2, 1.5]), jnp.array([0.0, 1.0])))
    1.0
    """

    def __call__(self, output: Float[Array, " n_out"], label: Float[Array, " n_out"]) -> Float[Array, ""]:
        is_one = output.shape[0] == 1
        found, wanted = (output[0] > 0, label[0] > 0.5) if is_one else (jnp.argmax(output), jnp.argmax(label))
        return (found == wanted).astype(output.dtype)


class RMSE(Metric):
    """The root of the mean squared error, over all outputs together.

    >>> float(rc.RMSE().finish(rc.RMSE()(jnp.array([3.0]), jnp.array([1.0]))))
    2.0
    """

    def __call__(self, output: Float[Array, " n_out"], label: Float[Array, " n_out"]) -> Float[Array, ""]:
        return jnp.mean((output - label) ** 2)

    def finish(self, mean: Any) -> Any:
        return mean**0.5


#: a metric, or a plain function of an output and its label
MetricFunction = Metric | Callable[[Array, Array], Array]


def checked_metrics(given: Mapping[str, MetricFunction] | None, n_out: int, dtype: jnp.dtype) -> dict[str, Any]:
    """The metrics by their names, each of which must return one number; a TypeError or ValueError if one does not."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(
            f"`metrics` must map names to metrics, as {{'accuracy': recurra.Accuracy()}}, and is {given!r}."
        )
    for name, metric in given.items():
        if name in ("loss", "step"):
            raise ValueError(
                f"A metric cannot be called {name!r}, which is the name of something else: choose another."
            )
        if isinstance(metric, type) or not callable(metric):
            raise TypeError(
                f"`metrics[{name!r}]` must be a metric such as recurra.Accuracy(), or a function of an output and its "
                f"label, and is {metric!r}."
            )
        vector = jax.ShapeDtypeStruct((n_out,), dtype)
        try:
            found = jax.eval_shape(lambda *given, metric=metric: jnp.asarray(metric(*given)), vector, vector)
        except Exception as error:
            raise TypeError(
                f"`metrics[{name!r}]` could not be called with an output and a label of shape ({n_out},): {error}"
            ) from error
        if found.shape != ():
            raise TypeError(f"`metrics[{name!r}]` must return one number, and returns an array of shape {found.shape}.")
    return dict(given)


def of_step(metric: Any) -> Callable[[Outcome], Array]:
    """A function of a step's outcome: the mean of a metric over the streams that had a label, 0 if none had."""

    def record(outcome: Outcome) -> Array:
        dtype = outcome.output.dtype
        number = lambda output, label: jnp.asarray(metric(output, label)).astype(dtype)
        if outcome.output.ndim == 1:
            return number(outcome.output, outcome.label)
        present = outcome.present.astype(dtype)
        each = jnp.where(outcome.present, jax.vmap(number)(outcome.output, outcome.label), jnp.zeros((), dtype))
        return jnp.sum(each) / jnp.maximum(jnp.sum(present), jnp.ones((), dtype))

    return record


def finished(metric: Any, mean: Any) -> Any:
    """What is reported of the mean of a metric."""
    return metric.finish(mean) if isinstance(metric, Metric) else mean

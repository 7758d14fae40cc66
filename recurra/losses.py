"""Losses of an affine readout z against a label y*, each with its error dL/dz.

A loss that is written here is registered: the command line, study files, saved files and `import recurra` know it.
"""

import abc
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from recurra import checks


class Loss(checks.Part):
    """A loss returns its value and its error, the derivative in the readout. Subclass it for one of your own.

    What it returns is checked before anything runs: a TypeError says what it must return and what it returns.

    >>> class Absolute(rc.Loss):
    ...     def __call__(self, z, label):
    ...         return jnp.sum(jnp.abs(z - label)), jnp.sign(z - label)
    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=1, loss=Absolute())
    """

    @abc.abstractmethod
    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]: ...

    def check_outputs(self, n_out: int) -> None:
        """Raise if a readout of so many outputs makes no sense under the loss."""
        return None

    def check_labels(self, labels: np.ndarray) -> None:
        """Raise if these labels, one row a step, make no sense under the loss."""
        return None


class SoftmaxCrossEntropy(Loss):
    """-Σ y* log softmax(z), where y* is a distribution.

    Other labels are a ValueError, and so is a network with a single output.

    >>> loss, error = rc.SoftmaxCrossEntropy()(jnp.zeros(2), jnp.array([1.0, 0.0]))
    >>> round(float(loss), 3), error.round(3).tolist()
    (0.693, [-0.5, 0.5])
    """

    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]:
        log_y = jax.nn.log_softmax(z)
        return -jnp.sum(label * log_y), jnp.exp(log_y) - label

    def check_outputs(self, n_out: int) -> None:
        if n_out == 1:
            raise ValueError(
                "`n_out` is 1, and the softmax of a single output is always 1: use SigmoidCrossEntropy or "
                "SquaredError, or two outputs."
            )

    def check_labels(self, labels: np.ndarray) -> None:
        _check_probabilities(labels, "softmax cross-entropy")
        sums = labels.sum(axis=1)
        wrong = np.flatnonzero(np.abs(sums - 1) > 1e-4)
        if wrong.size:
            raise ValueError(
                f"Softmax cross-entropy needs labels that are distributions, and row {wrong[0]} sums to "
                f"{sums[wrong[0]]:.6g}: divide each row by its sum, or use SigmoidCrossEntropy for independent outputs."
            )


class SigmoidCrossEntropy(Loss):
    """-Σ y* log σ(z) + (1 - y*) log(1 - σ(z)), each output a probability of its own.

    Labels outside [0, 1] are a ValueError.

    >>> loss, error = rc.SigmoidCrossEntropy()(jnp.zeros(1), jnp.ones(1))
    >>> round(float(loss), 3), error.tolist()
    (0.693, [-0.5])
    """

    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]:
        return jnp.sum(jax.nn.softplus(z) - label * z), jax.nn.sigmoid(z) - label

    def check_labels(self, labels: np.ndarray) -> None:
        _check_probabilities(labels, "sigmoid cross-entropy")


class SquaredError(Loss):
    """½ Σ (z - y*)²: half the sum, so that the error is z - y*.

    >>> loss, error = rc.SquaredError()(jnp.array([3.0]), jnp.array([1.0]))
    >>> float(loss), error.tolist()
    (2.0, [2.0])
    """

    def __call__(
        self, z: Float[Array, " n_out"], label: Float[Array, " n_out"]
    ) -> tuple[Float[Array, ""], Float[Array, " n_out"]]:
        error = z - label
        return jnp.sum(error * error) / 2, error


class Regularizer(checks.Part):
    """A term R(a) that is added to what a network minimises. It depends on what the readout sees of the state.

    >>> class Small(rc.Regularizer):
    ...     def credit(self, shown):
    ...         return 0.01 * shown
    >>> network = rc.Network(rc.RNN(n_in=2, n=8), n_out=2, regularizer=Small())
    """

    @abc.abstractmethod
    def credit(self, shown: Float[Array, " shown"]) -> Float[Array, " shown"]:
        """dR/da."""


class FiringRate(Regularizer):
    """½ `strength` Σ (a - `target`)²: keeps units near a firing rate.

    It is meant for spiking cells, whose readout sees spikes filtered in time: `target` is in spikes a step. Filtered
    spikes fluctuate, and that counts too. For a rate of r take a `target` of about r + (1-κ) / (1+κ) / 2, where κ is
    exp(-1/τ) of the filter: for 10 spikes in 1,000 steps and τ = 20 this is 0.0225.

    >>> network = rc.Network(rc.LIF(n_in=4, n=16), n_out=2, regularizer=rc.FiringRate(target=0.02))
    >>> rc.FiringRate(target=0.5, strength=2.0).credit(jnp.array([1.0])).tolist()
    [1.0]
    """

    target: float | Float[Array, ""] = 0.01
    strength: float | Float[Array, ""] = 1.0

    def __check_init__(self) -> None:
        checks.in_range(self, "target", least=0.0)
        checks.in_range(self, "strength", least=0.0)

    def credit(self, shown: Float[Array, " shown"]) -> Float[Array, " shown"]:
        return self.strength * (shown - self.target)


def _check_probabilities(labels: np.ndarray, loss: str) -> None:
    outside = np.argwhere((labels < 0) | (labels > 1))
    if outside.size:
        row, column = outside[0]
        raise ValueError(
            f"Labels under {loss} must lie in [0, 1], and row {row}, column {column} is {labels[row, column]:.6g}: "
            "give probabilities, or use SquaredError."
        )


#: the losses, by their names on the command line
LOSSES: dict[str, type[Loss]] = checks.registered(globals(), Loss)

if not TYPE_CHECKING:  # a type checker cannot read such a list, and takes all names above
    #: What `import recurra` offers of this module.
    __all__ = ["LOSSES", "FiringRate", "Loss", "Regularizer", *(kind.__name__ for kind in LOSSES.values())]

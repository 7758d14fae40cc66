"""RMSProp: steps are divided by a running root mean square of the gradient."""

from typing import ClassVar

import optax

from recurra import checks
from recurra.step.optimizers import Described, Number, check_clip, clipped, number


class RMSProp(Described):
    """RMSProp (Tieleman and Hinton, 2012). With `clip`, longer gradients are scaled to this norm first.

    >>> rc.RMSProp(1e-3, decay=0.99).decay  # for `train(..., optimizer=...)`
    0.99
    """

    learning_rate: Number = number(1e-3)
    decay: Number = number(0.9)
    eps: Number = number(1e-8)
    clip: Number | None = number(None)

    command: ClassVar[str] = "rmsprop"

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "decay", least=0.0, below=1.0)
        checks.in_range(self, "eps", above=0.0)
        check_clip(self)

    def built(self) -> optax.GradientTransformation:
        rule = optax.rmsprop(self.learning_rate, self.decay, self.eps)  # pyright: ignore[reportArgumentType]
        return clipped(self.clip, rule)

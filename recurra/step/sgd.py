"""Plain gradient descent, with momentum where it is given."""

import optax

from recurra import checks
from recurra.step.optimizers import Described, Number, check_clip, clipped, number


class SGD(Described):
    """Gradient descent, with `momentum` if it is given. With `clip`, longer gradients are scaled to this norm first.

    >>> rc.SGD(1e-2, momentum=0.9, clip=1.0)  # for `train(..., optimizer=...)`
    SGD(learning_rate=0.01, momentum=0.9, clip=1.0)
    """

    learning_rate: Number = number(1e-3)
    momentum: Number | None = number(None)
    clip: Number | None = number(None)

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        if self.momentum is not None:
            checks.in_range(self, "momentum", least=0.0, below=1.0)
        check_clip(self)

    def built(self) -> optax.GradientTransformation:
        return clipped(self.clip, optax.sgd(self.learning_rate, self.momentum))  # pyright: ignore[reportArgumentType]

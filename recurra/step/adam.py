"""Adam: each weight has a step size of its own, from running moments of its gradient."""

import optax

from recurra import checks
from recurra.step.optimizers import Described, Number, check_clip, clipped, number


class Adam(Described):
    """Adam (Kingma and Ba, 2015). With `clip`, longer gradients are scaled to this norm first.

    >>> rc.Adam(1e-3, clip=1.0).learning_rate  # for `train(..., optimizer=...)`
    0.001
    """

    learning_rate: Number = number(1e-3)
    b1: Number = number(0.9)
    b2: Number = number(0.999)
    eps: Number = number(1e-8)
    clip: Number | None = number(None)

    def __check_init__(self) -> None:
        checks.in_range(self, "learning_rate", least=0.0)
        checks.in_range(self, "b1", least=0.0, below=1.0)
        checks.in_range(self, "b2", least=0.0, below=1.0)
        checks.in_range(self, "eps", above=0.0)
        check_clip(self)

    def built(self) -> optax.GradientTransformation:
        rule = optax.adam(self.learning_rate, self.b1, self.b2, self.eps)  # pyright: ignore[reportArgumentType]
        return clipped(self.clip, rule)

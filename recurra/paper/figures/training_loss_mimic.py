"""How each learner fares on the Mimic task."""

from recurra.paper.figures.drawn import Data, Drawn
from recurra.paper.figures.losses import draw_losses

NAME = "training_loss_mimic"
TITLE = "Learning the Mimic task"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["loss/mimic/"]


def draw(data: Data) -> Drawn | None:
    """Mean loss over steps, one panel for each alpha."""
    return draw_losses(data, "mimic")

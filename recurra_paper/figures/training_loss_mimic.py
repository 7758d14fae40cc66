"""How each learner fares on the Mimic task."""

from recurra_paper.figures.drawn import Data, Drawn
from recurra_paper.figures.losses import draw_losses

NAME = "training_loss_mimic"
TITLE = "Figure 5. Learning the Mimic task"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names, and one that a claim beside it rests on."""
    return ["loss/mimic/", "horizon/mimic"]


def draw(data: Data) -> Drawn | None:
    """Mean loss over steps, one panel for each alpha."""
    return draw_losses(data, "mimic")

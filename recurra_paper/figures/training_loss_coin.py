"""How each learner fares on the Add task."""

from recurra_paper.figures.drawn import Data, Drawn
from recurra_paper.figures.losses import draw_losses

NAME = "training_loss_coin"
TITLE = "Figure 4. Learning the Add task"


def needs(profile: object) -> list[str]:
    """The experiments it shows, by the start of their names."""
    return ["loss/add/"]


def draw(data: Data) -> Drawn | None:
    """Mean loss over steps, one panel for each alpha."""
    return draw_losses(data, "add")

"""The paper's figures and its first table, one module each, in its order.

Each module has a NAME, a TITLE, `needs(profile)` (the experiments it shows, by the start of their names) and
`draw(data)`, which gives a `Drawn`, or None where nothing it needs was run. What was run in part is shown in part.
"""

from types import ModuleType

from recurra_paper.figures import alignment_analysis as alignment_analysis
from recurra_paper.figures import norm_alignments as norm_alignments
from recurra_paper.figures import past_future as past_future
from recurra_paper.figures import rflo_m as rflo_m
from recurra_paper.figures import rflo_results as rflo_results
from recurra_paper.figures import summed_alignment as summed_alignment
from recurra_paper.figures import table1 as table1
from recurra_paper.figures import training_loss_coin as training_loss_coin
from recurra_paper.figures import training_loss_mimic as training_loss_mimic
from recurra_paper.figures import triangles as triangles
from recurra_paper.figures.drawn import Data as Data
from recurra_paper.figures.drawn import Drawn as Drawn

FIGURES: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        table1,
        past_future,
        rflo_m,
        triangles,
        training_loss_coin,
        training_loss_mimic,
        alignment_analysis,
        norm_alignments,
        rflo_results,
        summed_alignment,
    )
}

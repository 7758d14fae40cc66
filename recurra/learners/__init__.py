"""One file for each algorithm; `base` holds the two relations they all come from. Start there.

To register a learner, add its line below. The order is that of tables, legends and benchmarks: the paper's.
"""

# ruff: isort: skip_file
from recurra.cells.base import Cell
from recurra.cells.tick import Tick as Tick
from recurra.cells.unitwise import UnitwiseCell
from recurra.learners.base import About as About
from recurra.learners.base import FutureFacing as FutureFacing
from recurra.learners.base import Learner as Learner
from recurra.learners.base import PastFacing as PastFacing
from recurra.learners.base import Unfaced as Unfaced

from recurra.learners.rtrl import RTRL as RTRL
from recurra.learners.uoro import UORO as UORO
from recurra.learners.kf_rtrl import KFRTRL as KFRTRL
from recurra.learners.r_kf_rtrl import RKFRTRL as RKFRTRL
from recurra.learners.r_ok import ROK as ROK
from recurra.learners.kernl import KeRNL as KeRNL
from recurra.learners.rflo import RFLO as RFLO
from recurra.learners.e_bptt import EfficientBPTT as EfficientBPTT
from recurra.learners.f_bptt import FutureBPTT as FutureBPTT
from recurra.learners.dni import DNI as DNI
from recurra.learners.dni_b import DNIb as DNIb
from recurra.learners.fixed import Fixed as Fixed

#: Every learner by its name on the command line. It drives the tests, tables, legends and benchmarks.
LEARNERS: dict[str, type[Learner]] = {
    kind.about.id: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Learner) and "about" in vars(kind)
}

#: What `import recurra` offers of this package.
__all__ = ["LEARNERS", "About", "FutureFacing", "Learner", "PastFacing", "Tick", "Unfaced"]
__all__ += [kind.__name__ for kind in LEARNERS.values()]


def check_pairing(learner: Learner, cell: Cell) -> None:
    """Raise if the learner cannot learn with the cell, above all if it needs a unit-wise one."""
    if not learner.about.unitwise or isinstance(cell, UnitwiseCell):
        learner.check(cell)
        return
    *most, last = [kind.__name__ for kind in LEARNERS.values() if not kind.about.unitwise]
    raise TypeError(
        f"{type(learner).__name__} needs a unit-wise cell, and {cell.name} is a general one: use recurra.RNN, "
        f"recurra.GRU or recurra.LSTM, or a learner that takes any cell: {', '.join(most)} or {last}."
    )

"""One file for each algorithm; `base` holds the two relations they all come from. Start there.

To register a learner, add its line below. The order is that of tables, legends and benchmarks: the paper's
learners first, in its order.
"""

# ruff: isort: skip_file
from typing import TYPE_CHECKING

from recurra.cells.base import Cell
from recurra.cells.encoded import Encoded
from recurra.cells.general import GeneralCell
from recurra.cells.stack import Stack
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

# What came after the paper.
from recurra.learners.immediate import Immediate as Immediate
from recurra.learners.snap_1 import SnAp1 as SnAp1
from recurra.learners.snap import SnAp as SnAp
from recurra.learners.pp_prop import PPProp as PPProp
from recurra.learners.preuoro import PREUORO as PREUORO
from recurra.learners.column_uoro import ColumnUORO as ColumnUORO
from recurra.learners.receiver_uoro import ReceiverUORO as ReceiverUORO
from recurra.learners.diagonal_uoro import DiagonalUORO as DiagonalUORO
from recurra.learners.truncated_ok import TruncatedOK as TruncatedOK
from recurra.learners.sk_rtrl import SKRTRL as SKRTRL
from recurra.learners.bp_lambda import BPLambda as BPLambda
from recurra.learners.bp_lambda_local import LocalBPLambda as LocalBPLambda
from recurra.learners.edge_bptt import EdgeBPTT as EdgeBPTT
from recurra.learners.e_prop_3 import EProp3 as EProp3
from recurra.learners.layered import Layered as Layered

# How `Layered` hands credit down.
from recurra.learners.handing_down import HandingDown as HandingDown
from recurra.learners.handing_down import LocalLosses as LocalLosses
from recurra.learners.handing_down import RandomTargets as RandomTargets
from recurra.learners.handing_down import ThroughLayers as ThroughLayers

# Learners with an encoder before the cell. A wrapper of learners is none of them.
from recurra.learners.with_encoder import EncoderRule as EncoderRule
from recurra.learners.with_encoder import Frozen as Frozen
from recurra.learners.with_encoder import PresentStep as PresentStep
from recurra.learners.with_encoder import Traced as Traced
from recurra.learners.with_encoder import WithEncoder as WithEncoder
from recurra.learners.with_encoder import suited as suited

#: Every learner by its name on the command line. It drives the tests, tables, legends and benchmarks.
LEARNERS: dict[str, type[Learner]] = {
    kind.about.id: kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Learner) and isinstance(vars(kind).get("about"), About)
}

if not TYPE_CHECKING:  # a type checker cannot read such a list, and takes all names above
    #: What `import recurra` offers of this package.
    __all__ = ["LEARNERS", "About", "FutureFacing", "Learner", "PastFacing", "Tick", "Unfaced"]
    __all__ += ["LocalLosses", "RandomTargets", "ThroughLayers"]
    __all__ += ["Frozen", "PresentStep", "Traced", "WithEncoder"]
    __all__ += [kind.__name__ for kind in LEARNERS.values()]


def check_pairing(learner: Learner, cell: Cell) -> None:
    """Raise if the learner cannot learn with the cell, above all if it needs a unit-wise one.

    >>> rc.learners.check_pairing(rc.RFLO(), rc.RNN(n_in=2, n=8))
    """
    if not learner.about.unitwise or isinstance(cell, UnitwiseCell):
        learner.check(cell)
        return
    name = type(learner).__name__
    if isinstance(cell, Stack):
        of_layers = name if isinstance(learner, PastFacing) and not learner.period else "RFLO"
        told, fits = "a Stack holds several", f"recurra.Layered({of_layers}())"
    elif isinstance(cell, Encoded):
        follows = isinstance(learner, PastFacing) and not learner.lag and not learner.period
        told = f"{cell.name} has an encoder before its cell"
        fits = f"recurra.WithEncoder({name}(), recurra.Traced())" if follows else "recurra.RTRL()"
    elif isinstance(cell, GeneralCell) and cell.why:
        told = f"that of {cell.name} does not: {cell.why}"
        fits = "a step that does, such as recurra.RNN, recurra.GRU, recurra.LSTM or a recurra.UnitwiseCell of your own"
    else:
        told = f"{cell.name} is a general cell"
        fits = "recurra.RNN, recurra.GRU, recurra.LSTM, or a recurra.UnitwiseCell of your own"
    *most, last = [kind.__name__ for kind in LEARNERS.values() if kind.about.cells == "any"]
    raise TypeError(
        f"{name} needs a unit-wise cell, whose step acts on one unit at a time, and {told}. Use {fits}, or a learner "
        f"that takes any cell: {', '.join(most)} or {last}."
    )

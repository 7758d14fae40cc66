"""One file an algorithm; `base` holds the two relations they all come from. Start there."""

from recurra.learners.base import FutureFacing as FutureFacing
from recurra.learners.base import Learner as Learner
from recurra.learners.base import PastFacing as PastFacing
from recurra.learners.base import Tick as Tick
from recurra.learners.bptt import EfficientBPTT as EfficientBPTT
from recurra.learners.bptt import FutureBPTT as FutureBPTT
from recurra.learners.dni import DNI as DNI
from recurra.learners.dni import DNIb as DNIb
from recurra.learners.fixed import Fixed as Fixed
from recurra.learners.kernl import KeRNL as KeRNL
from recurra.learners.kf_rtrl import KFRTRL as KFRTRL
from recurra.learners.r_kf_rtrl import RKFRTRL as RKFRTRL
from recurra.learners.r_ok import ROK as ROK
from recurra.learners.rflo import RFLO as RFLO
from recurra.learners.rtrl import RTRL as RTRL
from recurra.learners.uoro import UORO as UORO

#: Every learner by its name on the command line, in the order of the paper's table. It drives the tests, tables,
#: legends and benchmarks.
LEARNERS: dict[str, type[Learner]] = {
    "rtrl": RTRL,
    "uoro": UORO,
    "kf-rtrl": KFRTRL,
    "r-kf-rtrl": RKFRTRL,
    "r-ok": ROK,
    "kernl": KeRNL,
    "rflo": RFLO,
    "e-bptt": EfficientBPTT,
    "f-bptt": FutureBPTT,
    "dni": DNI,
    "dni-b": DNIb,
    "fixed": Fixed,
}

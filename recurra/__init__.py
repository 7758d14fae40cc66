"""Online learning for recurrent networks: every algorithm behind one small interface."""

from recurra import cells as cells
from recurra import learners as learners
from recurra import noise as noise
from recurra import record as record
from recurra import tasks as tasks
from recurra.cells import GRU as GRU
from recurra.cells import LSTM as LSTM
from recurra.cells import RNN as RNN
from recurra.cells import GeneralCell as GeneralCell
from recurra.learners import DNI as DNI
from recurra.learners import KFRTRL as KFRTRL
from recurra.learners import LEARNERS as LEARNERS
from recurra.learners import RFLO as RFLO
from recurra.learners import RKFRTRL as RKFRTRL
from recurra.learners import ROK as ROK
from recurra.learners import RTRL as RTRL
from recurra.learners import UORO as UORO
from recurra.learners import DNIb as DNIb
from recurra.learners import EfficientBPTT as EfficientBPTT
from recurra.learners import Fixed as Fixed
from recurra.learners import FutureBPTT as FutureBPTT
from recurra.learners import KeRNL as KeRNL
from recurra.loop import Moment as Moment
from recurra.losses import SigmoidCrossEntropy as SigmoidCrossEntropy
from recurra.losses import SoftmaxCrossEntropy as SoftmaxCrossEntropy
from recurra.losses import SquaredError as SquaredError
from recurra.network import Network as Network
from recurra.result import Result as Result
from recurra.tasks import Add as Add
from recurra.tasks import Arrays as Arrays
from recurra.tasks import Mimic as Mimic
from recurra.training import train as train

__version__ = "0.1.0"

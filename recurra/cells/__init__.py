"""What a network is: the protocol, the unit-wise cells, several in a stack, and an adapter for any other.

To register a unit-wise cell, import it below. The command line, study files, saved files and `import recurra` know it
from there.
"""

from typing import TYPE_CHECKING

from recurra.cells.alif import ALIF as ALIF
from recurra.cells.base import Cell as Cell
from recurra.cells.base import Credit as Credit
from recurra.cells.base import Influence as Influence
from recurra.cells.base import State as State
from recurra.cells.base import Weights as Weights
from recurra.cells.columnar import ColumnarLSTM as ColumnarLSTM
from recurra.cells.elstm import ELSTM as ELSTM
from recurra.cells.encoded import Encoded as Encoded
from recurra.cells.encoded import EncodedWeights as EncodedWeights
from recurra.cells.foreign import ReadCell as ReadCell
from recurra.cells.foreign import cell_of as cell_of
from recurra.cells.gates import Sources as Sources
from recurra.cells.general import GeneralCell as GeneralCell
from recurra.cells.gru import GRU as GRU
from recurra.cells.initial import At as At
from recurra.cells.initial import MatrixInit as MatrixInit
from recurra.cells.initial import Sparsely as Sparsely
from recurra.cells.initial import WithoutSelf as WithoutSelf
from recurra.cells.initial import diagonal as diagonal
from recurra.cells.initial import gaussian as gaussian
from recurra.cells.initial import orthogonal as orthogonal
from recurra.cells.initial import random_feedback as random_feedback
from recurra.cells.initial import symmetric as symmetric
from recurra.cells.lif import LIF as LIF
from recurra.cells.lru import LRU as LRU
from recurra.cells.lstm import LSTM as LSTM
from recurra.cells.min_gru import MinGRU as MinGRU
from recurra.cells.module import Module as Module
from recurra.cells.module import module_of as module_of
from recurra.cells.rnn import RNN as RNN
from recurra.cells.rtu import RTU as RTU
from recurra.cells.rtu import NonlinearRTU as NonlinearRTU
from recurra.cells.spiking import arctan as arctan
from recurra.cells.spiking import fast_sigmoid as fast_sigmoid
from recurra.cells.spiking import triangular as triangular
from recurra.cells.stack import Stack as Stack
from recurra.cells.tick import Tick as Tick
from recurra.cells.unitwise import UnitwiseCell as UnitwiseCell
from recurra.checks import registered

#: the library's unit-wise cells, by their names on the command line
CELLS: dict[str, type[UnitwiseCell]] = registered(globals(), UnitwiseCell, leave_out=(ReadCell,))

if not TYPE_CHECKING:  # a type checker cannot read such a list, and takes all names above
    #: What `import recurra` offers of this package.
    __all__ = ["CELLS", "Encoded", "GeneralCell", "Module", "Stack", "UnitwiseCell", "cell_of", "module_of"]
    __all__ += [kind.__name__ for kind in CELLS.values()]

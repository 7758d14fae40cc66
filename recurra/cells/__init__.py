"""What a network is: the protocol, the unit-wise cells, and an adapter for any other."""

from recurra.cells.base import Cell as Cell
from recurra.cells.general import GeneralCell as GeneralCell
from recurra.cells.gru import GRU as GRU
from recurra.cells.initial import diagonal as diagonal
from recurra.cells.initial import gaussian as gaussian
from recurra.cells.initial import orthogonal as orthogonal
from recurra.cells.initial import symmetric as symmetric
from recurra.cells.lstm import LSTM as LSTM
from recurra.cells.rnn import RNN as RNN
from recurra.cells.tick import Tick as Tick
from recurra.cells.unitwise import Sources as Sources
from recurra.cells.unitwise import UnitwiseCell as UnitwiseCell

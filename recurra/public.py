"""Every public name of the library, once. `import recurra` imports this module when it is first asked for a name.

The parts come from the lists `__all__` of their rooms, which follow from what is registered there.
"""

from recurra import cells as cells
from recurra import learners as learners
from recurra import tasks as tasks
from recurra.cells import *  # noqa: F403
from recurra.engine.choosing import ENGINES as ENGINES
from recurra.engine.on_chip.engine import OnChipEngine as OnChipEngine
from recurra.engine.scan import ScanEngine as ScanEngine
from recurra.learners import *  # noqa: F403
from recurra.linalg import Hollow as Hollow
from recurra.linalg import Sparse as Sparse
from recurra.linalg import noise as noise
from recurra.losses import *  # noqa: F403
from recurra.network import Network as Network
from recurra.network import NetworkWeights as NetworkWeights
from recurra.network import Readout as Readout
from recurra.online.defaults import forecaster as forecaster
from recurra.online.defaults import race as race
from recurra.online.diverging import Diverged as Diverged
from recurra.online.export import export as export
from recurra.online.files import load as load
from recurra.online.files import save as save
from recurra.online.intervals import Intervals as Intervals
from recurra.online.model import Online as Online
from recurra.online.race import Race as Race
from recurra.online.step import OnlineStep as OnlineStep
from recurra.online.trained import TrainedNetwork as TrainedNetwork
from recurra.saved.archive import SavedFileError as SavedFileError
from recurra.step import *  # noqa: F403
from recurra.tasks import *  # noqa: F403
from recurra.training import provenance as provenance
from recurra.training import record as record
from recurra.training.checkpoint import CheckpointError as CheckpointError
from recurra.training.checkpoint import UselessCheckpointError as UselessCheckpointError
from recurra.training.folder import FolderError as FolderError
from recurra.training.folder import NotKeptError as NotKeptError
from recurra.training.interrupts import Interrupted as Interrupted
from recurra.training.metrics import RMSE as RMSE
from recurra.training.metrics import Accuracy as Accuracy
from recurra.training.metrics import Metric as Metric
from recurra.training.result import Result as Result
from recurra.training.result import standard_error as standard_error
from recurra.training.sweep import sweep as sweep
from recurra.training.train import train as train

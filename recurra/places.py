"""Where `recurra.sweep` computes networks, if not in this process: other processes, or a Dask cluster.

They need `pip install 'recurra[scale]'`.
"""

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise ImportError("recurra.places needs Dask, which is not installed: pip install 'recurra[scale]'") from error

from recurra.training.places.base import PlaceError as PlaceError
from recurra.training.places.base import PlaceLost as PlaceLost
from recurra.training.places.base import Tls as Tls
from recurra.training.places.dask import Cluster as Cluster
from recurra.training.places.workers import Processes as Processes

__all__ = ["Cluster", "PlaceError", "PlaceLost", "Processes", "Tls"]

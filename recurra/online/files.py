"""Models in files: `save` and `load`.

A file of a model that learns holds all that is needed to go on: weights, states, traces, optimizer, readout, scalers,
random state, position and configuration. A model that was saved and loaded goes on with the same bits as one that was
not. The file of a trained network holds the network and its weights.
"""

import reprlib
from collections.abc import Mapping
from pathlib import Path

from recurra.network import Network, NetworkWeights
from recurra.online.c_bytes import exported_bytes
from recurra.online.export import imported
from recurra.online.intervals import Intervals
from recurra.online.keeping import NeedsTemplate
from recurra.online.model import Online
from recurra.online.race import Race
from recurra.online.trained import TrainedNetwork
from recurra.saved import archive
from recurra.saved.archive import SavedFileError, UselessFileError
from recurra.saved.whole_files import held

KIND = "model"
#: what a file can hold, by the names that files give it
MODELS: Mapping[str, type[Online] | type[Race] | type[Intervals] | type[TrainedNetwork]] = {
    "Online": Online,
    "Race": Race,
    "Intervals": Intervals,
    "TrainedNetwork": TrainedNetwork,
}

Model = Online | Race | Intervals | TrainedNetwork


def save(path: Path | str, model: Model | Network, weights: NetworkWeights | None = None) -> None:
    """Put a model, or a network with its weights, into a file.

    A file that is there is replaced once the new one is complete. `rc.save(path, network, weights)` keeps a trained
    network, as `Result.save` does, and `recurra.load` makes a `recurra.TrainedNetwork` of it.

    Models of the library's own parts can be loaded from the file alone. A model with parts of your own is saved too,
    and loaded with a model built in the same way: `recurra.load(path, like=model)`.

    A file that cannot be written is a `recurra.SavedFileError`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rc.save(f"{folder}/model.safetensors", rc.forecaster(n_in=1))
    ...     rc.load(f"{folder}/model.safetensors").rows
    0
    """
    if isinstance(model, Network):
        if weights is None:
            raise TypeError("`weights` are missing: save a network as rc.save(path, network, weights).")
        model, weights = TrainedNetwork(model, weights), None
    if type(model) not in MODELS.values():
        raise TypeError(
            "`save` takes a recurra.Online, Race, Intervals or TrainedNetwork, or a network and its weights, and got "
            f"a {type(model).__name__}: {reprlib.repr(model):.80}. The result of a run has a method `save` of its own."
        )
    if weights is not None:
        raise TypeError(f"`weights` belong to a network, and a {type(model).__name__} has its own: leave them out.")
    document = {"type": type(model).__name__, "model": model.description()}
    try:
        with held(Path(path)):
            archive.write(path, KIND, model.state_arrays(), document)
    except OSError as error:
        raise SavedFileError(
            f"{path} cannot be written: {error.strerror or error}. A file that was there before is untouched."
        ) from error


def load(path: Path | str, like: Model | Network | None = None) -> Model:
    """The model in a file. `like` is a model built in the same way, for one with parts of your own; it stays as it is.

    Of a trained network there is a `recurra.TrainedNetwork`, and `like` may be a network. Bytes that `recurra.export`
    wrote, or the function `export` of a model in C, need the exported model as `like`.

    What is wrong with a file is a `recurra.SavedFileError`. No code of a file is ever run.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rc.save(f"{folder}/model.safetensors", rc.forecaster(n_in=1))
    ...     rc.load(f"{folder}/model.safetensors").n_in
    1
    """
    if (given := exported_bytes(Path(path))) is not None:
        return _from_bytes(path, given, like)
    arrays, document = archive.read(path, KIND)
    kind = document.get("type")
    if not isinstance(kind, str) or kind not in MODELS:
        raise UselessFileError(f"{path} is damaged: it holds a {kind!r}.")
    if not isinstance(document.get("model"), dict):
        raise UselessFileError(f"{path} is damaged: it describes no model.")
    fits = type(like) is MODELS[kind] or (isinstance(like, Network) and MODELS[kind] is TrainedNetwork)
    if like is not None and not fits:
        raise SavedFileError(f"{path} holds a model of class {kind}, and `like` is a {type(like).__name__}.")
    try:
        return MODELS[kind].from_saved(document.get("model"), arrays, like)  # pyright: ignore[reportArgumentType]
    except NeedsTemplate as error:
        raise SavedFileError(f"{path} needs a template: {error}") from None
    except ValueError as error:
        raise UselessFileError(f"{path} cannot be used: {error}.") from error


def _from_bytes(path: Path | str, given: bytes, like: Model | Network | None) -> Online | Intervals:
    if like is None:
        raise SavedFileError(
            f"{path} needs a template: it has what an exported model knows, and not what kind of model that is. Load "
            "it with the model that was exported: rc.load(path, like=model)."
        )
    if not isinstance(like, Online | Intervals) or (isinstance(like, Intervals) and not isinstance(like.model, Online)):
        raise SavedFileError(f"{path} holds what an Online or Intervals know, and `like` is a {type(like).__name__}.")
    try:
        return imported(given, like)
    except ValueError as error:
        raise UselessFileError(f"{path} cannot be used: {error}.") from error

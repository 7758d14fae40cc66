"""One file for everything that goes on later: named arrays and a JSON document, as safetensors.

    8 bytes    the length of the header
    header     JSON: the type, shape and place of each array, and metadata, whose values are text
    data       the arrays, one after the other

The metadata hold the number of the format, the library's version, the kind of the file, the document, and a SHA-256 of
all of this and the arrays. safetensors has no checksum of its own: a flipped bit in a weight would load without a word.

A file is replaced whole: a kill or a power cut leaves the one before. A file to read may come from anywhere. Reading
executes nothing, takes no more memory than the file is long, and uses the names of arrays as keys only. What is wrong
with a file is a `SavedFileError`. The checksum finds damage; it does not tell who wrote a file.

The safetensors package reads these files. It is not used here, for on its way to a file it copies every array twice,
and to NumPy it hands over no bfloat16.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from recurra import __version__
from recurra.engine.hardware import check_fits
from recurra.saved import headers
from recurra.saved.headers import DTYPES, LONGEST, ArrayEntry
from recurra.saved.whole_files import write_whole

T = TypeVar("T")

FORMAT = 1
#: the names of the metadata
NUMBER, VERSION, KIND, DOCUMENT, DIGEST = "recurra_format", "recurra", "kind", "document", "sha256"
#: at most so many bytes are copied at a time to be written
BLOCK = 2**24
#: how zip archives begin
ZIP = b"PK\x03\x04"


class SavedFileError(ValueError):
    """A file cannot be used; the message says why. It may be good: the reason may pass, or lie elsewhere.

    >>> try:
    ...     model = rc.load("no-such-file.safetensors")
    ... except rc.SavedFileError as error:
    ...     print("no-such-file.safetensors" in str(error))
    True
    """


class UselessFileError(SavedFileError):
    """A file is none of the library's, or damaged: no version of the library will ever read it.

    >>> issubclass(archive.UselessFileError, rc.SavedFileError)
    True
    """


def write(path: Path | str, kind: str, arrays: Mapping[str, np.ndarray], document: Mapping[str, Any]) -> None:
    """Put arrays and a JSON document into a file, whole or not at all; OSError where it cannot be written.

    Arrays are of floating-point numbers, whole numbers or truth values. `kind` is what `read` has to ask for.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     archive.write(f"{folder}/run", "my experiment", {"loss": np.zeros(3)}, {"learner": "rflo"})
    ...     arrays, document = archive.read(f"{folder}/run", "my experiment")
    >>> document
    {'learner': 'rflo'}
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    text = json.dumps(document, allow_nan=False)
    headers.parsed(text)  # what could not be read is not written
    about = {NUMBER: str(FORMAT), VERSION: __version__, KIND: kind, DOCUMENT: text}
    shapes = {name: (headers.dtype_name(array), array.shape) for name, array in plain.items()}
    digest = _digest(about, shapes, plain)
    header, order = headers.written(plain, {**about, DIGEST: digest})

    def fill(file: BinaryIO) -> None:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for name in order:
            for block in _blocks(plain[name]):
                file.write(block.data)

    write_whole(Path(path), fill)


def read(path: Path | str, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the document of a file of this kind; `SavedFileError` if there are none.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     archive.write(f"{folder}/run", "my experiment", {"loss": np.zeros(3)}, {})
    ...     arrays, document = archive.read(f"{folder}/run", "my experiment")
    >>> arrays["loss"]
    array([0., 0., 0.])
    """
    path = Path(path)
    try:
        with _ordinary(path) as file:
            size = os.fstat(file.fileno()).st_size
            header, room = _header(path, file, size)
            about = _about(path, header)
            places = _checked(path, lambda: headers.places(header, room))
            check_fits(room, "Its arrays", "use a machine with more")
            data = _filled(path, file, room)
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise SavedFileError(f"{path} cannot be read: {error or 'there is no memory for it.'}") from error
    arrays, document = _checked(path, lambda: _verified(about, places, data))
    if about[KIND] != kind:
        raise SavedFileError(f"{path} holds something else: {about[KIND]!r}, and {kind!r} is asked for.")
    return arrays, document


@contextmanager
def _ordinary(path: Path) -> Iterator[BufferedReader]:
    """An ordinary file, open; OSError for anything else. A pipe is not waited for, and a device not touched."""
    try:
        _check_ordinary(path.stat())
        # Something else may have taken its place by now.
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a path with a zero byte in it
        raise OSError(str(error)) from None
    with os.fdopen(number, "rb") as file:
        _check_ordinary(os.fstat(number))
        yield file


def _check_ordinary(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is a folder" if stat.S_ISDIR(found.st_mode) else "it is not an ordinary file")


def _header(path: Path, file: BufferedReader, size: int) -> tuple[dict[str, Any], int]:
    """The header, and how many bytes there are for the data."""
    first = file.read(8)
    length = int.from_bytes(first, "little")
    try:
        if first.startswith(ZIP):
            raise ValueError("it is a zip archive, as the .npz files are in which earlier versions kept runs")
        if len(first) < 8:
            raise ValueError(f"it has {len(first)} bytes" if first else "it is empty")
        if length > min(LONGEST, size - 8):
            raise ValueError(f"its header would have {length} bytes")
        header = headers.parsed(file.read(length).decode())
        if not isinstance(header, dict) or not {NUMBER, VERSION, KIND, DOCUMENT, DIGEST} <= set(
            headers.metadata(header)
        ):
            raise ValueError("its metadata do not say so")
    except ValueError as error:
        raise UselessFileError(f"{path} is no file of recurra, or a damaged one: {error}.") from None
    return header, size - 8 - length


def _about(path: Path, header: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a file whose format this version knows."""
    about = headers.metadata(header)
    number = about[NUMBER]
    if not (number.isascii() and number.isdecimal() and len(number) < 10) or int(number) < 1:
        raise UselessFileError(f"{path} is damaged: its format is {number[:40]!r}.")
    if int(number) > FORMAT:
        raise SavedFileError(
            f"{path} is of format {number}, of recurra {about[VERSION][:40]!r}, and this is recurra {__version__}, "
            f"which reads format {FORMAT}: update recurra."
        )
    return about


def _filled(path: Path, file: BufferedReader, room: int) -> np.ndarray:
    """The bytes of the data."""
    data = np.empty(room, np.uint8)
    filled = 0
    while filled < room:
        count = file.readinto(data[filled:].data)
        if not count:
            raise UselessFileError(f"{path} is damaged: it became shorter while it was read.")
        filled += count
    return data


def _verified(
    about: Mapping[str, str], places: Mapping[str, ArrayEntry], data: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays, which share the memory of `data`, and the document; ValueError if they are not as they were."""
    pieces = {name: data[place.start : place.stop] for name, place in places.items()}
    shapes = {name: (place.dtype, place.shape) for name, place in places.items()}
    if _digest(about, shapes, pieces) != about[DIGEST]:
        raise ValueError("its content does not match its checksum")
    document = headers.parsed(about[DOCUMENT])
    if not isinstance(document, dict):
        raise ValueError("its document is none")
    for name, place in places.items():
        if place.dtype == "BOOL" and np.any(pieces[name] > 1):
            raise ValueError(f"the array {name!r} is neither true nor false")
    return {name: pieces[name].view(DTYPES[dtype]).reshape(shape) for name, (dtype, shape) in shapes.items()}, document


def _checked(path: Path, found: Callable[[], T]) -> T:
    try:
        return found()
    except ValueError as error:
        raise UselessFileError(f"{path} is damaged: {error}.") from None


def _digest(about: Mapping[str, str], shapes: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the metadata, of the arrays' names, types and shapes, and of their bytes."""
    told = [{name: about[name] for name in (NUMBER, VERSION, KIND, DOCUMENT)}, sorted(shapes.items())]
    digest = hashlib.sha256(json.dumps(told).encode())
    for name in sorted(arrays):
        for block in _blocks(arrays[name]):
            digest.update(block.data)
    return digest.hexdigest()


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """The array with the low byte first; TypeError for what a file cannot hold."""
    if not isinstance(name, str) or not name or name == headers.METADATA:
        raise TypeError(f"An array's name must be text, not empty and not {headers.METADATA!r}, and is {name!r}.")
    array = np.asarray(array)
    if array.dtype.str.startswith(">"):
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype not in DTYPES.values():
        raise TypeError(
            f"The array {name!r} is of type {array.dtype}, and a file holds numbers and truth values alone: put text "
            "into the document."
        )
    return array


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The bytes of an array in the order of C. Large arrays are not copied as a whole, whatever their order."""
    if array.flags.c_contiguous or array.nbytes <= BLOCK:
        yield np.asarray(array, order="C").reshape(-1).view(np.uint8)
    else:
        rows = max(1, BLOCK // array[0].nbytes)
        for start in range(0, len(array), rows):
            part = array[start : start + rows]
            yield from _blocks(part.reshape(part.shape[1:]) if rows == 1 else part)

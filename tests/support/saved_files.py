"""A small saved file, and helpers to take it apart and to forge others."""

import json
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from recurra.saved import archive
from recurra.saved.archive import SavedFileError
from recurra.saved.headers import ArrayEntry

ARRAYS = {"weights.W": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4), "t": np.array(7), "on": np.array([True])}
DOCUMENT = {"part": {"name": "RNN", "fields": {"n": 3, "alpha": 0.1}}, "rows": [1, 2, 3]}


def written(path):
    """The path of a small file, which is written there."""
    archive.write(path, "model", ARRAYS, DOCUMENT)
    return path


def parts_of(content):
    """The header, parsed, and the data."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def forged(about, entries=(), data=b""):
    """A file whose checksum is right, whatever else is wrong."""
    about = {"recurra_format": "1", "recurra": "0", "kind": "model", "document": "{}"} | about
    places = {
        name: ArrayEntry(entry["dtype"], entry["shape"], *entry["data_offsets"])
        for name, entry in dict(entries).items()
    }
    pieces = {name: np.frombuffer(data, np.uint8)[place.start : place.stop] for name, place in places.items()}
    shapes = {name: (place.dtype, place.shape) for name, place in places.items()}
    return joined({"__metadata__": about | {"sha256": archive._digest(about, shapes, pieces)}, **dict(entries)}, data)


def refused(path, match, kind=SavedFileError):
    with pytest.raises(SavedFileError, match=match) as error:
        archive.read(path, "model")
    assert type(error.value) is kind
    assert "\n" not in str(error.value)


@contextmanager
def at_most(number):
    """Raise if more bytes of memory are taken meanwhile."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < number


def entry(dtype="F32", shape=(3,), offsets=(0, 12)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}

"""The header of a safetensors file, read with suspicion: what it says is checked before anything is done with it.

{"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"text": "text", ...}}
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

#: types of arrays, by the names that safetensors gives them
DTYPES: dict[str, np.dtype] = {
    "BOOL": np.dtype(bool),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(jnp.bfloat16),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
METADATA = "__metadata__"
#: the most bytes that a header may have. Parsed, the worst takes 25 times as much.
LONGEST = 4_000_000
#: the most axes of an array, which is NumPy's own limit in its first version
MOST_AXES = 32
#: the most characters of a number in JSON: those of 64 bits have 20, and those of a float 24
LONGEST_INT, LONGEST_FLOAT = 20, 40


class ArrayEntry(NamedTuple):
    """An array's type and shape, and from where to where its bytes lie in the data."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def parsed(text: str) -> Any:
    """JSON without what JSON leaves open; ValueError for anything else.

    No name may be there twice. Numbers are finite, and whole ones have at most 64 bits. Nesting has an end.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_int=_whole, parse_float=_finite, parse_constant=_no_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def places(header: Mapping[str, Any], room: int) -> dict[str, ArrayEntry]:
    """Where each array lies. ValueError unless the arrays fill the `room` bytes of data without gaps or overlaps."""
    found = {name: _place(name, entry) for name, entry in header.items() if name != METADATA}
    end = 0
    for name, place in sorted(found.items(), key=lambda item: item[1][2:]):
        if place.start != end:
            raise ValueError(f"the array {name!r} begins at byte {place.start} of the data, and should at {end}")
        end = place.stop
    if end != room:
        raise ValueError(f"its arrays take {end} bytes, and it has {room} for them")
    return found


def metadata(header: Mapping[str, Any]) -> dict[str, str]:
    """The metadata, which are text; none if there are none."""
    found = header.get(METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("its metadata are not text")
    return found


def written(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """The header for these arrays, and their order in the file: wide types first, so that all are aligned."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {METADATA: dict(metadata)}
    start = 0
    for name in order:
        stop = start + arrays[name].nbytes
        header[name] = {"dtype": dtype_name(arrays[name]), "shape": arrays[name].shape, "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST:
        raise ValueError(
            f"The names, shapes and document take {len(text):,} bytes, and a file has room for {LONGEST:,}: put large "
            "things into arrays."
        )
    return text, order


def dtype_name(array: np.ndarray) -> str:
    """What safetensors calls the array's type."""
    return next(name for name, dtype in DTYPES.items() if dtype == array.dtype)


def _place(name: str, entry: Any) -> ArrayEntry:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"it says of the array {name!r} something else than its dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"the array {name!r} is of the type {dtype!r}, which is unknown here")
    if not _are_counts(shape) or len(shape) > MOST_AXES or not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"the shape or place of the array {name!r} makes no sense")
    start, stop = offsets
    # NumPy multiplies all axes but those of length 0, so these must not be large together either.
    if math.prod(max(size, 1) for size in shape) >= 2**56 or math.prod(shape) * DTYPES[dtype].itemsize != stop - start:
        raise ValueError(f"the shape of the array {name!r} does not fit the {stop - start} bytes that it has")
    return ArrayEntry(dtype, tuple(shape), start, stop)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _whole(text: str) -> int:
    if len(text) > LONGEST_INT:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text) if len(text) <= LONGEST_FLOAT else math.inf
    if not math.isfinite(number):
        raise ValueError(f"a number is too long or too large: {text[:LONGEST_FLOAT]}")
    return number


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON's")

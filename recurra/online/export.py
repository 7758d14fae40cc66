"""Models in C: `export` writes the files, and `imported` reads what a model in C learned."""

import reprlib
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np

from recurra.native.values import NotWrittenError
from recurra.online import c_files, keeping
from recurra.online.c_bytes import MOST_STREAMS, ByteLayout, Start
from recurra.online.in_c import Field, Functions, fields_of, functions_of
from recurra.online.intervals import Intervals
from recurra.online.model import Online
from recurra.online.rows import Origins
from recurra.saved.whole_files import write_whole


def export(model: Any, folder: Path | str, name: str = "model") -> tuple[Path, Path, Path]:
    """Write a model as plain C99, which goes on learning without Python.

    `model` is a `recurra.Online`, or `recurra.Intervals` around one. Three files are written to the folder, which is
    made if there is none. `name.h` says how the functions are called, how much memory they need and what they return.
    `name.c` needs `<math.h>` and `<string.h>` alone: the struct `name` holds all that the model knows. `name.bin` has
    the state as bytes, as `name_export` writes them in C. What a model has learned there comes back by
    `recurra.load("name.bin", like=model)`.

    A model with a part that cannot be written in C is a TypeError that names the part, and a name that C does not allow
    is a ValueError. Files that cannot be written are an OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in rc.export(rc.forecaster(n_in=1), folder, name="sensor")]
    ['sensor.h', 'sensor.c', 'sensor.bin']
    """
    name = c_files.checked_name(name)
    inner = model.model if isinstance(model, Intervals) else model
    if not isinstance(inner, Online):
        raise TypeError(
            f"`export` takes a recurra.Online, or recurra.Intervals around one, and got a {type(inner).__name__}: "
            f"{reprlib.repr(inner):.80}. The models of a recurra.Race can be exported one by one."
        )
    functions, layout, state = written(model)
    about = _about(inner)
    texts = {
        "h": c_files.header(name, functions, layout, about).encode(),
        "c": c_files.code(name, functions, layout, state, about).encode(),
        "bin": layout.written(state),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def put(ending: str) -> Path:
        path = folder / f"{name}.{ending}"

        def fill(file: BinaryIO) -> None:
            file.write(texts[ending])

        write_whole(path, fill)
        return path

    return put("h"), put("c"), put("bin")


def written(model: Online | Intervals) -> tuple[Functions, ByteLayout, dict[str, np.ndarray]]:
    """The functions of a model in C, the layout of its bytes, and the values of its fields."""
    inner = _inner(model)
    if inner.step.learning.streams > MOST_STREAMS:
        raise TypeError(
            f"A model in C has at most {MOST_STREAMS} streams, and this one has {inner.step.learning.streams}."
        )
    try:
        functions = functions_of(inner.step, inner.state)
    except NotWrittenError as error:
        raise TypeError(f"This model cannot be written in C. It uses {error}. {_parts(inner)}") from None
    return functions, *_layout(model, functions.fields)


def _inner(model: Online | Intervals) -> Online:
    found = model.model if isinstance(model, Intervals) else model
    assert isinstance(found, Online)
    return found


def _layout(model: Online | Intervals, fields: list[Field]) -> tuple[ByteLayout, dict[str, np.ndarray]]:
    inner = _inner(model)
    leaves = jax.tree.leaves(inner.state)
    state = {field.name: np.asarray(leaves[field.leaf]) for field in fields}
    origins = inner._origins
    start = Start(inner.rows, inner._waiting, origins.needs_x, origins.needs_y, origins.x, origins.y)
    description = keeping.step_described(inner.step)
    if not isinstance(model, Intervals):
        return ByteLayout.of(fields, start, description), state
    extras = _of_ranges(model)
    layout = ByteLayout.of(fields, start, description, [field for field, _ in extras], model.coverage)
    return layout, state | {field.name: array for field, array in extras}


def _of_ranges(model: Intervals) -> list[tuple[Field, np.ndarray]]:
    """What `Intervals` know beside the model, as fields with their values."""
    numbers = np.array([width.arrays() for width in model._widths])
    n, room = len(numbers), max(model.horizon, 1)
    waiting = model._waiting.arrays().reshape(-1, n)
    expected = np.concatenate([waiting, np.zeros((room - len(waiting), n))])
    wide = lambda name, path, values: (Field(name, path, -1, values.shape, "float64"), values)
    whole = lambda name, path, value: (Field(name, path, -1, (), "uint32"), np.array(value, "uint32"))
    return [
        wide("range_width", "half-widths of ranges, which may be below 0", numbers[:, 0]),
        wide("range_error", "sums of absolute errors, whose weight falls", numbers[:, 1]),
        wide("range_weight", "sums of these weights", numbers[:, 2]),
        wide("expected", "predictions that wait for their labels", expected),
        whole("expected_first", "which of them is the oldest", 0),
        whole("expected_count", "how many there are", len(waiting)),
    ]


def imported(given: bytes, like: Online | Intervals) -> Online | Intervals:
    """The model that these bytes tell; `like` is one of the same program. A ValueError says what is wrong."""
    inner = _inner(like)
    fields = fields_of(inner.state)
    layout, _ = _layout(like, fields)
    values, start = layout.read(given)
    leaves, structure = jax.tree.flatten(inner.state)
    found: list[Any] = list(leaves)
    for field in fields:
        found[field.leaf] = jax.numpy.asarray(values[field.name])
    state = jax.tree.unflatten(structure, found)
    room = max(inner.horizon, 1)
    if start.waiting > room or int(state.delayed.filled) != start.waiting:
        raise ValueError("the number of rows that wait for their labels is wrong")
    if not 0 <= int(state.delayed.oldest) < room:
        raise ValueError("the oldest of the rows that wait is none of them")
    origins = Origins(start.origin_x, start.origin_y, start.needs_x, start.needs_y)
    model = Online.continued(inner.step, state, start.seen, start.waiting, origins)
    return model if isinstance(like, Online) else _with_ranges(model, like, values)


def _with_ranges(model: Online, like: Intervals, values: dict[str, np.ndarray]) -> Intervals:
    ranged, room = Intervals(model, like.coverage), max(like.horizon, 1)
    first, count = int(values["expected_first"]), int(values["expected_count"])
    if first >= room or count != model._waiting:
        raise ValueError("the number of predictions that wait for their labels is wrong")
    for k, width in enumerate(ranged._widths):
        width.restore([values[name][k] for name in ("range_width", "range_error", "range_weight")])
    waiting = [values["expected"][(first + i) % room].reshape(like._shape) for i in range(count)]
    ranged._waiting.restore(np.array(waiting))
    return ranged


def _parts(model: Online) -> str:
    learning = model.step.learning
    return f"Its parts are {type(learning.learner).__name__} and {type(learning.network.cell).__name__}."


def _about(model: Online) -> str:
    learning = model.step.learning
    cell = learning.network.cell
    widths = " + ".join(map(str, cell.widths))
    how = type(learning.optimizer).__name__ if not isinstance(learning.optimizer, float | int) else "descent"
    readout = "" if learning.readout is None else f", readout by {type(learning.readout).__name__}"
    return f"{type(cell).__name__} of {widths} units, learns by {type(learning.learner).__name__}, {how}{readout}."

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
from recurra.online.model import Online
from recurra.online.rows import Origins
from recurra.saved.whole_files import write_whole


def export(model: Any, folder: Path | str, name: str = "model") -> tuple[Path, Path, Path]:
    """Write a model as plain C99, which goes on learning without Python.

    Three files are written to the folder, which is made if there is none. `name.h` says how the functions are called,
    how much memory they need and what they return. `name.c` needs `<math.h>` and `<string.h>` alone: the struct `name`
    holds all that the model knows. `name.bin` has the state as bytes, as `name_export` writes them in C. What a model
    has learned there comes back by `recurra.load("name.bin", like=model)`.

    A model with a part that cannot be written in C is a TypeError that names the part, and a name that C does not allow
    is a ValueError. Files that cannot be written are an OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in rc.export(rc.forecaster(n_in=1), folder, name="sensor")]
    ['sensor.h', 'sensor.c', 'sensor.bin']
    """
    name = c_files.checked_name(name)
    if not isinstance(model, Online):
        raise TypeError(
            f"`export` takes a recurra.Online, and got a {type(model).__name__}: {reprlib.repr(model):.80}. The models "
            "of a recurra.Race, and the `model` of recurra.Intervals, are such models."
        )
    functions, layout, state = written(model)
    about = _about(model)
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


def written(model: Online) -> tuple[Functions, ByteLayout, dict[str, np.ndarray]]:
    """The functions of a model in C, the layout of its bytes, and the values of its fields."""
    if model.step.learning.streams > MOST_STREAMS:
        raise TypeError(f"A model in C has at most {MOST_STREAMS} streams, and this one has "
                        f"{model.step.learning.streams}.")  # fmt: skip
    try:
        functions = functions_of(model.step, model.state)
    except NotWrittenError as error:
        raise TypeError(f"This model cannot be written in C. It uses {error}. {_parts(model)}") from None
    return functions, *_layout(model, functions.fields)


def _layout(model: Online, fields: list[Field]) -> tuple[ByteLayout, dict[str, np.ndarray]]:
    leaves = jax.tree.leaves(model.state)
    state = {field.name: np.asarray(leaves[field.leaf]) for field in fields}
    origins = model._origins
    start = Start(model.rows, model._waiting, origins.needs_x, origins.needs_y, origins.x, origins.y)
    return ByteLayout.of(fields, start, keeping.step_described(model.step)), state


def imported(given: bytes, like: Online) -> Online:
    """The model that these bytes tell; `like` is one of the same program. A ValueError says what is wrong."""
    fields = fields_of(like.state)
    layout, _ = _layout(like, fields)
    values, start = layout.read(given)
    leaves, structure = jax.tree.flatten(like.state)
    found: list[Any] = list(leaves)
    for field in fields:
        found[field.leaf] = jax.numpy.asarray(values[field.name])
    state = jax.tree.unflatten(structure, found)
    if start.waiting > max(like.horizon, 1) or int(state.delayed.filled) != start.waiting:
        raise ValueError("the number of rows that wait for their labels is wrong")
    if not 0 <= int(state.delayed.oldest) < max(like.horizon, 1):
        raise ValueError("the oldest of the rows that wait is none of them")
    origins = Origins(start.origin_x, start.origin_y, start.needs_x, start.needs_y)
    return Online.continued(like.step, state, start.seen, start.waiting, origins)


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

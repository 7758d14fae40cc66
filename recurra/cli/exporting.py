"""The command `recurra export`: a saved model as C."""

from pathlib import Path
from typing import Annotated

import typer

from recurra.studies.settings import SettingsError


def export_command(
    model: Annotated[Path, typer.Argument(help="A model that `rc.save` wrote.", metavar="MODEL")],
    c: Annotated[Path, typer.Option("--c", help="Folder for the files; it is made if there is none.", metavar="DIR")],
    name: Annotated[
        str | None, typer.Option(help="What the files and the struct are called. Default: as MODEL.")
    ] = None,
) -> None:
    """Write a saved model as plain C, which goes on learning without Python.

    For example: recurra export pump.safetensors --c board
    """
    import recurra as rc

    try:
        found = rc.load(model)
    except rc.SavedFileError as error:
        raise SettingsError(str(error)) from None
    named = model.name.partition(".")[0] if name is None else name
    try:
        files = rc.export(found, c, named)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError) as error:
        told = str(error).replace("`name`", "`--name`")
        raise SettingsError(told) from None
    except OSError as error:
        raise SettingsError(f"`--c` is {c}, which cannot be written: {error.strerror or error}.") from None
    for path in files:
        print(path)

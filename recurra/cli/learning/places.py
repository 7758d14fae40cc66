"""The files that a run writes: checked before anything is computed, and one run has them to itself."""

import os
from contextlib import ExitStack
from pathlib import Path

from recurra.cli.learning.wishes import Wishes
from recurra.cli.output import FULL
from recurra.cli.stopping import on_leaving, undisturbed
from recurra.saved.whole_files import InUseError, held, try_place
from recurra.studies.settings import SettingsError

#: by which the page of an earlier run is known
MARK = b'<meta name="generator" content="recurra learn">'
PAGE = "index.html"


def take_places(wishes: Wishes, stack: ExitStack) -> None:
    """Have the files of a run to itself as long as the stack is open; `SettingsError` if one cannot be written."""
    checkpoint, predictions = wishes.checkpoint, wishes.predictions
    goes_on = checkpoint is not None and checkpoint.exists()
    files = {"checkpoint": checkpoint, "predictions": predictions}
    for option, path in files.items():
        if path is not None:
            _check(option, path, wishes)
    if checkpoint is not None and checkpoint == predictions:
        raise SettingsError(f"`checkpoint` and `predictions` are both {checkpoint}: choose two names.")
    if predictions is not None and predictions.exists() and not (goes_on or wishes.force):
        raise SettingsError(
            f"`predictions` is {predictions}, which exists: choose another name, or replace it with --force."
        )
    on_leaving(stack.close)
    for option, path in files.items():
        if path is not None:
            _hold(option, path, stack)
    if wishes.out is not None:
        _check_folder(wishes.out, wishes.force)


def _check(option: str, path: Path, wishes: Wishes) -> None:
    if path.is_symlink() and not path.exists():
        raise SettingsError(f"`{option}` is {path}, a link to {os.readlink(path)}, which does not exist: remove it.")
    if path.is_dir():
        raise SettingsError(f"`{option}` is {path}, which is a folder: add a file name.")
    if not path.parent.is_dir():
        raise SettingsError(f"`{option}` is {path}, and there is no folder {path.parent}: create it first.")
    if path.exists() and not path.is_file():
        raise SettingsError(f"`{option}` is {path}, which is not an ordinary file: choose another name.")
    if wishes.file not in ("", "-") and path.exists() and Path(wishes.file).exists() and path.samefile(wishes.file):
        raise SettingsError(f"`{option}` is {path}, which is the input: choose another name.")


def _hold(option: str, path: Path, stack: ExitStack) -> None:
    try:
        with undisturbed():
            stack.enter_context(held(path))
            try_place(path)
    except InUseError:
        raise SettingsError(f"`{option}` is {path}, which another run is writing: wait until it has ended.") from None
    except OSError as error:
        if error.errno not in FULL:
            raise SettingsError(f"`{option}` is {path}, which cannot be written: {error.strerror or error}.") from None


def _check_folder(folder: Path, force: bool) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / PAGE
        if page.exists() and not force and MARK not in page.read_bytes()[:2000]:
            raise SettingsError(
                f"`out` is {folder}, which has an {PAGE} that `recurra learn` did not write: choose another folder, or "
                "replace it with --force."
            )
        try_place(page)
    except OSError as error:
        if error.errno not in FULL:
            raise SettingsError(f"`out` is {folder}, which cannot be written: {error.strerror or error}.") from None

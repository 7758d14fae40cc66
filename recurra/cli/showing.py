"""What a study has found, on the screen and as a page."""

import json
import math
from typing import TYPE_CHECKING, Any

from recurra.cli.comparison import print_table
from recurra.cli.extras import lacking
from recurra.training.console import say

if TYPE_CHECKING:
    import xarray

    from recurra.studies.folder import Folder


def show(folder: "Folder", data: "xarray.Dataset") -> None:
    """Print the best settings, and write the page if what draws it is installed."""
    from recurra.studies.pages import tables

    table = tables.rows(data)
    print_table(table.header, table.rows)
    for note in table.notes:
        print(note)
    if line := lacking("paper", "The page", "matplotlib", "jinja2", "scipy"):
        say(line)
        return
    from recurra.studies.pages.page import write_study

    with folder.keeping("The page"):
        say(f"The page is {write_study(folder.path, data, folder.path.resolve().name)}.")


def show_search(folder: "Folder", as_json: bool = False) -> None:
    """Print what a search has found, and say where its page is."""
    from recurra.studies.tuning.tuned import PAGE, found_in, summary

    if as_json:
        print(json.dumps(found_in(folder), indent=2, allow_nan=False))
        return
    table = summary(folder)
    print_table(table.header, table.rows)
    for note in table.notes:
        print(note)
    page = folder.path / PAGE
    if page.exists():
        say(f"The page is {page}.")


def print_json(data: "xarray.Dataset") -> None:
    """Print the best settings for programs."""
    from dataclasses import asdict

    from recurra.studies.pages.choosing import chosen

    print(json.dumps([_finite(asdict(each)) for each in chosen(data)], indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    """Plain data as JSON has it, which knows no nan."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value

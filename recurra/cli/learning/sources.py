"""The table that a user named: a file, standard input, or a demo."""

from pathlib import Path

from recurra.cli.extras import lacking
from recurra.cli.learning import feeds
from recurra.cli.learning.csv_rows import CsvRows
from recurra.cli.learning.demos import DEMOS
from recurra.cli.learning.feeds import InputError, StandardInput, beginning, file_feed
from recurra.cli.learning.parquet import ParquetRows
from recurra.cli.learning.table import Rows


def open_rows(name: str, follow: bool) -> Rows:
    """The rows of a file, or of standard input, which is called -."""
    if name == "-":
        if follow:
            raise InputError("`follow` is for files: standard input is read until it is closed anyway.")
        return CsvRows(StandardInput())
    path = Path(name)
    if beginning(path) != feeds.PARQUET:
        return CsvRows(file_feed(path, follow))
    if follow:
        raise InputError(f"{path} is a Parquet file, which nobody can append to: leave out --follow.")
    if line := lacking("parquet", "A Parquet file", "pyarrow"):
        raise InputError(line)
    return ParquetRows(path)


def open_demo(name: str) -> Rows:
    """The rows of a demo."""
    return CsvRows(feeds.memory(f"the demo {name}", DEMOS[name].table()))

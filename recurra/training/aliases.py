"""The short names of settings that people type daily, for `rc.sweep`, study files and the command line alike."""

#: Short names of settings, and the paths that they stand for. One may also begin a path, as in "cell.phi".
ALIASES = {
    "cell": "network.cell",
    "n": "network.cell.n",
    "alpha": "network.cell.alpha",
    "w_rec": "network.cell.w_rec",
    "density": "network.cell.w_rec.density",
    "dtype": "network.cell.dtype",
    "learning_rate": "optimizer.learning_rate",
}
_NAMES = {path: alias for alias, path in ALIASES.items()}


def is_number(segment: str) -> bool:
    """Whether a segment of a path is the number of a layer, counted from 0 and written as Python does."""
    return segment.isascii() and segment.isdecimal() and (segment == "0" or segment[0] != "0")


def path_of(name: str) -> str:
    """The path that a name stands for; a path stands for itself."""
    first, dot, rest = name.partition(".")
    return f"{ALIASES.get(first, first)}{dot}{rest}"


def name_of(path: str) -> str:
    """What people are shown of a path: its short name if it has one."""
    return _NAMES.get(path, path)

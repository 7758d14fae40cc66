"""Handwritten digits, seen a pixel or a row at a time."""

import functools
from importlib.util import find_spec
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt8

from recurra import checks
from recurra.losses import Loss
from recurra.tasks.base import Rows, Task
from recurra.tasks.episodes import Underway, check_classes, lay_out, none_yet, slots

#: where scikit-learn has the images, of how many pixels, and how many at the end of the file are for testing
FILE, PIXELS, TESTED = "datasets/data/digits.csv.gz", 64, 360


class Digits(Task):
    """Images of handwritten digits, 8 by 8, each drawn at random: the label is the digit, at the last step.

    They are scikit-learn's, 1797 in all (Alpaydin & Kaynak 1998). A step shows a pixel, 64 for an image, or with `rows`
    a row, 8 for an image. Pixels are scaled to [0, 1]. Images are drawn from the first 1437, or with `test` from the
    last 360. With `reset` the network is set back to its first state before every image.

    Without scikit-learn's file there is an ImportError.

    >>> task = rc.Digits(rows=True)
    >>> task.n_in, task.n_out, task.steps
    (8, 10, 8)
    """

    rows: bool = False
    test: bool = False
    reset: bool = True
    #: pixels from 0 to 16
    images: UInt8[Array, "images pixels"] = eqx.field(init=False, repr=False)
    digits: Int[Array, " images"] = eqx.field(init=False, repr=False)
    #: episodes that are drawn for a block
    slots: int = eqx.field(init=False, static=True, repr=False)

    def __post_init__(self) -> None:
        for name in ("rows", "test", "reset"):
            checks.flag(self, name)
        table = _table()
        part = table[-TESTED:] if self.test else table[:-TESTED]
        self.images, self.digits = jnp.asarray(part[:, :-1], "uint8"), jnp.asarray(part[:, -1], "int32")
        self.slots = slots(self, self.steps, self.steps)

    @property
    def n_in(self) -> int:
        return PIXELS // self.steps

    @property
    def n_out(self) -> int:
        return 10

    @property
    def steps(self) -> int:
        """The number of steps for an image."""
        return 8 if self.rows else PIXELS

    def check(self, loss: Loss, steps: int, streams: int, dtype: jnp.dtype) -> None:
        check_classes(self, loss)

    def init(self, key: PRNGKeyArray, dtype: jnp.dtype) -> Underway:
        return none_yet(jnp.zeros((), "int32"))

    def block(
        self, state: Underway, key: PRNGKeyArray, number: Int[Array, ""], dtype: jnp.dtype
    ) -> tuple[Rows, Underway]:
        drawn = jax.random.randint(key, (self.slots,), 0, len(self.digits), "int32")
        image, t, state = lay_out(state, drawn, self.steps)
        x = self.images.reshape(-1, self.steps, self.n_in)[image, t].astype(dtype) / 16
        last = t == self.steps - 1
        digit = jnp.where(last, self.digits[image], -1)  # -1 is no class, and its row is zero
        label = jax.nn.one_hot(digit, self.n_out, dtype=dtype)
        return Rows(x, label, last, t == 0 if self.reset else None), state


def _table() -> np.ndarray:
    """An image a row, its digit last. Only scikit-learn's file is read: to import it takes seconds."""
    found = find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "Digits needs a file of scikit-learn, which is not installed: pip install 'recurra[digits]', or only the "
            "file: pip install --no-deps scikit-learn"
        )
    return _read(Path(found.submodule_search_locations[0]) / FILE)


@functools.lru_cache(maxsize=1)
def _read(path: Path) -> np.ndarray:
    try:
        table = np.loadtxt(path, delimiter=",")
        if table.ndim != 2 or table.shape[1] != PIXELS + 1 or len(table) <= TESTED:
            raise ValueError(f"it has shape {table.shape}")
        if not np.isin(table, np.arange(17)).all():
            raise ValueError("its pixels are not whole numbers up to 16")
    except (OSError, EOFError, ValueError) as error:
        raise ImportError(
            f"Digits needs the file {path}, which this version of scikit-learn does not have as it was: {error}."
        ) from None
    return table

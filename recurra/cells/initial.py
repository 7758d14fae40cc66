"""How recurrent weights start: the four families of the paper's analysis of RFLO, and weights at some places only."""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recurra import checks
from recurra.linalg import Hollow, Listed, Patterned, Sparse, decomposable

#: draws a square matrix from (key, n, dtype)
MatrixInit = Callable[[PRNGKeyArray, int, Any], Float[Array, "n n"] | Patterned]


def orthogonal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Uniform over orthogonal matrices: every eigenvalue on the unit circle.

    >>> (gate,) = rc.RNN(n_in=2, n=4, w_rec=rc.cells.orthogonal).init_weights(jax.random.key(0))
    >>> bool(jnp.allclose(gate.rec @ gate.rec.T, jnp.eye(4), atol=1e-5))
    True
    """
    draw = lambda key: jax.random.orthogonal(key, n, dtype=decomposable(dtype)).astype(dtype)
    # On CPUs a batch of decompositions waits for other threads of the pool that it runs in. Two batches at a time can
    # wait for each other forever. Single decompositions never wait.
    return jax.lax.platform_dependent(key, cpu=jax.custom_batching.sequential_vmap(draw), default=draw)


def gaussian(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Independent entries ~ N(0, 1/√n): eigenvalues fill the unit disc.

    >>> (gate,) = rc.RNN(n_in=2, n=4, w_rec=rc.cells.gaussian).init_weights(jax.random.key(0))
    >>> gate.rec.shape
    (4, 4)
    """
    return jax.random.normal(key, (n, n), dtype) / math.sqrt(n)


def symmetric(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Symmetric Gaussian, scaled so that its real eigenvalues fill [-1, 1].

    >>> (gate,) = rc.RNN(n_in=2, n=4, w_rec=rc.cells.symmetric).init_weights(jax.random.key(0))
    >>> bool(jnp.array_equal(gate.rec, gate.rec.T))
    True
    """
    G = gaussian(key, n, dtype)
    return (G + G.T) / math.sqrt(8)


def diagonal(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Units that hear only themselves, with weights uniform on [-1, 1].

    >>> (gate,) = rc.RNN(n_in=2, n=4, w_rec=rc.cells.diagonal).init_weights(jax.random.key(0))
    >>> int(jnp.count_nonzero(gate.rec))
    4
    """
    return jnp.diag(jax.random.uniform(key, (n,), dtype, -1, 1))


class Sparsely(checks.Part):
    """Each unit hears `density` · n units, drawn once from `seed`: the same for all gates and all networks.

    With `itself` a unit may hear itself too; without, it never does, as is usual for spiking units.

    Weights are ~ N(0, 1/√k), where k is the number of units that a unit hears.

    >>> cell = rc.RNN(n_in=2, n=100, w_rec=rc.cells.Sparsely(0.1))
    >>> len(cell.places)
    1000
    """

    density: float
    seed: int = 0
    itself: bool = True

    def __check_init__(self) -> None:
        checks.in_range(self, "density", above=0.0, most=1.0)
        checks.whole(self, "seed", least=0)
        checks.flag(self, "itself")

    def heard(self, n: int) -> int:
        """How many units a unit hears."""
        return min(max(1, round(self.density * n)), n if self.itself else n - 1)

    def __call__(self, key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Sparse:
        if round(self.density * n) < 1:
            warnings.warn(
                f"`density` of Sparsely is {self.density:g}, less than one of {n} units: each unit hears "
                f"{self.heard(n)}, a density of {self.heard(n) / n:.2g}. Give a density of at least {1 / n:.2g}.",
                stacklevel=2,
            )
        places = _drawn_places(self.seed, n, self.heard(n), self.itself)
        return Sparse(jax.random.normal(key, (len(places),), dtype) / math.sqrt(max(1, self.heard(n))), places)


@functools.lru_cache(maxsize=64)  # all networks of a cell share their places
def _drawn_places(seed: int, n: int, heard: int, itself: bool) -> Listed:
    rng = np.random.default_rng(seed)
    others = lambda unit: np.arange(n) if itself else np.delete(np.arange(n), unit)
    columns = np.concatenate([rng.choice(others(unit), heard, replace=False) for unit in range(n)])
    return Listed(np.repeat(np.arange(n), heard), columns, (n, n))


class At(checks.Part):
    """Weights ~ N(0, 1/√k) at given places, where k is the mean number of units that a unit hears.

    Places for another n than the cell has are a ValueError.

    >>> units = np.arange(4)
    >>> ring = linalg.Listed(units, np.roll(units, 1), (4, 4))
    >>> len(rc.RNN(n_in=2, n=4, w_rec=rc.cells.At(ring)).places)
    4
    """

    places: Listed

    def __check_init__(self) -> None:
        if not isinstance(self.places, Listed):
            raise TypeError(
                f"`places` of At must be recurra.linalg.Listed(rows, columns, (n, n)), and is {self.places!r:.100}."
            )

    def __call__(self, key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Sparse:
        if self.places.shape != (n, n):
            raise ValueError(
                f"`places` of At are those of a matrix of shape {self.places.shape}, and the cell has n = {n}."
            )
        return Sparse(jax.random.normal(key, (len(self.places),), dtype) / math.sqrt(len(self.places) / n), self.places)


class WithoutSelf(checks.Part):
    """Recurrent weights as `drawn`, but no unit hears itself, ever. It is a TypeError to draw sparse ones.

    >>> (gate,) = rc.RNN(n_in=2, n=4, w_rec=rc.cells.WithoutSelf()).init_weights(jax.random.key(0))
    >>> jnp.diagonal(gate.rec.full()).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    drawn: Callable[[PRNGKeyArray, int, Any], Float[Array, "n n"]] = gaussian

    def __check_init__(self) -> None:
        checks.function(self, "drawn", "recurra.cells.gaussian")
        if isinstance(self.drawn, Sparsely | At):
            raise TypeError(
                f"`drawn` of WithoutSelf must draw a whole matrix, and is {self.drawn!r:.100}: for sparse weights "
                "without self-connections list their places, with recurra.cells.At."
            )

    def __call__(self, key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Hollow:
        return Hollow(self.drawn(key, n, dtype))


def random_feedback(key: PRNGKeyArray, n_out: int, n: int, dtype: jnp.dtype) -> Float[Array, "n_out n"]:
    """Fixed feedback weights ~ N(0, 1/√n_out), a stand-in for the readout's own (Lillicrap et al. 2016).

    >>> rc.cells.random_feedback(jax.random.key(0), 2, 8, jnp.float32).shape
    (2, 8)
    """
    return jax.random.normal(key, (n_out, n), dtype) / n_out**0.5

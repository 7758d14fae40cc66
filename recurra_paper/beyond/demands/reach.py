"""How far back a learner learns to look, from the losses of a sweep over lags.

A run's score is 1 - loss / loss of the best constant answer: the share of the label's variance that is explained. The
answer 0 has a loss of a half for each bit. A seed that diverged, or does worse than that answer, explains nothing: its
score is 0. At each lag a learner counts at the rate of the highest mean score over seeds.

A seed's reach is the lag at which its score first falls to a half, where scores at the lags that were run are joined by
straight lines. The line starts from score 1 at lag 0, where nothing has to be remembered. If the score never falls so
far, the reach is the longest lag that was run.
"""

import numpy as np
from jaxtyping import Float

from recurra_paper.claims.base import Data, arrays
from recurra_paper.setup import N

HALF = 0.5


def bits_of(data: Data) -> list[int]:
    """The numbers of bits that were run."""
    return sorted({int(name.split("/")[1]) for name in data if name.startswith("demands/")})


def scores(data: Data, bits: int, learner: str) -> tuple[Float[np.ndarray, " lags"], Float[np.ndarray, "seeds lags"]]:
    """The lags, and each seed's score at the best rate for each lag."""
    run = arrays(data, f"demands/{bits}/{learner}")
    with np.errstate(over="ignore", invalid="ignore"):
        loss = np.asarray(run["loss"], float)[0, ..., -10:].mean(axis=-1)  # (lag, rate, seed)
        share = 1 - loss / (0.5 * bits)
    ended = np.isfinite(share) & (np.asarray(run["diverged"])[0] < 0)
    share = np.where(ended, np.maximum(share, 0.0), 0.0)
    best = share.mean(axis=-1).argmax(axis=1)
    return np.asarray(run["tasks"]).astype(float), share[np.arange(len(best)), best].T


def reach(data: Data, bits: int, learner: str) -> Float[np.ndarray, " seeds"]:
    """Each seed's reach, in steps."""
    lags, share = scores(data, bits, learner)
    return np.array([crossing(lags, each) for each in share])


def crossing(lags: Float[np.ndarray, " lags"], share: Float[np.ndarray, " lags"]) -> float:
    """Where the score, from 1 at lag 0, first falls to a half; the longest lag if it never does."""
    x, y = np.concatenate([[0.0], lags]), np.concatenate([[1.0], share])
    below = np.flatnonzero(y < HALF)
    if not len(below):
        return float(x[-1])
    i = int(below[0])
    return float(x[i - 1] + (x[i] - x[i - 1]) * (y[i - 1] - HALF) / (y[i - 1] - y[i]))


def capacity(bits: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The lag at which n units that keep every coin alike can still explain half of the variance.

    The shares of variance that a linear readout of n units explains, summed over all coins of all past steps, are at
    most n (Jaeger 2001). To explain half at a lag, coins of lag + 1 steps must be kept: bits (lag + 1) / 2 ≤ n.
    """
    return 2 * N / bits - 1

"""What is computed from recorded arrays: alignments, memory traces, exponents, and estimates with their uncertainty.

Arrays in, arrays out: nothing here trains, plots or touches files. Every quantity that rests on a sample comes back as
an `Estimate`, from which a confidence interval of any level can be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from jaxtyping import Float, Num
from scipy import stats

from recurra import standard_error


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    dof: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """value ± t error, with t the quantile of Student's distribution; unbounded where the error is unknown."""
        if not np.isfinite(self.error) or self.dof <= 0:
            return -np.inf, np.inf
        half = float(stats.t.ppf((1 + confidence) / 2, self.dof)) * self.error
        return self.value - half, self.value + half


@dataclass(frozen=True)
class Permuted:
    """A statistic of a sample, and `chance`: what it is for every order in which the sample can be put."""

    value: float
    chance: Float[np.ndarray, " orders"]
    #: a permutation tells what is found by chance, and not how precisely the value is known
    error: float = float("nan")

    @property
    def p(self) -> float:
        """The share of orders that reach as much, either way."""
        return float(np.mean(np.abs(self.chance) >= abs(self.value) - 1e-12))

    def least(self, confidence: float = 0.95) -> float:
        """What a value has to exceed to be found at this confidence, with allowance for rounding."""
        falling = np.sort(np.abs(self.chance))[::-1]
        return float(falling[int((1 - confidence) * len(falling) + 1e-9)]) + 1e-12

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Leaves zero outside where the test rejects it."""
        half = self.least(confidence)
        return self.value - half, self.value + half


def mean(x: Float[np.ndarray, " seeds"]) -> Estimate:
    """The mean of independent values; of a single one the error is unknown."""
    return Estimate(float(np.mean(x)), standard_error(x), len(x) - 1.0)


def one_more(x: Float[np.ndarray, " seeds"]) -> Estimate:
    """The mean, with the error of predicting one more value: its interval is the prediction interval of a seed."""
    return Estimate(float(np.mean(x)), standard_error(x) * float(np.sqrt(len(x) + 1)), len(x) - 1.0)


def paired_difference(x: Float[np.ndarray, " seeds"], y: Float[np.ndarray, " seeds"]) -> Estimate:
    """Mean of x - y over seeds that share their weights and stream."""
    return mean(less(x, y))


def less(x: Float[np.ndarray, " seeds"], y: Float[np.ndarray, " more_seeds"]) -> Float[np.ndarray, " common"]:
    """x - y at the seeds that both have; both begin with the same seed."""
    seeds = min(len(x), len(y))
    return x[:seeds] - y[:seeds]


def relative(d: Float[np.ndarray, " seeds"], gap: Float[np.ndarray, " more_seeds"]) -> Estimate:
    """g = mean(d) / mean(gap) over seeds, with the error of its linearization: that of mean(d - g gap) / mean(gap).

    A ratio of means, since a seed's own gap may come near zero. One of them may have more seeds than the other; both
    begin with the same seed, so that what a seed adds to the one goes with what it adds to the other.
    """
    g, unit, fewer = float(np.mean(d) / np.mean(gap)), float(np.mean(gap)), min(len(d), len(gap))
    each = np.zeros(max(len(d), len(gap)))
    each[: len(d)] += (d - np.mean(d)) / (len(d) * unit)
    each[: len(gap)] -= g * (gap - np.mean(gap)) / (len(gap) * unit)
    error = np.sqrt((each**2).sum() * fewer / (fewer - 1)) if fewer > 1 else np.nan
    return Estimate(g, float(error), fewer - 1.0)


def shared(
    d: Float[np.ndarray, " seeds"], gap: Float[np.ndarray, " seeds"]
) -> tuple[float, Float[np.ndarray, " seeds"]]:
    """g = mean(d) / mean(gap), and each seed's part in its error, (d - g gap) / mean(gap)."""
    g = float(np.mean(d) / np.mean(gap))
    return g, (d - g * gap) / np.mean(gap)


def scored(run: Mapping[str, np.ndarray], baseline: Mapping[str, np.ndarray]) -> Float[np.ndarray, " seeds"]:
    """Each seed's final loss: the mean of the last ten windows; where the run diverged, the baseline's first window."""
    with np.errstate(over="ignore", invalid="ignore"):
        last = np.asarray(run["loss"], float)[:, -10:].mean(axis=1)
    ended = np.isfinite(last) & (np.asarray(run["diverged"]) < 0)
    return np.where(ended, last, np.asarray(baseline["loss"], float)[: len(last), 0])


def correlations(x: Float[np.ndarray, "seeds T"], y: Float[np.ndarray, "seeds T"]) -> Float[np.ndarray, " seeds"]:
    """Each seed's r = cov(x, y) / (std(x) std(y)) over the steps at which both are finite; nan where one is constant.

    Successive steps are not independent, and seeds are: what is said of r rests on how it varies over them.
    """

    def r(x: np.ndarray, y: np.ndarray) -> float:
        known = np.isfinite(x) & np.isfinite(y)
        zx, zy = (z[known] - np.mean(z[known]) if known.any() else z[known] for z in (x, y))
        norm = float(np.linalg.norm(zx) * np.linalg.norm(zy))
        return float(zx @ zy) / norm if norm > 0 else float("nan")

    return np.array([r(*pair) for pair in zip(x, y, strict=True)])


def within_windows(
    x: Float[np.ndarray, "seeds T"], y: Float[np.ndarray, "seeds T"], width: int
) -> Float[np.ndarray, " seeds"]:
    """Each seed's mean of r over consecutive windows of `width` steps: what is left once slow changes are taken out.

    A rest shorter than the window is left out, unless there is nothing else, as are windows without an r.
    """
    steps = x.shape[1]
    width = min(width, steps)
    starts = range(0, steps - width + 1, width) if width else ()
    r = np.array([correlations(x[:, t : t + width], y[:, t : t + width]) for t in starts]).reshape(-1, len(x))
    known = np.isfinite(r)
    total, count = np.where(known, r, 0.0).sum(axis=0), known.sum(axis=0)
    return np.divide(total, count, out=np.full(len(x), np.nan), where=count > 0)


def p_value(e: Estimate) -> float:
    """The p-value of Student's test for a mean of zero; nan where the error is unknown."""
    if not e.error > 0 or e.dof <= 0:
        return float("nan")
    return float(2 * stats.t.sf(abs(e.value) / e.error, e.dof))


def rank_correlations(x: Float[np.ndarray, "B n"], y: Float[np.ndarray, "B n"]) -> Float[np.ndarray, " B"]:
    """Spearman's rank correlation of each row; nan where all of a row are tied."""
    rx, ry = (stats.rankdata(z, axis=1) - (z.shape[1] + 1) / 2 for z in (x, y))
    norm = np.linalg.norm(rx, axis=1) * np.linalg.norm(ry, axis=1)
    return np.divide((rx * ry).sum(axis=1), norm, out=np.full(len(x), np.nan), where=norm > 0)


def permuted_ranks(x: Float[np.ndarray, "C n"], y: Float[np.ndarray, "C n"]) -> Permuted:
    """Spearman's rank correlation of x with y, averaged over C conditions, and under all n! orders of y's columns.

    The n things are the sample: they are put into another order in all conditions alike.
    """
    rx, ry = (stats.rankdata(z, axis=1) - (z.shape[1] + 1) / 2 for z in (x, y))
    rx, ry = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (rx, ry))
    products = rx.T @ ry / len(rx)  # of the rank of thing i in x with that of thing j in y
    n = len(products)
    return Permuted(float(np.trace(products)), products[np.arange(n), list(permutations(range(n)))].sum(axis=1))


def mantel(
    x: Float[np.ndarray, "n n"], ys: Float[np.ndarray, "C n n"], permutations: int = 2_000
) -> tuple[Estimate, float]:
    """The correlation of distances x with distances y, averaged over C conditions, and its p-value.

    The n things are the sample. The error is that of a jackknife, which leaves out one of them at a time. The p-value
    is the share of permutations of them, the same in every condition, that reach as much.
    """
    unit = lambda d: (z := d - d.mean(-1, keepdims=True)) / np.linalg.norm(z, axis=-1, keepdims=True)

    def r(x: np.ndarray, ys: np.ndarray) -> float:
        above = np.triu_indices(len(x), 1)
        return float(np.mean(unit(ys[:, *above]) @ unit(x[above])))

    n, rng, found = len(x), np.random.default_rng(0), r(x, ys)
    without = [np.delete(np.arange(n), i) for i in range(n)]
    each = np.array([r(x[np.ix_(kept, kept)], ys[:, kept][:, :, kept]) for kept in without])
    error = np.sqrt((n - 1) / n * ((each - each.mean()) ** 2).sum())
    chance = np.array([r(x[np.ix_(order, order)], ys) for order in (rng.permutation(n) for _ in range(permutations))])
    return Estimate(found, float(error), n - 1.0), float((1 + (chance >= found).sum()) / (1 + permutations))


def cosines(g: Float[np.ndarray, "*batch L P"]) -> Float[np.ndarray, "*batch L L"]:
    """cos(x, y) = g_x · g_y / (‖g_x‖ ‖g_y‖) of every pair; nan where a gradient is zero or absent (nan)."""
    products = g @ g.swapaxes(-1, -2)
    norm = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
    scale = norm[..., :, None] * norm[..., None, :]
    return np.divide(products, scale, out=np.full_like(products, np.nan), where=scale > 0)


def memory_trace(
    states: Float[np.ndarray, "T n"], labels: Float[np.ndarray, "T k"], lags: Num[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """r²(dt) = 1 - ‖y*(t) - b - C a(t+dt)‖² / ‖y*(t) - mean‖², b and C fitted, both sums over t and all outputs.

    A coin thrown at t - lag enters the state at dt = -lag. Constant labels have no r²: nan.
    """
    steps = len(states)

    def r2(dt: int) -> float:
        t = slice(max(0, -dt), min(steps, steps - dt))
        a, y = np.asarray(states[t.start + dt : t.stop + dt], float), np.asarray(labels[t], float)
        a, y = a - a.mean(0), y - y.mean(0)
        total = float((y**2).sum())
        # The normal equations: their matrix has the size of the state, however many steps there are.
        residual = y - a @ np.linalg.lstsq(a.T @ a, a.T @ y, rcond=None)[0]
        return 1 - float((residual**2).sum()) / total if total > 1e-12 * y.size else float("nan")

    return np.array([r2(int(dt)) for dt in lags])


def exponent(n: Num[np.ndarray, " K"], y: Num[np.ndarray, " K"]) -> Estimate:
    """The slope of log y on log n over the upper half of the range of log n, where lower orders matter least.

    At least three points, if there are as many. The error is that of the fit: how far from a power law the points lie.
    """
    if len(n) < 2:
        return Estimate(float("nan"), float("nan"), 0.0)
    order = np.argsort(n)
    log_n, log_y = np.log(np.asarray(n, float)[order]), np.log(np.asarray(y, float)[order])
    inside = int((log_n >= (log_n[0] + log_n[-1]) / 2 - 1e-9).sum())
    take = max(inside, min(3, len(n)))
    x, v = log_n[-take:] - log_n[-take:].mean(), log_y[-take:] - log_y[-take:].mean()
    slope = float(x @ v / (x @ x))
    dof = take - 2.0
    error = float(np.sqrt(((v - slope * x) ** 2).sum() / dof / (x @ x))) if dof > 0 else float("nan")
    return Estimate(slope, error, dof)


def smooth(curve: Float[np.ndarray, "*batch W"], width: int) -> Float[np.ndarray, "*batch V"]:
    """The average over every `width` successive windows; where there are fewer, over all of them."""
    width = min(width, curve.shape[-1])
    return np.lib.stride_tricks.sliding_window_view(curve, width, axis=-1).mean(-1)


def add_benchmarks() -> tuple[float, float, float]:
    """The least expected cross-entropy on Add, if neither coin is known, only that of the first lag, or both.

    E H(E[y* | known]) in nats, H the binary entropy, y* = 0.5 + 0.5 x1 - 0.25 x2 for fair coins x1, x2.
    """
    y = {(x1, x2): 0.5 + 0.5 * x1 - 0.25 * x2 for x1, x2 in product((0, 1), repeat=2)}

    def entropy(p: float) -> float:
        return -sum(q * float(np.log(q)) for q in (p, 1 - p) if q > 0)

    neither = entropy(sum(y.values()) / 4)
    first = sum(entropy((y[x1, 0] + y[x1, 1]) / 2) for x1 in (0, 1)) / 2
    return neither, first, sum(map(entropy, y.values())) / 4

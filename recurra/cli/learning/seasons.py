"""The period after which a series repeats itself, from its autocorrelation."""

import numpy as np

#: A period has to be seen this many times before it is believed.
TIMES = 4
#: how strongly the series must repeat itself, and how much less it must do so at some shorter lag
STRENGTH, FALL = 0.3, 0.2
#: How much worse than the best a shorter period may be, in the part that it does not explain. Multiples of a period
#: are about as good as the period itself.
TOLERANCE = 0.1


def find_period(values: np.ndarray) -> int | None:
    """The period of a series without gaps; None if there is no clear one.

    It is a lag at which the correlation of the series with itself has a peak, after a fall, and another peak at twice
    the lag. A trend is removed before, and a series that changes slowly has no such peaks.
    """
    size = len(values)
    longest = size // TIMES
    if longest < 3:
        return None
    with np.errstate(all="ignore"):
        found = correlations(values, min(2 * longest + 2, size - 2))
    if not np.all(np.isfinite(found)):
        return None
    best: tuple[float, int] | None = None
    peaks = []
    lowest = 1.0
    for lag in range(2, longest + 1):
        lowest = min(lowest, found[lag - 1])
        near = found[max(1, 2 * lag - 2) : 2 * lag + 3]
        is_peak = found[lag] >= found[lag - 1] and found[lag] > found[lag + 1]
        if is_peak and found[lag] > max(STRENGTH, lowest + FALL) and near.max() > 0.7 * found[lag]:
            peaks.append(lag)
            best = max(best or (-1.0, 0), (float(found[lag]), lag))
    if best is None:
        return None
    limit = 1 - (1 - best[0]) * (1 + TOLERANCE) - 0.01
    return next(lag for lag in peaks if found[lag] >= limit)


def correlations(values: np.ndarray, lags: int) -> np.ndarray:
    """The correlation of a series, without its trend, with itself so many steps later, for lags 0 to `lags`.

    Each is that of the two parts that overlap, with the sums of all lags from one Fourier transform.
    """
    size = len(values)
    scaled = values / max(float(np.abs(values).max()), 1e-300)
    time = np.linspace(-1, 1, size)
    series = scaled - scaled.mean()
    series = series - time * (time @ series) / (time @ time)
    length = 1 << (2 * size - 1).bit_length()
    spectrum = np.fft.rfft(series, length)
    products = np.fft.irfft(spectrum * spectrum.conj(), length)[: lags + 1]
    squares = np.concatenate([[0.0], np.cumsum(series**2)])
    at = np.arange(lags + 1)
    early, late = squares[size - at], squares[size] - squares[at]
    return products / np.sqrt(early * late)

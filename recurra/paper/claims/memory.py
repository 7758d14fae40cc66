"""Claims about natural memory: what an untrained network retains of the coins, and what RFLO makes of it."""

import numpy as np

from recurra.paper.analysis import add_benchmarks, paired_difference
from recurra.paper.claims.base import Claim, Data, Part, Region, Undecided, arrays
from recurra.paper.claims.losses import scored

KEEPS, LOSES = ("orthogonal", "gaussian"), ("symmetric", "diagonal")
#: Add's lags: a coin enters the state, and with it r², at minus its lag.
JUMPS = (-10, -6)
#: The time shift of the state from which RFLO predicts: one step before the label.
LAST = -1
#: What a network that does not learn may gain over its readout: a tenth of what knowing the first coin is worth.
UNLEARNT = (add_benchmarks()[0] - add_benchmarks()[1]) / 10


def trace(data: Data, init: str) -> tuple[np.ndarray, np.ndarray]:
    """The time shifts from a step before the first jump on, in order, and r² at each seed."""
    experiment = arrays(data, f"memory/{init}")
    lag, r2 = np.asarray(experiment["lag"]), np.asarray(experiment["r2"], float)
    wanted = np.arange(min(JUMPS) - 1, LAST + 1)
    absent = sorted(set(wanted.tolist()) - set(lag.tolist()))
    if absent:
        raise Undecided(f"Not decided: memory/{init} lacks the time shifts {', '.join(map(str, absent))}.")
    columns = [int(np.flatnonzero(lag == shift)[0]) for shift in wanted]
    return wanted, r2[:, columns]


def jumps(data: Data) -> list[Part]:
    """The rise of r² at each lag against the largest rise elsewhere, at each seed."""

    def part(init: str, jump: int) -> Part:
        lag, r2 = trace(data, init)
        rise = dict(zip(lag[1:].tolist(), np.diff(r2, axis=1).T, strict=True))
        elsewhere = np.max([rise[shift] for shift in rise if shift not in JUMPS], axis=0)
        name = f"rise of r² at dt = {jump} less the largest rise at other dt, {init}"
        return Part(name, paired_difference(rise[jump], elsewhere), Region(0.0))

    return [part(init, jump) for init in (*KEEPS, *LOSES) for jump in JUMPS]


def decay(data: Data) -> list[Part]:
    """The share of r² at dt = -6 that is left at dt = -1, compared between initializations."""

    def kept(init: str) -> np.ndarray:
        _, r2 = trace(data, init)
        return r2[:, LAST - (min(JUMPS) - 1)] / r2[:, max(JUMPS) - (min(JUMPS) - 1)]

    name = "share of r² left at dt = -1: {} less {}"
    return [
        Part(name.format(slow, fast), paired_difference(kept(slow), kept(fast)), Region(0.0))
        for slow in KEEPS
        for fast in LOSES
    ]


def learns(data: Data) -> list[Part]:
    """The loss of the readout alone less that of RFLO."""

    def part(init: str, region: Region) -> Part:
        readout, rflo = arrays(data, f"fixed-loss/{init}"), arrays(data, f"rflo-loss/{init}")
        gain = paired_difference(scored(readout, readout), scored(rflo, readout))
        return Part(f"RFLO below the readout alone, {init}", gain, region)

    return [part(init, Region(0.0)) for init in KEEPS] + [part(init, Region(high=UNLEARNT)) for init in LOSES]


CLAIMS = [
    Claim(
        "memory-jumps",
        "An untrained network's information about the label jumps as each of the two coins it depends on comes in.",
        "RFLO analysis, Figure 8b",
        "The rise of r² from one time shift to the next at dt = -10 and dt = -6, less the largest rise at any other dt "
        "from -9 to -1, for each initialization. Holds if every interval lies above zero; fails if any lies below.",
        jumps,
    ),
    Claim(
        "memory-decay",
        "That information is lost faster with symmetric and diagonal w_rec than with orthogonal and Gaussian.",
        "RFLO analysis, Figure 8b",
        "The share of r² at dt = -6 that is left at dt = -1, each of the latter less each of the former. Holds if "
        "every interval, paired by seed, lies above zero; fails if any lies below. Other shifts are in the figure.",
        decay,
    ),
    Claim(
        "memory-rflo",
        "RFLO learns with orthogonal and Gaussian w_rec, and not with symmetric and diagonal ones.",
        "RFLO analysis, Figure 8c",
        "The final loss of the readout alone less RFLO's, paired by seed: above zero with orthogonal and Gaussian "
        f"w_rec, and below {UNLEARNT:.3f}, a tenth of what knowing the first coin is worth, with symmetric and "
        "diagonal. Fails if any interval lies on the other side.",
        learns,
    ),
]

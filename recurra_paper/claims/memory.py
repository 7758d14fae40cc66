"""Claims about natural memory: what an untrained network retains of the coins, and what RFLO makes of it."""

import numpy as np

from recurra_paper.analysis import add_benchmarks, mean, paired_difference, scored
from recurra_paper.claims.base import Claim, Data, Part, Undecided, arrays
from recurra_paper.claims.rule import SHARES, Alike, More, Within

KEEPS, LOSES = ("orthogonal", "gaussian"), ("symmetric", "diagonal")
FIGURE_8 = "rflo_results"
#: How a diagonal matrix may be drawn, which the paper does not say. RFLO is run with the first.
DRAWS = {"diagonal": "U[-1, 1]", "diagonal-positive": "U[0, 1]", "diagonal-normal": "N(0, 1/2)"}
#: Add's lags: a coin enters the state, and with it r², at minus its lag.
JUMPS = (-10, -6)
#: The time shift of the state from which RFLO predicts: one step before the label.
LAST = -1
#: What a gain over the readout alone must reach to matter: a tenth of what knowing the first coin is worth.
WORTH = (add_benchmarks()[0] - add_benchmarks()[1]) / 10
#: The horizon that the paper expects Mimic to stay below, and the share of the effect that must lie within it.
HORIZON, SHARE = 10.0, 0.95


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
        return Part(name, paired_difference(rise[jump], elsewhere), More(SHARES))

    return [part(init, jump) for init in (*KEEPS, *LOSES) for jump in JUMPS]


def decay(*fast: str, reported: tuple[str, ...] = ()):
    """The share of r² at dt = -6 that is left at dt = -1, by initialization; each `fast` is a reading."""

    def kept(data: Data, init: str) -> np.ndarray:
        _, r2 = trace(data, init)
        return r2[:, LAST - (min(JUMPS) - 1)] / r2[:, max(JUMPS) - (min(JUMPS) - 1)]

    def part(data: Data, slow: str, init: str) -> Part:
        e = paired_difference(kept(data, slow), kept(data, init))
        name = f"share of r² left at dt = -1: {slow} less {init}"
        return Part(name, e, None if init in reported else More(SHARES), reading=DRAWS.get(init, ""))

    return lambda data: [part(data, slow, init) for init in (*fast, *reported) for slow in KEEPS]


def gain(data: Data, init: str) -> np.ndarray:
    """Each seed's loss of the readout alone less that of RFLO."""
    readout, rflo = arrays(data, f"fixed-loss/{init}"), arrays(data, f"rflo-loss/{init}")
    return scored(readout, readout) - scored(rflo, readout)


def learns(data: Data) -> list[Part]:
    """Gains that are claimed, and gains that are claimed to be none."""
    part = lambda init, relation: Part(
        f"RFLO below the readout alone, {init}, in nats", mean(gain(data, init)), relation
    )
    return [part(init, More(WORTH)) for init in KEEPS] + [part(init, Alike(WORTH)) for init in LOSES]


def follows_evidence(data: Data) -> list[Part]:
    """r² at dt = -1 and RFLO's gain, each of the initializations that keep information against each that loses it."""

    def parts(slow: str, fast: str) -> list[Part]:
        evidence = [trace(data, init)[1][:, -1] for init in (slow, fast)]
        gains = [gain(data, init) for init in (slow, fast)]
        return [
            Part(f"r² at dt = -1: {slow} less {fast}", paired_difference(*evidence), More(SHARES)),
            Part(f"RFLO's gain: {slow} less {fast}, in nats", paired_difference(*gains), More(WORTH)),
        ]

    return [part for slow in KEEPS for fast in LOSES for part in parts(slow, fast)]


def short(data: Data) -> list[Part]:
    """How many steps, the present one included, hold 95 % of what an input does to the labels."""
    effect = np.asarray(arrays(data, "horizon/mimic")["effect"], float)
    reached = np.cumsum(effect, axis=1) / effect.sum(axis=1, keepdims=True) >= SHARE
    steps = 1.0 + np.argmax(reached, axis=1)
    return [Part(f"steps that hold {SHARE:.0%} of an input's effect on the labels", mean(steps), Within(high=HORIZON))]


def _decay_claim(name: str, drawn: str, *fast: str, reported: tuple[str, ...] = ()) -> Claim:
    return Claim(
        f"memory-decay-{name}",
        f"An untrained network loses this information faster with {name} w_rec than with orthogonal and Gaussian.",
        "RFLO analysis, Figure 8b",
        f"The share of r² at dt = -6 that is left at dt = -1, each of the latter less the former; {SHARES} matters. "
        "Holds if both intervals, paired by seed, lie above zero; does not hold if either lies below, or shows no "
        f"difference.{drawn}",
        decay(*fast, reported=reported),
        FIGURE_8,
    )


CLAIMS = [
    Claim(
        "memory-jumps",
        "An untrained network's information about the label jumps as each of the two coins it depends on comes in.",
        "RFLO analysis, Figure 8b",
        "The rise of r² from one time shift to the next at dt = -10 and dt = -6, less the largest rise at any other dt "
        f"from -9 to -1, for each initialization; {SHARES} matters. Holds if every interval lies above zero; does not "
        "hold if any lies below, or shows no difference.",
        jumps,
        FIGURE_8,
    ),
    _decay_claim("symmetric", "", "symmetric"),
    _decay_claim(
        "diagonal",
        " The paper does not say how a diagonal matrix is drawn: U[-1, 1], whose spectrum is that of the symmetric "
        "one, and U[0, 1], whose units all remember, are judged each by itself. Where they disagree the claim depends "
        "on the draw and is not decided. N(0, 1/2) is reported.",
        "diagonal",
        "diagonal-positive",
        reported=("diagonal-normal",),
    ),
    Claim(
        "memory-rflo",
        "RFLO learns with orthogonal and Gaussian w_rec, and not with symmetric and diagonal ones.",
        "RFLO analysis, Figure 8c",
        f"The final loss of the readout alone less RFLO's, paired by seed; {WORTH:.3f} nats matter, a tenth of what "
        "knowing the first coin is worth. Holds if the interval lies above zero with orthogonal and Gaussian w_rec, "
        "and within what does not matter with symmetric and diagonal; does not hold if any part is the other way "
        "round. Diagonal matrices are drawn from U[-1, 1], and from nothing else.",
        learns,
        FIGURE_8,
    ),
    Claim(
        "memory-mechanism",
        "RFLO fails where evidence of the coins in a(t-1) “is absent (or at least weak)”.",
        "RFLO analysis",
        "RFLO should gain where a(t-1) holds more evidence. For each of orthogonal and Gaussian less each of symmetric "
        f"and diagonal w_rec, paired by seed: r² at dt = -1, of which {SHARES} matters, and RFLO's gain over the "
        f"readout alone, of which {WORTH:.3f} nats matter. Holds if every interval lies above zero; does not hold if "
        "any lies below, or shows no difference. Diagonal matrices are drawn from U[-1, 1], and from nothing else.",
        follows_evidence,
        FIGURE_8,
    ),
]

HORIZON_CLAIM = Claim(
    "mimic-horizon",
    f"Mimic's horizon is shorter than {HORIZON:g} steps.",
    "Discussion",
    f"In random targets at alpha = 1 the bits of one input are drawn again. The number of steps that hold {SHARE:.0%} "
    f"of the squared change of the labels, the present step included. Holds if the interval over targets lies below "
    f"{HORIZON:g}; does not hold if it lies above.",
    short,
    "training_loss_mimic",
)

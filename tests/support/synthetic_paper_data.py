"""A synthetic full data set of the paper's experiments, in which every claim holds: for tests of claims and figures.

`full_data()` draws it from `world()`, a plain dictionary of what is true; a test that wants a claim to fail changes
the world and draws again: `w = world(); w["loss"]["add/1"]["kf-rtrl"] = 0.6; full_data(world=w)`.
"""

import itertools

import numpy as np

from recurra_paper.experiments.scaling import HORIZONS

PROBED = ["rtrl", "f-bptt", "e-bptt", "uoro", "kf-rtrl", "r-kf-rtrl", "r-ok", "kernl", "rflo", "dni", "dni-b"]
LAGS = np.arange(-15, 6)
WINDOWS = np.array([1, 3, 10, 32, 100, 316, 1000])
SIZES = np.array([16, 32, 64, 128, 256, 512])


def world() -> dict:
    """What is true of the synthetic learners: final losses, alignments, biases, orders, memory."""
    learners = ["rtrl", "f-bptt", "e-bptt", "kf-rtrl", "uoro", "r-kf-rtrl", "r-ok", "dni", "dni-b", "rflo", "kernl"]
    learners += ["kernl-released", "fixed"]
    final = lambda *losses: dict(zip(learners, losses, strict=True))
    return {
        "loss": {
            "add/1": final(0.460, 0.461, 0.460, 0.462, 0.500, 0.501, 0.470, 0.530, 0.540, 0.59, 0.60, 0.605, 0.65),
            "add/0.5": final(0.458, 0.458, 0.459, 0.459, 0.463, 0.463, 0.4585, 0.53, 0.54, 0.58, 0.585, 0.59, 0.65),
            "mimic/1": final(0.50, 0.51, 0.50, 0.52, 1.90, 1.92, 0.70, 0.90, 1.00, 1.20, 1.30, 1.35, 2.50),
            "mimic/0.5": final(0.40, 0.41, 0.40, 0.42, 1.60, 1.62, 0.60, 0.80, 0.90, 1.10, 1.15, 1.20, 2.20),
        },
        "untrained": {"add": 0.75, "mimic": 4.0},
        "rflo": {"orthogonal": 0.59, "gaussian": 0.60, "symmetric": 0.662, "diagonal": 0.664},
        "readout": {"orthogonal": 0.65, "gaussian": 0.65, "symmetric": 0.662, "diagonal": 0.664},
        # (share of each lag's variance at its jump, what is retained a step)
        "memory": {
            "orthogonal": 0.98, "gaussian": 0.95, "symmetric": 0.7, "diagonal": 0.65, "diagonal-positive": 0.6,
            "diagonal-normal": 0.55,
        },
        "jumps": {-10: 0.19, -6: 0.75},
        # alignment with RTRL, alignment with F-BPTT
        "alignment": {
            "add": {
                "rtrl": (1.0, 0.4), "f-bptt": (0.4, 1.0), "e-bptt": (0.5, 0.5), "uoro": (0.043, 0.02),
                "kf-rtrl": (0.25, 0.10), "r-kf-rtrl": (0.050, 0.025), "r-ok": (0.95, 0.17), "kernl": (0.67, 0.40),
                "rflo": (0.70, 0.42), "dni": (0.30, 0.45), "dni-b": (0.25, 0.40),
            },
            "mimic": {
                "rtrl": (1.0, 0.5), "f-bptt": (0.5, 1.0), "e-bptt": (0.6, 0.6), "uoro": (0.084, 0.04),
                "kf-rtrl": (0.15, 0.07), "r-kf-rtrl": (0.092, 0.05), "r-ok": (0.45, 0.22), "kernl": (0.62, 0.41),
                "rflo": (0.68, 0.44), "dni": (0.40, 0.55), "dni-b": (0.35, 0.50),
            },
        },
        "pairs": {("kernl", "rflo"): 0.92, ("dni", "dni-b"): 0.8},
        "correlation": {"add": {"uoro": 0.2, "r-kf-rtrl": 0.25}, "mimic": {"uoro": 0.15, "r-kf-rtrl": 0.2}},
        # the power of w with which the squared error of a sum over w steps, relative to the sum, falls
        "summed": {
            "rtrl": 1.0, "f-bptt": 1.0, "e-bptt": 1.0, "uoro": 0.8, "kf-rtrl": 0.9, "r-kf-rtrl": 0.8, "r-ok": 0.9,
            "kernl": 0.01, "rflo": 0.01, "dni": 0.02, "dni-b": 0.02,
        },
        # norm of the bias and standard deviation, in norms of the exact gradient
        "bias": {
            "uoro": (0.0, 20.0), "kf-rtrl": (0.0, 2.0), "r-kf-rtrl": (0.0, 15.0), "r-ok": (0.0, 1.5),
            "kernl": (0.8, 0.05), "rflo": (0.75, 0.0),
        },
        "replicas": 4000,
        # distance of an exact expectation from RTRL's tensor
        "enumerated": {"uoro": 1e-16, "kf-rtrl": 1e-16, "r-kf-rtrl": 1e-16, "r-ok": 1e-15},
        # squared bias of the mean gradient, and the power with which the squared error of its sums falls
        "held": {
            "rflo": (0.8, 0.02), "kernl": (0.7, 0.02), "dni": (0.15, 0.05), "dni-b": (3.0, 0.05), "f-bptt": (0.0, 0.9),
        },
        # the share of an input's effect that is left a step later
        "horizon": 0.5,
        # exponents of n: state, operations
        "orders": {
            "rtrl": (3, 4), "uoro": (2, 2), "kf-rtrl": (2, 3), "r-kf-rtrl": (2, 3), "r-ok": (2, 3), "kernl": (2, 2),
            "rflo": (2, 2), "e-bptt": (1, 2), "f-bptt": (1, 2), "dni": (2, 2), "dni-b": (2, 2), "fixed": (0, 2),
        },
        "along": {"e-bptt": (1, 0), "f-bptt": (1, 1), "r-ok": (1, 1)},
        "small-rate": 1.0,
        "spread": 0.002,
    }  # fmt: skip


def full_data(seed: int = 0, seeds: int = 5, world: dict | None = None) -> dict[str, dict[str, np.ndarray]]:
    """Every experiment's arrays, by name, drawn from a world."""
    w = world if world is not None else globals()["world"]()
    rng = np.random.default_rng(seed)
    data: dict[str, dict[str, np.ndarray]] = {}
    for condition, finals in w["loss"].items():
        start = w["untrained"][condition.split("/")[0]]
        shared = rng.normal(size=seeds)  # a seed is easy or hard for every learner alike
        for learner, final in finals.items():
            data[f"loss/{condition}/{learner}"] = curve(rng, start, final, shared, w["spread"])
    for name, key in (("rflo-loss", "rflo"), ("fixed-loss", "readout")):
        for init, final in w[key].items():
            data[f"{name}/{init}"] = curve(rng, w["untrained"]["add"], final, np.zeros(seeds), w["spread"])
    for init, kept in w["memory"].items():
        data[f"memory/{init}"] = memory(rng, seeds, kept, w["jumps"])
    for task in ("add", "mimic"):
        for alpha in ("1", "0.5"):
            data[f"gradients/{task}/{alpha}"] = gradients(rng, seeds, w, task)
        data[f"bias/{task}"] = biases(rng, w, seeds)
        data[f"held/{task}"] = held(rng, w, seeds)
    for learner, distance in w["enumerated"].items():
        found = {"distance": distance, "std": 1.5, "steps": 4, "patterns": 256}
        data[f"enumeration/{learner}"] = {name: np.array(value) for name, value in found.items()}
    lag = np.arange(40)
    effect = w["horizon"] ** lag * np.exp(0.02 * rng.normal(size=(seeds, 40)))
    data["horizon/mimic"] = {"lag": lag, "effect": effect}
    for learner, (memory_order, time_order) in w["orders"].items():
        grow = lambda p: 40.0 * SIZES.astype(float) ** p
        jitter = np.exp(0.02 * rng.normal(size=len(SIZES)))
        data[f"scaling/{learner}"] = {
            "count_n": SIZES,
            "count_bytes": 4 * grow(memory_order) + (200 if memory_order else 0),
            "count_flops": grow(time_order) + 100.0 * SIZES,
            "n": SIZES,
            "seconds": (2e-6 + 1e-10 * grow(time_order)) * jitter,
        }
        if learner in HORIZONS:
            along = np.array([4, 8, 16, 32])
            powers = w["along"][learner]
            counts = {name: 1e4 * along.astype(float) ** p for name, p in zip(("bytes", "flops"), powers, strict=True)}
            data[f"scaling/{learner}"] |= {"horizon": along, **{f"horizon_{k}": v for k, v in counts.items()}}
    data.update({f"lattice/{name}": lattice(name) for name in ("rtrl", "f-bptt", "e-bptt", "rflo")})
    rate = 10.0 ** -np.arange(1.0, 6.0)
    noise = np.exp(0.02 * rng.normal(size=(seeds, len(rate))))
    data["small-rate"] = {"rate": rate, "distance": 0.5 * rate ** w["small-rate"] * noise}
    return data


def curve(rng, start, final, shared, spread):
    """Losses that fall from start to final; a seed's difficulty is shared by all learners of a condition."""
    W, seeds = 100, len(shared)
    fall = np.exp(-np.arange(W) / 12)
    scale = spread * start
    level = final + scale * (3 * shared + 0.3 * rng.normal(size=seeds))
    loss = level[:, None] + (start - level[:, None]) * fall + scale * rng.normal(size=(seeds, W))
    return {"step": 10_000 * np.arange(1, W + 1), "loss": loss, "diverged": np.full(seeds, -1)}


def memory(rng, seeds, kept, jumps):
    """r² that jumps at each lag by its share and then decays."""
    trace = sum(np.where(lag <= LAGS, share * kept ** (LAGS - lag), 0.0) for lag, share in jumps.items())
    return {"lag": LAGS, "r2": np.clip(trace + 0.002 + 0.005 * rng.normal(size=(seeds, len(LAGS))), 0, 1)}


def gradients(rng, seeds, w, task):
    """Alignments: with RTRL and F-BPTT as the world says; other pairs align as far as both align with RTRL."""
    L = len(PROBED)
    to_rtrl, to_fbptt = (np.array([w["alignment"][task][x][axis] for x in PROBED]) for axis in (0, 1))
    truth = np.outer(to_rtrl, to_rtrl)
    truth[1], truth[:, 1] = to_fbptt, to_fbptt
    for (x, y), value in w["pairs"].items():
        i, j = PROBED.index(x), PROBED.index(y)
        truth[i, j] = truth[j, i] = value
    noise = 0.002 * rng.normal(size=(seeds, L, L))
    mean = truth + (noise + noise.swapaxes(1, 2)) / 2
    mean[:, range(L), range(L)] = 1.0
    edges = np.linspace(-1, 1, 101)
    spread = 0.1 + 0.2 * np.sqrt(1 - np.clip(mean[0], 0, 1))
    draws = np.clip(mean[0][..., None] + spread[..., None] * rng.normal(size=(L, L, 400)), -1, 1)
    histogram = np.array([[np.histogram(d, edges)[0] for d in row] for row in draws])
    noisy = ("uoro", "r-kf-rtrl")
    pairs = [
        [correlated(rng, w["alignment"][task][x][0], w["correlation"][task][x]) for _ in range(seeds)] for x in noisy
    ]
    cosine, log_norm = np.moveaxis(np.array(pairs), 2, 0)
    power = np.array([w["summed"][x] for x in PROBED])[:, None]
    exact = np.clip(truth, 0.01, 1)  # sums align better with every other learner's as they do with RTRL's
    summed = 1 / np.sqrt(1 + (1 / exact[..., None] ** 2 - 1) * WINDOWS ** -power[:, None])
    return {
        "learners": np.array(PROBED),
        "edges": edges,
        "histogram": histogram,
        "mean": mean,
        "noisy": np.array(noisy),
        "pair_cosine": cosine,
        "pair_log_norm": log_norm,
        "windows": WINDOWS,
        "window_cosine": summed + 0.002 * (1 - summed**2) * rng.normal(size=(seeds, L, L, len(WINDOWS))),
    }


def correlated(rng, centre, r, N=4000, memory=0.5):
    """A cosine and a log norm of correlation r, both autocorrelated."""
    drive = rng.normal(size=(2, N)) * np.sqrt(1 - memory**2)
    # Numbers of Python's own: step by step, NumPy's take twenty times as long.
    follow = lambda row: list(itertools.accumulate(row, lambda before, new: memory * before + new, initial=0.0))
    z = np.array([follow(row[1:].tolist()) for row in drive])
    return np.clip(centre + 0.1 * z[0], -1, 1), -1 + 0.4 * (r * z[0] + np.sqrt(1 - r**2) * z[1])


def biases(rng, w, networks):
    """Root mean squares over steps of the error of the mean over replicas, what sampling adds, and the scatter."""
    learners, replicas = list(w["bias"]), w["replicas"]
    true, std = (np.array([w["bias"][x][axis] for x in learners])[:, None] for axis in (0, 1))
    std = std * np.exp(0.05 * rng.normal(size=(len(learners), networks)))
    noise = std / np.sqrt(replicas)
    counts = {"replicas": np.array(replicas), "networks": np.array(networks)}
    return {"learners": np.array(learners), **counts, "bias": np.hypot(true, noise), "bias_noise": noise, "std": std}


def held(rng, w, networks):
    """Mean gradients with the weights held: squared biases, and cosines of sums."""
    learners, windows = list(w["held"]), 1024 * 2 ** np.arange(5)
    against = np.array(["f-bptt" if x.startswith("dni") else "rtrl" for x in learners])
    bias, power = (np.array([w["held"][x][axis] for x in learners])[:, None] for axis in (0, 1))
    exact = np.exp(0.2 * rng.normal(size=(1, networks))) * np.ones((len(learners), 1))
    error = exact * (bias + 0.005 * rng.normal(size=(len(learners), networks)))
    squared = (np.maximum(bias, 0.01)[..., None] * (windows / windows[0]) ** -power[..., None]).repeat(networks, axis=1)
    squared = squared * np.exp(0.01 * rng.normal(size=squared.shape))
    about = {"learners": np.array(learners), "against": against, "windows": windows, "settling": np.array(10_000)}
    return {**about, "error": error, "exact": exact, "window_cosine": 1 / np.sqrt(1 + squared)}


def lattice(name, steps=12, T=4):
    """Which (weights at s, loss at t) enter the gradient emitted at step e."""
    e, s, t = np.ogrid[:steps, :steps, :steps]
    emits = np.ones(steps, bool)
    match name:
        case "rtrl":
            enters = (t == e) & (s <= e)
        case "rflo":
            enters = (t == e) & (s == e)
        case "f-bptt":
            enters, emits = (s == e - T + 1) & (s <= t) & (t <= e), np.arange(steps) >= T - 1
        case _:
            emits = np.arange(steps) % T == T - 1
            enters = (s <= t) & (t <= e) & (s > e - T) & emits[:, None, None]
    return {"enters": enters, "emits": emits}

"""The streams that the scripts read: a coin a step, and a label with each coin."""

import numpy as np


def stream(seed, steps=20_000):
    """The label y is 1 with a probability of 0.5 + 0.5 coin(t - 4) - 0.25 coin(t - 7)."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, steps + 7)
    chance = 0.5 + 0.5 * coins[3:-4] - 0.25 * coins[:-7]
    x = np.stack([coins[7:], 1 - coins[7:]], axis=1)
    y = (rng.random(steps) < chance).astype(int)
    return {"x": x, "y": y}


if __name__ == "__main__":
    for seed in range(3):
        np.savez(f"stream-{seed}.npz", **stream(seed))

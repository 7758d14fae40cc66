"""When the law of a stream changes

A machine hums: two tones and some noise. At row 1,500 it changes its speed. One forecaster goes on learning, and one
was frozen at that row. Lines are means over five streams, and bands are one standard error.

After the change the frozen network is worse than the last value: a wrong law is worse than none. The other one has
found the new law after some hundred rows, without being told of the change. It learns with `forgetting=0.99`, so old
rows lose their weight.
"""

import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

rows, change, window, seeds = 3_000, 1_500, 50, 5
angle = np.cumsum(np.where(np.arange(rows) < change, 0.30, 0.36))


def errors(seed):
    """Squared errors of forecasts of the next row."""
    noise = 0.1 * np.random.default_rng(seed).normal(size=rows)
    values = (np.sin(angle) + 0.5 * np.sin(2.7 * angle) + noise)[:, None]
    forecasts = {"last value": values}
    for name, until in (("frozen", change), ("goes on learning", rows)):
        model = rc.forecaster(n_in=1, horizon=1, forgetting=0.99, key=seed)
        learned = np.ma.masked_array(values, mask=np.arange(rows)[:, None] >= until)
        forecasts[name] = model.learn_many(values, learned)
        # A forecast is the latest label and a change. Also the frozen model may know the latest value.
        forecasts[name][until:] += values[until:] - values[until - 1]
    return {name: (forecast[:-1] - values[1:])[:, 0] ** 2 for name, forecast in forecasts.items()}


found = [errors(seed) for seed in range(seeds)]
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, colour in {"last value": "#7f7f7f", "frozen": "#d55e00", "goes on learning": "#0072b2"}.items():
    squares = np.array([each[name] for each in found])
    rmse = np.sqrt(np.lib.stride_tricks.sliding_window_view(squares, window, axis=1).mean(axis=2))[:, ::10]
    mean, error, row = rmse.mean(axis=0), rmse.std(axis=0, ddof=1) / seeds**0.5, window + 10 * np.arange(rmse.shape[1])
    ax.plot(row, mean, color=colour, label=name)
    ax.fill_between(row, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)

ax.axhline(0.1, color="black", linestyle=":", linewidth=1)
ax.text(rows, 0.1, "size of the noise ", ha="right", va="top", fontsize=9)
ax.axvline(change, color="black", linewidth=1)
ax.set(yscale="log", xlabel="row", ylabel=f"RMSE over the latest {window} rows", xlim=(window, rows), ylim=(0.08, 2))
ax.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
ax.minorticks_off()
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

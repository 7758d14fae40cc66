"""Forecast a neuron, row by row

Matplotlib comes with a recording of a neuron's membrane potential: six seconds, 2,000 values a second. At every value
a model says what it will be 5 ms later, and it learns when that value comes. Nothing was learned beforehand.

Above, forecasts of the race and what came: the slow rise is foreseen, the peaks are not. Below, errors summed over
time. Recurrent weights that learn help. A readout that forgets old rows helps more, with recurrent weights left as
they were drawn. `rc.Race` weighs all three by recent success, so nobody has to know that. Lines are means over four
networks, and bands reach from the best to the worst.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data

import recurra as rc

volts = 100 * np.fromfile(get_sample_data("membrane.dat", asfileobj=False), np.float32)  # the file has units of 0.1 V
rows, ahead, keys = volts[:, None], 10, range(4)


def members(key):
    """Three forecasters, by name."""
    settings = {"n_in": 1, "horizon": ahead, "lags": 1, "key": key}
    return {
        "readout learns": rc.forecaster(learner="fixed", **settings),
        "network learns (RFLO)": rc.forecaster(learner="rflo", **settings),
        "readout learns and forgets": rc.forecaster(learner="fixed", forgetting=0.999, **settings),
    }


models = {name: [members(key)[name] for key in keys] for name in members(0)}
models["race of the three"] = [rc.Race(members(key)) for key in keys]
forecasts = {name: np.array([model.learn_many(rows, rows)[:, 0] for model in each]) for name, each in models.items()}
forecasts = {"last value": volts[None], **forecasts}
colours = dict(zip(forecasts, ("#7f7f7f", "#e69f00", "#d55e00", "#009e73", "#0072b2"), strict=True))

fig, (above, below) = plt.subplots(2, 1, figsize=(6.4, 5.4), height_ratios=(3, 4), layout="constrained")
second, some, before = np.arange(len(volts)) / 2000, slice(8_600, 9_400), slice(8_600 - ahead, 9_400 - ahead)
above.plot(second[some], volts[some], color="black", label="recorded")
above.plot(second[some], forecasts["race of the three"][0, before], color="#0072b2", label="forecast by the race")
for name, each in forecasts.items():
    squares = (each[:, :-ahead] - volts[ahead:]) ** 2
    time, lines = second[ahead::60], np.cumsum(squares, axis=1)[:, ::60] / 1000
    below.plot(time, lines.mean(axis=0), color=colours[name], label=name)
    below.fill_between(time, lines.min(axis=0), lines.max(axis=0), color=colours[name], alpha=0.25, linewidth=0)
    rmse = np.sqrt(squares.mean(axis=1))
    print(f"{name:26} RMSE {rmse.mean():.2f} mV", f"± {rc.standard_error(rmse):.2f}" if len(rmse) > 1 else "")

above.legend(frameon=False, loc="upper left", ncols=2)
above.set(xlabel="time (s)", ylabel="potential (mV)", ylim=(-55, 30))
below.set(xlabel="time (s)", ylabel="summed squared error\n(1,000 mV²)", xlim=(0, 6), ylim=(0, None))
below.legend(frameon=False)
for ax in (above, below):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

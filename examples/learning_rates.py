"""Learning rates of three learners in one call

`rc.sweep` trains a network at every point of a grid: here three learners at seven learning rates, with four seeds
each. Points that differ in numbers alone share one compiled program. The result is an xarray data set with a
dimension for every setting.

RFLO and RTRL learn better the larger the rate is, up to 0.1. UORO is as good as RTRL at small rates. From 0.01 on its
noise wins, and it learns next to nothing. Bars are standard errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Add(t1=2, t2=4)
network = rc.Network(rc.RNN(n_in=task.n_in, n=16), n_out=task.n_out)
learners = {"RFLO": rc.RFLO(), "UORO": rc.UORO(), "RTRL": rc.RTRL()}
rates = np.logspace(-4, -1, 7)

runs = rc.sweep(network, rc.RTRL(), task, vary={"learner": learners, "optimizer": rates}, steps=20_000, seeds=4)
print(runs.final_loss.mean("seed").to_pandas().T.round(3))

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, colour in {"RFLO": "#e69f00", "UORO": "#cc79a7", "RTRL": "#000000"}.items():
    losses = runs.final_loss.sel(learner=name)
    mean, error = losses.mean("seed"), losses.std("seed", ddof=1) / runs.sizes["seed"] ** 0.5
    ax.errorbar(rates, mean, error, color=colour, marker="o", markersize=4, capsize=3, label=name)

ax.axhline(np.log(2), color="black", linestyle=":", linewidth=1)
ax.text(6e-4, np.log(2), "guessing: log 2", va="bottom", fontsize=9)
ax.set(xscale="log", xlabel="learning rate", ylabel="loss, last tenth of the run (nats)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

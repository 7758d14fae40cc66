"""Remember for 40 steps without storing them

The task is to repeat two symbols after 40 blanks. Backpropagation through the last ten steps cannot see that far.
Real-time recurrent learning (RTRL) carries the influence of every weight along with the state, and cuts nothing off.
On units that do not hear each other, such as `rc.RTU`, it is exact and cheap.

Such units remember something by themselves. A readout that learns alone makes use of it (Fixed W), and E-BPTT over
ten steps gets further than that. RTRL solves the task. Lines are means over eight seeds, and bands are one standard
error.
"""

import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Copy(length=2, delay=40)
cell = rc.RTU(n_in=task.n_in, n=32)
network = rc.Network(cell, n_out=task.n_out)
rates = rc.PerGate(cell, rc.Adam(3e-3), {"nu": rc.Adam(3e-4), "omega": rc.Adam(3e-4)})
seeds = 8

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for learner, colour in {rc.Fixed(): "#7f7f7f", rc.EfficientBPTT(T=10): "#d55e00", rc.RTRL(): "#0072b2"}.items():
    result = rc.train(network, learner, task, steps=100_000, seeds=seeds, optimizer=rates)
    mean, error = result.loss.mean(axis=0), result.loss.std(axis=0, ddof=1) / seeds**0.5
    ax.plot(result.step / 1000, mean, color=colour, label=learner.name)
    ax.fill_between(result.step / 1000, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
    final = result.final_loss()
    print(f"{learner.name:8} {final.mean():.3f} ± {rc.standard_error(final):.3f}   {result.seconds:5.1f} s")

ax.axhline(np.log(2), color="black", linestyle=":", linewidth=1)
ax.text(100, np.log(2), "no memory: log 2", ha="right", va="bottom")
ax.set(xlabel="step (thousands)", ylabel="loss (nats)", xlim=(0, 100))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

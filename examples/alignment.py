"""Do approximate gradients point the right way?

RTRL trains the network. At the same steps four other learners compute their gradients as *probes*: they see
everything and change nothing. `rc.record.alignments` keeps their cosines with the exact gradient.

SnAp-1 and RFLO point roughly the way of the exact gradient, and less so the longer the network has learned. UORO's
cosine is below 0.1 throughout. Yet [UORO learns](five_learners.md): why, the [next example](noise_averages_out.md)
shows. Lines are means over eight seeds, and bands are one standard error.
"""

import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Add(t1=3, t2=5)
network = rc.Network(rc.RNN(n_in=task.n_in, n=32, alpha=0.5), n_out=task.n_out)
probes = {"SnAp-1": rc.SnAp1(), "RFLO": rc.RFLO(), "KF-RTRL": rc.KFRTRL(), "UORO": rc.UORO()}
colours = {"SnAp-1": "#0072b2", "RFLO": "#e69f00", "KF-RTRL": "#009e73", "UORO": "#cc79a7"}
look = {"probes": probes, "record": {"cosine": rc.record.alignments}, "record_every": 10}
seeds, steps, windows = 8, 20_000, 40

result = rc.train(network, rc.RTRL(), task, steps=steps, seeds=seeds, optimizer=3e-3, **look)
cosines = result.records["cosine"]

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
step = (np.arange(windows) + 0.5) * steps / windows / 1000
for name, colour in colours.items():
    cosine = cosines[name]["applied"].reshape(seeds, windows, -1).mean(axis=2)
    mean, error = cosine.mean(axis=0), cosine.std(axis=0, ddof=1) / seeds**0.5
    ax.plot(step, mean, color=colour, label=name)
    ax.fill_between(step, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)

ax.set(xlabel="step (thousands)", ylabel="cosine with the exact gradient", xlim=(0, steps / 1000), ylim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2)
plt.show()

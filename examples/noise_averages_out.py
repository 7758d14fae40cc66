"""Noise averages out, and bias does not

At a single step UORO's gradient is mostly noise, and RFLO's looks far better. But a small learning rate follows
gradients summed over many steps. Here the weights stand still, and gradients are summed over more and more steps.

UORO and KF-RTRL are unbiased: their sums turn towards the exact sum. RFLO leaves out a part of the gradient, and that
part is missing from the sum too: its cosine falls to 0.54 and stays there. Bars are standard errors over four seeds.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Add(t1=3, t2=5)
network = rc.Network(rc.RNN(n_in=task.n_in, n=16), n_out=task.n_out)
probes = {"KF-RTRL": rc.KFRTRL(), "UORO": rc.UORO(), "RFLO": rc.RFLO()}
seeds, steps = 4, 2**14

start = rc.train(network, rc.RTRL(), task, steps=2_000, seeds=seeds, optimizer=1e-3).weights
look = {"probes": probes, "record": {"gradient": rc.record.gradients}}
result = rc.train(network, rc.RTRL(), task, steps=steps, seeds=seeds, optimizer=0.0, start=start, **look)


def summed(name, length):
    """Gradients of all recurrent weights, summed over so many steps: (seed, sum, weight)."""
    leaves = jax.tree.leaves(result.records["gradient"][name])
    return np.concatenate([leaf.reshape(seeds, steps // length, length, -1).sum(axis=2) for leaf in leaves], axis=2)


def cosines(name, length):
    """Cosine of a learner's sums with RTRL's, the mean for each seed."""
    x, y = summed(name, length), summed("applied", length)
    return (np.sum(x * y, axis=2) / np.linalg.norm(x, axis=2) / np.linalg.norm(y, axis=2)).mean(axis=1)


lengths = 4 ** np.arange(8)
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for name, colour in {"KF-RTRL": "#009e73", "UORO": "#cc79a7", "RFLO": "#e69f00"}.items():
    cosine = np.array([cosines(name, length) for length in lengths])
    mean, error = cosine.mean(axis=1), cosine.std(axis=1, ddof=1) / seeds**0.5
    ax.errorbar(lengths, mean, error, color=colour, marker="o", markersize=4, capsize=3, label=name)
    print(f"{name:8} one step {mean[0]:.2f} ± {error[0]:.2f}   {lengths[-1]:,} steps {mean[-1]:.2f} ± {error[-1]:.2f}")

ax.set_xscale("log", base=4)
ax.set_xticks(lengths, [f"{length:,}" for length in lengths])
ax.minorticks_off()
ax.set(xlabel="number of steps that are summed", ylabel="cosine with the exact sum", ylim=(0, 1.03))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.98))
plt.show()

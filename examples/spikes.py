"""A spiking network weighs evidence

Spikes on the left or on the right are cues. After a delay the network has to say on which side there were more cues.
Its units adapt: each spike raises the threshold of its unit for a while, and that is a memory. RFLO on such units is
e-prop (Bellec et al. 2020).

The figure shows a new episode after training, with two cues on the left and three on the right. The network is silent
at the end of the delay. What it knows is in its thresholds. In the decision (green) it votes for the right side.
Before that (grey) its output was never trained and means nothing. Of new decisions, 88 in 100 are right.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Evidence(cues=5, delay=300, dt=10, rate=60.0)
cell = rc.ALIF(n_in=task.n_in, n=50, tau_v=2.0, tau_a=60.0, tau_out=2.0, refractory=2)  # times in steps of 10 ms
network = rc.Network(cell, n_out=task.n_out)
trained = rc.train(network, rc.RFLO(), task, steps=30_000, seeds=4, streams=8, optimizer=rc.Adam(5e-4))

# A new stream, on which nothing is learned: inputs, spikes, outputs and labels are kept.
episodes, length, decision = 100, task.steps, 15
settings = {"steps": episodes * length, "seeds": 4, "key": 1, "optimizer": 0.0, "start": trained.weights}
keep = lambda step: (step.input, step.state[0], step.output, step.label)
test = rc.train(network, rc.Fixed(), task, record={"kept": keep}, **settings)
inputs, spikes, outputs, labels = (rows.reshape(4, episodes, length, -1) for rows in test.records["kept"])
right = outputs[:, :, -decision:].sum(axis=2).argmax(axis=2) == labels[:, :, -1].argmax(axis=2)
print(f"right decisions: {right.mean():.2f} ± {rc.standard_error(right.mean(axis=1)):.2f}")

fig, axes = plt.subplots(3, 1, figsize=(6.4, 5.2), sharex=True, height_ratios=(2, 3, 1.4), layout="constrained")
groups = {"left": "#0072b2", "right": "#d55e00", "decide": "#009e73", "noise": "#7f7f7f"}
for first, colour in zip(range(0, 40, 10), groups.values(), strict=True):
    step, unit = np.nonzero(inputs[0, 0, :, first : first + 10])
    axes[0].plot(10 * step, unit + first, "|", color=colour, markersize=4)
step, unit = np.nonzero(spikes[0, 0])
axes[1].plot(10 * step, unit, "|", color="black", markersize=4)
time, probability = 10 * np.arange(length), jax.nn.softmax(outputs[0, 0])[:, 1]
axes[2].plot(time, probability, color="#bbbbbb")
axes[2].plot(time[-decision:], probability[-decision:], color="black", linewidth=2)
axes[0].set(ylabel="inputs", yticks=[4.5, 14.5, 24.5, 34.5], yticklabels=groups)
axes[1].set(ylabel="units")
axes[2].set(ylabel="P(right)", ylim=(0, 1), xlabel="time (ms)", xlim=(0, 10 * length))
for ax in axes:
    ax.axvspan(10 * (length - decision), 10 * length, color="#009e73", alpha=0.12, linewidth=0)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

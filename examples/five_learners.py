"""Five learners, one task

A network hears a coin, one toss a step. The label depends on the tosses five and eight steps ago. Five learners train
the same networks on the same streams, so only the learning rule differs. Lines are means over eight seeds, and bands
are one standard error.

`rc.Fixed` trains the readout alone, and RFLO closes more than half of the gap between it and RTRL. Backpropagation
over ten steps reaches both tosses, and ends within 0.003 of RTRL. UORO follows them at first. Then it falls behind,
since at this learning rate its noise is too strong, and ends where RFLO does. The last column has the seconds that
each took, without compilation.
"""

import matplotlib.pyplot as plt

import recurra as rc

task = rc.Add(t1=5, t2=8)
network = rc.Network(rc.RNN(n_in=task.n_in, n=32), n_out=task.n_out)
seeds = 8
learners = {
    rc.Fixed(): "#7f7f7f",
    rc.RFLO(): "#e69f00",
    rc.UORO(): "#cc79a7",
    rc.EfficientBPTT(T=10): "#0072b2",
    rc.RTRL(): "#000000",
}

fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for learner, colour in learners.items():
    result = rc.train(network, learner, task, steps=40_000, seeds=seeds, optimizer=1e-3)
    mean, error = result.loss.mean(axis=0), result.loss.std(axis=0, ddof=1) / seeds**0.5
    ax.plot(result.step / 1000, mean, color=colour, label=learner.name)
    ax.fill_between(result.step / 1000, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
    final = result.final_loss()
    print(f"{learner.name:8} {final.mean():.3f} ± {rc.standard_error(final):.3f}   {result.seconds:5.1f} s")

ax.set(xlabel="step (thousands)", ylabel="loss (nats)", xlim=(0, 40))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, ncols=2)
plt.show()

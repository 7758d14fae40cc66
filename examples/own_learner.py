"""Test an idea: a learner of your own

RFLO's traces decay as the network's units do: a share of 1 - α is left after a step. Would another decay learn
better? A learner with a decay of its own takes 20 lines, and one call of `rc.sweep` tries ten decays with eight seeds
each.

Dotted lines mark RFLO's own decay. With α of 1 and 0.5 none is clearly better. With α = 0.3 a somewhat faster decay
is, by 0.0002 nats: more than three standard errors, and yet little. Bars are standard errors of the difference to
RFLO with the same seed.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import recurra as rc
from recurra.learners.eligibility import filtered, no_eligibility, weighed


class Trace(rc.PastFacing):
    """B = decay B + D ahat,   gradient = cbar B."""

    decay: float = 0.9

    about = rc.About("trace", "Trace", "δ_ki B_ij", memory="n²", time="n²", unitwise=True)

    def init(self, cell, weights, key, n_out):
        return no_eligibility(cell, weights)

    def advance(self, tick, state, noise):
        keep = jnp.full(tick.cell.n, self.decay, tick.cell.dtype)
        return filtered(tick.weights, ((keep,),), tick.trace, state)

    def contract(self, cell, weights, c, state):
        return weighed(weights, c, state)


task, decays, seeds = rc.Add(t1=2, t2=4), np.linspace(0, 0.9, 10), 8
settings = {"steps": 20_000, "seeds": seeds, "optimizer": 1e-3}
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for alpha, colour in ((1.0, "#0072b2"), (0.5, "#d55e00"), (0.3, "#009e73")):
    network = rc.Network(rc.RNN(n_in=task.n_in, n=32, alpha=alpha), n_out=task.n_out)
    runs = rc.sweep(network, Trace(), task, vary={"learner.decay": decays}, **settings)
    rflo = rc.train(network, rc.RFLO(), task, **settings).final_loss()
    more = 1000 * (runs.final_loss.values - rflo)  # each seed beside the same seed of RFLO
    mean, error = more.mean(axis=1), more.std(axis=1, ddof=1) / seeds**0.5
    ax.errorbar(decays, mean, error, color=colour, marker="o", markersize=4, capsize=3, label=f"α = {alpha}")
    ax.axvline(1 - alpha, color=colour, linestyle=":", linewidth=1.5)
    best = mean.argmin()
    print(f"α = {alpha}: best decay {decays[best]:.1f}, loss {mean[best]:+.2f} ± {error[best]:.2f}")

ax.axhline(0, color="black", linewidth=1)
ax.set(xlabel="decay of the traces, a step", ylabel="loss less that of RFLO (0.001 nats)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.15, 1.03))
plt.show()

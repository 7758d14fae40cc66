"""What learners keep of the influence tensor

M tells how far the weight from unit j to unit i has moved unit k. RTRL keeps all of it, n³ numbers. Four learners
follow the same trained network over the same 200 steps. The colour is the size of M over all sources j.

SnAp-1 and RFLO keep what a unit's weights did to the unit itself: here more than half of M's squared size. UORO's
estimate is far off, beyond the scale of the colours. But it is unbiased: the mean of 4,000 copies looks like RTRL's
M.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import recurra as rc

task = rc.Add(t1=2, t2=4)
network = rc.Network(rc.RNN(n_in=task.n_in, n=16, alpha=0.5), n_out=task.n_out)
weights = rc.train(network, rc.RTRL(), task, steps=20_000, optimizer=1e-2).online().weights.cell
coins = jax.random.bernoulli(jax.random.key(1), shape=(200,))
inputs = jnp.stack([coins, ~coins], axis=1).astype("float32")


def influence(learner, copies=1):
    """M after 200 steps, (k, i, j): the mean over copies of a learner, each with random numbers of its own."""
    followed = rc.online_grad(network.cell, learner)

    def follow(key):
        rows = inputs, followed.noise(key, len(inputs))
        step = lambda state, row: (followed.observe(weights, state, *row), None)
        state, _ = jax.lax.scan(step, followed.init(weights, key), rows)
        M = jax.vmap(lambda c: followed.gradient(weights, state, c))(jnp.eye(16))
        return jnp.concatenate([leaf.reshape(16, 16, -1) for leaf in jax.tree.leaves(M)], axis=2)

    return np.mean(jax.jit(jax.vmap(follow))(jax.random.split(jax.random.key(2), copies)), axis=0)


found = {
    "RTRL": influence(rc.RTRL()),
    "SnAp-1": influence(rc.SnAp1()),
    "RFLO": influence(rc.RFLO()),
    "UORO": influence(rc.UORO(initial_scale=0.0)),
    "UORO, mean of 4,000": influence(rc.UORO(initial_scale=0.0), copies=4_000),
}
sizes = {name: np.linalg.norm(M, axis=2) for name, M in found.items()}
share = np.sum(np.diag(sizes["RTRL"]) ** 2) / np.sum(sizes["RTRL"] ** 2)
print(f"on the diagonal: {share:.0%} of the squared size of RTRL's M")

fig, axes = plt.subplots(2, 3, figsize=(6.4, 4.4), layout="constrained")
for ax, (name, size) in zip(axes.flat, sizes.items(), strict=False):
    picture = ax.imshow(size, cmap="cividis", vmin=0, vmax=sizes["RTRL"].max())
    ax.set(xlabel="unit i of the weight", ylabel="influenced unit k", xticks=[], yticks=[])
    ax.set_title(name, fontsize=10)
axes[1, 2].axis("off")
fig.colorbar(picture, cax=axes[1, 2].inset_axes((0, 0, 0.1, 1)), label="size of M", extend="max")
plt.show()

"""Reinforcement learning in a T-maze, where only memory can tell left from right (Bakker 2002).

A light at the entrance says on which side of the junction the reward lies. Then comes a corridor, where all places look
alike, and the junction. The agent is an actor-critic with eligibility traces that learns at every step, from one life
without end. `rc.online_grad` gives it what it needs of a recurrent network: the derivative of its values and actions in
the recurrent weights. An agent that is set back before every step has the same network and no memory. It can learn to
walk to the junction, but not where to turn, so half of its episodes end at the reward.

All agents have the same settings, and nothing was chosen for one of them alone. Two learning rates were tried, on the
seeds that are shown: first 3e-3 over 150,000 steps, then 1e-3 over 80,000. With the first, agents learn sooner, and
some forget for a while what they knew. It takes a few minutes on two cores.

    python examples/memory_pays.py
"""

import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import recurra as rc

CORRIDOR, PATIENCE = 8, 40  # places between entrance and junction; steps after which an episode is over
FORWARD, LEFT, RIGHT = range(3)
GAMMA, LAMBDA, ENTROPY, RATE = 0.98, 0.9, 0.01, 1e-3
SEEDS, WINDOWS, STEPS = 10, 40, 2_000  # steps are those of a window
UNITS, SIGHT = 12, 4


class Agent(NamedTuple):
    """A network and its learner, and how its line is drawn."""

    name: str
    grad: rc.OnlineGrad
    colour: str
    #: whether the state goes on from step to step
    memory: bool = True
    #: whether recurrent weights learn, or the readout alone
    learns: bool = True


class Maze(NamedTuple):
    """Where the agent is, on which side the reward is (0 left, 1 right), and how old the episode is."""

    place: jax.Array
    side: jax.Array
    age: jax.Array


def entrance(key):
    """An episode that begins."""
    return Maze(jnp.array(0), jax.random.bernoulli(key).astype(int), jnp.array(0))


def seen(maze):
    """The light on the left or right, which shines at the entrance alone; the corridor; the junction."""
    start, end = maze.place == 0, maze.place == CORRIDOR + 1
    return jnp.stack([start & (maze.side == 0), start & (maze.side == 1), ~start & ~end, end]).astype(float)


def act(maze, action, key):
    """The maze after an action, the reward, whether the episode is over, and whether it ended at the reward."""
    junction, ahead = maze.place == CORRIDOR + 1, action == FORWARD
    turned = junction & ~ahead
    right = turned & (action == LEFT + maze.side)
    bumped = junction == ahead  # into a wall: forward at the junction, or aside in the corridor
    reward = jnp.where(right, 1.0, jnp.where(turned, -1.0, jnp.where(bumped, -0.1, 0.0)))
    over = turned | (maze.age + 1 >= PATIENCE)
    moved = Maze(maze.place + (ahead & ~junction), maze.side, maze.age + 1)
    return jax.tree.map(lambda new, old: jnp.where(over, new, old), entrance(key), moved), reward, over, right


def outputs(head, h):
    """The value of a state, and the logits of the three actions."""
    z = head["W"] @ h + head["b"]
    return z[0], z[1:]


def entropy(logits):
    """How undecided a policy is."""
    return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits))


def life(agent, key):
    """The share of episodes that end at the reward, in each window of steps."""
    grad = agent.grad
    key_weights, key_head, key_maze, key_steps = jax.random.split(key, 4)
    n = grad.cell.shown_width
    head = {"W": jax.random.normal(key_head, (4, n)) / n**0.5, "b": jnp.zeros(4)}
    first = head, grad.cell.init_weights(key_weights)
    optimizer = optax.adam(RATE)
    zeros = jax.tree.map(jnp.zeros_like, first)

    def step(carry, key):
        (head, weights), kept, sensed, maze, (z, value_before, reward, over) = carry
        key_action, key_maze = jax.random.split(key)
        sensed = grad.observe(weights, sensed, seen(maze), reset=over if agent.memory else jnp.array(True))
        (value, logits), pull = jax.vjp(outputs, head, grad.shown(sensed))
        action = jax.random.categorical(key_action, logits)

        # What happened since the last step: its error teaches all that z remembers.
        error = reward + GAMMA * jnp.where(over, 0, value) - value_before
        of_head, c = pull((jnp.zeros(()), jax.grad(entropy)(logits)))
        of_entropy = of_head, grad.gradient(weights, sensed, c)
        downhill = jax.tree.map(lambda z, e: -error * z - ENTROPY * e, z, of_entropy)
        if not agent.learns:
            downhill = downhill[0], zeros[1]

        # The derivatives of this step's value and action join z. It begins anew with every episode.
        of_head, c = pull((jnp.ones(()), jax.nn.one_hot(action, 3) - jax.nn.softmax(logits)))
        keep = jnp.where(over, 0, GAMMA * LAMBDA)
        z = (
            jax.tree.map(lambda z, g: keep * z + g, z[0], of_head),
            grad.eligibility(weights, sensed, z[1], c, keep),
        )
        changes, kept = optimizer.update(downhill, kept)
        maze, reward, over, right = act(maze, action, key_maze)
        carry = optax.apply_updates((head, weights), changes), kept, sensed, maze, (z, value, reward, over)
        return carry, (over, right)

    def window(carry, key):
        carry, (over, right) = jax.lax.scan(step, carry, jax.random.split(key, STEPS))
        return carry, right.sum() / jnp.maximum(over.sum(), 1)

    sensed = grad.init(first[1], key_weights)
    before = zeros, jnp.zeros(()), jnp.zeros(()), jnp.array(True)
    carry = first, optimizer.init(first), sensed, entrance(key_maze), before
    return jax.lax.scan(window, carry, jax.random.split(key_steps, WINDOWS))[1]


GRU, RNN = rc.GRU(SIGHT, UNITS), rc.RNN(SIGHT, UNITS, alpha=0.5)
AGENTS = (
    Agent("GRU, RTRL", rc.online_grad(GRU, rc.RTRL()), "#071d4f"),
    Agent("GRU, RFLO", rc.online_grad(GRU, rc.RFLO()), "#3a8cf0"),
    Agent("RNN, RTRL", rc.online_grad(RNN, rc.RTRL()), "#0b6e3a"),
    Agent("RNN, RFLO", rc.online_grad(RNN, rc.RFLO()), "#62bd6b"),
    Agent("RTU, RTRL", rc.online_grad(rc.RTU(SIGHT, UNITS), rc.RTRL()), "#c2185b"),
    Agent("GRU, readout alone", rc.online_grad(GRU, rc.RFLO()), "#b98300", learns=False),
    Agent("no memory", rc.online_grad(GRU, rc.RFLO()), "#8a8a8a", memory=False),
)


def drawn(found):
    """Learning curves: means over seeds, with bands of one standard error."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    steps = (np.arange(WINDOWS) + 1) * STEPS / 1000
    axes.axhline(0.5, color="black", linewidth=1.0, linestyle=(0, (4, 3)), zorder=3)
    axes.text(steps[-1], 0.44, "chance: all that an agent without memory can do", ha="right", va="top", fontsize=9)
    for agent in AGENTS:
        shares = found[agent.name]
        mean, error = shares.mean(0), shares.std(0, ddof=1) / SEEDS**0.5
        axes.plot(steps, mean, color=agent.colour, linewidth=1.8, label=agent.name)
        axes.fill_between(steps, mean - error, mean + error, color=agent.colour, alpha=0.18, linewidth=0)
    axes.set(xlim=(0, steps[-1]), ylim=(0.3, 1.02), xlabel="steps of one life (thousands)")
    axes.set_ylabel("share of episodes that end at the reward")
    axes.set_title(f"T-maze with a corridor of {CORRIDOR}: online actor-critic, mean of {SEEDS} seeds", fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def main(picture="memory_pays.png"):
    """Print a table, and draw the picture."""
    keys, found = jax.random.split(jax.random.key(0), SEEDS), {}
    print("agent                share at the reward, last tenth   seconds")
    for agent in AGENTS:
        began = time.perf_counter()
        lives = jax.jit(jax.vmap(lambda key, agent=agent: life(agent, key)))
        found[agent.name] = np.asarray(lives(keys))
        last = found[agent.name][:, -WINDOWS // 10 :].mean(1)
        seconds = time.perf_counter() - began
        print(f"{agent.name:20} {last.mean():.3f} ± {rc.standard_error(last):.3f} {seconds:25.0f}", flush=True)
    drawn(found).savefig(picture, dpi=160)


if __name__ == "__main__":
    main(*sys.argv[1:2])

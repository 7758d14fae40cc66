"""Agents against the forward view: λ-returns of whole episodes, differentiated by JAX through the unrolled network."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
import unrolled
from driving import distance
from unrolled import CELLS

EXACT, N_IN, N = 1e-10, 2, 3
GAMMA, LAMDA = 0.9, 0.7
#: the lengths of episodes; the second one is truncated
LENGTHS = (4, 3)


def summing():
    """An optimizer that holds the weights, and sums up the directions in which they would go."""
    zeros = lambda tree: jax.tree.map(jnp.zeros_like, tree)
    add = lambda gradient, total, params=None: (zeros(gradient), jax.tree.map(jnp.subtract, total, gradient))
    return optax.GradientTransformation(zeros, add)


class Episode:
    """What came in, what the agent did, and how it ended."""

    def __init__(self, key, length, rewards):
        keys = jax.random.split(key, 2)
        self.observations = jax.random.normal(keys[0], (length + 1, N_IN))
        self.rewards = jax.random.normal(keys[1], (length, *rewards))
        self.actions = []


def lived(agent, rewards=(), seed=0):
    """A state after two episodes, with all that happened; the weights are held."""
    state, episodes = agent.init(jax.random.key(seed)), []
    act, learn = jax.jit(agent.act), jax.jit(agent.learn)
    for number, length in enumerate(LENGTHS):
        episode = Episode(jax.random.key(seed + number + 1), length, rewards)
        for t in range(length):
            state, _ = act(state, episode.observations[t], jax.random.key(100 * number + t))
            episode.actions.append(state.action)
            ends = t == length - 1
            outcome = jnp.array(ends and number == 0), jnp.array(ends and number == 1)
            state = learn(state, episode.rewards[t], episode.observations[t + 1], *outcome)
        episodes.append(episode)
    return state, episodes


def expected(agent, state, episodes, of_outputs, then, lamda, by_hand):
    """Σ (G(t) - V(t)) ∂judged(t)/∂w, where `of_outputs` returns V(t) and what is judged, from outputs and an action.

    `then` is the value of what follows, from its outputs and action; `lamda` that of a step.
    """
    learned = state.net.weights.cell, state.net.weights.readout

    def outputs_of(learned, xs):
        cell, (W, b, _) = learned
        visited = unrolled.states(by_hand, [cell] * len(xs), agent.cell.init_state(), xs)
        return [W @ a[0] + b for a in visited]

    total = jax.tree.map(jnp.zeros_like, learned)
    for number, episode in enumerate(episodes):
        outputs = outputs_of(learned, episode.observations)
        length = len(episode.actions)
        last = jnp.zeros(()) if number == 0 else then(outputs[length], None)
        G, gap = last, []
        for t in reversed(range(length)):
            if t < length - 1:
                own = lamda(outputs[t + 1], episode.actions[t + 1])
                G = (1 - own) * then(outputs[t + 1], episode.actions[t + 1]) + own * G
            G = episode.rewards[t] + GAMMA * G
            gap.insert(0, jax.lax.stop_gradient(G - of_outputs(outputs[t], episode.actions[t])[0]))

        def judged(learned, episode=episode, gap=gap):
            found = outputs_of(learned, episode.observations[:-1])
            parts = zip(found, episode.actions, gap, strict=True)
            return sum(jnp.sum(g * of_outputs(z, action)[1]) for z, action, g in parts)

        total = jax.tree.map(jnp.add, total, jax.grad(judged)(learned))
    return total


def agree(agent, of_outputs, then, lamda=lambda z, a: LAMDA, cell="gru"):
    by_hand = CELLS[cell][1]
    state, episodes = lived(agent)
    wanted = expected(agent, state, episodes, of_outputs, then, lamda, by_hand)
    assert distance(state.net.optimizer, wanted) < EXACT
    # Control: another λ.
    other = expected(agent, state, episodes, of_outputs, then, lambda z, a: 0.9 * lamda(z, a) + 0.05, by_hand)
    assert distance(state.net.optimizer, other) > 1e-3
    return wanted


def cell():
    return CELLS["gru"][0](N_IN, N)


def of_values(q, action):
    return q[action], q[action]


@pytest.mark.parametrize("lamda", [LAMDA, pytest.param(0.0, marks=pytest.mark.slow)])
def test_td_sums_up_to_lambda_returns_for_each_discount_factor(lamda):
    agent = rc.rl.TD(cell(), rc.RTRL(), (GAMMA,), summing(), lamda=lamda)
    agree(agent, lambda v, _: (v[0], v[0]), lambda v, _: v[0], lambda v, _: lamda)


@pytest.mark.slow
def test_several_predictions_learn_like_each_alone():
    both = rc.rl.TD(cell(), rc.RTRL(), (GAMMA, 0.5), summing(), lamda=LAMDA)
    state, _ = lived(both)
    parts = []
    for row, gamma in enumerate(both.gamma):
        # the same network, of which one output is judged
        class Head:
            def __call__(self, params, h, row=row):
                return (params["W"] @ h + params["b"])[row : row + 1]

        W, b, _ = state.net.weights.readout
        head = rc.module_of(Head(), {"W": W, "b": b}, x=N)
        alone = rc.rl.TD(cell(), rc.RTRL(), (gamma,), summing(), head=head, lamda=LAMDA)
        found, _ = lived(alone)
        assert distance(found.net.weights.cell, state.net.weights.cell) == 0
        parts.append(found.net.optimizer[0])
    assert distance(state.net.optimizer[0], jax.tree.map(jnp.add, *parts)) < EXACT
    assert distance(state.net.optimizer[0], parts[0]) > 1e-3
    # each its own reward
    given, _ = lived(both, rewards=(2,))
    assert given.delta.shape == (2,)
    assert distance(given.net.optimizer, state.net.optimizer) > 1e-3


@pytest.mark.parametrize("lamda", [LAMDA, pytest.param(0.0, marks=pytest.mark.slow)])
def test_the_actor_and_the_critic_follow_lambda_returns(lamda):
    agent = rc.rl.AC(cell(), rc.RTRL(), 3, summing(), gamma=GAMMA, lamda=lamda, entropy=0.0)
    of_outputs = lambda z, action: (z[0], z[0] + jnp.log(jax.nn.softmax(z[1:]))[action])
    agree(agent, of_outputs, lambda z, _: z[0], lambda z, _: lamda)


@pytest.mark.slow
def test_a_gaussian_actor_follows_them_too():
    agent = rc.rl.AC(cell(), rc.RTRL(), rc.rl.Continuous(2, -1, 1), summing(), gamma=GAMMA, lamda=LAMDA, entropy=0.0)

    def of_outputs(z, action):
        mean, deviation = z[1:3], jnp.log1p(jnp.exp(z[3:5])) + 1e-5
        density = -0.5 * ((action - mean) / deviation) ** 2 - jnp.log(deviation) - 0.5 * jnp.log(2 * jnp.pi)
        return z[0], z[0] + density.sum()

    agree(agent, of_outputs, lambda z, _: z[0])


def test_q_follows_the_returns_of_the_best_actions_until_one_is_not():
    agent = rc.rl.Q(cell(), rc.RTRL(), 3, summing(), gamma=GAMMA, lamda=LAMDA, epsilon=0.5)
    is_best = lambda q, action: LAMDA * (int(action) == int(jnp.argmax(q)))
    agree(agent, of_values, lambda q, _: q.max(), is_best)
    state, episodes = lived(agent)
    naive = expected(agent, state, episodes, of_values, lambda q, _: q.max(), lambda q, a: LAMDA, CELLS["gru"][1])
    assert distance(state.net.optimizer, naive) > 1e-3, "no action was exploratory, so that nothing was cut"


def test_sarsa_follows_the_returns_of_its_own_actions():
    agent = rc.rl.SARSA(cell(), rc.RTRL(), 3, summing(), gamma=GAMMA, lamda=LAMDA, epsilon=0.5)
    state, episodes = lived(agent)
    intended = state.own.action  # at the observation where the last episode was cut off
    then = lambda q, action: q[intended] if action is None else q[action]
    wanted = expected(agent, state, episodes, of_values, then, lambda q, a: LAMDA, CELLS["gru"][1])
    assert distance(state.net.optimizer, wanted) < EXACT
    best = expected(agent, state, episodes, of_values, lambda q, a: q.max(), lambda q, a: LAMDA, CELLS["gru"][1])
    assert distance(state.net.optimizer, best) > 1e-3


@pytest.mark.slow
def test_an_encoder_and_a_head_of_the_user_s_follow_them_too():
    """Equinox modules around a cell, learned as one with RTRL; the forward view is `Network.run`, differentiated."""
    keys = jax.random.split(jax.random.key(0), 2)
    encoder = rc.Encoded(eqx.nn.MLP(N_IN, 3, 4, 1, key=keys[0], activation=jnp.tanh), rc.GRU(3, N), x=N_IN)
    head = rc.module_of(eqx.nn.MLP(N, 1, 4, 1, key=keys[1], activation=jnp.tanh), x=N)
    agent = rc.rl.TD(encoder, rc.RTRL(), (GAMMA,), summing(), head=head, lamda=LAMDA)
    state, episodes = lived(agent)
    network, weights = agent.network.network, state.net.weights
    total = jax.tree.map(jnp.zeros_like, weights)
    for number, episode in enumerate(episodes):
        v = network.run(weights, episode.observations)[:, 0]
        G, gap = jnp.where(number == 0, 0.0, v[-1]), []
        for t in reversed(range(len(episode.actions))):
            then = v[t + 1] if t < len(episode.actions) - 1 else G
            G = episode.rewards[t] + GAMMA * ((1 - LAMDA) * then + LAMDA * G)
            gap.insert(0, G - v[t])
        judged = lambda weights, x=episode.observations[:-1], gap=gap: jnp.stack(gap) @ network.run(weights, x)[:, 0]
        total = jax.tree.map(jnp.add, total, jax.grad(judged)(weights))
    assert distance(state.net.optimizer, (total.cell, total.readout)) < EXACT
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(total.cell.encoder)) > 1e-4


def test_a_learner_that_is_not_exact_is_noticed():
    agent = rc.rl.TD(cell(), rc.Immediate(), (GAMMA,), summing(), lamda=LAMDA)
    state, episodes = lived(agent)
    value = lambda v, _: v[0]
    wanted = expected(agent, state, episodes, lambda v, _: (v[0], v[0]), value, lambda v, _: LAMDA, CELLS["gru"][1])
    assert distance(state.net.optimizer[1], wanted[1]) < EXACT, "the readout knows no past"
    assert distance(state.net.optimizer[0], wanted[0]) > 1e-3


@pytest.mark.slow
def test_entropy_joins_the_trace_with_the_sign_of_the_error():
    plain, undecided = (
        rc.rl.AC(cell(), rc.RTRL(), 3, summing(), gamma=GAMMA, lamda=0.0, entropy=weight) for weight in (0.0, 0.3)
    )
    x, key = jnp.array([0.3, -1.0]), jax.random.key(0)
    for reward in (5.0, -5.0):
        found = []
        for agent in (plain, undecided):
            state, _ = agent.act(agent.init(key), x, key)
            after = agent.learn(state, jnp.array(reward), x, terminated=jnp.array(True))
            found.append(after.net.optimizer[1].b)
        p = jax.nn.softmax(state.outputs[1:])
        of_entropy = -p * (jnp.log(p) + unentropy(p))
        wanted = 0.3 * abs(float(after.delta)) * of_entropy
        np.testing.assert_allclose(found[1][1:] - found[0][1:], wanted, atol=1e-12)


def unentropy(p):
    """Minus the entropy."""
    return -jnp.sum(p * jnp.log(p))


def test_an_end_sets_back_the_network_the_influence_and_the_traces():
    agent = rc.rl.AC(cell(), rc.RTRL(), 2, 0.0)
    fresh, act, learn = agent.init(jax.random.key(0)), jax.jit(agent.act), jax.jit(agent.learn)
    key, xs = jax.random.key(1), jax.random.normal(jax.random.key(2), (3, N_IN))
    for kind in ("terminated", "truncated"):
        state = fresh
        for x in xs:
            state, _ = act(state, x, key)
            state = learn(state, jnp.array(1.0), x, jnp.array(False), jnp.array(False))
        going, _ = act(state, xs[0], key)
        ends = {"terminated": jnp.array(False), "truncated": jnp.array(False), kind: jnp.array(True)}
        state, _ = act(state, x, key)
        state = learn(state, jnp.array(1.0), x, ends["terminated"], ends["truncated"])
        assert distance(state.net.z, jax.tree.map(jnp.zeros_like, state.net.z)) == 0
        anew, _ = act(state, xs[0], key)
        first, _ = act(fresh, xs[0], key)
        assert distance(anew.outputs, first.outputs) == 0
        assert distance(anew.net.sensed.M, first.net.sensed.M) == 0
        assert distance(going.outputs, first.outputs) > 1e-3


def memoryless(states):
    """A cell that shows its one-hot input."""
    return rc.cell_of(lambda p, h, x: x + 0 * p * h, jnp.ones(states), carry=jnp.zeros(states), x=jnp.zeros(states))


@pytest.mark.slow
def test_a_feed_forward_agent_solves_the_linear_equations_of_a_chain():
    """A random walk with a drift: V = r + γ P V. The truth is what linear algebra says."""
    states, gamma = 5, 0.9
    rng = np.random.default_rng(0)
    right, rewards = rng.uniform(0.3, 0.8, states), rng.normal(size=states)
    P = np.zeros((states, states))
    for s in range(states - 1):  # beyond the last one the episode is over
        P[s, s + 1] = right[s]
    for s in range(states):
        P[s, max(s - 1, 0)] += 1 - right[s]
    truth = np.linalg.solve(np.eye(states) - gamma * P, rewards)
    rate = lambda t: 40 / (400 + t)
    agent = rc.rl.TD(memoryless(states), rc.Immediate(), (gamma,), optax.sgd(rate), lamda=0.5)
    seen = lambda s: jax.nn.one_hot(s, states, dtype=float)

    def step(carry, key):
        state, s = carry
        state, _ = agent.act(state, seen(s), key)
        is_right = jax.random.uniform(key) < jnp.asarray(right)[s]
        to = jnp.where(is_right, s + 1, jnp.maximum(s - 1, 0))
        over = to == states
        state = agent.learn(state, jnp.asarray(rewards)[s], seen(to), over)
        return (state, jnp.where(over, 0, to)), None

    start = agent.init(jax.random.key(0)), jnp.zeros((), int)
    (state, _), _ = jax.jit(lambda keys: jax.lax.scan(step, start, keys))(jax.random.split(jax.random.key(1), 60_000))
    W, b, _ = state.net.weights.readout
    np.testing.assert_allclose(W[0] + b, truth, atol=0.08)
    assert np.abs(np.linalg.solve(np.eye(states) - 0.8 * P, rewards) - truth).max() > 0.2, "another γ"


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="must be discrete"):
        rc.rl.Q(cell(), rc.RTRL(), rc.rl.Continuous(1))
    with pytest.raises(TypeError, match="past-facing learner"):
        rc.rl.AC(cell(), rc.FutureBPTT(), 2)
    with pytest.raises(ValueError, match=r"`gamma` of AC must be at least 0.0 and at most 1.0, and is 1.5"):
        rc.rl.AC(cell(), rc.RTRL(), 2, gamma=1.5)
    with pytest.raises(ValueError, match="one of them is -1"):
        rc.rl.TD(cell(), rc.RTRL(), (0.5, -1.0))
    with pytest.raises(TypeError, match="PerGate"):
        rc.rl.AC(rc.LRU(2, 3), rc.RTRL(), 2, rc.PerGate(rc.LRU(2, 3), 1e-3, {"nu": 1e-4}))
    with pytest.raises(TypeError, match="number of discrete actions"):
        rc.rl.AC(cell(), rc.RTRL(), "left")
    agent = rc.rl.TD(cell(), rc.RTRL(), (0.5, 0.9))
    state = agent.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"must have shape \(2,\), and has \(3,\)"):
        agent.act(state, jnp.ones(3), jax.random.key(0))
    state, _ = agent.act(state, jnp.ones(2), jax.random.key(0))
    with pytest.raises(ValueError, match="one for each of 2 discount factors"):
        agent.learn(state, jnp.ones(3), jnp.ones(2), jnp.array(False))

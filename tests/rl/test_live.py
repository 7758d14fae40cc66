"""Lives of many seeds: what is told of them, interruptions, and environments that do what they must not."""

import os
import signal
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance
from recurra.rl import lives


def agent_for(environment, **settings):
    return rc.rl.AC(rc.RTU(environment.n_in, 4), rc.RTRL(), environment.actions, **settings)


def by_hand(agent, environment, steps, seed=0):
    """A life in a Python loop, with the keys that `live` uses: rewards, ends, and the agent's state."""
    key = jax.random.fold_in(jax.random.key(0), seed)
    key_agent, key_environment = jax.random.split(key)
    state = agent.init(key_agent)
    world, seen = environment.reset(key_environment)
    act, learn, step, reset = map(jax.jit, (agent.act, agent.learn, environment.step, environment.reset))
    rewards, ends = [], []
    for t in range(steps):
        own = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 1), t), 3)
        state, action = act(state, seen, own[0])
        world, (seen, reward, over, late) = step(world, action, own[1])
        state = learn(state, reward, seen, over, late)
        rewards.append(float(reward))
        ends.append(bool(over | late))
        if ends[-1]:
            world, seen = reset(own[2])
    return np.array(rewards), np.array(ends), state


def test_a_life_is_the_loop_written_by_hand(monkeypatch):
    monkeypatch.setattr(lives, "BLOCK", 50)
    environment = rc.rl.TMaze(length=2)
    agent = agent_for(environment)
    life = rc.rl.live(agent, environment, steps=50, seeds=[0, 5], window=10, progress=False)
    for row, seed in enumerate(life.seeds):
        rewards, ends, state = by_hand(agent, environment, 50, seed)
        np.testing.assert_allclose(life.reward[row], rewards.reshape(5, 10).mean(axis=1))
        np.testing.assert_array_equal(life.ends[row], np.flatnonzero(ends) + 1)
        parts = np.split(rewards, np.flatnonzero(ends) + 1)[:-1]
        np.testing.assert_allclose(life.returns[row], [part.sum() for part in parts])
        assert distance(life.stage_of(seed).agent.net.weights, state.net.weights) < 1e-9
    assert life.returns[0].shape != life.returns[1].shape or (life.returns[0] != life.returns[1]).any()
    data = life.to_xarray()
    assert data.episode_return.dims == ("seed", "episode")
    counts = [len(returns) for returns in life.returns]
    assert (~np.isnan(data.episode_return)).sum("episode").values.tolist() == counts
    assert data.episode_length.sum("episode").values.tolist() == [ends[-1] for ends in life.ends]
    with pytest.raises(ValueError, match=r"must be one of \(0, 5\), and is 1"):
        life.stage_of(1)


def test_it_does_not_matter_to_a_bit_where_a_life_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(lives, "BLOCK", 50)
    environment = rc.rl.TMaze(length=2)
    agent, how = agent_for(environment), {"steps": 300, "seeds": 2, "window": 30}
    whole = rc.rl.live(agent, environment, progress=False, **how)
    file = tmp_path / "life"

    def stop_at(step):
        def report(done):
            if done >= step:
                os.kill(os.getpid(), signal.SIGTERM)

        return report

    with pytest.raises(rc.Interrupted, match="from which the same call goes on") as stopped:
        rc.rl.live(agent, environment, checkpoint=file, progress=stop_at(150), **how)
    assert stopped.value.result.steps == 150
    assert stopped.value.result.interrupted
    done = []
    again = rc.rl.live(agent, environment, checkpoint=file, progress=done.append, **how)
    assert done[0] == again.resumed_at == 150
    for name in ("reward", "squared_error", "step"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    for row in range(2):
        np.testing.assert_array_equal(again.returns[row], whole.returns[row])
        np.testing.assert_array_equal(again.ends[row], whole.ends[row])
    assert distance(again.stages.agent.net.weights, whole.stages.agent.net.weights) == 0
    monkeypatch.setattr(lives, "cores", lambda: 1)  # on another machine
    elsewhere = rc.rl.live(agent, environment, checkpoint=file, progress=done.append, **how)
    assert done[-1] == elsewhere.resumed_at == 300
    assert distance(elsewhere.stages.agent.net.weights, whole.stages.agent.net.weights) == 0
    with pytest.raises(rc.Interrupted):
        rc.rl.live(agent, environment, checkpoint=tmp_path / "other", progress=stop_at(100), **how)
    with pytest.raises(rc.UselessCheckpointError, match="other settings"):
        rc.rl.live(agent_for(environment, gamma=0.5), environment, checkpoint=tmp_path / "other", **how)


@pytest.mark.slow
def test_scenes_go_on_where_the_life_was():
    environment = rc.rl.MemoryChain(length=2)
    agent = agent_for(environment)
    life = rc.rl.live(agent, environment, steps=60, progress=False)
    scene = rc.rl.watch(agent, environment, life.stage_of(0), steps=6)
    assert scene.observations[:, 2].tolist() == [0, 0, 1] * 2
    assert scene.ends.tolist() == [False, False, True] * 2
    assert scene.states.t.tolist() == [0, 1, 2] * 2
    assert scene.outputs.shape == (6, 3)
    first = life.stage_of(0)
    seen, _ = agent.act(first.agent, first.observation, jax.random.key(0))
    np.testing.assert_allclose(scene.outputs[0], seen.outputs, atol=1e-12)


class Odd(rc.rl.Environment):
    """Two numbers are seen, and nothing happens, but what a subclass says."""

    n_in: ClassVar[int] = 2
    actions: ClassVar[object] = rc.rl.Discrete(2)

    def reset(self, key):
        return jnp.zeros((), "int32"), jnp.zeros(2)

    def outcome(self, t):
        return rc.rl.Transition(jnp.ones(2), jnp.ones(()), jnp.array(False), jnp.array(False))

    def step(self, state, action, key):
        return state + 1, self.outcome(state)


@pytest.mark.slow
def test_an_environment_that_never_ends_has_no_episodes():
    life = rc.rl.live(agent_for(Odd()), Odd(), steps=200, seeds=2, progress=False)
    assert [len(returns) for returns in life.returns] == [0, 0]
    assert np.isnan(life.last_return()).all()
    assert life.to_xarray().sizes["episode"] == 0
    assert "no whole episode" in repr(life)
    np.testing.assert_array_equal(life.reward, 1)


@pytest.mark.slow
def test_an_environment_that_ends_at_once_has_an_episode_at_each_step():
    class AtOnce(Odd):
        def outcome(self, t):
            return super().outcome(t)._replace(terminated=jnp.array(True))

    agent = agent_for(AtOnce(), optimizer=rc.ObGD())
    life = rc.rl.live(agent, AtOnce(), steps=200, progress=False)
    assert len(life.returns[0]) == 200
    np.testing.assert_array_equal(life.ends[0], np.arange(1, 201))
    # its value is learned: one reward, and nothing after it
    scene = rc.rl.watch(agent, AtOnce(), life.stage_of(0), steps=1)
    assert abs(scene.outputs[0, 0] - 1) < 0.3


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_noted_and_told():
    class Broken(Odd):
        def outcome(self, t):
            bad = t == 57
            return super().outcome(t)._replace(reward=jnp.where(bad, jnp.nan, 1.0))

    with pytest.warns(UserWarning, match="1 of 1 seeds diverged.*seed 0 at step 57"):
        life = rc.rl.live(agent_for(Broken()), Broken(), steps=200, window=50, progress=False)
    assert life.diverged == {0: 57}
    assert np.isnan(life.last_return()).all()
    assert life.to_xarray().diverged_at.values.tolist() == [57]

    class Blind(Odd):
        def outcome(self, t):
            return super().outcome(t)._replace(observation=jnp.full(2, jnp.where(t == 57, jnp.nan, 1.0)))

    with pytest.warns(UserWarning, match="seed 0 at step 57"):
        rc.rl.live(agent_for(Blind()), Blind(), steps=200, progress=False)


@pytest.mark.slow
def test_large_rewards_do_not_break_an_agent():
    class Rich(Odd):
        def outcome(self, t):
            reward = jnp.where(t % 7 == 0, 1e6, -1e6)
            return super().outcome(t)._replace(reward=reward, terminated=t % 20 == 19)

    for agent in (agent_for(Rich(), optimizer=rc.ObGD()), rc.rl.Normalised(agent_for(Rich(), optimizer=rc.Adam(1e-3)))):
        life = rc.rl.live(agent, Rich(), steps=500, progress=False)
        assert not life.diverged
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(life.stages) if leaf.dtype == float)
    plain = agent_for(Rich(), optimizer=1e-2)
    with pytest.warns(UserWarning, match="diverged"):
        rc.rl.live(plain, Rich(), steps=500, progress=False)


def refused(environment, error, match, agent=None):
    with pytest.raises(error, match=match):
        rc.rl.live(agent_for(Odd()) if agent is None else agent, environment, steps=10, progress=False)


def test_what_does_not_fit_is_refused_before_anything_runs():
    class Growing(Odd):
        def outcome(self, t):
            return super().outcome(t)._replace(observation=jnp.ones(3))

    class Plain(Odd):
        def outcome(self, t):
            return super().outcome(int(t))

    class Numbers(Odd):
        def outcome(self, t):
            return super().outcome(t)._replace(terminated=jnp.zeros(()))

    class Drifting(Odd):
        def step(self, state, action, key):
            return (state + 1).astype(float), self.outcome(state)

    class Tupled(Odd):
        def outcome(self, t):
            return tuple(super().outcome(t))

    refused(Growing(), ValueError, r"Growing\.step must return observations of shape \(2,\), and returns \(3,\)")
    refused(Plain(), TypeError, r"Plain is not written in JAX.*Gymnasium")
    refused(Numbers(), TypeError, "`terminated` as one truth value")
    refused(Drifting(), TypeError, "must return a state like that of `reset`")
    refused(Tupled(), TypeError, r"recurra\.rl\.Transition")
    refused(rc.rl.TMaze(3), ValueError, r"have 4 numbers, and the agent takes 2|actions of TMaze")
    refused("CartPole-v1", TypeError, r"recurra\.rl\.Gymnax\(name\)")
    refused(Odd(), TypeError, "`agent` must be one such as", agent="AC")
    refused(rc.rl.TraceConditioning(3), ValueError, "takes no actions", agent=agent_for(Odd()))
    with pytest.raises(ValueError, match="`steps` must be at least 1"):
        rc.rl.live(agent_for(Odd()), Odd(), steps=0)


@pytest.mark.slow
def test_a_step_after_an_end_begins_an_episode_anew():
    agent = agent_for(Odd(), optimizer=0.0)
    key, x = jax.random.key(0), jnp.ones(2)
    first, _ = agent.act(agent.init(key), x, key)
    state = agent.learn(first, 1.0, x, terminated=True)
    state = agent.learn(state, 1.0, x, terminated=True)  # told again
    again, _ = agent.act(state, x, key)
    assert distance(again.outputs, first.outputs) == 0
    assert distance(again.net.sensed.M, first.net.sensed.M) == 0


@pytest.mark.slow
def test_gymnasium_is_stepped_from_python():
    gymnasium = pytest.importorskip("gymnasium")
    spaces = gymnasium.spaces

    class Corridor(gymnasium.Env):
        """Three steps to the end; what is seen may go wrong."""

        observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

        def __init__(self, wrong=None):
            self.wrong = wrong

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(2), {}

        def step(self, action):
            assert isinstance(action, int)
            self.t += 1
            seen = np.full(3 if self.wrong == "shape" else 2, np.nan if self.wrong == "nan" else self.t / 3)
            return seen, 1.0, self.t == 3, False, {}

    environment = rc.rl.Gymnasium(Corridor)
    agent = agent_for(environment)
    life = rc.rl.live(agent, environment, steps=60, seeds=2, window=10, progress=False)
    assert life.returns[0].tolist() == [3.0] * 20
    assert life.reward.shape == (2, 6)
    same = rc.rl.live(agent, environment, steps=60, seeds=2, window=10, progress=False)
    np.testing.assert_array_equal(life.squared_error, same.squared_error)
    with pytest.raises(ValueError, match="cannot be kept in a `checkpoint`"):
        rc.rl.live(agent, environment, steps=60, checkpoint="life")
    with pytest.raises(ValueError, match="environment is stepped from Python"):
        life.stage_of(0)
    refused(rc.rl.Gymnasium(Corridor, wrong="nan"), ValueError, "nan or an infinity at step 0")
    refused(rc.rl.Gymnasium(Corridor, wrong="shape"), ValueError, "an observation of 3 numbers at step 0")
    with pytest.raises(ValueError, match="could not make NoSuchGame-v0"):
        rc.rl.Gymnasium("NoSuchGame-v0")

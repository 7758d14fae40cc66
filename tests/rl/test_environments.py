"""Environments do what they say: played by a hand that knows the answer, and by one that does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc


def played(environment, choose, episodes=20, seed=0, longest=500):
    """The return and length of each episode; `choose` is given what was seen so far, and the state."""
    reset, step, key = jax.jit(environment.reset), jax.jit(environment.step), jax.random.key(seed)
    found = []
    for _ in range(episodes):
        key, own = jax.random.split(key)
        state, seen = reset(own)
        history, total = [np.asarray(seen)], 0.0
        for t in range(longest):
            key, own = jax.random.split(key)
            state, (seen, reward, over, late) = step(state, jnp.asarray(choose(history), "int32"), own)
            history.append(np.asarray(seen))
            total += float(reward)
            if over or late:
                found.append((round(total, 6), t + 1, bool(late)))
                break
    return found


def first_seen(history):
    return int(history[0].argmax())


def test_the_answer_of_a_memory_chain_is_its_first_light():
    environment = rc.rl.MemoryChain(length=5)
    assert set(played(environment, first_seen)) == {(1.0, 6, False)}
    assert set(played(environment, lambda h: 1 - first_seen(h))) == {(-1.0, 6, False)}
    assert {total for total, *_ in played(environment, lambda h: 0)} == {1.0, -1.0}, "both sides come"
    _, seen = environment.reset(jax.random.key(0))
    assert seen.sum() == 1
    assert seen[2] == 0


def test_a_bell_rings_at_the_last_step_and_the_light_is_gone_by_then():
    environment, seen = rc.rl.MemoryChain(length=3), []
    played(environment, lambda h: seen.append(h[-1].tolist()) or 0, episodes=1)
    assert [row[2] for row in seen] == [0, 0, 0, 1]
    assert [sum(row[:2]) for row in seen] == [1, 0, 0, 0]


def test_repeat_first_is_won_by_naming_the_first_card():
    environment = rc.rl.RepeatFirst(length=8, suits=3)
    assert set(played(environment, lambda h: int(h[0][:3].argmax()))) == {(1.0, 8, False)}
    latest = np.mean([total for total, *_ in played(environment, lambda h: int(h[-1][:3].argmax()))])
    assert latest < 0


def test_count_recall_is_won_by_counting():
    environment = rc.rl.CountRecall(length=10, kinds=2, most=4)

    def counted(history):
        asked = int(history[-1][2:].argmax())
        return min(sum(int(seen[:2].argmax()) == asked for seen in history), 4)

    assert set(played(environment, counted)) == {(1.0, 10, False)}
    assert max(total for total, *_ in played(environment, lambda h: 1)) < 1


def test_the_maze_is_walked_to_its_junction_and_turned_there():
    environment = rc.rl.TMaze(length=4, patience=3)
    walk = lambda right: lambda h: 0 if len(h) <= 4 else 1 + first_seen(h) if right else 2 - first_seen(h)
    assert set(played(environment, walk(True))) == {(1.0, 5, False)}
    assert set(played(environment, walk(False))) == {(-1.0, 5, False)}
    bumping = played(environment, lambda h: 1)
    assert set(bumping) == {(-1.5, 15, True)}, "it turns in the corridor until time is over"
    # forward at the junction is a wall
    assert set(played(environment, lambda h: 0)) == {(-1.1, 15, True)}


def test_conditioning_brings_a_puff_after_each_tone_and_can_be_predicted():
    environment = rc.rl.TraceConditioning(trace=5, tone=3, pause=6, distractors=1)
    state, seen = environment.reset(jax.random.key(0))
    rows, expected, step = [], [], jax.jit(environment.step)
    for key in jax.random.split(jax.random.key(1), 400):
        expected.append(float(environment.expected(state, 0.9)))
        rows.append(np.asarray(seen))
        state, (seen, reward, over, late) = step(state, None, key)
        assert reward == seen[1]
        assert not over
        assert not late
    rows = np.array(rows)
    begins = np.flatnonzero((rows[:, 0] == 1) & (np.append(0, rows[:-1, 0]) == 0))
    puffs = np.flatnonzero(rows[:, 1])
    assert len(puffs) > 10
    np.testing.assert_array_equal(puffs, begins[: len(puffs)] + 8)
    assert np.isin(np.diff(puffs), range(8 + 6, 8 + 13 + 1)).all()
    for begin, puff in zip(begins, puffs, strict=False):
        np.testing.assert_allclose(expected[begin:puff], 0.9 ** np.arange(puff - begin - 1, -1, -1.0))
        assert np.isnan(expected[begin - 1])
    assert 0.02 < rows[:, 2].mean() < 0.3


def test_a_time_limit_truncates_and_an_end_stays_an_end():
    maze = rc.rl.TMaze(length=4, patience=100)
    assert set(played(rc.rl.TimeLimit(maze, 7), lambda h: 0)) == {(-0.3, 7, True)}
    short = rc.rl.TimeLimit(rc.rl.MemoryChain(length=3), 4)
    assert set(played(short, first_seen)) == {(1.0, 4, False)}, "it ended by itself at that very step"


def test_a_mask_hides_entries():
    masked = rc.rl.Masked(rc.rl.MemoryChain(length=3), seen=(2,))
    rows = []
    played(masked, lambda h: rows.append(h[-1].tolist()) or 0, episodes=1)
    assert rows == [[0], [0], [0], [1]]
    with pytest.raises(ValueError, match=r"0 to 2, and is \(3,\)"):
        rc.rl.Masked(rc.rl.MemoryChain(length=3), seen=(3,))
    with pytest.raises(TypeError):
        rc.rl.Masked("CartPole-v1", seen=(0,))


@pytest.mark.slow
def test_gymnax_is_taken_in_as_it_is():
    gymnax = pytest.importorskip("gymnax")
    environment = rc.rl.Gymnax("CartPole-v1", seen=(0, 2), max_steps_in_episode=9)
    key = jax.random.key(0)
    with jax.numpy_dtype_promotion("standard"):
        game, params = gymnax.make("CartPole-v1")
        seen, state = game.reset_env(key, params)
        own, shown = environment.reset(key)
        np.testing.assert_array_equal(shown, seen[np.array([0, 2])])
        for t in range(9):
            seen, state, reward, over, _ = game.step_env(key, state, t % 2, params)
            own, outcome = environment.step(own, t % 2, key)
            np.testing.assert_allclose(outcome.observation, seen[np.array([0, 2])])
            assert (bool(outcome.terminated), bool(outcome.truncated)) == (bool(over), t == 8)
            assert outcome.reward == reward
    assert rc.rl.Gymnax("Pendulum-v1").actions.n_out == 2
    with pytest.raises(ValueError, match="no environment 'Cartpole'"):
        rc.rl.Gymnax("Cartpole")
    with pytest.raises(ValueError, match="no setting 'gravitas'"):
        rc.rl.Gymnax("CartPole-v1", gravitas=3.0)

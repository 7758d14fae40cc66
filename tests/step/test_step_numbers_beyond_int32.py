"""Steps beyond 2³¹: the number of a step is set back now and then, and no learner notices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER
from recurra.engine.forms import LazyRTRL
from recurra.step import APPLIED, LearningStep
from recurra.step.counting import distance, set_back

#: every learner, in one step of learning; those that count steps with counts that have little in common
LEARNERS = {
    APPLIED: rc.FutureBPTT(3),
    **{name: make() for name, make in FOR_ONE_LAYER.items() if name not in ("f-bptt", "e-bptt", "dni", "r-ok")},
    "edge-bptt": rc.EdgeBPTT(5),
    "e-bptt": rc.EfficientBPTT(4),
    "dni": rc.DNI(target_interval=6),
    "r-ok": rc.ROK(2),
    "lazy": LazyRTRL(3),
}
#: a multiple of all that is counted
ALL = 60
ROWS = ALL + 12


#: those that count, which are tried every time
COUNTING = {name: LEARNERS[name] for name in (APPLIED, "e-bptt", "dni", "lazy")}
SETS = [pytest.param(COUNTING, id="those that count"), pytest.param(LEARNERS, id="all", marks=pytest.mark.slow)]


class Problem:
    """Rows with gaps and resets, and a run over some of them."""

    def __init__(self, learners):
        probes = {name: probe for name, probe in learners.items() if name != APPLIED}
        learner = learners[APPLIED]
        self.step = step = LearningStep(rc.Network(rc.RNN(2, 3), 2), learner, rc.SGD(0.1, 0.9), probes)
        rng = np.random.default_rng(0)
        label = rng.random((ROWS, 2))
        self.x, self.y = jnp.asarray(rng.normal(size=(ROWS, 2))), jnp.asarray(label / label.sum(1, keepdims=True))
        self.present = jnp.asarray(rng.random(ROWS) < 0.8)
        self.reset = jnp.asarray(rng.random(ROWS) < 0.1).at[ALL - 2 :].set(False).at[ALL + 5].set(True)
        self.noise = step.noise(jax.random.key(0), ROWS)
        self.start = step.init(jax.random.key(1))

        @jax.jit
        def one(state, t, x, y, present, reset, noise):
            x, y, present, reset, noise = jax.tree.map(lambda rows: rows[t], (x, y, present, reset, noise))
            state, outcome = step.learn(step.observe(state, x, noise, reset)[0], y, present)
            return state, (outcome.gradients, outcome.emitted, state.weights)

        self.one = one

    def run(self, state, start, stop, present=None):
        """The state after these rows, and what came of each of them; the numbers that steps had, too."""
        found, counts = [], []
        present = self.present if present is None else present
        for t in range(start, stop):
            state, outcome = self.one(state, t, self.x, self.y, present, self.reset, self.noise)
            found.append(outcome)
            counts.append(int(state.t))
        return state, found, counts


def moved(state, by):
    """The same state, so many steps later by its own count."""
    return state._replace(t=state.t + jnp.int32(by), first=state.first + jnp.int32(by))


def assert_same(found, wanted):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("learners", SETS)
def test_the_count_is_set_back_and_nobody_notices(learners):
    problem, far, near = Problem(learners), distance(learners), ALL - 3
    assert far % ALL == 0
    assert 2**28 < far <= 2**29
    state, _, _ = problem.run(problem.start, 0, near)
    _, wanted, _ = problem.run(state, near, near + 9)  # a reset comes after the count was set back
    by = 2 * far - ALL
    after, found, counts = problem.run(moved(state, by), near, near + 9)
    assert counts == [2 * far - 2, 2 * far - 1, *(far + np.arange(7))]
    assert_same(found, wanted)
    assert after.first == far + 5
    # The control: a count that is not a multiple, as where whole numbers wrap around, is noticed.
    _, other, _ = problem.run(moved(state, by + 1), near, near + 9)
    for name in (APPLIED, "e-bptt", "dni"):
        with pytest.raises(AssertionError):
            assert_same([each[0][name] for each in other], [each[0][name] for each in wanted])
    # A reset and a label long ago: both counts stay where they say so, however long it is.
    nothing = jnp.zeros(ROWS, bool)
    ago = state._replace(first=jnp.int32(-ALL), unlabelled=jnp.int32(2**20))
    _, wanted, _ = problem.run(ago, near, near + 7, nothing)
    ago = moved(ago, by)._replace(first=jnp.int32(-far), unlabelled=jnp.int32(2**31 - 3))
    after, found, _ = problem.run(ago, near, near + 7, nothing)
    assert_same(found, wanted)
    assert (after.first, after.unlabelled) == (-far, 2**31 - 1)
    assert not any(each[1]["e-bptt"] for each in found)


@pytest.mark.parametrize("T", [1, 10, 999])
def test_what_is_set_back_is_a_multiple_of_all_counts(T):
    learners = {APPLIED: rc.FutureBPTT(T), "probe": rc.EfficientBPTT(T)}
    assert distance(learners) % (T * (T + 1)) == 0
    assert 0 < distance(learners) <= 2**29


@pytest.mark.parametrize(
    ("learner", "length"),
    [
        (rc.FutureBPTT(23_200), 23_201),
        (rc.EfficientBPTT(100_003), 100_003),
        (rc.EdgeBPTT(30_000), 30_000),
    ],
)
def test_long_lengths_have_a_multiple_too(learner, length):
    """T (T + 1) is beyond 2²⁹ here, and a ring has T or T + 1 places, not both."""
    far = distance({APPLIED: learner})
    assert far % length == 0
    assert 2**28 < far <= 2**29


def test_a_long_window_is_set_back_to_the_same_slot():
    """Beside the same window at a step that is as far into its ring, and small."""
    T = 23_200
    learner, cell = rc.FutureBPTT(T), rc.RNN(1, 1)
    step = LearningStep(rc.Network(cell, 1, rc.SquaredError()), learner, 0.0)
    far, state = distance({APPLIED: learner}), step.init(jax.random.key(0))
    one = jax.jit(lambda state: step.learn(step.observe(state, jnp.ones(1))[0], jnp.ones(1))[0])
    last = one(state._replace(t=jnp.int32(2 * far - 1)))
    assert last.t == far
    assert last.t % (T + 1) == 2 * far % (T + 1)


def test_lengths_that_no_number_of_32_bits_is_a_multiple_of():
    learners = {APPLIED: rc.FutureBPTT(30_000), "probe": rc.EfficientBPTT(29_999)}
    assert distance(learners) is None
    assert set_back(learners, jnp.int32(2**30), jnp.int32(7)) == (2**30, 7)
    # `train` takes no more than 2³¹ steps. A live model, which runs without end, refuses them.
    network = rc.Network(rc.RNN(1, 1), 1, rc.SquaredError())
    unlike = LearningStep(network, learners[APPLIED], 0.1, {"probe": learners["probe"]})
    for step, told in (
        (unlike, r"FutureBPTT.*T=30000.*, EfficientBPTT"),
        (LearningStep(network, LazyRTRL(2**30), 0.1), "Lazy"),
    ):
        with pytest.raises(ValueError, match=rf"cannot be counted for {told}.* no common multiple up to 536,870,912"):
            rc.OnlineStep(step)

"""What a recorder sees of a step: the error, the credit, whether there was a label, and what learners keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import distance
from small_runs import arrays

STEPS = 40
RECORD = {
    "seen": lambda outcome: {
        "error": outcome.error,
        "credit": outcome.credit,
        "present": outcome.present,
        "state": outcome.state,
        "output": outcome.output,
        "label": outcome.label,
        "readout": outcome.weights.readout.W,
        "feedback": outcome.weights.feedback,
    },
    "learners": lambda outcome: outcome.learners,
}


def recorded(network, learner, task, **settings):
    engine = rc.ScanEngine(specialise=False)
    return rc.train(
        network, learner, task, steps=STEPS, optimizer=0.05, record=RECORD, engine=engine, progress=False, **settings
    )


@pytest.mark.parametrize("random_feedback", [False, True])
@pytest.mark.parametrize("streams", [1, 3])
def test_error_and_credit_are_derivatives_of_the_loss(streams, random_feedback):
    """Softmax minus label, and its product with the weights that it goes back through."""
    network = rc.Network(rc.RNN(2, 4), 2, random_feedback=random_feedback)
    present = np.random.default_rng(0).random(80) < 0.6
    task = arrays(present=present) if streams == 1 else arrays(sequences=3, present=np.stack([present] * 3))
    seen = jax.tree.map(lambda leaf: leaf[0], recorded(network, rc.RFLO(), task, streams=streams).records["seen"])
    shape = (STEPS,) if streams == 1 else (STEPS, 3)
    assert seen["present"].shape == shape
    assert seen["error"].shape == (*shape, 2)
    wanted = (np.asarray(jax.nn.softmax(seen["output"])) - seen["label"]) * seen["present"][..., None]
    assert distance(seen["error"], wanted) < 1e-12
    back, other = seen["readout"], seen["feedback"]
    back, other = (other, back) if random_feedback else (back, None)
    along = lambda W: np.einsum("t...o,toi->t...i", seen["error"], W)
    assert distance(seen["credit"][0], along(back)) < 1e-12
    assert other is None or distance(seen["credit"][0], along(other)) > 1e-3
    np.testing.assert_array_equal(seen["present"].reshape(STEPS, -1)[:, 0], present[:STEPS])


def test_labels_that_always_come_are_present():
    seen = recorded(rc.Network(rc.LIF(2, 4), 2), rc.RFLO(), arrays()).records["seen"]
    assert seen["present"].shape == (1, STEPS)
    assert seen["present"].all()
    assert [credit is None for credit in seen["credit"]] == [True, True, False, True]  # the readout sees one variable


def test_what_learners_keep_is_recorded_after_every_step():
    """The last of them is the state in which the run ends; RFLO's are those of its recursion over recorded states."""
    network = rc.Network(rc.RNN(2, 4, alpha=0.5), 2)
    result = recorded(network, rc.RTRL(), arrays(), probes={"rflo": rc.RFLO()})
    kept = jax.tree.map(lambda leaf: leaf[0], result.records["learners"])
    assert (
        distance(jax.tree.map(lambda leaf: leaf[-1], kept), jax.tree.map(lambda leaf: leaf[0], result.states.learners))
        == 0
    )
    a = np.concatenate([np.zeros((1, 4)), result.records["seen"]["state"][0][0]])
    slope = 1 - ((a[1:] - 0.5 * a[:-1]) / 0.5) ** 2  # of tanh
    B = np.zeros((4, 4))
    for t in range(STEPS):
        B = 0.5 * B + 0.5 * slope[t][:, None] * a[t][None]
        np.testing.assert_allclose(kept["rflo"][0][0].rec[t], B, atol=1e-12)


@pytest.mark.parametrize("learner", [rc.RFLO(), rc.UORO()], ids=lambda learner: learner.about.id)
def test_they_wait_for_late_gradients_as_all_else_does(learner):
    """With F-BPTT as a probe, steps are recorded late, and are the same."""
    network = rc.Network(rc.RNN(2, 4), 2)
    alone = recorded(network, learner, arrays()).records
    late = recorded(network, learner, arrays(), probes={"late": rc.FutureBPTT(T=7)}).records
    short = jax.tree.map(lambda leaf: leaf[:, : STEPS - 7], alone)
    assert distance(late["seen"], short["seen"]) < 1e-12
    assert distance(late["learners"]["applied"], short["learners"]["applied"]) < 1e-12
    moved = jax.tree.map(lambda leaf: leaf[:, 7:], alone)
    assert distance(late["seen"], moved["seen"]) > 1e-3  # the control


def test_what_nobody_looks_at_is_not_computed():
    """The compiled step without a recorder is the same whether the outcome has these fields or not."""
    network = rc.Network(rc.RNN(2, 4), 2, random_feedback=True)
    step = rc.LearningStep(network, rc.RTRL(), 0.05)
    state = step.init(jax.random.key(0))

    def text(look):
        def one(state, x, y):
            seen, _ = step.observe(state, x)
            state, outcome = step.learn(seen, y)
            return state, look(outcome)

        return jax.jit(one).lower(state, jnp.ones(2), jnp.ones(2)).as_text()

    bare = lambda outcome: outcome._replace(error=None, credit=None, present=None, learners=None)
    assert text(lambda outcome: bare(outcome).loss) == text(lambda outcome: outcome.loss)
    assert text(lambda outcome: (outcome.loss, outcome.credit)) != text(lambda outcome: outcome.loss)

"""The forms that the engine puts in the place of learners give the same gradients at every step.

RTRL lets the steps of a span wait, and is looked at inside spans and across them. RFLO is one step late.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, drive, experiment, problem
from recurra.engine.fold import advance, stride_of
from recurra.engine.forms import LateRFLO, LazyRTRL, Span
from recurra.engine.protocol import Members
from recurra.engine.specialise import fastest, specialised
from recurra.engine.tuning import SPAN
from unrolled import CELLS

EXACT = 1e-10
STEPS = 2 * SPAN + 5
#: the first step, both sides of the ends of two spans, and one in the middle of the third
LOOKED_AT = (0, SPAN - 2, SPAN - 1, SPAN, 2 * SPAN - 1, 2 * SPAN, STEPS - 1)


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=() if cell == "leaky rnn" else pytest.mark.slow) for cell in CELLS]
)
def test_gradients_and_influence_are_derivatives_across_spans(cell):
    make, step = CELLS[cell]
    network, weights, xs, ys = problem(make, steps=STEPS)
    learner, a0 = LazyRTRL(), network.cell.init_state()
    visited = drive(network, learner, weights, xs, ys)
    assert isinstance(visited[0][1], Span)
    of_loss, of_state = unrolled.every_gradient_and_influence(step, weights.cell, weights.readout, a0, xs, ys)
    for t in LOOKED_AT:
        gradient, state, _ = visited[t]
        assert distance(gradient, jax.tree.map(lambda rows, t=t: rows[t], of_loss)) < EXACT
        expected = jax.tree.map(lambda rows, t=t: rows[t], of_state)
        assert distance(learner.influence(network.cell, weights.cell, state), expected) < EXACT


def test_a_run_may_start_inside_a_span():
    make, _ = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make, steps=STEPS)
    ends = [
        [gradient for gradient, _, _ in drive(network, learner, weights, xs, ys, first=5)]
        for learner in (LazyRTRL(), rc.RTRL())
    ]
    assert max(map(distance, *ends)) < EXACT


def test_a_span_that_is_not_brought_up_to_date_is_noticed():
    """The control of the tests above: M as it was before the first span, at the end of the second."""
    make, _ = CELLS["leaky rnn"]
    network, weights, xs, ys = problem(make, steps=STEPS)
    kept = lambda self, cell, weights, state: (None, state._replace(waiting=jnp.zeros_like(state.waiting)))
    wrong = type("Wrong", (LazyRTRL,), {"due": kept})()
    right, found = (drive(network, learner, weights, xs, ys) for learner in (LazyRTRL(), wrong))
    assert distance(found[SPAN - 1][0], right[SPAN - 1][0]) < EXACT
    assert distance(found[SPAN][0], right[SPAN][0]) > 1e-3


@pytest.mark.parametrize("cell", CELLS)
def test_the_engine_lets_steps_wait_on_cores_alone(cell):
    make, _ = CELLS[cell]
    assert isinstance(fastest(rc.RTRL(), make(2, 3), "cpu"), LazyRTRL)
    assert type(fastest(rc.RTRL(), make(2, 3), "gpu")) is rc.RTRL
    own = type("Own", (rc.RTRL,), {})()
    assert fastest(own, make(2, 3), "cpu") is own
    whole = experiment(rc.Network(make(2, 3), 2), rc.RTRL(), rc.Add(), probes={"exact": rc.RTRL(), "local": rc.RFLO()})
    kinds = [type(learner) for learner in specialised(whole, "cpu").step.learners.values()]
    assert kinds == [LazyRTRL, LazyRTRL, LateRFLO if cell == "lstm" else rc.RFLO]


def test_a_general_cell_lets_no_step_wait():
    make = lambda key: eqx.nn.GRUCell(2, 3, key=key)
    cell = rc.cell_of(make(jax.random.key(0)), carry=jnp.zeros(3), x=2, unitwise=False)
    assert type(fastest(rc.RTRL(), cell, "cpu")) is rc.RTRL


@pytest.mark.parametrize("cell", CELLS)
def test_rflo_that_is_late_is_rflo(cell):
    network, weights, xs, ys = problem(CELLS[cell][0])
    late, plain = (drive(network, learner, weights, xs, ys) for learner in (LateRFLO(), rc.RFLO()))
    assert max(distance(here[0], there[0]) for here, there in zip(late, plain, strict=True)) < EXACT


def test_rflo_that_is_too_late_is_noticed():
    """The control of the test above: the step's own deposit left out."""
    network, weights, xs, ys = problem(CELLS["lstm"][0])
    behind = lambda self, tick, state, noise: LateRFLO.advance(self, tick, state, noise)._replace(trace=state.trace)
    wrong = type("Wrong", (LateRFLO,), {"advance": behind})()
    assert distance(*(drive(network, learner, weights, xs, ys)[-1][0] for learner in (wrong, rc.RFLO()))) > 1e-3


def trained(specialise, chunk=None, learner=None, **settings):
    """A run whose weights move at every step."""
    network = rc.Network(rc.LSTM(2, 4), 2)
    engine = rc.ScanEngine(specialise=specialise, **({} if chunk is None else {"chunk": chunk}))
    arguments = {"steps": 150, "seeds": 2, "optimizer": 0.3, "window": 1, "progress": False} | settings
    return rc.train(network, learner or rc.RTRL(), rc.Add(), engine=engine, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("learner", [rc.RTRL(), rc.RFLO()])
def test_training_follows_the_same_path(learner, streams):
    lazy, plain = (trained(flag, learner=learner, streams=streams) for flag in (True, False))
    assert abs(plain.loss[:, 0] - plain.loss[:, -1]).min() > 1e-3  # the weights did move
    np.testing.assert_allclose(lazy.loss, plain.loss, rtol=1e-9)
    assert distance(lazy.weights, plain.weights) < 1e-9


@pytest.fixture(scope="module")
def whole():
    """A run that is not cut."""
    return trained(True)


#: chunks of 7 end at every place in a span
CHUNKS = [7, SPAN, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in (1, 50))]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_run_cut_inside_a_span_has_the_same_bits(chunk, whole):
    cut = trained(True, chunk=chunk)
    assert np.array_equal(whole.loss, cut.loss)
    assert distance(whole.weights, cut.weights) == 0


AS_GIVEN = rc.ScanEngine(specialise=False)


def test_a_probe_lets_steps_wait_too():
    probes = {"exact": rc.RTRL(), "lazy": LazyRTRL()}
    record = {"alignments": rc.record.alignments, "norms": rc.record.gradient_norms}
    run = rc.train(
        rc.Network(rc.RNN(2, 4), 2), rc.RFLO(), rc.Add(), steps=50, optimizer=0.1, probes=probes, record=record,
        engine=AS_GIVEN, progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(run.records["norms"]["lazy"], run.records["norms"]["exact"], rtol=1e-9)
    np.testing.assert_allclose(run.records["alignments"]["exact"]["lazy"], 1, rtol=1e-9)


@pytest.mark.slow
def test_rounds_of_several_lengths_go_together():
    """E-BPTT emits every 6 steps, RTRL as a probe lets 16 wait; neither changes what the other does."""
    record = {"norms": rc.record.gradient_norms}
    arguments = dict(steps=60, seeds=2, optimizer=0.3, record=record, window=1, engine=AS_GIVEN, progress=False)
    train = lambda **probes: rc.train(
        rc.Network(rc.RNN(2, 4), 2), rc.EfficientBPTT(T=6), rc.Add(), probes=probes, **arguments
    )
    alone, lazy, plain = train(), train(exact=LazyRTRL()), train(exact=rc.RTRL())
    np.testing.assert_allclose(lazy.loss, alone.loss, rtol=1e-12)
    np.testing.assert_allclose(lazy.records["norms"]["exact"], plain.records["norms"]["exact"], rtol=1e-9)


@pytest.mark.parametrize("strides", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rounds_of_several_lengths_go_together_where_nothing_is_recorded(strides):
    """Then both wait for the ends of rounds: every second step is one, by their greatest common divisor."""
    network, steps, losses, tensors = rc.Network(rc.RNN(2, 4), 2), 2 * 384, [], []
    for exact, every in ((None, 6), (LazyRTRL(), 2), (rc.RTRL(), 6)):
        run = experiment(network, rc.EfficientBPTT(T=6), rc.Add(), 0.3, {"exact": exact} if exact else {})
        assert run.round == every
        bounds = (jnp.array(bound, "int32") for bound in (0, steps))
        taken = jax.jit(lambda key, *bounds, run=run: advance(run, *run.init(key), *bounds, steps, strides))
        carry, (loss, *_) = taken(jax.random.key(0), *bounds)
        losses.append(loss)
        if exact:
            end = carry.learning
            tensors.append(exact.influence(network.cell, end.weights.cell, end.learners["exact"]))
    for loss in losses[1:]:
        np.testing.assert_allclose(loss, losses[0], rtol=1e-12)
    assert distance(*tensors) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("learner", [LazyRTRL(), rc.UORO(), rc.EfficientBPTT(), rc.EfficientBPTT(T=9)])
def test_strides_of_known_length_take_the_same_steps(learner):
    """As on an accelerator: from inside one stride to inside another, and whole ones between."""
    whole = experiment(rc.Network(rc.RNN(2, 4), 2), learner, rc.Add(), 0.3)
    last = 150 + 2 * stride_of(whole) + 5
    members, losses = Members.of_seeds(jax.random.key(0), (0, 1)), []
    for strides in (False, True):
        with rc.ScanEngine(strides=strides, chunk=last).prepare(whole, members) as run:
            pieces = [piece for stop in (3, 150, last) for piece in run.advance(stop)]
        losses.append(np.concatenate([piece.loss for piece in pieces], axis=1))
    assert losses[1].shape == (2, last)
    np.testing.assert_allclose(*losses, rtol=1e-9)

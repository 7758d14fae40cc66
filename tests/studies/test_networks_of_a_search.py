"""Networks that a search takes from comparison to comparison: the same bits as in one go, and nothing compiled anew."""

import itertools
import os
import signal

import jax
import numpy as np
import pytest

import recurra as rc
from recurra.engine.choosing import AutoEngine
from recurra.studies.networks import TrialNetworks
from recurra.studies.study import Study
from recurra.training import sweep
from recurra.training.places.dispatching import Local
from recurra.training.places.workers import Processes

STUDY = """
learners = ["{learner}"]
steps = 400
seeds = 3
n = 4
set.task.t1 = 1
set.task.t2 = 2
[vary]
learning_rate = {{ log_uniform = [1e-3, 1e-1] }}
"""
RATES = [0.002, 0.01, 0.03, 0.05, 0.08]
LOOPS, PLAYED = rc.ScanEngine(alike=True), rc.OnChipEngine(alike=True, interpret=True)


def networks(learner, rates=RATES, seeds=(0, 1, 2), text="", place=None, steps=400):
    study = Study.of_text(STUDY.format(learner=learner).replace("steps = 400", f"{text}\nsteps = {steps}"))
    points = [{"learner": learner, "learning_rate": rate} for rate in rates]
    return TrialNetworks(study, Local() if place is None else place, False, points, seeds)


def trained(learner, rate, seeds, engine=LOOPS, steps=400):
    """The losses of whole runs, by `recurra.train`."""
    with jax.enable_x64(False):
        net = rc.Network(rc.RNN(2, 4, dtype="float32"), 2, rc.SoftmaxCrossEntropy())
        found = rc.train(
            net, rc.LEARNERS[learner](), rc.Add(1, 2), steps=steps, seeds=seeds, optimizer=rate, progress=False,
            engine=engine,
        )  # fmt: skip
    return found.final_loss()


#: E-BPTT carries a history besides the weights; RFLO is in the other tests of this file
@pytest.mark.parametrize("learner", [pytest.param("rflo", marks=pytest.mark.slow), "e-bptt"])
def test_networks_that_stop_on_the_way_end_with_the_bits_of_a_whole_run(learner):
    every = networks(learner)
    early = every.advance(range(5), 100)
    every.advance([1, 3, 4], 200)
    losses = every.advance([1, 4], 400)
    assert early.shape == (5, 3)
    for row, rate in enumerate((RATES[1], RATES[4])):
        np.testing.assert_array_equal(losses[row], trained(learner, rate, [0, 1, 2]))
    assert not np.array_equal(losses[0], trained(learner, RATES[2], [0, 1, 2]))  # another rate must show


@pytest.mark.parametrize("learner", [pytest.param("rtrl", marks=pytest.mark.slow), "rflo"])
def test_where_auto_takes_the_on_chip_engine_a_search_does_too(monkeypatch, learner):
    """Kernels are played on the cores. What goes on from a state has the bits of a whole run on that engine."""
    monkeypatch.setattr(AutoEngine, "choose", lambda *_: (PLAYED, "the test says so"))
    how = {"rates": RATES[:2], "seeds": [0, 1], "steps": 256}
    every = networks(learner, **how)
    every.advance([0, 1], 100)
    losses = every.advance([1], 256)
    np.testing.assert_array_equal(losses[0], trained(learner, RATES[1], [0, 1], PLAYED, 256))
    loops = trained(learner, RATES[1], [0, 1], steps=256)
    np.testing.assert_allclose(losses[0], loops, rtol=1e-5)
    # A worker may have another device than the one whose state it is given: there it is compiled loops for all.
    elsewhere, asked = networks(learner, place=Processes(2), **how), networks(learner, text='engine = "scan"', **how)
    assert (every._networks.engine, elsewhere._networks.engine, asked._networks.engine) == ("auto", "scan", "scan")
    np.testing.assert_array_equal(asked.advance([1], 256)[0], loops)


def test_nothing_is_compiled_between_comparisons():
    every, compiled = networks("rflo"), []
    listen = lambda name, seconds, **_: compiled.append(name) if "backend_compile" in name else None
    every.advance(range(5), 100)
    every.advance([0, 1, 2], 200)  # the first to go on from a state
    networks("rflo").advance([0, 1], 100)  # the keys of so many members, programs of a millisecond
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        every.advance([0, 1], 400)
        between = len(compiled)
        jax.jit(lambda x: x * 3.14159 + 2)(1.0)  # what is compiled must show
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(compiled) > between
    assert between == 0


def test_trials_that_differ_in_nothing_that_has_an_effect_are_computed_once(monkeypatch):
    own = {"optimizer": ("sgd", "adam"), "optimizer.b1": (0.5, 0.9)}
    choices = "".join(f'"{name}" = {{ choices = {list(values)} }}\n' for name, values in own.items())
    computed, compute = [], sweep.compute
    monkeypatch.setattr(sweep, "compute", lambda order, **how: computed.extend(order.members) or compute(order, **how))
    study = Study.of_text(STUDY.format(learner="rflo") + choices)
    chosen = [dict(zip(own, each, strict=True)) for each in itertools.product(*own.values())]  # SGD has no b1
    points = [{"learner": "rflo", "learning_rate": 0.01, **each} for each in chosen]
    every = TrialNetworks(study, Local(), False, points, [0, 1])
    early = every.advance(range(4), 100)
    assert len(computed) == 3 * 2
    np.testing.assert_array_equal(early[0], early[1])
    assert len(np.unique(early)) == 3 * 2
    late = every.advance([0, 1, 3], 400)
    np.testing.assert_array_equal(late[0], late[1])
    assert len(computed) == (3 + 2) * 2


@pytest.mark.parametrize("before", [True, False])
def test_a_search_that_is_asked_to_stop_does_so(monkeypatch, before):
    """Before the first step of an order, or after its last."""
    compute = sweep.compute

    def stopped(order, **how):
        if before:
            os.kill(os.getpid(), signal.SIGINT)
        outcome = compute(order, **how)
        os.kill(os.getpid(), signal.SIGINT)
        return outcome

    every = networks("rflo", RATES[:1])
    with monkeypatch.context() as patch:
        patch.setattr(sweep, "compute", stopped)
        with pytest.raises(KeyboardInterrupt):
            every.advance([0], 100)
    assert np.isfinite(networks("rflo", RATES[:1]).advance([0], 100)).all()  # the control


def test_a_network_that_diverged_stays_so():
    study = Study.of_text(
        STUDY.format(learner="rflo").replace("set.task.t1 = 1\nset.task.t2 = 2\n", 'task = "mimic"\n')
    )
    points = [{"learner": "rflo", "learning_rate": rate} for rate in (1e30, 1e-3)]
    every = TrialNetworks(study, Local(), False, points, [0])
    early, late = every.advance([0, 1], 100), every.advance([0, 1], 200)
    assert np.isnan([early[0, 0], late[0, 0]]).all()
    assert np.isfinite([early[1, 0], late[1, 0]]).all()

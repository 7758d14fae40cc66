"""Networks that a search takes from comparison to comparison: the same bits as in one go, and nothing compiled anew."""

import itertools

import jax
import numpy as np
import pytest

import recurra as rc
from recurra.studies.networks import TrialNetworks
from recurra.studies.study import Study
from recurra.training import computing
from recurra.training.places.dispatching import Local

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


def networks(learner):
    return TrialNetworks(Study.of_text(STUDY.format(learner=learner)), Local(), x64=False)


def trained(learner, rate, seeds):
    """The losses of whole runs, by `recurra.train`."""
    with jax.enable_x64(False):
        net = rc.Network(rc.RNN(2, 4, dtype="float32"), 2, rc.SoftmaxCrossEntropy())
        found = rc.train(
            net, rc.LEARNERS[learner](), rc.Add(1, 2), steps=400, seeds=seeds, optimizer=rate, progress=False,
            engine=rc.ScanEngine(alike=True),
        )  # fmt: skip
    return found.final_loss()


#: E-BPTT carries a history besides the weights; RFLO is in the other tests of this file
@pytest.mark.parametrize("learner", [pytest.param("rflo", marks=pytest.mark.slow), "e-bptt"])
def test_networks_that_stop_on_the_way_end_with_the_bits_of_a_whole_run(learner):
    every = networks(learner)
    handle = every.start([{"learner": learner, "learning_rate": rate} for rate in RATES], [0, 1, 2])
    handle, early = every.advance(handle, range(5), 100)
    handle, _ = every.advance(handle, [3, 1, 4], 200)
    _, losses = every.advance(handle, [1, 2], 400)  # rates 1 and 4
    assert early.shape == (5, 3)
    for row, rate in enumerate((RATES[1], RATES[4])):
        np.testing.assert_array_equal(losses[row], trained(learner, rate, [0, 1, 2]))
    assert not np.array_equal(losses[0], trained(learner, RATES[2], [0, 1, 2]))  # another rate must show


def test_nothing_is_compiled_between_comparisons():
    every, compiled = networks("rflo"), []
    listen = lambda name, seconds, **_: compiled.append(name) if "backend_compile" in name else None
    handle = every.start([{"learner": "rflo", "learning_rate": rate} for rate in RATES], [0, 1, 2])
    handle, _ = every.advance(handle, range(5), 100)
    handle, _ = every.advance(handle, [0, 1, 2], 200)  # the first to go on from a state
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        every.advance(handle, [0, 1], 400)
        between = len(compiled)
        jax.jit(lambda x: x * 3.14159 + 2)(1.0)  # what is compiled must show
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len(compiled) > between
    assert between <= 1  # the keys of so many members, a program of a millisecond


def test_trials_that_differ_in_nothing_that_has_an_effect_are_computed_once(monkeypatch):
    own = {"optimizer": ("sgd", "adam"), "optimizer.b1": (0.5, 0.9)}
    choices = "".join(f'"{name}" = {{ choices = {list(values)} }}\n' for name, values in own.items())
    computed, compute = [], computing.compute
    monkeypatch.setattr(computing, "compute", lambda order: computed.extend(order.members) or compute(order))
    every = TrialNetworks(Study.of_text(STUDY.format(learner="rflo") + choices), Local(), x64=False)
    chosen = [dict(zip(own, each, strict=True)) for each in itertools.product(*own.values())]  # SGD has no b1
    points = [{"learner": "rflo", "learning_rate": 0.01, **each} for each in chosen]
    handle, early = every.advance(every.start(points, [0, 1]), range(4), 100)
    assert len(computed) == 3 * 2
    np.testing.assert_array_equal(early[0], early[1])
    assert len(np.unique(early)) == 3 * 2
    _, late = every.advance(handle, [1, 3, 0], 400)
    np.testing.assert_array_equal(late[0], late[2])
    assert len(computed) == (3 + 2) * 2


def test_a_network_that_diverged_stays_so():
    study = Study.of_text(
        STUDY.format(learner="rflo").replace("set.task.t1 = 1\nset.task.t2 = 2\n", 'task = "mimic"\n')
    )
    every = TrialNetworks(study, Local(), x64=False)
    handle = every.start([{"learner": "rflo", "learning_rate": 1e30}, {"learner": "rflo", "learning_rate": 1e-3}], [0])
    handle, early = every.advance(handle, [0, 1], 100)
    _, late = every.advance(handle, [0, 1], 200)
    assert np.isnan([early[0, 0], late[0, 0]]).all()
    assert np.isfinite([early[1, 0], late[1, 0]]).all()

"""RTRL with a block of its own for each source of weights: the gradients of RTRL as published."""

import jax
import numpy as np
import pytest

import recurra as rc
from recurra.engine.forms import BlockwiseRTRL
from recurra.engine.specialise import fastest
from recurra.linalg import scale

CELLS = {"rnn": rc.RNN, "gru": rc.GRU, "lstm": rc.LSTM}
AS_GIVEN = rc.ScanEngine(specialise=False)


def apart(cell, learner, task=None):
    """How far its gradients are from RTRL's over 30 steps of training, relative to the largest of each step."""
    task = task or rc.Add()
    network = rc.Network(cell(2, 5, dtype="float64"), 2)
    result = rc.train(
        network, rc.RTRL(), task, steps=30, optimizer=0.1, window=1, engine=AS_GIVEN, progress=False,
        probes={"blockwise": learner}, record={"gradients": rc.record.gradients},
    )  # fmt: skip
    flat = lambda name: np.concatenate(
        [leaf.reshape(30, -1) for leaf in jax.tree.leaves(result.records["gradients"][name])], axis=1
    )
    published, blockwise = flat("applied"), flat("blockwise")
    size = np.abs(published).max(axis=1)
    assert size[1:].min() > 1e-5
    return (np.abs(blockwise - published).max(axis=1) / size).max()


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_those_of_rtrl(cell):
    assert apart(CELLS[cell], BlockwiseRTRL()) < 1e-12


class WithoutLeak(BlockwiseRTRL):
    """A thousandth of M is lost in every step."""

    def advance(self, tick, state, noise):
        return super().advance(tick, scale(0.999, state), noise)


def test_a_form_that_loses_influence_is_noticed():
    assert apart(rc.RNN, WithoutLeak()) > 1e-5


def test_it_is_rtrl_on_chip_alone():
    cell = rc.RNN(2, 8, dtype="float32")
    forms = {platform: type(fastest(rc.RTRL(), cell, platform)) for platform in ("gpu", "chip")}
    assert forms == {"gpu": rc.RTRL, "chip": BlockwiseRTRL}


def test_a_kernel_of_rtrl_learns_what_loops_learn_and_loops_go_on_from_it():
    network = rc.Network(rc.RNN(2, 5, dtype="float32"), 2)
    settings = {"steps": 140, "seeds": 2, "optimizer": 0.1, "window": 10, "progress": False}
    run = lambda engine: rc.train(network, rc.RTRL(), rc.Add(), engine=engine, **settings)
    on_chip, loops = run(rc.OnChipEngine(interpret=True, chunk=128)), run(rc.ScanEngine())
    np.testing.assert_allclose(on_chip.loss, loops.loss, atol=2e-6)
    both = [
        rc.train(network, rc.RTRL(), rc.Add(), start=each.states, **settings | {"steps": 20})
        for each in (on_chip, loops)
    ]
    np.testing.assert_allclose(both[0].loss, both[1].loss, atol=2e-6)

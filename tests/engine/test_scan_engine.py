"""How an engine cuts a run: pieces, groups of members, devices and threads. None of it may change what is computed."""

import itertools
import threading

import jax
import numpy as np
import pytest

import recurra as rc
from driving import experiment
from recurra.engine import plan, tuning
from recurra.engine.protocol import Members
from small_runs import network, train


def test_chunks_do_not_change_a_bit_of_a_result():
    run = lambda chunk: train(rc.UORO(), steps=300, window=50, engine=rc.ScanEngine(chunk=chunk))
    whole, cut = map(run, (300, 7))
    assert np.array_equal(whole.loss, cut.loss)
    assert all(map(np.array_equal, jax.tree.leaves(whole.weights), jax.tree.leaves(cut.weights)))


@pytest.mark.slow
@pytest.mark.parametrize("learner", [rc.RFLO(), rc.KFRTRL(), rc.RTRL()])
def test_seeds_do_the_same_together_and_one_by_one(learner):
    run = lambda group: train(learner, task=rc.Add(), steps=70, seeds=5, window=1, engine=rc.ScanEngine(group=group))
    np.testing.assert_allclose(run(5).loss, run(1).loss, rtol=1e-9)


def sizes(learner, count, carried=None, n=4):
    """How many members go together, in the engine's plan and as if each carried so many bytes."""
    whole = experiment(rc.Network(rc.RNN(2, n), 2), learner, rc.Add(1, 2)).traced
    key = jax.random.key(0)
    program, _ = plan.traced(plan._one_step, whole, key)
    if carried is None:
        return plan.plan(whole, key, count, "cpu", rc.ScanEngine(chunk=10)).size
    return plan.group_size(whole, program, carried, count)


def test_seeds_of_a_core_are_split_into_equal_groups(monkeypatch):
    """Seven that fit six at a time are four and three, filled up by one, not six and one, filled up by five."""
    monkeypatch.setattr(plan, "cores", lambda: 1)
    monkeypatch.setattr(tuning, "GROUP_BYTES", 0)
    assert tuning.VMAPPED_MEMBERS == 6
    whole = experiment(network(), rc.RFLO(), rc.Add(1, 2))
    losses = lambda run: np.concatenate([piece.loss for piece in run.advance(5)], axis=1)
    with rc.ScanEngine(chunk=10).prepare(whole, Members.of_seeds(jax.random.key(0), range(7))) as crowd:
        assert [list(rows) for rows in crowd._in_groups(np.arange(7))] == [[0, 1, 2, 3], [4, 5, 6, 6]]
        together = losses(crowd)
    assert together.shape == (7, 5)
    with rc.ScanEngine(chunk=10).prepare(whole, Members.of_seeds(jax.random.key(0), (6,))) as alone:
        np.testing.assert_allclose(together[6:], losses(alone), rtol=1e-12)


def test_seeds_that_carry_little_are_vmapped_and_others_go_one_by_one(monkeypatch):
    monkeypatch.setattr(plan, "cores", lambda: 2)
    assert sizes(rc.RFLO(), 12) == 6
    assert sizes(rc.RFLO(), 10) == 1  # too few for a core
    assert sizes(rc.RFLO(), 12, carried=tuning.VMAPPED_BYTES + 1) == 1
    assert sizes(rc.FutureBPTT(T=3), 12) == 1  # its steps have a loop inside
    assert sizes(rc.EfficientBPTT(T=3), 12) == 6  # its loop is taken seldom
    assert sizes(rc.RKFRTRL(), 12, n=12) == 6
    assert sizes(rc.RKFRTRL(), 12, n=32) == 1  # a product of its matrices fills a core's vectors
    assert sizes(rc.RKFRTRL(), 12, carried=tuning.CALLED_BYTES, n=48) == 6  # such products are calls of a library
    assert sizes(rc.RKFRTRL(), 12, carried=tuning.CALLED_BYTES + 1, n=48) == 1


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_alike_members_go_in_groups_that_depend_on_the_program_alone(monkeypatch, cores):
    monkeypatch.setattr(plan, "cores", lambda: cores)
    for learner, n, size in ((rc.RFLO(), 4, tuning.FIXED_MEMBERS), (rc.FutureBPTT(T=3), 4, 1), (rc.RFLO(), 80, 1)):
        whole = experiment(rc.Network(rc.RNN(2, n), 2), learner, rc.Add(1, 2)).traced
        plans = [plan.plan(whole, jax.random.key(0), count, "cpu", rc.ScanEngine(alike=True)) for count in (1, 5, 900)]
        assert {(each.size, each.chunk) for each in plans} == {(size, plans[0].chunk)}


def test_a_call_has_room_for_a_stride_of_an_accelerator_if_that_is_not_too_much():
    assert plan.most_steps(recorded=80, stride=32) == tuning.OUTPUT_BYTES // 80
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES // 10, stride=32) == 32
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES // 10, stride=1) == 10
    assert plan.most_steps(recorded=tuning.OUTPUT_BYTES, stride=32) == 4
    assert plan.most_steps(recorded=10 * tuning.STRIDE_BYTES, stride=32) == 1


@pytest.mark.parametrize("strides", [False, True])
@pytest.mark.parametrize("chunk", [7, 64])
def test_no_piece_is_longer_than_a_call_has_room_for(chunk, strides):
    whole = experiment(network(), rc.RFLO(), rc.Add(1, 2))
    members = Members.of_seeds(jax.random.key(0), (0, 1))
    with rc.ScanEngine(chunk=chunk, strides=strides).prepare(whole, members) as run:
        pieces = [piece for stop in (10, 200) for piece in run.advance(stop)]
    assert pieces[0].start == 0
    assert all(before.stop == after.start for before, after in itertools.pairwise(pieces))
    assert {10, 200} <= {piece.stop for piece in pieces}
    assert max(piece.stop - piece.start for piece in pieces) <= chunk
    assert all(piece.loss.shape == (2, piece.stop - piece.start) for piece in pieces)


def test_small_work_goes_to_the_cores_and_large_work_to_the_accelerator(monkeypatch):
    monkeypatch.setattr(plan, "cores", lambda: 4)
    assert plan.cores_are_faster(carried=10_000, count=20, learners=1)
    assert not plan.cores_are_faster(carried=10_000, count=1024, learners=1)
    assert not plan.cores_are_faster(carried=10_000_000, count=1, learners=1)
    # an accelerator starts kernels for each learner
    assert plan.cores_are_faster(carried=500_000, count=2, learners=11)


def test_a_default_device_stays():
    device = jax.devices()[0]
    with jax.default_device(device):
        assert plan.choose_device(experiment(network(), rc.RFLO(), rc.Add(1, 2)), jax.random.key(0), 1) is device


def test_runs_in_two_threads_do_not_wait_for_each_other():
    """Each draws the initial weights of many seeds at once, for which batches of decompositions would share a pool."""
    run = lambda: [train(rc.RFLO(), steps=10, seeds=20, key=key) for key in range(5)]
    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


def test_steps_that_cannot_be_counted_are_refused_and_the_last_ones_are_not():
    """A run that is taken up near 2³¹ goes on with the same bits as one near 0 that meets the same blocks."""
    whole = experiment(network(), rc.FutureBPTT(T=3), rc.Arrays(np.ones((128, 2)), np.full((128, 2), 0.5), repeat=True))
    start = 2**31 - 1280
    with rc.ScanEngine().prepare(whole, Members.of_seeds(jax.random.key(0), (0,))) as run:
        first = np.concatenate([piece.loss for piece in run.advance(1280)], axis=1)
    with rc.ScanEngine().prepare(whole, Members.of_seeds(jax.random.key(0), (0,))) as run:
        run.restore(run.snapshot(), start)
        with pytest.raises(OverflowError, match="counted to 2³¹ - 1"):
            next(run.advance(2**31))
        last = np.concatenate([piece.loss for piece in run.advance(2**31 - 1)], axis=1)
    assert last.shape == (1, 1279)
    assert np.isfinite(last).all()
    # F-BPTT's first steps differ, since near 2³¹ the ring is taken to be full.
    np.testing.assert_allclose(last[0, :3], first[0, :3], rtol=1e-3)


def test_settings_of_jax_reach_every_thread():
    """JAX keeps them for each thread by itself, and members are computed in several."""
    seen = []

    def looked(outcome):
        seen.append((jax.config.jax_default_matmul_precision, jax.config.jax_numpy_rank_promotion))
        return outcome.loss

    with jax.default_matmul_precision("highest"), jax.numpy_rank_promotion("raise"):
        train(seeds=3, engine=rc.ScanEngine(group=1), record={"loss": looked})
    assert set(seen) == {("highest", "raise")}
    with jax.enable_x64(False):
        result = train(net=rc.Network(rc.RNN(2, 4, dtype="float32"), 2), seeds=3, engine=rc.ScanEngine(group=1))
    assert result.weights.readout.W.dtype == "float32"

"""Which engine runs: by name, or by the table of what was measured; and what the table holds."""

import logging
import re

import jax
import numpy as np
import pytest

import recurra as rc
from recurra.engine import choosing, plan
from recurra.engine.choosing import AutoEngine, engine_of
from recurra.engine.experiment import Experiment
from recurra.engine.on_chip import engine as on_chip
from recurra.engine.on_chip.table import KernelTimes, measured, table, warps_for
from recurra.engine.specialise import specialised

GPU = "an NVIDIA GPU"


@pytest.fixture
def with_gpu(monkeypatch):
    """The choice as it is on a machine with a GPU and 16 cores; nothing runs there."""
    monkeypatch.setattr(choosing, "nvidia_gpu", lambda: GPU)
    monkeypatch.setattr(plan, "cores", lambda: 16)


def experiment(learner, cell=rc.RNN, n=32, dtype="float32", recorder=None, streams=1, wide=2):
    network = rc.Network(cell(wide, n, dtype=dtype), wide, rc.SquaredError())
    task = rc.Add() if wide == 2 else rc.Mimic(rc.RNN(wide, 8, dtype=dtype), wide)
    return Experiment.of(network, {"applied": learner}, 1e-4, task, streams, recorder)


def chosen(count, *args, **kwargs):
    engine, why = AutoEngine().choose(experiment(*args, **kwargs), count)
    return type(engine), why


def test_names_stand_for_engines():
    kinds = {name: type(engine_of(name)) for name in ("auto", "scan", "on-chip")}
    assert kinds == {"auto": AutoEngine, "scan": rc.ScanEngine, "on-chip": rc.OnChipEngine}
    assert engine_of("auto", alike=True) == AutoEngine(alike=True)
    own = rc.ScanEngine(group=1)
    assert engine_of(own) is own


def test_without_a_gpu_loops_run():
    kind, why = chosen(20, rc.RFLO())
    assert kind is rc.ScanEngine
    assert "no NVIDIA GPU" in why


def test_on_a_gpu_the_faster_engine_runs(with_gpu):
    assert chosen(20, rc.RFLO())[0] is rc.OnChipEngine
    assert chosen(1024, rc.UORO(), n=24)[0] is rc.OnChipEngine  # padded to a size that was measured
    # RTRL's kernel spills at 32 units, and KF-RTRL's at 64.
    kind, why = chosen(20, rc.RTRL())
    assert kind is rc.ScanEngine
    assert re.search(r"takes about \d\d+ µs on chip and 20 µs in compiled loops", why)
    assert chosen(1024, rc.KFRTRL(), n=64)[0] is rc.ScanEngine


def test_what_does_not_fit_runs_in_loops(with_gpu):
    with jax.enable_x64(True):
        assert "float32" in chosen(20, rc.RFLO(), dtype="float64")[1]
    assert "neither records nor probes" in chosen(20, rc.RFLO(), recorder=lambda *_: None)[1]
    assert "use n = 128 or less" in chosen(20, rc.RFLO(), n=256)[1]
    assert "were not measured" in chosen(20, rc.RFLO(), streams=2)[1]


def test_the_choice_is_logged(with_gpu, monkeypatch, caplog):
    monkeypatch.setattr(on_chip, "nvidia_gpu", lambda: None)  # where it would run, there is no GPU here
    with caplog.at_level(logging.INFO, "recurra"), pytest.raises(ValueError, match="needs an NVIDIA GPU"):
        rc.train(rc.Network(rc.RNN(2, 32, dtype="float32"), 2), rc.RFLO(), rc.Add(), steps=10, seeds=20)
    assert re.search(r"engine: on-chip, since a step takes about 0\.\d+ µs on chip and 2 µs in", caplog.text)


def test_the_table_is_whole():
    """Every learner of the paper but r-OK with the RNN, and numbers that can be."""
    for learner in (
        "fixed",
        "rflo",
        "uoro",
        "kf-rtrl",
        "r-kf-rtrl",
        "kernl",
        "dni",
        "dni-b",
        "e-bptt",
        "f-bptt",
        "rtrl",
    ):
        assert (learner, "rnn", 32) in table()
    for row in table().values():
        assert {row.warps_few, row.warps_many} <= {1, 2, 4, 8, 16}
        assert row.microseconds_few > 0.1
        assert row.millions > 0
        assert row.carried > 100


def test_times_grow_with_networks_and_bytes():
    row = KernelTimes(warps_few=4, microseconds_few=0.5, warps_many=1, millions=1000.0, carried=8000)
    assert row.microseconds(20) == 0.5
    assert row.microseconds(4000) == 4.0
    assert row.microseconds(4000, carried=16_000) == 8.0
    assert row.microseconds(20, carried=4000) == 0.5


def test_warps_are_as_measured():
    dni = experiment(rc.DNI())  # measured: 4 warps are fastest for few networks, 1 for many
    assert [warps_for(dni, count) for count in (20, 132, 133, 5000)] == [4, 4, 1, 1]
    assert warps_for(dni, 20, alike=True) == 1
    longer = experiment(rc.EfficientBPTT(T=100))
    assert measured(experiment(rc.EfficientBPTT(T=10))) is not None
    assert measured(longer) is None
    assert (warps_for(longer, 20), warps_for(longer, 8192)) == (8, 4)  # 55 kB


def test_a_default_device_leaves_the_cores_out(with_gpu):
    assert "2 µs in compiled loops" in chosen(20, rc.RFLO())[1]
    with jax.default_device(jax.devices()[0]):
        assert "20 µs in compiled loops" in chosen(20, rc.RFLO())[1]


def test_networks_that_carry_more_than_what_was_measured_have_more_warps():
    """32 inputs and outputs: RFLO carries 21 kB in place of 9, KF-RTRL 17 kB. What is fastest was timed."""
    small, large = (experiment(rc.RFLO(), wide=width) for width in (2, 32))
    assert [warps_for(small, count) for count in (20, 8192)] == [1, 1]
    assert [warps_for(large, count) for count in (20, 8192)] == [4, 2]
    assert [warps_for(experiment(rc.KFRTRL(), wide=32), count) for count in (20, 8192)] == [4, 2]


def test_rows_of_a_call_fit_its_memory():
    """33 inputs are padded to 64, so a block of 128 steps takes 128 × 64 × 4 bytes for them."""
    rows = jax.ShapeDtypeStruct((128, 33), np.float32)
    assert on_chip.most_blocks(rows, 1) == 2**30 // (128 * 64 * 4)
    assert on_chip.most_blocks(rows, 2**10) == 32
    assert on_chip.most_blocks(rows, 2**17) == 1  # less than one would do nothing


def test_more_networks_than_can_be_counted_are_refused(with_gpu):
    kind, why = chosen(2**19, rc.UORO())
    assert kind is rc.ScanEngine
    assert "Take fewer at a time" in why


def test_a_state_that_a_kernel_cannot_go_on_from_goes_on_in_loops(with_gpu):
    whole = experiment(rc.RTRL(), n=8)
    state = whole.init(jax.random.key(0))[0].learning
    assert isinstance(AutoEngine().choose(whole, 1024)[0], rc.OnChipEngine)
    engine, why = AutoEngine().choose(whole, 1024, start=state)
    assert isinstance(engine, rc.ScanEngine)
    assert "reshapes axes" in why


def test_sparse_cells_are_not_measured(with_gpu):
    cell = rc.RNN(2, 16, w_rec=rc.cells.Sparsely(0.25), dtype="float32")
    sparse = Experiment.of(rc.Network(cell, 2), {"applied": rc.RFLO()}, 1e-4, rc.Add())
    assert measured(sparse) is None
    assert isinstance(AutoEngine().choose(sparse, 1024)[0], rc.ScanEngine)


def test_a_part_of_one_s_own_has_no_timings_of_another(with_gpu):
    """It may have the name and the `about` of one of the library's, and compute something else."""

    class Slow(rc.RFLO):
        def advance(self, tick, state, noise):
            return super().advance(tick, super().advance(tick, state, noise), noise)

    own_cell = type("RNN", (rc.RNN,), {})
    assert own_cell(2, 32).name == "RNN"
    for learner, cell in ((Slow(), rc.RNN), (rc.RFLO(), own_cell)):
        own = experiment(learner, cell)
        assert measured(own) is None
        engine, why = AutoEngine().choose(own, 20)
        assert isinstance(engine, rc.ScanEngine)
        assert "were not measured" in why
    for learner, cell in ((rc.RTRL(), rc.RNN), (rc.RFLO(), rc.LSTM)):  # which run in other forms
        published = experiment(learner, cell)
        form = specialised(published, "chip")
        assert type(form.step.learners["applied"]) is not type(learner)
        assert measured(published) is not None
        assert measured(form) == measured(published)

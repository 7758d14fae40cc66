"""What `record` gathers is kept in checkpoints: a run that goes on has the records of one that never stopped."""

import jax
import pytest

import recurra as rc
from small_runs import train

#: records of every type that JAX has here, of a late learner and of one that emits seldom
RECORDED = {
    "gradients": rc.record.gradients,
    "emitted": rc.record.emitted,
    "step": lambda outcome: outcome.t,
    "loss": lambda outcome: outcome.loss.astype("bfloat16"),
    "more": lambda outcome: {
        "complex": outcome.output.astype("complex64"),
        "bits": (outcome.output > 0).astype("int8"),
    },
}
FEW, MANY = {"f.bptt": rc.FutureBPTT(T=4)}, {"f": rc.FutureBPTT(T=4), "e-bptt": rc.EfficientBPTT(T=3), "u": rc.UORO()}


class EnoughError(Exception):
    """Ends a run."""


def stopped_at(step, **settings):
    def report(done):
        if done >= step:
            raise EnoughError

    with pytest.raises(EnoughError):
        train(**settings, progress=report)


def same(found, expected):
    """Whether two trees of arrays are the same, bit by bit."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    return all((a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) for a, b in pairs)


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("after", "steps", "every", "probes"),
    [
        pytest.param(3, 40, 7, FEW, marks=slow),
        pytest.param(2, 40, 1, MANY, marks=slow),
        pytest.param(4, 40, 2, MANY, marks=slow),
        pytest.param(500, 1500, 1, MANY, marks=slow),
        pytest.param(700, 1500, 7, MANY, marks=slow),
        pytest.param(1499, 1500, 5, MANY, marks=slow),
    ],
)
def test_records_go_on_with_the_same_bits(tmp_path, after, steps, every, probes):
    """Also where a run stops before the first record is complete, and where it goes on more than once."""
    settings = {"probes": probes, "record": RECORDED, "record_every": every, "steps": steps, "window": 10, "seeds": 3}
    settings["engine"] = rc.ScanEngine(chunk=1 if after < 10 else 64)
    whole = train(**settings)
    settings["checkpoint"] = tmp_path / "run"
    stopped_at(after, **settings)
    stopped_at(after + 1, **settings)
    seen = []
    later = train(**settings, progress=seen.append)
    again = train(**settings)
    assert after <= seen[0] < steps or steps - after == 1
    for found in (later, again):
        assert same(found.records, whole.records)
        assert same(found.loss, whole.loss)
    assert not same(train(**settings | {"checkpoint": None, "key": 1}).records, whole.records)


def test_a_run_with_records_is_extended(tmp_path):
    settings = {"record": {"state": rc.record.state}, "window": 50}
    train(steps=200, **settings, checkpoint=tmp_path / "run")
    later = train(steps=400, **settings, checkpoint=tmp_path / "run")
    assert same(later.records, train(steps=400, **settings).records)


@slow
def test_other_records_are_other_settings(tmp_path):
    settings = {"steps": 400, "window": 50, "checkpoint": tmp_path / "run"}
    recorded = {"record": {"state": rc.record.state}, "record_every": 2}
    stopped_at(10, **settings, **recorded)
    for other in ({"record_every": 3}, {"record": {"other": rc.record.state}}, {"record": {"state": lambda o: o.loss}}):
        with pytest.raises(rc.CheckpointError, match="other settings, which is not finished"):
            train(**settings, **{**recorded, **other})

"""Edges of the on-chip engine: the last steps, other generators, the other engine's snapshots, divergence, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.engine.experiment import Experiment
from recurra.engine.on_chip.fits import DoesNotFitError
from recurra.engine.protocol import Members
from recurra.step import APPLIED
from small_runs import train

PLAYED = rc.OnChipEngine(interpret=True, chunk=128)


def net():
    return rc.Network(rc.RNN(2, 8, dtype="float32"), 2)


@pytest.mark.parametrize(
    "learner",
    [pytest.param(rc.RFLO(), marks=pytest.mark.slow), rc.EfficientBPTT(T=4)],
    ids=["rflo", "e-bptt"],
)
def test_the_last_steps_that_can_be_counted(learner):
    """Near 2³¹ no number of a step may overflow."""
    whole, members = Experiment.of(net(), {APPLIED: learner}, 0.03, rc.Add()), Members.of_seeds(jax.random.key(0), [0])
    losses, last = [], 2**31 - 1
    for engine in (rc.OnChipEngine(interpret=True, chunk=128), rc.ScanEngine()):
        with engine.prepare(whole, members) as run:
            run.restore(run.snapshot(), last - 100)
            losses.append(np.concatenate([piece.loss[0] for piece in run.advance(last)]))
    assert np.isfinite(losses[0]).all()
    np.testing.assert_allclose(*losses, atol=1e-5)


def test_bits_do_not_depend_on_pieces_with_another_generator():
    key = jax.random.key(0, impl="rbg")
    whole, members = Experiment.of(net(), {APPLIED: rc.UORO()}, 0.03, rc.Add()), Members.of_seeds(key, [0])
    losses = []
    for stops in ([512], [128, 512]):
        with rc.OnChipEngine(interpret=True, chunk=384).prepare(whole, members) as run:
            losses.append(np.concatenate([piece.loss[0] for stop in stops for piece in run.advance(stop)]))
    np.testing.assert_array_equal(*losses)


def test_a_snapshot_of_small_groups_goes_on_as_one():
    whole, members = (
        Experiment.of(net(), {APPLIED: rc.RFLO()}, 0.03, rc.Add()),
        Members.of_seeds(jax.random.key(0), range(3)),
    )
    with rc.ScanEngine(group=1).prepare(whole, members) as small, PLAYED.prepare(whole, members) as run:
        list(small.advance(20))
        run.restore(small.snapshot(), 20)
        assert len(run._groups) == 1
        further = [np.concatenate([piece.loss for piece in each.advance(60)], axis=1) for each in (small, run)]
    np.testing.assert_allclose(*further, atol=1e-5)


def test_a_sweep_is_refused_before_anything_is_trained():
    taken = []
    with pytest.raises(DoesNotFitError, match="OK with RNN"):
        rc.sweep(
            net(), rc.RFLO(), rc.Add(), vary={"learner": {"rflo": rc.RFLO(), "r-ok": rc.ROK()}}, steps=10,
            engine=PLAYED, progress=taken.append,
        )  # fmt: skip
    assert not taken


def test_a_network_that_diverges_leaves_the_others_alone():
    def explode(z):  # a network that leaves the floats after some steps, faster for some weights
        return jnp.where(jnp.abs(z) > 3, jnp.inf, 0.8 * z)

    network = rc.Network(rc.RNN(2, 3, phi=explode, dtype="float32"), 2, rc.SquaredError())
    task = rc.Arrays(np.ones((300, 2), "float32"), np.full((300, 2), 0.5, "float32"))
    settings = {"steps": 300, "seeds": 12, "window": 64, "optimizer": 0.0}
    found, wanted = (train(rc.Fixed(), task, network, **settings, engine=each) for each in (PLAYED, rc.ScanEngine()))
    assert 0 < len(found.diverged) < 12
    assert found.diverged == wanted.diverged
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-5)


def test_a_cpu_has_no_products_in_tf32():
    with pytest.raises(ValueError, match="A CPU has no products in tf32"):
        rc.OnChipEngine(interpret=True, precision="tf32")
    with pytest.raises(ValueError, match="must be 'float32', 'tf32x3' or 'tf32', and is 'half'"):
        rc.OnChipEngine(precision="half")

"""Whole runs on chip lower to Triton: streams, late and missing labels, optimizers, many members. It needs no GPU."""

import jax
import jax.numpy as jnp
import pytest

import recurra as rc
from on_chip_steps import BUILT
from recurra.engine.experiment import Experiment
from recurra.engine.on_chip.fold import advance
from recurra.step import APPLIED
from recurra.tasks import BLOCK
from test_on_chip_engine import EVENTS, OPTIMIZERS, late, mimic, net, rows, squared
from test_on_chip_learners import lowered

pytestmark = [pytest.mark.slow, lowered]
regression = squared["net"]
RUNS = {
    "plain": (net(), rc.RFLO(), rc.Add(1, 2), 1, 0.03),
    "mimic": (net(loss=rc.SquaredError(), n_in=4, n_out=4), rc.RFLO(), mimic, 1, 0.03),
    "late labels, missing, with episodes": (regression, rc.RFLO(), late(3, **EVENTS), 1, 0.03),
    "a ring of late labels": (regression, rc.FutureBPTT(T=5), late(3, **EVENTS), 1, 0.03),
    "streams": (net(), rc.UORO(), rc.Add(1, 2), 3, 0.03),
    "streams of arrays": (regression, rc.RFLO(), rows(sequences=2, **EVENTS), 2, 0.03),
    "rings in streams": (net(), rc.FutureBPTT(T=5), rc.Add(1, 2), 2, 0.03),
    "rounds in streams": (net(), rc.EfficientBPTT(T=8), rc.Add(1, 2), 2, 0.03),
    **{name: (net(), rc.RFLO(), rc.Add(1, 2), 1, optimizer) for name, optimizer in OPTIMIZERS.items()},
}


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", RUNS)
def test_runs(name, members):
    network, learner, task, streams, optimizer = RUNS[name]
    with jax.enable_x64(False):
        experiment = Experiment.of(network, {APPLIED: learner}, optimizer, task, streams).traced
        bounds = jnp.int32(0), jnp.int32(100)
        run = lambda key: advance(BUILT, experiment, *experiment.init(key), *bounds, BLOCK)
        keys = jax.random.split(jax.random.key(0), members)
        whole = jax.vmap(run) if members > 1 else lambda keys: run(keys[0])
        jax.jit(whole).trace(keys).lower(lowering_platforms=("cuda",))

"""A cell of a user's own, with a variable that no gate drives and one that no unit reads: every learner takes it."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from driving import FOR_ONE_LAYER, distance, drive, flat, one_step, problem
from recurra.cells import UnitwiseCell
from recurra.cells.initial import MatrixInit, orthogonal
from recurra.engine.forms import LazyRTRL


class Adapting(UnitwiseCell):
    """A unit that tires: the second variable follows the first and holds it back; the third only looks on."""

    n_in: int
    n: int
    w_rec: MatrixInit = eqx.field(static=True, default=orthogonal)
    dtype: jnp.dtype = eqx.field(static=True, default=jnp.dtype("float64"))

    states: ClassVar[int] = 3
    listens: ClassVar = ((True, True, True),)
    first_bias: ClassVar = (0.0,)

    def unit(self, a, z):
        now, tired, _ = a
        return jnp.tanh(z[0] - tired), 0.9 * tired + 0.1 * now, 0.5 * tired


class Mixed(Adapting):
    """Gates that hear different things, in no order; one has fewer weights than it could."""

    states: ClassVar[int] = 1
    listens: ClassVar = ((True, True, True), (False, True, True), (True, True, True), (True, False, True))
    first_bias: ClassVar = (0.0, 0.1, 0.2, 0.3)

    def init_weights(self, key):
        first, second, third, fourth = super().init_weights(key)
        return first, second, third._replace(inp=None), fourth

    def unit(self, a, z):
        return (0.3 * a[0] + jnp.tanh(z[0] + z[3]) * jax.nn.sigmoid(z[1] * z[2]),)


@pytest.mark.parametrize("cell", [Adapting, pytest.param(Mixed, marks=pytest.mark.slow)])
@pytest.mark.parametrize("learner", [LazyRTRL(), rc.RTRL()], ids=["lazy", "as published"])
def test_exact(learner, cell):
    network, weights, xs, ys = problem(cell, steps=20)

    def loss(cell, t):
        a = network.cell.init_state()
        for i in range(t + 1):
            found, tick = one_step(network, weights._replace(cell=cell), a, xs[i], ys[i], jnp.array(i))
            a = tick.state
        return found

    visited = drive(network, learner, weights, xs, ys)
    for t in (0, 5, 19):
        assert distance(visited[t][0], jax.grad(loss)(weights.cell, t)) < 1e-12


#: those with tensors of their own kind; the others are tried on another cell in `test_structure`
FEW = ("uoro", "r-ok", "f-bptt", "dni-b", "diagonal-uoro")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in FOR_ONE_LAYER])
def test_every_learner(name):
    network, weights, xs, ys = problem(Adapting, steps=12)
    visited = drive(network, FOR_ONE_LAYER[name](), weights, xs, ys)
    assert all(np.isfinite(flat(gradient)).all() for gradient, _, _ in visited)
    assert name == "fixed" or any(np.abs(flat(gradient)).max() > 0 for gradient, _, _ in visited)


class Fuse(eqx.Module):
    """A cell that refuses to go on."""

    weight: jax.Array

    def __call__(self, x, a):
        a = jnp.tanh(self.weight @ a + x.sum())
        return eqx.error_if(a, a.sum() > -1e9, "the fuse blew")


def test_an_error_that_a_cell_raises_while_it_runs_can_be_read():
    cell = rc.cell_of(Fuse(jnp.eye(3)), carry=jnp.zeros(3), x=2, unitwise=False)
    with pytest.raises(RuntimeError, match="the fuse blew"):
        rc.train(rc.Network(cell, 2), rc.Fixed(), rc.Add(), steps=3, progress=False)

"""A network with weights and states of a user's own: what fits is run, and what does not is named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
import unrolled
from driving import distance, problem

NETWORK = rc.Network(rc.LSTM(2, 4), 2)
WEIGHTS = NETWORK.init(jax.random.key(0))
XS = np.random.default_rng(0).normal(size=(6, 3, 2))


def run(weights):
    return NETWORK.run(weights, XS[:, 0])


def train(weights):
    return rc.train(NETWORK, rc.RFLO(), rc.Add(1, 2), steps=5, start=weights, progress=False)


def online(weights):
    return rc.Online(rc.OnlineStep(rc.LearningStep(NETWORK, rc.RFLO(), 1e-2)), weights=weights)


def with_gate(number, **arrays):
    gates = list(WEIGHTS.cell)
    gates[number] = gates[number]._replace(**arrays)
    return WEIGHTS._replace(cell=tuple(gates))


#: weights that do not fit, the kind of error, and what it says; the name of the argument is added in front
WRONG = {
    "a bias without its second axis": (
        with_gate(1, bias=np.zeros(4)),
        ValueError,
        r"\.cell\.f\.bias` must have shape \(4, 1\).*, and has \(4,\)\.",
    ),
    "another n": (rc.Network(rc.LSTM(2, 5), 2).init(jax.random.key(0)), ValueError, r"\.cell\.i\.rec` must have shape"),
    "another cell": (
        rc.Network(rc.RNN(2, 4), 2).init(jax.random.key(0)),
        ValueError,
        r"` is not of this network: it has no `\w+\.cell\.f\.rec`",
    ),
    "another type": (
        jax.tree.map(lambda leaf: leaf.astype("float16"), WEIGHTS),
        TypeError,
        r"\.cell\.i\.rec` is float16 and the network's is float64",
    ),
}
NAN = with_gate(3, inp=np.full((4, 2), np.nan))
SEVERAL = jax.vmap(NETWORK.init)(jax.random.split(jax.random.key(0), 3))


@pytest.mark.parametrize("start", [run, train, online], ids=lambda start: start.__name__)
@pytest.mark.parametrize("wrong", WRONG)
def test_weights_that_do_not_fit_are_named_wherever_a_user_gives_them(wrong, start):
    weights, kind, match = WRONG[wrong]
    name = "start" if start is train else "weights"
    with pytest.raises(kind, match=f"^`{name}{match}"):
        start(weights)


def test_weights_that_fit_are_taken():
    """The control."""
    assert run(WEIGHTS).shape == (6, 2)
    assert train(WEIGHTS).steps == 5
    np.testing.assert_array_equal(online(WEIGHTS).weights.cell[2].rec, WEIGHTS.cell[2].rec)


def test_a_start_is_finite_and_a_seed_at_a_time():
    for start in (train, online):
        with pytest.raises(ValueError, match=r"\.cell\.o\.inp` must be finite, and holds nan"):
            start(NAN)
    for start in (run, online):
        with pytest.raises(
            ValueError, match=r"`weights\.readout\.b` has shape \(3, 2\) in the place of \(2,\).*of one"
        ):
            start(SEVERAL)
    with pytest.raises(
        TypeError, match=r"`weights` must be NetworkWeights, as `Network\.init` returns them, and is tup"
    ):
        NETWORK.check_weights(tuple(WEIGHTS))
    NETWORK.check_weights(SEVERAL, seeds=3)
    with pytest.raises(
        ValueError, match=r"`mine\.cell\.i\.rec` must have shape \(4, 4\) for all seeds, or \(5, 4, 4\)"
    ):
        NETWORK.check_weights(SEVERAL, "mine", seeds=5)


def test_arrays_of_layers_and_of_other_cells_are_named_too():
    network = rc.Network(rc.Stack(rc.RNN(2, 3), rc.GRU(3, 4)), 2)
    (below, (r, u, *others)), readout, _ = network.init(jax.random.key(0))
    wrong = rc.NetworkWeights((below, (r, u._replace(bias=jnp.zeros(4)), *others)), readout, None)
    with pytest.raises(ValueError, match=r"`weights\.cell\[1\]\.u\.bias` must have shape \(4, 1\), and has \(4,\)"):
        network.check_weights(wrong)
    with pytest.raises(ValueError, match=r"`weights\.readout\.W` must have shape \(2, 4\), and has \(2, 3\)"):
        network.check_weights(network.init(jax.random.key(0))._replace(readout=readout._replace(W=jnp.zeros((2, 3)))))
    sparse = rc.Network(rc.RNN(2, 4, w_rec=rc.cells.Sparsely(0.5)), 2)
    dense = rc.Network(rc.RNN(2, 4), 2).init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"it has no `weights\.cell\.w\.rec\.values`"):
        sparse.check_weights(dense)


@pytest.mark.parametrize("cell", unrolled.CELLS)
def test_streams_run_side_by_side_from_a_state_of_their_own(cell):
    """Against textbook cells unrolled by hand, one sequence after the other."""
    make, step = unrolled.CELLS[cell]
    network, weights, *_ = problem(make)
    first = tuple(np.random.default_rng(1).normal(size=(3, width)) for width in network.cell.widths)

    def alone(b, a0):
        visited = unrolled.states(step, [weights.cell] * 6, a0, XS[:, b])
        return jnp.stack([jnp.einsum("ij,j->i", weights.readout.W, a[0]) + weights.readout.b for a in visited])

    a0 = network.cell.init_state()
    fresh, later = ([alone(b, start(b)) for b in range(3)] for start in (lambda b: a0, lambda b: [v[b] for v in first]))
    assert distance(network.run(weights, XS), jnp.stack(fresh, axis=1)) < 1e-12
    assert distance(network.run(weights, XS, first), jnp.stack(later, axis=1)) < 1e-12
    assert distance(jnp.stack(fresh, axis=1), jnp.stack(later, axis=1)) > 1e-3  # the control
    assert distance(network.run(weights, XS[:, 1], tuple(v[1] for v in first)), later[1]) < 1e-12


def test_inputs_and_states_of_other_shapes_are_named():
    for inputs in (XS[..., :1], XS[None]):
        with pytest.raises(
            ValueError, match=r"`inputs` must have shape \(steps, 2\), or for several streams \(steps, s"
        ):
            NETWORK.run(WEIGHTS, inputs)
    one, several = (jnp.zeros(4), jnp.zeros(3)), (jnp.zeros((3, 4)), jnp.zeros(4))
    with pytest.raises(ValueError, match=r"^`state\[1\]` must have shape \(4,\), and has \(3,\)"):
        NETWORK.run(WEIGHTS, XS[:, 0], one)
    with pytest.raises(ValueError, match=r"^`state\[1\]` must have shape \(3, 4\), and has \(4,\)"):
        NETWORK.run(WEIGHTS, XS, several)
    with pytest.raises(ValueError, match=r"^`state` is not of this network: it has no `state\[1\]`"):
        NETWORK.run(WEIGHTS, XS[:, 0], one[:1])


def test_a_network_runs_inside_transformations():
    """Weights are then traced, and their shapes are checked all the same."""
    outputs = jax.vmap(NETWORK.run, (0, None))(SEVERAL, XS)
    second = jax.tree.map(lambda leaf: leaf[1], SEVERAL)
    assert distance(outputs[1], NETWORK.run(second, XS)) < 1e-12
    with pytest.raises(ValueError, match=r"`weights\.cell\.f\.bias` must have shape"):
        jax.jit(run)(with_gate(1, bias=jnp.zeros(4)))

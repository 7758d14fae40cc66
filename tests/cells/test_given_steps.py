"""What a user's step is taken for: which of its numbers are learned, what a head sees, and what is refused."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import recurra as rc
from recurra.cells.foreign import ReadCell
from recurra.linalg import dense

N, M = 4, 3
KEYS = jax.random.split(jax.random.key(0), 8)
P = {"W": jax.random.normal(KEYS[0], (N, N)), "U": jax.random.normal(KEYS[1], (N, M)), "b": jnp.ones(N)}
H = jax.random.normal(KEYS[2], (N,))
XS = jax.random.normal(KEYS[3], (6, M))
ONES = jnp.ones(N)


def tanh_step(p, h, x):
    return jnp.tanh(p["W"] @ h + p["U"] @ x + p["b"])


def grad_of(step, params=P, carry=H, x=M, learner=None, **settings):
    return rc.online_grad(step, learner or rc.RTRL(), params, carry=carry, x=x, **settings)


def followed(grad, params, xs=XS):
    state = grad.init(params, jax.random.key(0))
    for x in xs:
        state = grad.observe(params, state, x)
    return state


def unrolled(step, params, carry, loss=jnp.sum):
    """The gradient of a loss of the last carry, by automatic differentiation through time."""
    return jax.grad(lambda p: loss(functools.reduce(lambda h, x: step(p, h, x), XS, carry)))(params)


def distance(a, b):
    return max(float(np.abs(u - v).max()) for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


# Which numbers are learned


@jax.custom_jvp
def slowed(w):
    return w


slowed.defjvp(lambda primals, tangents: (primals[0], 0.1 * tangents[0]))
BY_ANOTHER_DERIVATIVE = {
    "stopped": jax.lax.stop_gradient,
    "half stopped": lambda w: 0.5 * w + jax.lax.stop_gradient(0.5 * w),
    "slowed": slowed,
    "clamped far away": lambda w: jnp.maximum(w, -6.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ANOTHER_DERIVATIVE)
def test_weights_with_a_derivative_of_their_own_keep_it_when_they_are_packed_and_trained(name):
    of = BY_ANOTHER_DERIVATIVE[name]
    step = lambda p, h, x: jnp.tanh(of(p["W"]) @ h + p["U"] @ x)
    params = {"W": P["W"].at[0, 0].set(-7.0), "U": P["U"]}
    grad = grad_of(step, params)
    assert isinstance(grad.cell, ReadCell)
    truth = unrolled(step, params, H)
    packed = grad.pack(params)
    for given in (params, packed):
        found = grad.unpack(grad.gradient(given, followed(grad, given), ONES))
        assert distance(found, truth) < 1e-12


def test_numbers_that_are_not_learned_cannot_change():
    step = lambda p, h, x: jnp.tanh(jnp.where(p["mask"], p["W"], 0.0) @ h + p["U"] @ x)
    params = {"W": P["W"], "U": P["U"], "mask": jnp.eye(N, dtype=bool)}
    grad = grad_of(step, params)
    state = grad.init(params, jax.random.key(0))
    without = params | {"mask": None}
    assert distance(grad.observe(params, state, XS[0]).a, grad.observe(without, state, XS[0]).a) == 0
    with pytest.raises(ValueError, match=r"`params\['mask'\]` is not learned, so <lambda> keeps it"):
        grad.observe(params | {"mask": ~params["mask"]}, state, XS[0])
    with pytest.raises(ValueError, match="Leave it out, with None in its place"):
        jax.jit(lambda p: grad.observe(p, state, XS[0]))(params)


@pytest.mark.slow
def test_plain_numbers_among_parameters_are_learned_as_jax_takes_them():
    step = lambda p, h, x: p["keep"] * h + jnp.tanh(p["W"] @ h + p["U"] @ x)
    params = {"W": P["W"], "U": P["U"], "keep": 0.5}
    grad = grad_of(step, params)
    assert distance(grad.gradient(params, followed(grad, params), ONES), unrolled(step, params, H)) < 1e-12
    jitted = jax.jit(lambda p, s: grad.gradient(p, s, ONES))(params, followed(grad, params))
    assert distance(jitted, unrolled(step, params, H)) < 1e-12


@pytest.mark.slow
def test_of_the_variables_of_linen_the_parameters_are_learned():
    nn = pytest.importorskip("flax.linen")

    class Normed(nn.Module):
        @nn.compact
        def __call__(self, carry, x):
            x = nn.BatchNorm(use_running_average=True, param_dtype="float64")(x)
            return nn.GRUCell(N, param_dtype="float64")(carry, x)

    with jax.numpy_dtype_promotion("standard"):  # running means are in single precision
        module = Normed()
        variables = module.init(KEYS[4], H, XS[0])
        grad = grad_of(module, variables, carry=H, x=XS[0])
        gradient = grad.gradient(variables, followed(grad, variables), ONES)
    assert jax.tree.leaves(gradient["batch_stats"]) == [], "running means are no parameters"
    assert len(jax.tree.leaves(gradient["params"])) == len(jax.tree.leaves(variables["params"]))


def test_given_parameters_of_a_cell_of_nnx_are_the_first_ones():
    nnx = pytest.importorskip("flax.nnx")
    cell, other = (nnx.GRUCell(M, N, rngs=nnx.Rngs(seed), param_dtype="float64") for seed in (0, 1))
    params = nnx.state(other, nnx.Param)
    made = rc.cell_of(cell, params, carry=H, x=XS[0])
    assert distance(made.parameters(made.init_weights(KEYS[0])), params) == 0
    with pytest.raises(TypeError, match=r"must be its nnx.state\(cell, nnx.Param\)"):
        rc.cell_of(cell, {"W": P["W"]}, carry=H, x=XS[0])


# What a head sees, and its credit


def lstm(activation):
    """Of Flax's form: ((c, h), h)."""

    def step(p, carry, x):
        c, h = carry
        h = activation(p["W"] @ h + p["U"] @ x)
        return (0.5 * c + h, h), h

    return step


def late(p, carry, x):
    c, h = carry
    return 0.5 * c + jnp.tanh(p["U"] @ x), jnp.tanh(p["W"] @ h + c)


@pytest.mark.parametrize("activation", [jnp.tanh, jax.nn.softmax], ids=["read", "general"])
def test_a_head_sees_what_is_returned_beside_the_carry_or_the_leaves_it_asks_for(activation):
    step, carry = lstm(activation), (H, 2 * H)
    seen = lambda **settings: (grad := grad_of(step, carry=carry, **settings)).shown(grad.init(P, KEYS[0]))
    assert isinstance(grad_of(step, carry=carry).cell, ReadCell) == (activation is jnp.tanh)
    np.testing.assert_array_equal(seen(), 2 * H)
    np.testing.assert_array_equal(seen(shown=0), H)
    np.testing.assert_array_equal(seen(shown=(1, 0)), jnp.concatenate([2 * H, H]))
    for wrong in (7, (), (0, 0)):
        with pytest.raises(ValueError, match="from 0 to 1"):
            seen(shown=wrong)


@pytest.mark.slow
def test_a_head_sees_a_function_of_the_carry_that_gates_hear():
    step = lambda p, v, x: (after := 0.5 * v + p["W"] @ jnp.tanh(v) + p["U"] @ x, jnp.tanh(after))
    grad = grad_of(step)
    np.testing.assert_allclose(grad.shown(grad.init(P, KEYS[0])), jnp.tanh(H), rtol=1e-14)
    wanted = unrolled(lambda p, v, x: step(p, v, x)[0], P, H, lambda v: jnp.tanh(v).sum())
    assert distance(grad.gradient(P, followed(grad, P), ONES), wanted) < 1e-12


PERMUTED = np.array([2, 0, 3, 1])
#: steps whose units stand in another order in the carry than among the weights
OTHER_ORDERS = {
    "permuted": lambda p, h, x: jnp.tanh(p["W"] @ h[PERMUTED] + p["U"] @ x),
    "backwards": lambda p, h, x: jnp.tanh(p["W"] @ h[::-1] + p["U"] @ x)[::-1],
    "beside": lambda p, h, x: ((after := jnp.tanh(p["W"] @ h + p["U"] @ x)), after[PERMUTED]),
}


@pytest.mark.parametrize("name", OTHER_ORDERS)
def test_a_head_sees_units_in_the_order_of_the_carry(name):
    step, weights = OTHER_ORDERS[name], jnp.arange(1.0, N + 1)
    grad = grad_of(step)
    assert isinstance(grad.cell, ReadCell)
    next_carry = lambda p, h, x: step(p, h, x)[0] if name == "beside" else step(p, h, x)
    seen = lambda h: h[PERMUTED] if name == "beside" else h
    truth = unrolled(next_carry, P, H, lambda h: weights @ seen(h))
    assert distance(grad.gradient(P, followed(grad, P), weights), truth) < 1e-12
    assert distance(grad.gradient(P, followed(grad, P), weights[::-1]), truth) > 1e-3
    np.testing.assert_array_equal(grad.shown(grad.init(P, KEYS[0])), seen(H))


def test_a_layer_above_sees_units_in_the_order_of_the_carry():
    """The general cell is the oracle, for credit that goes down and for tangents that go up."""
    step = lambda p, c, x: jnp.stack([jnp.tanh(p["W"] @ c[:, 0] + p["U"] @ x), 0.9 * c[:, 1] + c[:, 0]], axis=1)
    carry, found = jnp.stack([H, 2 * H], axis=1), []
    for unitwise in (True, False):
        cell = rc.cell_of(step, P, carry=carry, x=M, unitwise=unitwise)
        stack = rc.Stack(cell, rc.RNN(2 * N, 2, dtype="float64"), skip=True)
        weights, pull = stack.applied_with_pull((P, stack.cells[1].init_weights(KEYS[5])))
        state, trace = stack.forward(weights, stack.init_state(), XS[0])
        c = stack.credit_shown(jnp.arange(1.0, stack.shown_width + 1))
        pushed = stack.push_input(weights, trace, jnp.eye(M))
        found.append((pull(dense(stack.deposit(weights, trace, c))), stack.show(state), stack.show(pushed)))
    assert distance(*found) < 1e-12


@pytest.mark.parametrize("shape", [(2, 3), ()])
@pytest.mark.parametrize("unitwise", [True, False])
def test_credit_of_a_carry_that_is_no_vector_has_its_shape(shape, unitwise):
    n = int(np.prod(shape))
    step = lambda p, h, x: jnp.tanh(p["W"] @ h.reshape(-1) + p["U"] @ x).reshape(shape)
    params = {"W": jax.random.normal(KEYS[6], (n, n)), "U": jnp.ones((n, M))}
    grad = rc.online_grad(rc.cell_of(step, params, carry=jnp.zeros(shape), x=M, unitwise=unitwise), rc.RTRL())
    state, c = followed(grad, params), jnp.arange(1.0, n + 1)
    truth = unrolled(step, params, jnp.zeros(shape), lambda h: c @ h.reshape(-1))
    for given in (c, c.reshape(shape)):
        assert distance(grad.gradient(params, state, given), truth) < 1e-12
    assert grad.input_gradient(params, state, c.reshape(shape)).shape == (M,)
    with pytest.raises(ValueError, match="or a tree like the carry, and is of shape"):
        grad.gradient(params, state, jnp.ones((n + 1, 2)))


def test_all_rows_of_a_carry_are_seen():
    """The newest row of a delay stands first."""
    step = lambda p, c, x: jnp.concatenate([jnp.tanh(p["W"] @ c[-1] + p["U"] @ x)[None], c[:-1]])
    carry = jnp.arange(2.0 * N).reshape(2, N)
    grad = grad_of(step, carry=carry)
    assert isinstance(grad.cell, ReadCell)
    np.testing.assert_array_equal(grad.shown(grad.init(P, KEYS[0])), carry.ravel())


@pytest.mark.parametrize("also", [lambda p, h: p["W"] @ h, lambda p, h: 2 * h])
def test_what_is_returned_beside_the_carry_and_is_not_of_it_is_left_out_with_a_warning(also):
    step = lambda p, h, x: (tanh_step(p, h, x), also(p, h))
    with pytest.warns(UserWarning, match="is no part of the carry, and is left out: a readout or a head sees carry"):
        grad = grad_of(step)
    np.testing.assert_array_equal(grad.shown(grad.init(P, KEYS[0])), H)
    grad_of(step, shown=0)  # asked for: no warning, which would be an error here


@pytest.mark.parametrize("unitwise", [True, False])
def test_credit_of_the_carry_is_a_tree_like_it(unitwise):
    carry = (H, 2 * H)
    cell = rc.cell_of(late, P, carry=carry, x=M, unitwise=unitwise)
    grad = rc.online_grad(cell, rc.RTRL())
    state = followed(grad, P)
    for which in (0, 1):
        truth = unrolled(late, P, carry, lambda c, which=which: c[which].sum())
        c = [None, None]
        c[which] = ONES
        assert distance(grad.gradient(P, state, tuple(c)), truth) < 1e-12
    with pytest.raises(ValueError, match="must be like the carry of late, of shapes"):
        grad.gradient(P, state, (ONES,))


def test_credit_in_another_precision_is_taken():
    params = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), P)
    grad = grad_of(tanh_step, params, carry=jnp.zeros(N, "bfloat16"))
    state = followed(grad, params)
    assert grad.gradient(params, state, jnp.ones(N, "float32"))["W"].dtype == "bfloat16"
    assert grad.input_gradient(params, state, jnp.ones(N, "float32")).shape == (M,)


# The tree of inputs and of parameters


def test_inputs_and_parameters_of_another_tree_are_refused():
    step = lambda p, h, x: jnp.tanh(p["W"] @ h + p["U"] @ x["a"] + x["b"])
    grad = grad_of(step, x={"a": jnp.zeros(M), "b": jnp.zeros(1)})
    state = grad.init(P, KEYS[0])
    for wrong in ({"a": jnp.zeros(1), "b": jnp.zeros(M)}, (jnp.zeros(1), jnp.zeros(M)), jnp.ones(4), None):
        with pytest.raises(ValueError, match="must be like the example"):
            grad.observe(P, state, wrong)
    state = grad.observe(P, state, {"a": XS[0], "b": jnp.ones(1)})
    credit = grad.input_gradient(P, state, ONES)
    assert jax.tree.map(jnp.shape, credit) == {"a": (M,), "b": (1,)}
    for wrong, told in (
        ((P["W"], P["U"], P["b"]), "must be a tree like those"),
        (P | {"more": ONES}, "must be a tree like those"),
        (P | {"U": P["W"]}, r"`params\['U'\]` of <lambda> must be float64\[4, 3\], .* and is float64\[4, 4\]"),
        (P | {"W": P["W"].astype("float32")}, r"must be float64\[4, 4\], .* and is float32\[4, 4\]"),
    ):
        with pytest.raises(ValueError, match=told):
            grad.gradient(wrong, state, ONES)


def test_parameters_that_were_packed_for_another_step_are_refused():
    grad, other = grad_of(tanh_step), grad_of(eqx.nn.LSTMCell(M, N, key=KEYS[0]), None, carry=(H, H))
    tied = grad_of(lambda p, h, x: jnp.tanh((p["W"] + p["W"].T) @ h + p["U"] @ x))
    packed = other.pack(other.cell.params)
    for each in (grad, tied):
        with pytest.raises(ValueError, match=r"packed for another step than \S+, or for other shapes"):
            each.observe(packed, each.init(P, KEYS[0]), XS[0])
    with pytest.raises(ValueError, match="packed for another step"):
        grad.unpack(packed)


def test_an_input_of_another_shape_is_told_by_its_shape_alone():
    grad = grad_of(tanh_step)
    with pytest.raises(
        ValueError, match=r"of shapes float64\[3\], and has float64\[2, 3\]\. For several streams"
    ) as error:
        grad.observe(P, grad.init(P, KEYS[0]), XS[:2])
    assert "PyTreeDef" not in str(error.value)


# Names of gates and parameters


def test_gates_are_called_by_the_parameters_that_are_in_them():
    cell = rc.cell_of(eqx.nn.GRUCell(M, N, key=KEYS[0]), carry=H, x=M)
    assert set(cell.gates) == {
        *(f"weight_hh[{g}]+weight_ih[{g}]+bias[{g}]" for g in (0, 1)), "weight_hh[2]+bias_n", "weight_ih[2]+bias[2]",
    }  # fmt: skip
    assert rc.cell_of(tanh_step, P, carry=H, x=M).gates == ("W+U+b",)
    both = lambda p, h, x: jnp.tanh(jnp.concatenate([p["W"][:2], p["b"][None, :], p["W"][2:3]]) @ h + p["U"] @ x)
    assert rc.cell_of(both, P | {"W": P["W"][:3]}, carry=H, x=M).gates == ("0",)


def test_parameters_from_which_gates_are_computed_have_optimizers_by_their_paths():
    step = lambda p, h, x: jnp.tanh((p["W"] + p["W"].T) @ h + p["of"]["U"] @ x)
    params = {"W": P["W"], "of": {"U": P["U"]}}
    for cell in (rc.cell_of(step, params, carry=H, x=M), rc.cell_of(step, params, carry=H, x=M, unitwise=False)):
        optimizer = rc.PerGate(cell, 0.5, {"of.U": 0.0})
        assert optimizer.arrays == ("W", "of.U")
        after = optax.apply_updates(params, optimizer.built().update(params, optimizer.built().init(params), params)[0])
        assert distance(after, {"W": 0.5 * P["W"], "of": {"U": P["U"]}}) < 1e-12
    with pytest.raises(ValueError, match=r"the gates of the cell are W, of\.U"):
        rc.PerGate(cell, 0.5, {"U": 0.0})


def test_snap_of_a_higher_order_says_what_to_do_for_a_step_of_ones_own():
    for step in (tanh_step, lambda p, h, x: jnp.tanh((p["W"] + p["W"].T) @ h + p["U"] @ x)):
        with pytest.raises(
            TypeError, match=r"needs sparse recurrent weights.*a cell of recurra, such as recurra.RNN\("
        ):
            grad_of(step, learner=rc.SnAp(order=2))


# Transformations of JAX


def test_its_functions_can_be_compiled_by_themselves():
    grad = grad_of(tanh_step)
    observe, gradient = jax.jit(grad.observe), jax.checkpoint(jax.jit(grad.gradient))
    state = grad.init(P, KEYS[0])
    for x in XS:
        state = observe(P, state, x)
    assert distance(gradient(P, state, ONES), unrolled(tanh_step, P, H)) < 1e-12
    assert isinstance(hash(grad), int)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_cell_is_not_made_inside_a_transformation(transform):
    with pytest.raises(TypeError, match=r"make it outside of jax.jit, jax.vmap"):
        transform(lambda W: grad_of(tanh_step, P | {"W": W}).cell.n)(P["W"][None])


class Gain:
    """A step that depends on what may change."""

    gain = 1.0

    def step(self, p, h, x):
        return jnp.tanh(self.gain * (p["W"] @ h) + p["U"] @ x)


def test_what_a_step_depends_on_besides_its_arguments_is_read_when_the_cell_is_made():
    task = rc.Arrays(np.ones((20, M)), np.ones((20, 1)))

    def trained(made, gain):
        made.gain = gain
        network = rc.Network(rc.cell_of(made.step, P, carry=H, x=M), n_out=1, loss=rc.SquaredError())
        return rc.train(network, rc.RFLO(), task, steps=20, progress=False).loss.ravel()

    made = Gain()
    with_gain, without = trained(made, 1.0), trained(made, 0.0)
    assert not np.array_equal(with_gain, without)
    np.testing.assert_array_equal(without, trained(Gain(), 0.0))


# Derivatives of one's own


@jax.custom_jvp
def centred_backwards(z):
    return jnp.tanh(z)


centred_backwards.defjvp(lambda p, t: (jnp.tanh(p[0]), t[0] - t[0].mean()))


@jax.custom_jvp
def hidden(z, w):
    return jnp.tanh(z)


hidden.defjvp(lambda p, t: (jnp.tanh(p[0]), (1 - jnp.tanh(p[0]) ** 2) * t[0] + t[1]))


def test_a_rule_that_mixes_units_in_its_derivative_alone_is_not_read():
    step = lambda p, h, x: centred_backwards(p["W"] @ h + p["U"] @ x)
    grad = grad_of(step)
    assert not isinstance(grad.cell, ReadCell)
    assert distance(grad.gradient(P, followed(grad, P), ONES), unrolled(step, P, H)) < 1e-12


def test_a_weight_that_acts_in_a_derivative_alone_is_reached():
    """After one step SnAp-1 is exact."""
    step = lambda p, h, x: hidden(jax.nn.softmax(p["W"] @ h) + p["U"] @ x, p["b"])
    grad = grad_of(step, learner=rc.SnAp1())
    assert not isinstance(grad.cell, ReadCell)
    state = grad.observe(P, grad.init(P, KEYS[0]), XS[0])
    truth = jax.grad(lambda p: step(p, H, XS[0]).sum())(P)
    assert distance(grad.gradient(P, state, ONES)["b"], truth["b"]) < 1e-12 < np.abs(truth["b"]).max()


def test_straight_through_weights_are_read():
    @jax.custom_vjp
    def rounded(w):
        return jnp.round(w)

    rounded.defvjp(lambda w: (jnp.round(w), None), lambda _, c: (c,))
    step = lambda p, h, x: jnp.tanh(rounded(p["W"]) @ h + p["U"] @ x)
    grad = grad_of(step)
    assert distance(grad.gradient(P, followed(grad, P), ONES), unrolled(step, P, H)) < 1e-12


# What is refused


@dataclasses.dataclass
class Unregistered:
    h: jax.Array


REFUSED = {
    "a class": (lambda: grad_of(eqx.nn.GRUCell, None), "GRUCell is a class: give an instance"),
    "no parameters": (lambda: grad_of(tanh_step, None), "has no floating-point arrays.*give them as `params`"),
    "an index": (lambda: grad_of(tanh_step, x=jnp.arange(M)), "An index, such as into an embedding, is passed"),
    "a list": (lambda: grad_of(tanh_step, x=[0.0, 0.0, 0.0]), "an array of floating-point numbers or a tree of them"),
    "a counter": (lambda: grad_of(tanh_step, carry={"h": H, "t": jnp.array(0)}), r"`carry\['t'\]` is Array\(0"),
    "a count": (lambda: grad_of(tanh_step, carry={"t": jnp.array(0)}), "can be part of the input, as a"),
    "a dataclass": (lambda: grad_of(tanh_step, carry=Unregistered(H)), "must be registered as a tree"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_step_is_refused(name):
    make, told = REFUSED[name]
    with pytest.raises(TypeError, match=told):
        make()


def test_keys_and_constants_among_what_is_carried_are_told_apart():
    """The number 0 of a constant is not the carried entry of that number."""
    V = P["W"][:2, :2]
    step = lambda p, c, x: {
        "g": jnp.tanh(c["g"]),
        "h": jnp.tanh(p["W"] @ (c["h"] * c["g"]) + p["V"] @ (c["h"] * jnp.array([0.0, 1.0])) + p["U"] @ x),
    }
    params, carry = {"W": V, "V": V.T, "U": P["U"][:2]}, {"g": H[:2], "h": H[2:]}
    cell = rc.cell_of(step, params, carry=carry, x=M)
    assert "please report" not in (getattr(cell, "why", None) or "")
    grad = rc.online_grad(cell, rc.RTRL())
    truth = unrolled(step, params, carry, lambda c: c["h"].sum())
    found = grad.gradient(params, followed(grad, params), {"g": None, "h": jnp.ones(2)})
    assert distance(found, truth) < 1e-12


@pytest.mark.parametrize("kind", ["nnx", "linen"])
def test_a_cell_that_changes_variables_of_its_own_is_refused(kind):
    nnx, nn = pytest.importorskip("flax.nnx"), pytest.importorskip("flax.linen")

    class Linen(nn.Module):
        @nn.compact
        def __call__(self, h, x):
            return nn.Dropout(0.5, deterministic=False)(nn.GRUCell(N)(h, x)[0]), None

    class Nnx(nnx.Module):
        def __init__(self, rngs):
            self.cell, self.dropout = nnx.GRUCell(M, N, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, h, x):
            return self.dropout(self.cell(h, x)[0]), None

    h = jnp.zeros(N, "float32")
    if kind == "nnx":
        thing, variables = Nnx(nnx.Rngs(0)), None
    else:
        thing = Linen()
        variables = Linen().init({"params": KEYS[0], "dropout": KEYS[1]}, h, jnp.zeros(M, "float32"))
    with pytest.raises(TypeError, match=r"changes variables of its own when it is called.*is not supported"):
        rc.cell_of(thing, variables, carry=h, x=M)


def test_an_equinox_module_with_a_key_is_taken():
    class Keyed(eqx.Module):
        cell: eqx.nn.GRUCell
        key: jax.Array

        def __call__(self, x, h):
            return self.cell(x, h)

    grad = grad_of(Keyed(eqx.nn.GRUCell(M, N, key=KEYS[0]), KEYS[1]), None)
    assert isinstance(grad.cell, ReadCell)

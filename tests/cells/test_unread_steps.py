"""Steps that are not unit-wise: each is refused for its own reason, at the line where that is written."""

import inspect
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recurra as rc
from recurra.programs import LONGEST

N, M = 4, 3
H, X = jnp.zeros(N), jnp.zeros(M)
rng = np.random.default_rng(0)
P = {"W": rng.normal(size=(N, N)), "V": rng.normal(size=(N, N)), "U": rng.normal(size=(N, M)), "b": rng.normal(size=N)}
P = jax.tree.map(jnp.asarray, P)

#: steps that are not unit-wise: (step, carry, what is said)
REFUSED = {}


def refused(reason, carry=H):
    def register(step):
        REFUSED[step.__name__] = step, carry, reason
        return step

    return register


def line_of(*functions):
    """File, number and text of the line of a function that ends with the comment `# here`."""
    for function in functions:
        lines, first = inspect.getsourcelines(function)
        for number, line in enumerate(lines, first):
            if line.rstrip().endswith("# here"):
                return f"line {number} of test_unread_steps.py, `{line.strip()[:LONGEST]}`"
    return None


FROM_WEIGHTS = "multiplies weights with what this step has already computed from weights"


@refused(FROM_WEIGHTS)
def reset_before(p, h, x):
    r = jax.nn.sigmoid(p["V"] @ h + p["U"] @ x)
    new = p["W"] @ (r * h)  # here
    return 0.5 * h + jnp.tanh(new + p["U"] @ x)


@refused("mixes units: `reduce_sum` is not known to act on each of them alone")
def layer_norm(p, h, x):
    z = p["W"] @ h + p["U"] @ x
    z = jnp.tanh(z)
    mean = z.sum() / N  # here
    return z - mean


@refused("multiplies values with each other that this step has computed, across units")
def attention(p, h, x):
    query, key = p["W"] @ h, p["V"] @ h
    weight = query @ key  # here
    return h * weight


@refused("multiplies weights with one carried variable, and another line does so with another one", carry=(H, H))
def two_that_meet_weights(p, carry, x):
    h, c = carry
    heard = p["W"] @ h
    also = p["V"] @ c  # here
    return jnp.tanh(heard + also), jnp.tanh(heard)


@refused("combines entries of different units, such as neighbours")
def neighbours(p, h, x):
    left = jnp.roll(h, 1)
    return jnp.tanh(p["W"] @ h) + left  # here


@refused("multiplies weights with a nonlinear function of the input")
def encoder(p, h, x):
    code = jnp.tanh(p["U"] @ x)
    driven = p["V"] @ code  # here
    return jnp.tanh(p["W"] @ h + driven)


@refused("runs a loop or a branch (`scan`)")
def settling(p, h, x):
    def once(i, h):
        return jnp.tanh(p["W"] @ h)

    return jax.lax.fori_loop(0, 3, once, h)  # here


@refused("runs a loop or a branch (`cond`)")
def branching(p, h, x):
    z = jnp.tanh(p["W"] @ h)
    return jax.lax.cond(x[0] > 0, lambda: z, lambda: h)  # here


@refused("mixes units: `reduce_max` is not known to act on each of them alone")
def softmax(p, h, x):
    return jax.nn.softmax(  # here
        p["W"] @ h + p["U"] @ x,
    )


@refused("mixes units: `sort` is not known to act on each of them alone")
def sorting(p, h, x):
    z = jnp.tanh(p["W"] @ h)
    return jnp.sort(z)  # here


@refused("chooses entries by what it has computed (`dynamic_slice`)")
def looking_up(p, h, x):
    z = jnp.tanh(p["W"] @ h)
    which = jnp.asarray(x[0], "int32")
    return jax.lax.dynamic_slice(z, (which,), (1,)) * h  # here


@jax.custom_vjp
def backwards_only(v):
    return jnp.tanh(v)


backwards_only.defvjp(lambda v: (jnp.tanh(v), v), lambda v, g: (g,))


@refused("uses a derivative for going backwards only (`jax.custom_vjp`); one for both ways is `jax.custom_jvp`")
def surrogate_for_going_backwards(p, h, x):
    z = p["W"] @ h + p["U"] @ x
    return backwards_only(z)  # here


@refused("computes with complex numbers", carry=(H, H))
def lru_in_complex_numbers(p, carry, x):
    re, im = carry
    decay = jnp.exp(jax.lax.complex(-(p["b"] ** 2), p["b"]))
    a = decay * jax.lax.complex(re, im)  # here
    return a.real + p["U"] @ x, a.imag


@refused("computes in float32, and the carry is of float64")
def in_short_numbers(p, h, x):
    z = jnp.asarray(p["W"] @ h, "float32")  # here
    return jnp.tanh(jnp.asarray(z, "float64") + p["U"] @ x)


@refused("is finite at none of the points at which what was read could be compared with it")
def without_a_domain(p, h, x):
    return jnp.log(-1 - jnp.square(p["W"] @ h + p["U"] @ x))


@refused("has units that differ: some of them hold, hear or compute something else than the others")
def two_populations(p, h, x):
    z = p["W"] @ h + p["U"] @ x
    return jnp.concatenate([jnp.tanh(z[:2]), jax.nn.relu(z[2:])])


@refused("multiplies weights with several carried values of each unit", carry=jnp.zeros(2 * N))
def both_halves(p, carry, x):
    W = jnp.concatenate([p["W"], p["V"]], axis=1)
    z = W @ carry  # here
    return jnp.concatenate([jnp.tanh(z) + carry[N:], carry[:N]])


@refused("has no gates: no parameter enters it")
def without_parameters(p, h, x):
    return jnp.tanh(h) * 0.5


# Where a step calls other functions, the line is theirs.


def normed(z):
    z = jnp.tanh(z)
    return z / z.sum()  # here


@refused("mixes units: `reduce_sum` is not known to act on each of them alone")
def calling_a_helper(p, h, x):
    return normed(p["W"] @ h + p["U"] @ x)


@jax.jit
def compiled(W, v):
    v = jax.nn.sigmoid(v)
    return W @ v  # here


@refused(FROM_WEIGHTS)
def calling_a_compiled_helper(p, h, x):
    z = p["W"] @ h
    return jnp.tanh(compiled(p["V"], z))


@jax.jit
def outer(W, v):
    return inner(W, v)


def inner(W, v):
    return W @ jax.nn.sigmoid(v)


@refused(FROM_WEIGHTS)
def calling_helpers_within_helpers(p, h, x):
    z = p["W"] @ h
    return jnp.tanh(outer(p["V"], z))  # here


def elsewhere(v):
    """Calls them first, with arguments of the same shapes: JAX keeps their programs, and these lines in them."""
    W = jnp.eye(N)
    return compiled(W, v) + outer(W, v) + jax.nn.softmax(v) + settling({"W": W}, v, X)


class Normed(eqx.Module):
    """A user's module with a layer of a package."""

    cell: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm

    def __call__(self, x, h):
        h = self.cell(x, h)
        return self.norm(h)  # here


def refusal(step, carry=H):
    cell = rc.cell_of(step, P, carry=carry, x=X)
    assert type(cell) is rc.GeneralCell
    return cell


#: what is said without a line, since no one operation is to blame
NOWHERE = ("two_populations", "without_parameters", "without_a_domain")
HELPERS = {"calling_a_helper": normed, "calling_a_compiled_helper": compiled.__wrapped__}


@pytest.mark.parametrize("name", REFUSED)
def test_the_reason_and_the_line_are_told(name):
    step, carry, reason = REFUSED[name]
    where = line_of(HELPERS.get(name, step))
    assert (where is None) == (name in NOWHERE)
    assert refusal(step, carry).why == (f"it {reason}" if where is None else f"{where}, {reason}")


def test_a_step_that_jax_cannot_differentiate_is_refused_with_its_line():
    def until_settled(p, h, x):
        once = lambda h: jnp.tanh(p["W"] @ h)
        return jax.lax.while_loop(lambda h: h.sum() > 1, once, h)  # here

    with pytest.raises(TypeError, match=r"no derivative of the step of until_settled.*Reverse-mode") as error:
        rc.cell_of(until_settled, {"W": P["W"]}, carry=H, x=X)
    assert f"({line_of(until_settled)}, runs a loop or a branch (`while`))" in str(error.value)


@pytest.mark.parametrize("name", ["calling_a_compiled_helper", "calling_helpers_within_helpers", "softmax", "settling"])
def test_the_line_is_not_that_of_an_earlier_call(name):
    jax.clear_caches()
    jax.make_jaxpr(elsewhere)(H)
    step, carry, reason = REFUSED[name]
    assert refusal(step, carry).why == f"{line_of(HELPERS.get(name, step))}, {reason}"


def test_the_line_of_a_user_s_module_stands_before_that_of_a_package_in_it():
    module = Normed(eqx.nn.GRUCell(M, N, key=jax.random.key(0)), eqx.nn.LayerNorm(N))
    cell = rc.cell_of(module, carry=H, x=X)
    assert cell.why.startswith(f"{line_of(Normed.__call__)}, mixes units")


def test_a_package_s_own_line_stands_where_there_is_no_other():
    nn = pytest.importorskip("flax.linen")
    cell = nn.ConvLSTMCell(2, (3,))
    carry, x = cell.initialize_carry(jax.random.key(0), (5, 1)), jnp.zeros((5, 1), "float32")
    found = rc.cell_of(cell, carry=carry, x=x)
    assert type(found) is rc.GeneralCell
    assert re.match(r"line \d+ of linear.py, `.+`, mixes units: `conv_general_dilated` is not known", found.why)


@pytest.mark.parametrize("name", ["reset_before", "two_that_meet_weights", "encoder"])
def test_general_learners_take_them(name):
    step, carry, _ = REFUSED[name]
    network = rc.Network(refusal(step, carry), n_out=2)
    task = rc.Arrays(rng.normal(size=(40, M)), np.eye(2)[rng.integers(0, 2, 40)])
    result = rc.train(network, rc.RTRL(), task, steps=40, seeds=1, optimizer=1e-2, progress=False)
    assert np.isfinite(result.final_loss()).all()


def test_a_learner_for_unit_wise_cells_quotes_the_line():
    step, carry, reason = REFUSED["reset_before"]
    with pytest.raises(TypeError, match="needs a unit-wise cell, whose step acts on one unit at a time") as error:
        rc.LearningStep(rc.Network(refusal(step, carry), 2), rc.RFLO(), 1e-2)
    assert f"that of reset_before does not: {line_of(step)}, {reason}" in str(error.value)


def test_unitwise_is_asked_for_or_not_wanted():
    step, carry, reason = REFUSED["reset_before"]
    with pytest.raises(TypeError) as error:
        rc.cell_of(step, P, carry=carry, x=X, unitwise=True)
    assert f"The step of reset_before is not unit-wise: {line_of(step)}, {reason}." == str(error.value)
    cell = rc.cell_of(lambda p, h, x: jnp.tanh(p["W"] @ h), P, carry=H, x=X, unitwise=False)
    assert type(cell) is rc.GeneralCell
    assert cell.why is None


def good(p, h, x):
    return jnp.tanh(p["W"] @ h + p["U"] @ x)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"carry": jnp.zeros(N, int)}, "`carry`.*floating-point"),
        ({"carry": ()}, "`carry`.*floating-point"),
        ({"carry": jnp.zeros(N + 1)}, "good could not be called.*(5,|\\[5\\])"),
        ({"carry": jnp.zeros(N, "float32")}, "dtype.*float32.*float64"),
        ({"x": M + 1}, "good could not be called"),
        ({"params": {"W": P["W"]}}, "good could not be called.*'U'"),
        ({"params": {"W": jnp.zeros((N, N), int), "U": jnp.zeros((N, M), int)}}, "no floating-point arrays"),
        ({"thing": "a cell"}, "cannot be called"),
        ({"thing": lambda p, h, x: h[:2]}, "must return a (carry|state) like the one it takes"),
        ({"thing": lambda p, h, x: None}, "must return a (carry|state) like the one it takes"),
        ({"thing": lambda p, h, x: {"h": good(p, h, x)}}, "must return a (carry|state) like the one it takes"),
        ({"thing": lambda p, h, x: 0.0}, "must return a (carry|state) like the one it takes"),
        ({"init": "orthogonal"}, "init"),
        ({"init": lambda key: {"W": P["W"]}}, "`init`"),
        ({"init": lambda: P}, "`init`"),
    ],
)
@pytest.mark.parametrize("unitwise", [None, False])
def test_what_is_no_step_is_refused(how, said, unitwise):
    how = {"thing": good, "params": {"W": P["W"], "U": P["U"]}, "carry": H, "x": X} | how
    with pytest.raises(TypeError, match=said):
        rc.cell_of(how.pop("thing"), how.pop("params"), **how, unitwise=unitwise)


@pytest.mark.parametrize("shown", [1, -1, (), (0, 3), "h", 0.0])
def test_variables_that_there_are_not_cannot_be_shown(shown):
    with pytest.raises((ValueError, TypeError), match="shown"):
        rc.cell_of(good, {"W": P["W"], "U": P["U"]}, carry=H, x=X, shown=shown)

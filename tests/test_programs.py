"""The list of operations that act elementwise: it is right, what is on it is taken, and what is not is refused."""

from pathlib import Path

import jax
import jax.extend.core
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.interpreters import mlir

import recurra as rc
from recurra import programs
from recurra.cells import UnitwiseCell
from recurra.cells.structure import check_unit
from recurra.linalg import zeros_like

N = 5
V = jnp.linspace(0.1, 0.9, N)

ACTIVATIONS = """
    celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid mish relu relu6 selu
    sigmoid silu soft_sign softplus sparse_plus sparse_sigmoid squareplus swish tanh
"""
OF_ONE = """
    abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh cbrt ceil conj
    cos cosh deg2rad degrees exp exp2 expm1 fabs floor i0 imag isfinite isinf isnan log log10 log1p log2 logical_not
    nan_to_num negative positive rad2deg radians real reciprocal rint round sign signbit sin sinc sinh sqrt square
    tan tanh trunc ones_like zeros_like copy
"""
OF_TWO = """
    add arctan2 atan2 copysign divide equal float_power floor_divide fmax fmin fmod greater heaviside hypot less
    logaddexp logaddexp2 logical_and maximum minimum mod multiply nextafter not_equal power remainder subtract
"""
SPECIAL_OF_ONE = """
    digamma entr erf erfc erfinv expit factorial gammaln i0 i0e i1 i1e log_ndtr logit ndtr
"""
SPECIAL_OF_TWO = """
    betaln gammainc gammaincc xlogy xlog1py kl_div rel_entr
"""


@jax.custom_jvp
def with_own_jvp(v):
    return jnp.sin(v)


with_own_jvp.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), tangents[0]))


def of_two(f):
    return lambda v: f(0.5 + v, 0.3 + v * v)


#: functions of one vector that act elementwise
FUNCTIONS = {f"nn.{name}": getattr(jax.nn, name) for name in ACTIVATIONS.split() if hasattr(jax.nn, name)}
FUNCTIONS |= {name: getattr(jnp, name) for name in OF_ONE.split()}
FUNCTIONS |= {name: of_two(getattr(jnp, name)) for name in OF_TWO.split()}
FUNCTIONS |= {f"special.{name}": getattr(special, name) for name in SPECIAL_OF_ONE.split()}
FUNCTIONS |= {f"special.{name}": of_two(getattr(special, name)) for name in SPECIAL_OF_TWO.split()}
FUNCTIONS |= {
    "where": lambda v: jnp.where(v > 0.4, v, -v),
    "clip": lambda v: jnp.clip(v, 0.2, 0.8),
    "clamp": lambda v: lax.clamp(0.2, v, 0.8),
    "powers": lambda v: v**3 + v**0.5 + lax.rsqrt(v),
    "complex exponential": lambda v: jnp.exp(lax.complex(-v, 3 * v)).real,
    "complex parts": lambda v: jnp.conj(lax.complex(v, 2 * v)).imag,
    "another precision": lambda v: lax.reduce_precision(v.astype("float32"), 5, 10).astype(v.dtype),
    "bits": lambda v: lax.bitcast_convert_type(lax.bitcast_convert_type(v, "uint64") ^ 1, v.dtype),
    "whole numbers": lambda v: _whole((9 * v).astype("int32")).astype(v.dtype),
    "polygamma": lambda v: special.polygamma(2, 1 + v),
    "zeta": lambda v: special.zeta(2 + v, 1.5),
    "betainc": lambda v: special.betainc(1 + v, 2.0, v),
    "a derivative of gammainc": lambda v: lax.igamma_grad_a(1 + v, v),
    "a triangular spike": lambda v: rc.cells.triangular(v - 0.5, 0.3),
    "a steep spike": lambda v: rc.cells.fast_sigmoid(v - 0.5, 0.3),
    "another spike": lambda v: rc.cells.arctan(v - 0.5, 0.3),
    "stop_gradient": lax.stop_gradient,
    "barrier": lax.optimization_barrier,
    "a name": lambda v: checkpoint_name(jnp.sin(v), "sine"),
    "jit": jax.jit(jnp.sin),
    "checkpoint": jax.checkpoint(jnp.sin),
    "a derivative of one's own": with_own_jvp,
    "composite": lax.composite(lambda v: jnp.sin(v), "own.sine"),
    "cond": lambda v: lax.cond(True, jnp.tanh, jnp.sin, v),
    "by platform": lambda v: lax.platform_dependent(v, cpu=jnp.sin, default=jnp.sin),
    "vmap": jax.vmap(lambda v: jnp.sin(v) * v),
    "derivative": jax.vmap(jax.grad(lambda v: jax.nn.gelu(v) * special.erf(v))),
    "a column of one": lambda v: jnp.broadcast_to(v, v.shape).reshape(v.shape)[:].T,
}


def _whole(v):
    bits = (v << 1) + (v >> 1) + lax.shift_right_logical(v, jnp.ones_like(v)) + lax.population_count(v) + lax.clz(v)
    return (bits & 255) | (v ^ 3) + ~v + (v % 3)


#: operations of the list that only transformations make, that are of other versions, or that change no number
ELSEWHERE = {
    "add_any", "one_minus_square", "copy_p", "mulhi", "eq_to", "lt_to", "le_to", "device_put", "sharding_constraint",
    "layout_constraint", "pvary", "random_gamma", "log2", "polynomial",
}  # fmt: skip


def unit_of(f):
    """A unit of one variable and one gate that applies f to both."""
    result = lambda v: jnp.real(f(v)).astype(v.dtype)
    return lambda a, z: (jnp.tanh(z[0]) + result(a[0]) + result(z[0]),)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_acts_elementwise_is_taken_and_does(name):
    """That a function acts elementwise is found with numbers: entry i of f(v) is f of entry i alone."""
    f = FUNCTIONS[name]
    check_unit("Own", unit_of(f), (V,), (V,))
    alone = jnp.concatenate([f(V[i : i + 1]) for i in range(N)])
    np.testing.assert_allclose(f(V), alone, rtol=1e-6 if "precision" in name else 1e-12)


def names(program):
    for equation in program.eqns:
        yield equation.primitive.name
        for inner in programs.subprograms(equation):
            yield from names(inner)


def test_no_operation_of_the_list_is_left_out():
    seen = {name for f in FUNCTIONS.values() for name in names(jax.make_jaxpr(f)(V).jaxpr)}
    assert programs.ELEMENTWISE - seen <= ELSEWHERE
    assert seen - programs.ELEMENTWISE - programs.RESHAPING - programs.CALLS <= {"cond", "platform_index", "iota"}


def own_primitive(name, f):
    """An operation that JAX does not know, with all that it takes to be used in a cell."""
    primitive = jax.extend.core.Primitive(name)
    primitive.def_impl(f)
    primitive.def_abstract_eval(lambda v: jax.core.ShapedArray(v.shape, v.dtype))
    mlir.register_lowering(primitive, mlir.lower_fun(f, multiple_results=False))
    jax.interpreters.ad.defjvp(primitive, lambda tangent, v: f(tangent))
    return primitive


def test_an_operation_that_is_new_to_jax_is_refused(monkeypatch):
    """Its result has the shape of what it takes, so only its name tells that nothing is known of it."""
    mixes = own_primitive("own_mixing", lambda v: v[::-1])
    doubles = own_primitive("own_doubling", lambda v: 2 * v)
    for primitive in (mixes, doubles):
        for f in (primitive.bind, jax.jit(primitive.bind), lambda v, p=primitive: lax.cond(True, p.bind, jnp.sin, v)):
            with pytest.raises(TypeError, match="must act on one unit at a time") as error:
                check_unit("Own", unit_of(f), (V,), (V,))
            assert f"uses {primitive.name!r}, which mixes units or is not known" in str(error.value)
            assert "recurra.cell_of" in str(error.value)
            assert f"recurra.programs.ELEMENTWISE.add({primitive.name!r})" in str(error.value)
    monkeypatch.setattr(programs, "ELEMENTWISE", programs.ELEMENTWISE | {"own_doubling"})  # as the error says
    check_unit("Own", unit_of(doubles.bind), (V,), (V,))
    with pytest.raises(TypeError, match="'own_mixing'"):
        check_unit("Own", unit_of(mixes.bind), (V,), (V,))


@pytest.mark.parametrize("name", sorted(programs.CALLS | {"cond", "linear_call"}))
def test_a_call_whose_program_cannot_be_found_is_refused(name):
    """It is named like an operation that runs a program, and what it runs is not seen: here it mixes units."""
    mixes = own_primitive(name, lambda v: v[::-1])
    with pytest.raises(TypeError, match=f"uses '{name}', which mixes units or is not known"):
        check_unit("Own", unit_of(mixes.bind), (V,), (V,))


@pytest.mark.parametrize("listed", ["cumsum", "rev"])
def test_an_operation_that_is_listed_by_mistake_is_noticed(listed, monkeypatch):
    """The test above would find it, for what it computes does not act elementwise."""
    f = {"cumsum": jnp.cumsum, "rev": lambda v: v[::-1]}[listed]
    monkeypatch.setattr(programs, "ELEMENTWISE", programs.ELEMENTWISE | {listed})
    monkeypatch.setitem(FUNCTIONS, listed, f)
    with pytest.raises(AssertionError):
        test_what_acts_elementwise_is_taken_and_does(listed)


@pytest.mark.parametrize("kind", [kind for kind in rc.cells.CELLS.values() if issubclass(kind, UnitwiseCell)])
def test_the_units_of_the_library_are_taken(kind):
    cell = kind(2, 4)
    check_unit(cell.name, cell.unit, cell.init_state(), tuple(zeros_like(cell.init_state()[0]) for _ in cell.listens))


# What JAX does not document

#: by the attribute, the release since when it is as we use it, and what would be lost without it
UNDOCUMENTED = {
    "get_bind_params": "JAX 0.10.2 changed what it returns; `Operation.bind` calls it, and cells could not be read",
    "source_info": "as it was in JAX 0.10.0; `_line_of` reads it, and errors would not tell lines of the user's code",
}


SOURCES = list(Path(programs.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("name", UNDOCUMENTED)
def test_what_jax_does_not_document_is_there_and_used_in_one_file(name):
    equation = jax.make_jaxpr(jnp.sin)(1.0).eqns[0]
    moved = f"JAX {jax.__version__} has moved `{name}` ({UNDOCUMENTED[name]})"
    assert hasattr(equation.primitive if name == "get_bind_params" else equation, name), moved
    package = Path(programs.__file__).parent
    assert [str(path.relative_to(package)) for path in package.rglob("*.py") if name in path.read_text()] == [
        "programs.py"
    ]


def test_lines_of_a_program_are_where_we_look_for_them():
    program = jax.make_jaxpr(lambda v: jnp.sin(v))(1.0)  # this line
    (operation,) = programs.flat(program, 1).operations
    assert operation.line is not None, f"JAX {jax.__version__} keeps the lines of a program elsewhere: see `_line_of`"
    assert "this line" in Path(operation.line.file).read_text().splitlines()[operation.line.number - 1]


def test_no_private_module_of_jax_is_imported():
    package = Path(programs.__file__).parent
    assert not [
        path
        for path in package.rglob("*.py")
        if "jax._src" in path.read_text() or "jax.interpreters" in path.read_text()
    ]

"""Each operation in C returns what JAX returns for it."""

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models_in_c import STRICT, compiled, needs_c
from recurra.native.functions import CArray, CSource
from recurra.native.values import NotWrittenError

pytestmark = needs_c

X = np.random.default_rng(0).normal(size=(3, 4))
V = np.random.default_rng(1).normal(size=4)
WEIGHTS = np.arange(12.0).reshape(4, 3) - 5


def key_of(k):
    return jax.random.fold_in(jax.random.key(7), k)


CASES = {
    "functions": lambda x, v, k: jnp.tanh(x) + jnp.exp(v) * jax.nn.sigmoid(x) - jnp.log1p(v * v) + jnp.sign(x),
    "error function": lambda x, v, k: jax.lax.erf_inv(jnp.tanh(x)) + jax.lax.erf_inv(jnp.tanh(4 * v)),
    "powers": lambda x, v, k: x**3 + jnp.abs(v) ** 1.7 + jax.lax.integer_pow(x, -2) + jax.lax.rsqrt(1 + v * v),
    "extremes": lambda x, v, k: jnp.maximum(x, v) - jnp.minimum(x, 0.1) + jnp.clip(v, -0.3, 0.4),
    "nan is kept": lambda x, v, k: jnp.maximum(jnp.where(x > 0, jnp.nan, x), v),
    "whole numbers": lambda x, v, k: ((jnp.arange(12) * 7 + k) % 5).reshape(3, 4) + x,
    "products": lambda x, v, k: (x @ jnp.asarray(WEIGHTS)) @ x + jnp.outer(x @ v, v) + (x.T @ x).T[:3],
    "products in a batch": lambda x, v, k: jnp.einsum(
        "bij,bjk->bik", x[:, :, None] * v, x[:, :, None] + v[None, :, None]
    ),
    "sums": lambda x, v, k: x.sum(0) + x.sum() + x.prod(1).sum() + x.max(0) - x.min() + jnp.any(x > 2) + jnp.cumsum(v),
    "a long sum": lambda x, v, k: jnp.sum(jnp.tile(v, 25) * jnp.arange(100.0)) + x,
    "places of the largest": lambda x, v, k: jnp.argmax(x, axis=0) + jnp.argmin(v) + x,
    "moved": lambda x, v, k: jnp.concatenate([x[::-1, 1:], x.T[:3, :1], jnp.pad(x[:, :1], ((0, 0), (1, 0)))], axis=1),
    "stacked": lambda x, v, k: jnp.stack([v, v[::-1], x[1]], axis=1) + jnp.stack(jnp.split(v, 2)).reshape(4, 1),
    "padded between": lambda x, v, k: jax.lax.pad(v, 0.5, ((1, -1, 2),)),
    "a row by its number": lambda x, v, k: x[k] + jax.lax.dynamic_slice(x, (k, k - k), (1, 2)).sum(),
    "a number too large": lambda x, v, k: jax.lax.dynamic_slice(x, (k + 5, k), (2, 4)),
    "rows by their numbers": lambda x, v, k: x[jnp.array([2, 0, 2])] + v[jnp.array([3, 1, 0, 0])],
    "rows outside": lambda x, v, k: jnp.take(x, jnp.array([0, 7]), axis=0, mode="fill", fill_value=-1.0),
    "put": lambda x, v, k: x.at[k].set(v).at[:, 2].add(1.0).at[jnp.array([0, 0, 9])].add(v, mode="drop"),
    "a part is replaced": lambda x, v, k: jax.lax.dynamic_update_slice(x, v[None, :2], (k, k)),
    "one of two": lambda x, v, k: jax.lax.cond(k > 0, lambda x: x.T @ x, lambda x: jnp.outer(v, v), x),
    "one of three": lambda x, v, k: jax.lax.switch(k, [lambda: x, lambda: x + v, lambda: x * v]),
    "repeated": lambda x, v, k: jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5 + v), (k, x))[1],
    "exchanged": lambda x, v, k: jax.lax.fori_loop(0, 3, lambda i, s: (s[1], s[0] + s[1]), (v, 2 * v))[0],
    "rows in turn": lambda x, v, k: jax.lax.scan(lambda c, row: (jnp.tanh(c + row), c * row), v, x, reverse=True)[1],
    "rotations": lambda x, v, k: jnp.exp(jax.lax.complex(x, x * v)).imag,
    "signs": lambda x, v, k: (jax.random.bits(key_of(k), (3, 4), "uint32") >> 31).astype(float) + x,
    "normal numbers": lambda x, v, k: jax.random.normal(key_of(k), (3, 4)) + x,
    "uniform numbers": lambda x, v, k: jax.random.uniform(key_of(k), (3, 4)) + x,
    "numbers of several keys": lambda x, v, k: (
        jax.vmap(lambda key: jax.random.normal(key, (4,)))(jax.random.split(key_of(k), 3)) + x
    ),
}


@pytest.fixture(scope="module", autouse=True)
def promoted():
    """The cases are short for it."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def library(promoted, tmp_path_factory):
    """All cases as functions of one library, for 1 and 2 as k."""
    folder, source = tmp_path_factory.mktemp("operations"), CSource("float64")
    shapes = jax.ShapeDtypeStruct(X.shape, "float64"), jax.ShapeDtypeStruct(V.shape, "float64")
    functions, results = [], {}
    for i, (name, f) in enumerate(CASES.items()):
        program = jax.make_jaxpr(f)(*shapes, jax.ShapeDtypeStruct((), "int32"))
        (result,) = program.out_avals
        results[name] = f"case_{i}", result.shape
        takes = [
            CArray("x", X.shape, "float64", True),
            CArray("v", V.shape, "float64", True),
            CArray("k", (), "int32", True),
        ]
        body = source.body(program, takes, [CArray("out", result.shape, "float64")])
        head = f"void case_{i}(struct work *self, const double *x, const double *v, int k, double *out)"
        functions.append(f"{head};\n{head} {{\n    (void)self; (void)x; (void)v; (void)k;\n{body}}}\n")
    words = {kind: max(source.words.get(kind, 0), 1) for kind in ("REAL", "unsigned")}
    text = "#include <math.h>\n#include <string.h>\ntypedef double REAL;\n"
    text += f"struct work {{ REAL work[{words['REAL']}]; unsigned words[{words['unsigned']}]; }};\n{source.before()}"
    (folder / "cases.c").write_text(text + "\n".join(functions))
    flags = ("-O1", "-shared", "-fPIC")
    found = ctypes.CDLL(str(compiled(folder, ["cases.c"], "cases.so", *flags, before=(*STRICT, "-Wno-type-limits"))))
    work = np.zeros(words["REAL"] + words["unsigned"])

    def call(name, k):
        function, shape = results[name]
        out, at = np.zeros(shape), lambda array: ctypes.c_void_p(array.ctypes.data)
        getattr(found, function)(at(work), at(X), at(V), ctypes.c_int(k), at(out))
        return out

    return call


@pytest.mark.parametrize("name", CASES)
def test_an_operation_returns_what_jax_returns(library, name):
    for k in (1, 2):
        expected = CASES[name](jnp.asarray(X), jnp.asarray(V), jnp.int32(k))
        np.testing.assert_allclose(library(name, k), expected, rtol=1e-12, atol=1e-13)


def test_an_unknown_operation_is_refused_with_its_name_and_line():
    program = jax.make_jaxpr(lambda x: jnp.linalg.qr(x)[0])(X)
    with pytest.raises(NotWrittenError, match=r"'\w+' in line \d+ of test_operations.py"):
        CSource("float64").body(program, [CArray("x", X.shape, "float64")], [CArray("out", (3, 3), "float64")])

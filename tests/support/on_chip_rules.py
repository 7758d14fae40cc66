"""Programs for the rules of the on-chip engine, and a way to carry them out with nonsense in all padding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from recurra.engine.on_chip.loop import carry_out  # with all rules that kernels have
from recurra.engine.on_chip.padding import cut, padded_shape

rng = np.random.default_rng(0)


def floats(*shape):
    return jnp.asarray(rng.uniform(0.1, 0.9, shape), "float32")


def wholes(*shape):
    return jnp.asarray(rng.integers(-9, 10, shape), "int32")


def flags(*shape):
    return jnp.asarray(rng.random(shape) < 0.5)


def number(value, kind="int32"):
    return jnp.asarray(value, kind)


#: what stands in padding: it must not matter
NONSENSE = {"f": (np.nan, np.inf, -np.inf), "i": (2**31 - 1, -(2**31), 0), "u": (2**32 - 1, 0, 1), "b": (1, 0, 1)}


def held(array, which):
    """The array as a kernel holds it."""
    array = np.asarray(array)
    whole = np.full(padded_shape(array.shape), NONSENSE[array.dtype.kind][which], array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return jnp.asarray(whole)


def compare(f, *arguments, also=()):
    """Raise unless a program gives the same when its operations are carried out on padded arrays.

    Sums may be taken in another order. `also` are further arguments of the same shapes.
    """
    program = jax.make_jaxpr(f)(*arguments)
    # A function of its own each time: what was compiled with other rules must not be found again.
    inside, outside = jax.jit(lambda constants, given: carry_out(program, *given, constants=constants)), jax.jit(f)
    for given in (arguments, *also):
        wanted = jax.tree.leaves_with_path(outside(*given))
        for which in range(3):
            found = inside(*([held(leaf, which) for leaf in part] for part in (program.consts, jax.tree.leaves(given))))
            for ours, (path, theirs) in zip(found, wanted, strict=True):
                ours, said = cut(jnp.asarray(ours), theirs.shape), f"{jax.tree_util.keystr(path)} with nonsense {which}"
                assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), said
                np.testing.assert_allclose(ours, theirs, rtol=3e-6, atol=1e-6, err_msg=said)


UNARY = {
    "neg": lax.neg, "sign": lax.sign, "abs": lax.abs, "square": lax.square, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt,
    "cbrt": lax.cbrt, "exp": lax.exp, "exp2": lax.exp2, "expm1": lax.expm1, "log": lax.log, "log1p": lax.log1p,
    "tanh": lax.tanh, "logistic": lax.logistic, "sin": lax.sin, "cos": lax.cos, "tan": lax.tan, "asin": lax.asin,
    "acos": lax.acos, "atan": lax.atan, "sinh": lax.sinh, "cosh": lax.cosh, "asinh": lax.asinh,
    "acosh": lambda x: lax.acosh(1 + x), "atanh": lax.atanh, "erf_inv": lax.erf_inv,
    "floor": lambda x: lax.floor(9 * x), "ceil": lambda x: lax.ceil(9 * x),
    "is_finite": lambda x: lax.is_finite(jnp.log(x - 0.5)),
    "integer_pow": lambda x: lax.integer_pow(x, 3), "to whole": lambda x: (9 * x).astype("int32"),
    "to flags": lambda x: (x - x[::-1]).astype(bool), "bits": lambda x: lax.bitcast_convert_type(x, "int32"),
    "clamped": lambda x: lax.clamp(np.float32(0.3), x, np.float32(0.6)), "barrier": lax.optimization_barrier,
    "stop_gradient": lax.stop_gradient, "copy": jnp.copy, "grad": jax.grad(lambda x: jnp.sum(jnp.sin(x) * x)),
    "relu": jax.nn.relu, "softplus": jax.nn.softplus, "softmax": jax.nn.softmax, "gelu": jax.nn.gelu,
}  # fmt: skip
BINARY = {
    "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max, "min": lax.min,
    "pow": lax.pow, "atan2": lax.atan2, "nextafter": lax.nextafter, "eq": lax.eq, "ne": lax.ne, "lt": lax.lt,
    "le": lax.le, "gt": lax.gt, "ge": lax.ge, "where": lambda x, y: jnp.where(x > y, x, y),
    "choice": lambda x, y: jnp.where(jnp.max(x) > 0.5, x, y), "clamp": lambda x, y: lax.clamp(x, y, x + 0.1),
    "number": lambda x, y: jnp.where(jnp.max(x) > 0.5, 0.1, 0.0) * y,
}  # fmt: skip
WHOLE = {name: BINARY[name] for name in ("add", "sub", "mul", "max", "min", "eq", "lt", "ge", "where")} | {
    "div": lambda x, y: lax.div(x, jnp.abs(y) + 1), "rem": lambda x, y: lax.rem(x, jnp.abs(y) + 1),
    "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lambda x, y: ~x,
    "left": lambda x, y: lax.shift_left(x, y & 7),
    "right": lambda x, y: lax.shift_right_arithmetic(x, y & 7), "sign": lambda x, y: lax.sign(x),
    "logical": lambda x, y: lax.shift_right_logical(x, y & 7), "ones": lambda x, y: lax.population_count(x),
    "zeros": lambda x, y: lax.clz(x), "floor": lambda x, y: x // 3, "modulo": lambda x, y: x % 3,
}  # fmt: skip
FLAGS = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor, "not": lambda x, y: ~x, "eq": lax.eq} | {
    "to float": lambda x, y: x.astype("float32"), "where": lambda x, y: jnp.where(x, y, ~y)
}  # fmt: skip
ELEMENTWISE = {
    "one float": (UNARY, [floats]),
    "two floats": (BINARY, [floats] * 2),
    "two wholes": (WHOLE, [wholes] * 2),
}
ELEMENTWISE |= {"two flags": (FLAGS, [flags] * 2)}

REDUCING = {
    "sum": jnp.sum, "max": jnp.max, "min": jnp.min, "all": jnp.all, "any": jnp.any, "mean": jnp.mean,
    "sum of wholes": lambda x, axis: jnp.sum((9 * x).astype("int32"), axis, dtype="int32"),
    "max of wholes": lambda x, axis: jnp.max((9 * x).astype("int32"), axis),
    "max of flags": lambda x, axis: jnp.max(x > 0.4, axis), "min of flags": lambda x, axis: jnp.min(x > 0.2, axis),
    "norm": lambda x, axis: jnp.sqrt(jnp.sum(x * x, axis)), "log-sum": lambda x, axis: jax.nn.logsumexp(x, axis),
}  # fmt: skip
ARGUMENT = {
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "of wholes": lambda x, axis: jnp.argmax((9 * x).astype("int32"), axis),
    "of flags": lambda x, axis: jnp.argmax(x > 0.4, axis),
    "with nan": lambda x, axis: jnp.argmin(jnp.log(x - 0.5), axis),
}

#: shapes of two factors, the axes that are summed, and the axes that both have
PRODUCTS = [
    ((5,), (5,), ((0,), (0,)), ()),
    ((3, 7), (7,), ((1,), (0,)), ()),
    ((7,), (7, 3), ((0,), (0,)), ()),
    ((7,), (3, 7), ((0,), (1,)), ()),
    ((3, 5), (5, 2), ((1,), (0,)), ()),
    ((5, 3), (5, 2), ((0,), (0,)), ()),
    ((3, 5), (2, 5), ((1,), (1,)), ()),
    ((17, 19), (19, 33), ((1,), (0,)), ()),
    ((19, 17), (19, 33), ((0,), (0,)), ()),
    ((3,), (5,), ((), ()), ()),
    ((2, 3, 5), (3, 5), ((1, 2), (0, 1)), ()),
    ((3, 2, 5), (3, 5, 7), ((2,), (1,)), ((0,), (0,))),
    ((3, 5), (7, 3), ((), ()), ((0,), (1,))),
    ((1, 1), (1, 1), ((1,), (0,)), ()),
    ((8, 8), (8, 8), ((1,), (0,)), ()),
    ((2, 3, 5, 7), (5, 2, 3), ((2, 0), (0, 1)), ((1,), (2,))),
    ((33, 19), (19, 3), ((1,), (0,)), ()),
    ((19, 33), (3, 19), ((0,), (1,)), ()),
    ((2, 17, 19), (19, 33), ((2,), (0,)), ()),
    ((19, 17, 2), (33, 19), ((0,), (1,)), ()),
]

RESHAPES = [
    ((5,), (5, 1)), ((1, 5), (5,)), ((3, 4), (12,)), ((12,), (3, 4)), ((6, 2), (3, 4)), ((5, 3, 4), (5, 12)),
    ((3, 4, 5), (12, 5)), ((7, 1, 3), (7, 3)), ((), (1, 1)), ((2, 8), (16,)), ((11, 2), (22,)), ((22,), (11, 2)),
]  # fmt: skip
REFUSED_RESHAPES = [((6,), (2, 3)), ((4, 3), (12,)), ((2, 3), (3, 2)), ((3, 4, 5), (3, 20)), ((15,), (3, 5))]


def _doubled():
    """A function with a derivative and a batched form of its own."""
    double = jax.custom_vjp(lambda x: 2 * x)
    double.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))
    batched = jax.custom_batching.custom_vmap(lambda x: 3 * x)
    batched.def_vmap(lambda size, batched, x: (3 * x, True))
    return lambda x: batched(double(x))


def _swept(x, reverse=False):
    step = lambda carry, row: (carry * 0.5 + row, (carry + row, jnp.sum(row) > 1, (9 * row).astype("int32")))
    return lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x, reverse=reverse)


#: what moves entries, on arrays (7, 5) of floats, wholes and flags
MOVES = {
    "slice": lambda x: x[2:5, 1:2],
    "strided": lambda x: x[1::2, ::3],
    "one row": lambda x: x[3],
    "last": lambda x: x[-1:],
    "rev": lambda x: x[::-1],
    "rev both": lambda x: lax.rev(x, (0, 1)),
    "transposed": lambda x: x.T,
    "squeezed": lambda x: jnp.squeeze(x[:, :1], 1),
    "broadcast": lambda x: jnp.broadcast_to(x[:, None, :], (7, 3, 5)),
    "concatenate": lambda x: jnp.concatenate([x, x[:1], x[2:5]]),
    "beside": lambda x: jnp.concatenate([x[:, :1], x], axis=1),
    "stack": lambda x: jnp.stack([x[0], x[1], x[2]]),
    "stack last": lambda x: jnp.stack([x, x], axis=-1),
    "split": lambda x: jnp.split(x, [2, 3]),
    "unstack": lambda x: jnp.unstack(x, axis=1),
    "pad": lambda x: lax.pad(x, x[0, 0], [(2, 1, 0), (0, 3, 0)]),
    "pad between": lambda x: lax.pad(x, x[0, 0], [(1, 0, 2), (0, 0, 1)]),
    "pad less": lambda x: lax.pad(x, x[0, 0], [(-2, 1, 0), (0, -3, 0)]),
    "shift": lambda x: lax.pad(x, x[0, 0], [(1, -1, 0), (0, 0, 0)]),
    "iota": lambda x: (jnp.arange(5) + lax.broadcasted_iota("int64", (7, 5), 0), x),
    "a list": lambda x: x[np.array([3, 0, 6])],
    "a list of one": lambda x: x[np.array([3])],
    "one row, listed": lambda x: x[:1][np.array([0, 0, 0])],
    "diagonal": lambda x: jnp.diagonal(x[:5].astype("float32")),
    "of one": lambda x: jnp.concatenate([x[:1, :1], x[1:2, :1]]),
}
#: what moves entries by a number that is not known before
NUMBERED = {
    "row": lambda x, i: x[i],
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i, i - 1), (3, 2)),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, x[:2, :3], (i, i)),
    "set": lambda x, i: x.at[i].set(x[0]),
    "set, clipped": lambda x, i: x.at[i].set(x[0], mode="clip"),
    "set one of one": lambda x, i: x[:1].at[i].set(x[1]),
    "get, filled": lambda x, i: x.at[jnp.stack([i, i + 1])].get(mode="fill"),
    "get, filled by 1": lambda x, i: x.at[jnp.stack([i])].get(mode="fill", fill_value=1),
    "get, clipped": lambda x, i: x.at[jnp.stack([i])].get(mode="clip"),
    "switch": lambda x, i: lax.switch(i, [lambda x: x, lambda x: x[::-1], jnp.zeros_like], x),
    "cond": lambda x, i: lax.cond(i > 2, lambda: x[:2], lambda: x[-2:]),
}
CALLS = {
    "jit": jax.jit(lambda x: x + 1),
    "custom": _doubled(),
    "checkpoint": jax.checkpoint(jnp.sin),
    "composite": lax.composite(lambda x: x + 1, "own.name"),
    "scan": _swept,
    "scan back": functools.partial(_swept, reverse=True),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, x: x * x[0] + i, x),
    "while": lambda x: lax.while_loop(lambda x: jnp.sum(x) < 100, lambda x: 2 * x, x),
    "platform": lambda x: lax.platform_dependent(x, cpu=lambda x: x + 0, default=lambda x: x * 1),
    "scan by number": lambda x: lax.scan(lambda i, _: (i + 1, x[i]), number(0), length=5),
    "unused": lambda x: (jnp.sort(x, axis=0), 2 * x)[1],
}

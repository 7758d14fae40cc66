"""The few products that cells and learners are written in.

Two conventions keep the algebra short. ``None`` is a structural zero: a block of weights that a gate does not
have, or credit that nothing hands to a state variable; `add` and `mul` carry it through. And a product with a
matrix is spelled `matvec` or `vecmat`, because its fastest form depends on where it runs: a dot product in a scan,
its few terms written out where streams share the matrix or gates the vector, a sum of products inside a GPU kernel,
where one-dimensional dot products do not lower.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from recurra.machine import backend

_INSIDE_KERNEL: ContextVar[bool] = ContextVar("inside_kernel", default=False)
_WRITTEN_OUT: ContextVar[bool] = ContextVar("written_out", default=False)

# float32 stays float32 on GPUs, whose default would round the factors to ten bits.
_EXACT = jax.lax.Precision.HIGHEST


@contextlib.contextmanager
def inside_kernel() -> Iterator[None]:
    """Trace products in the form that lowers inside one GPU kernel."""
    with _holding(_INSIDE_KERNEL):
        yield


def over_streams(f: Callable) -> Callable:
    """f, for several streams that share weights: vmapped, and its products traced in the form that is fastest then."""

    def of_one(*arguments: PyTree) -> PyTree:
        with _holding(_WRITTEN_OUT):
            return f(*arguments)

    return jax.vmap(of_one)


def over_gates(gates: int) -> contextlib.AbstractContextManager[None]:
    """Trace products in the form that is fastest where so many gates hear the same."""
    return _holding(_WRITTEN_OUT) if gates > 1 and backend() == "cpu" else contextlib.nullcontext()


@contextlib.contextmanager
def _holding(place: ContextVar[bool]) -> Iterator[None]:
    token = place.set(True)
    try:
        yield
    finally:
        place.reset(token)


#: A product of matrices that adds so few terms is written out, and becomes part of what is computed around it; one
#: with so few rows or columns is computed one at a time, each by all terms.
FEW = 8


def matvec(W: Float[Array, "n m"], v: Float[Array, "m *k"]) -> Float[Array, "n *k"]:
    """W v, for a vector or for the columns of a matrix."""
    if v.ndim == 1 and _INSIDE_KERNEL.get():
        return jnp.sum(W * v[None, :], axis=1)
    if v.ndim == 1 and _is_written_out(len(v)):
        return total(*(W[:, l] * v[l] for l in range(len(v))))
    if v.ndim == 2 and len(v) <= FEW:
        return total(*(outer(W[:, l], v[l]) for l in range(len(v))))
    return jnp.matmul(W, v, precision=_EXACT)


def vecmat(c: Float[Array, " n"], W: Float[Array, "n m"]) -> Float[Array, " m"]:
    """c W."""
    if _INSIDE_KERNEL.get():
        return jnp.sum(c[:, None] * W, axis=0)
    if _is_written_out(len(c)):
        return total(*(c[l] * W[l] for l in range(len(c))))
    return jnp.matmul(c, W, precision=_EXACT)


def _is_written_out(terms: int) -> bool:
    """Whether a product with a vector is: with streams it is one of matrices, and gates have several."""
    return terms <= FEW and _WRITTEN_OUT.get()


def outer(u: Float[Array, " n"], v: Float[Array, " m"]) -> Float[Array, "n m"]:
    """u vᵀ."""
    return u[:, None] * v[None, :]


def outers(u: Float[Array, "k n"], v: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """Σ `outer` over rows."""
    if u.shape[1] <= FEW:  # as one product it would take as long as many columns do
        return jnp.stack([vecmat(u[:, i], v) for i in range(u.shape[1])])
    if v.shape[1] <= FEW:
        return jnp.stack([vecmat(v[:, j], u) for j in range(v.shape[1])], axis=1)
    return matvec(u.T, v)


def mul(d: Float[Array, " #n"] | None, B: Float[Array, "#n *m"] | None) -> Float[Array, "_ *m"] | None:
    """diag(d) B, for a vector or a matrix B; d may be one number for all units."""
    if d is None or B is None:
        return None
    return d[:, None] * B if B.ndim == 2 else d * B


def add(*terms: Array | None) -> Array | None:
    """The sum of the terms that are there."""
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None


def add_or_zero(like: Array, *terms: Array | None) -> Array:
    """`add` where there may be no term: then zeros in the shape of `like`."""
    result = add(*terms)
    return jnp.zeros_like(like) if result is None else result


def total(*terms: Array | None) -> Array:
    """`add` where at least one term is known to be there."""
    result = add(*terms)
    if result is None:
        raise ValueError("`total` needs at least one term that is not a structural zero, and got none.")
    return result


def inner(x: PyTree[Array | None], y: PyTree[Array | None]) -> Float[Array, ""]:
    """Σ x y over all leaves; a leaf that is None on either side counts as zero."""
    is_none = lambda leaf: leaf is None
    pairs = zip(jax.tree.leaves(x, is_leaf=is_none), jax.tree.leaves(y, is_leaf=is_none), strict=True)
    return total(*(None if u is None or v is None else _sum(u * v) for u, v in pairs))


def _sum(array: Float[Array, "..."]) -> Float[Array, ""]:
    """Σ over all entries."""
    plain = array.ndim != 2 or _INSIDE_KERNEL.get() or backend() != "cpu"
    return jnp.sum(array) if plain else _sum_by_rows(array)


@jax.custom_batching.custom_vmap
def _sum_by_rows(matrix: Float[Array, "n m"]) -> Float[Array, ""]:
    """Σ over all entries, with rows added side by side.

    Compilers for CPUs may not reorder a sum, and would add one number after the other. A product with ones is the
    fastest for one matrix; for several, two sums that a barrier keeps apart.
    """
    return jnp.sum(vecmat(jnp.ones(len(matrix), matrix.dtype), matrix))


@_sum_by_rows.def_vmap
def _sums_by_rows(size: int, batched: list[bool], matrices: Float[Array, "batch n m"]) -> tuple[Array, bool]:
    return jnp.sum(jax.lax.optimization_barrier(jnp.sum(matrices, axis=1)), axis=1), True


def norm(x: PyTree[Array]) -> Float[Array, ""]:
    """Euclidean norm over all leaves."""
    return jnp.sqrt(inner(x, x))


def either(which: Bool[Array, ""], x: PyTree[Array], y: PyTree[Array]) -> PyTree[Array]:
    """x or y, the same for all entries. A branch moves only the one; but a GPU would ask the host which."""
    if backend() == "cpu":
        return jax.lax.cond(which, lambda: x, lambda: y)
    return jax.tree.map(lambda u, v: jnp.where(which, u, v), x, y)


def computed_once(x: PyTree[Array]) -> PyTree[Array]:
    """x, not as part of every loop that reads some of it. A GPU would start a kernel more."""
    return jax.lax.optimization_barrier(x) if backend() == "cpu" else x


def mean(x: PyTree[Array]) -> PyTree[Array]:
    """The mean over the leading axis, leaf by leaf."""
    # A product: it adds rows side by side, and is not drawn into the loops that make what it adds.
    each = lambda leaf: jnp.tensordot(jnp.full(len(leaf), 1 / len(leaf), leaf.dtype), leaf, 1, precision=_EXACT)
    return jax.tree.map(each, x)


def mean_outer(u: Float[Array, "k n"], v: Float[Array, "k m"]) -> Float[Array, "n m"]:
    """The mean of `outer` over rows."""
    return outers(u / len(u), v)


def scale(factor: Float[Array, ""] | float, x: PyTree[Array]) -> PyTree[Array]:
    """factor · x, leaf by leaf."""
    return jax.tree.map(lambda leaf: factor * leaf, x)


def combine(p: Float[Array, ""] | float, x: PyTree[Array], q: Float[Array, ""] | float, y: PyTree[Array]) -> PyTree:
    """p · x + q · y, leaf by leaf."""
    return jax.tree.map(lambda u, v: p * u + q * v, x, y)


def balance(grown: PyTree[Array], shrunk: PyTree[Array]) -> Float[Array, ""]:
    """ρ with ρ² = ‖grown‖ / ‖shrunk‖: it makes ρ · shrunk and grown / ρ equally long.

    Where either is zero their product is zero whatever ρ is, and 1 keeps the estimate finite and unbiased. A norm may
    stand for what it is the norm of.
    """
    numerator, denominator = norm(grown), norm(shrunk)
    both = (numerator > 0) & (denominator > 0)
    safe = lambda value: jnp.sqrt(jnp.where(both, value, 1))
    return safe(numerator) / safe(denominator)


def decomposable(dtype: jnp.dtype) -> jnp.dtype:
    """The precision to decompose matrices of this dtype in: there are no half-precision decompositions."""
    return dtype if jnp.finfo(dtype).bits >= 32 else jnp.dtype("float32")

"""Linear combinations of trees of arrays, and the scale that balances two of them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from recurra.linalg.lazy import norm


def scale(factor: Float[Array, ""] | float, x: PyTree[Array]) -> PyTree[Array]:
    """factor · x, leaf by leaf.

    >>> linalg.scale(2.0, (jnp.ones(2), jnp.ones(1)))[0].tolist()
    [2.0, 2.0]
    """
    return jax.tree.map(lambda leaf: factor * leaf, x)


def combine(p: Float[Array, ""] | float, x: PyTree[Array], q: Float[Array, ""] | float, y: PyTree[Array]) -> PyTree:
    """p · x + q · y, leaf by leaf.

    >>> linalg.combine(2.0, jnp.ones(2), 0.5, jnp.ones(2)).tolist()
    [2.5, 2.5]
    """
    return jax.tree.map(lambda u, v: p * u + q * v, x, y)


def where(which: Bool[Array, ""], x: PyTree[Array], y: PyTree[Array]) -> PyTree[Array]:
    """x or y, the same choice for all leaves.

    >>> linalg.where(jnp.array(True), (jnp.ones(2),), (jnp.zeros(2),))[0].tolist()
    [1.0, 1.0]
    """
    return jax.tree.map(lambda u, v: jnp.where(which, u, v), x, y)


def either(which: Bool[Array, ""], x: PyTree[Array], y: PyTree[Array]) -> PyTree[Array]:
    """`where`, for a choice that seldom changes.

    On a CPU it is a branch, which copies only the chosen tree. On a GPU a branch would have to wait for the host.
    """
    branch = lambda which, x, y: jax.lax.cond(which, lambda: x, lambda: y)
    return jax.lax.platform_dependent(which, x, y, cpu=branch, default=where)


def zeros_like(x: PyTree) -> PyTree[Array]:
    """Zeros in the shapes of x, whose leaves are arrays or `jax.ShapeDtypeStruct`.

    >>> linalg.zeros_like((jnp.ones(2),))[0].tolist()
    [0.0, 0.0]
    """
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), x)


def balance(grown: PyTree, shrunk: PyTree) -> Float[Array, ""]:
    """ρ with ρ² = ‖grown‖ / ‖shrunk‖: it makes ρ · shrunk and grown / ρ equally long.

    Where one of them is zero, their product is zero whatever ρ is. Then ρ is 1, and the estimate stays finite and
    unbiased. A norm may be given in the place of a tree.

    >>> float(linalg.balance(jnp.array([4.0]), jnp.array([1.0])))
    2.0
    """
    numerator, denominator = norm(grown), norm(shrunk)
    both = (numerator > 0) & (denominator > 0)
    safe = lambda value: jnp.sqrt(jnp.where(both, value, 1))
    return safe(numerator) / safe(denominator)


def balanced(grown: Float[Array, "*#k"], shrunk: Float[Array, "*#k"]) -> tuple[Float[Array, "*k"], Float[Array, "*k"]]:
    """ρ and 1/ρ with ρ² = grown / shrunk, for lengths of many pairs.

    Where one length is zero, the product of the pair is zero. Then ρ and 1/ρ are both 0, so the other of the two, which
    would be noise alone, is dropped.
    """
    both = (grown > 0) & (shrunk > 0)
    safe = lambda length: jnp.sqrt(jnp.where(both, length, 1))
    ratio = safe(grown) / safe(shrunk)
    return jnp.where(both, ratio, 0), jnp.where(both, 1 / ratio, 0)


def decomposable(dtype: jnp.dtype) -> jnp.dtype:
    """The precision to decompose matrices of this dtype in: there are no half-precision decompositions."""
    return dtype if jnp.finfo(dtype).bits >= 32 else jnp.dtype("float32")

"""Trees of arrays as named ones and back: a leaf is called by its path, as `weights.cell.0.rec`.

A typed key of JAX's is stored as its numbers, and its name ends with its kind: `key:threefry2x32`.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

#: what a tree's only leaf is called where it has no path
ALONE = "array"
#: what parts of a name are joined with, and what stands for these characters inside a part
ESCAPED = {"%": "%25", ".": "%2E", ":": "%3A"}


def arrays_of(tree: PyTree) -> dict[str, np.ndarray]:
    """Every leaf of a tree under a name of its own; TypeError for a leaf that is neither array nor number."""
    return dict(_named(path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree))


def filled(like: PyTree, arrays: Mapping[str, np.ndarray], finite: bool = False) -> PyTree:
    """The tree `like` with the arrays in the place of its leaves, which may be `jax.ShapeDtypeStruct`.

    ValueError names the first array that is missing, too many, or of another shape or type. With `finite` so does one
    that holds nan or an infinity. What was NumPy's stays so, and plain numbers stay plain.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [_name(path, leaf) for path, leaf in leaves]
    for name in names:
        if name not in arrays:
            raise ValueError(_missing(name, arrays))
    for name in arrays:
        if name not in names:
            raise ValueError(f"the array {name!r} is there, and nothing of that name is expected")
    return jax.tree.unflatten(
        structure, [_leaf(name, leaf, arrays[name], finite) for name, (_, leaf) in zip(names, leaves, strict=True)]
    )


def _named(path: Any, leaf: Any) -> tuple[str, np.ndarray]:
    name = _name(path, leaf)
    if not _is_number(leaf) and not isinstance(leaf, jax.Array | np.ndarray | np.generic):
        raise TypeError(f"{name!r} must be an array or a number, and is {leaf!r}.")
    plain: Any = jax.random.key_data(leaf) if isinstance(leaf, jax.Array) and _is_key(leaf) else leaf
    return name, np.asarray(plain)


def _name(path: Any, leaf: Any) -> str:
    """A name that no other leaf has: parts are escaped, since a dictionary's own names may have a point in them."""
    escape = str.maketrans(ESCAPED)
    parts = [jax.tree_util.keystr((part,), simple=True).translate(escape) for part in path]
    name = ".".join(parts) or ALONE
    return f"{name}:{_kind_of_key(leaf)}" if _is_key(leaf) else name


def _missing(name: str, arrays: Mapping[str, np.ndarray]) -> str:
    place, _, kind = name.partition(":")
    others = [other.partition(":")[2] or "no key" for other in arrays if other.partition(":")[0] == place]
    if others:
        return f"the array {place!r} is {others[0]}, and {kind or 'no key'} is expected"
    return f"the array {name!r} is missing"


def _leaf(name: str, like: Any, array: np.ndarray, finite: bool) -> Any:
    if _is_key(like):
        shape, dtype = (*like.shape, *_key_shape(like)), np.dtype("uint32")
    elif _is_number(like):
        shape, dtype = (), np.asarray(like).dtype
    else:
        shape, dtype = like.shape, like.dtype
    if (array.shape, array.dtype) != (tuple(shape), dtype):
        found, wanted = _words(array.shape, array.dtype), _words(shape, dtype)
        raise ValueError(f"the array {name!r} is {found}, and {wanted} is expected")
    if finite and jnp.issubdtype(array.dtype, jnp.floating) and not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} holds nan or an infinity")
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=_kind_of_key(like))
    if _is_number(like):
        return type(like)(array.item())
    if isinstance(like, np.generic):
        return array[()]
    return array if isinstance(like, np.ndarray) else jnp.asarray(array)


def _words(shape: Any, dtype: Any) -> str:
    """A shape and type as JAX writes them."""
    return f"{np.dtype(dtype).name}[{','.join(map(str, shape))}]"


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _kind_of_key(leaf: Any) -> str:
    kinds = []
    jax.eval_shape(lambda key: kinds.append(str(jax.random.key_impl(key))), leaf)  # which knows it of shapes too
    return kinds[0]


def _key_shape(leaf: Any) -> tuple[int, ...]:
    return jax.eval_shape(jax.random.key_data, leaf).shape[len(leaf.shape) :]

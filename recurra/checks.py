"""Errors that name the problem, the value seen and the fix, before anything runs."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import DTypeLike


def float_dtype(dtype: DTypeLike | None) -> jnp.dtype:
    """The floating-point type asked for; JAX's own default (float64 with x64, else float32) when None."""
    if dtype is None:
        return jnp.zeros(()).dtype
    asked = jnp.dtype(dtype)
    if not jnp.issubdtype(asked, jnp.floating):
        raise ValueError(f"`dtype` must be a floating-point type such as 'float32', and is {asked}.")
    if jax.dtypes.canonicalize_dtype(asked) != asked:
        raise ValueError(f"`dtype` is {asked}, which JAX has switched off: set jax_enable_x64 in jax.config first.")
    return asked


def is_concrete_number(value: Any) -> bool:
    """Whether the value is a plain number; arrays (a traced or vmapped hyperparameter) are let through unchecked."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def in_range(
    owner: Any, name: str, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> None:
    """Raise unless the numeric field `name` of `owner` lies in the range."""
    value = getattr(owner, name)
    if not is_concrete_number(value):
        if isinstance(value, (str, bool)) or value is None:
            raise TypeError(f"`{name}` of {type(owner).__name__} must be a number, and is {value!r}.")
        return
    low = value > above if above is not None else least is None or value >= least
    high = value < float("inf") if most is None else value <= most
    if not (low and high):  # also when the value is nan
        bounds = f"above {above}" if above is not None else f"at least {least}" if least is not None else ""
        upper = f"at most {most}" if most is not None else "finite"
        wanted = " and ".join(filter(None, [bounds, upper]))
        raise ValueError(f"`{name}` of {type(owner).__name__} must be {wanted}, and is {value}.")


def whole(owner: Any, name: str, least: int = 1) -> None:
    """Raise unless the field `name` of `owner` is a whole number of at least `least`."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`{name}` of {type(owner).__name__} must be a whole number, and is {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` of {type(owner).__name__} must be at least {least}, and is {value}.")

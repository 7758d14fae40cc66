"""What is given to a step, checked by shapes and types while it is traced: much of it would be taken without a word.

Every loss would take a single number for all outputs, or complex ones, and every learner four rows of random numbers
for one. A flag of 0.3 would be true. So this is checked where all callers come through, whichever the loss and the
learner are. A compiled step does not check again.
"""

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from recurra.network import Network
from recurra.step.types import GivenCredit, GivenError


def check_row(n_in: int, streams: int, x: Any, reset: Any = None) -> None:
    """Raise unless `x` is `n_in` numbers and `reset`, if there is one, one flag, in each of the streams."""
    _check("`x`", x, streams, n_in, "a number for each input")
    if reset is not None:
        check_flag("`reset`", reset, streams)


NUMBERS_OF_LABEL = "a number for each output"


def check_label(network: Network, streams: int, label: Any, present: Any) -> None:
    """Raise unless `label` is a label for the network, and `present`, if it is there, one flag."""
    advice = f" For a class k give jax.nn.one_hot(k, {network.n_out})." if network.n_out > 1 else ""
    _check("The label", label, streams, network.n_out, NUMBERS_OF_LABEL, advice)
    if present is not None:
        check_flag("`present`", present, streams)


def check_target(network: Network, streams: int, target: Any, present: Any) -> None:
    """Raise unless `target` is a label, an error or credit for the network, and `present`, if it is there, one flag."""
    if isinstance(target, GivenCredit):
        widths, credit = network.cell.widths, target.credit
        if not isinstance(credit, tuple) or len(credit) != len(widths):
            raise TypeError(
                f"`credit` of GivenCredit must be a tuple with an array for each state variable, of lengths {widths}, "
                f"and is {credit!r:.200}."
            )
        for i, (each, width) in enumerate(zip(credit, widths, strict=True)):
            if each is not None:  # None is credit of zero
                _check(f"`credit[{i}]` of GivenCredit", each, streams, width, "a number for each unit")
    elif isinstance(target, GivenError):
        _check("`error` of GivenError", target.error, streams, network.n_out, NUMBERS_OF_LABEL)
    else:
        return check_label(network, streams, target, present)
    if present is not None:
        check_flag("`present`", present, streams)


def check_noise(noise: PyTree, wanted: PyTree) -> None:
    """Raise unless `noise` is one row of random numbers, in the structure and with the shapes of `wanted`."""
    shapes = lambda tree: jax.tree.map(_shape_of, tree)
    if jax.tree.structure(noise) != jax.tree.structure(wanted) or shapes(noise) != shapes(wanted):
        raise ValueError(
            "`noise` must be one row of what the method `noise` returns, such as "
            "jax.tree.map(lambda rows: rows[0], step.noise(key, 1)), with None for a learner that needs none. Its "
            f"shapes must be {shapes(wanted)}, and are {shapes(noise)}."
        )


#: types of real numbers; True and False are 1 and 0
REAL = (jnp.floating, jnp.integer, jnp.bool_)


def _check(
    what: str,
    value: Any,
    streams: int,
    width: int | None,
    told: str,
    advice: str = "",
    kinds: tuple[Any, ...] = REAL,
    of: str = "real numbers",
) -> None:
    wanted = (*(() if streams == 1 else (streams,)), *(() if width is None else (width,)))
    found = _shape_of(value)
    if found != wanted:
        each = "" if streams == 1 else f" in each of {streams} streams"
        is_array = isinstance(found, tuple)
        kind, seen = (ValueError, f"has shape {found}") if is_array else (TypeError, f"is {value!r:.100}")
        raise kind(f"{what} must be an array of shape {wanted}, {told}{each}, and {seen}.{advice}")
    dtype = _dtype_of(value)
    if not any(jnp.issubdtype(dtype, kind) for kind in kinds):
        raise TypeError(f"{what} must hold {of}, and holds {dtype}.")


def check_flag(what: str, value: Any, streams: int) -> None:
    """Raise unless the value, which errors call `what`, is one flag in each of the streams."""
    _check(what, value, streams, None, "one flag", kinds=(jnp.bool_,), of="True or False")


def _shape_of(value: Any) -> Any:
    """The shape of an array or a number; the class of anything else."""
    if isinstance(value, numbers.Number):
        return ()
    is_array = isinstance(value, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)
    return value.shape if is_array else type(value)


def _dtype_of(value: Any) -> Any:
    """The type of numbers of an array or of a number."""
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype

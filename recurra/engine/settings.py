"""JAX's settings in other threads and processes: JAX keeps what `with jax.enable_x64(True):` sets for one thread."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

#: settings that change results, or decide whether a run fails
NAMES = (
    "enable_x64",
    "default_matmul_precision",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "default_prng_impl",
    "threefry_partitionable",
    "softmax_custom_jvp",
    "debug_nans",
    "debug_infs",
    "disable_jit",
)
#: those of them that change numbers although all parts have the same types, with JAX's own defaults
NUMERIC = {
    "default_matmul_precision": None,
    "default_prng_impl": "threefry2x32",
    "threefry_partitionable": True,
    "softmax_custom_jvp": False,
}


def settings() -> dict[str, Any]:
    """The settings that this thread has now, by name."""
    return {name: getattr(jax.config, f"jax_{name}") for name in NAMES if hasattr(jax, name)}


@contextmanager
def having(settings: Mapping[str, Any]) -> Iterator[None]:
    """A context in which this thread has these settings."""
    with ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(getattr(jax, name)(value))
        yield


def settings_of_this_thread() -> Callable[[], AbstractContextManager[None]]:
    """A context in which any thread has the settings that this one has now."""
    return partial(having, settings())


def unusual(key: PRNGKeyArray) -> dict[str, Any]:
    """What changes the numbers of a run, beside its parts and the data of its key; nothing where all is JAX's default.

    So a run that was kept before these were noted is found again, if it was made under the defaults.
    """
    now = settings() | {"key": str(jax.random.key_impl(key))}
    usual = NUMERIC | {"key": NUMERIC["default_prng_impl"]}
    found = {name: now[name] for name in usual if now[name] != usual[name]}
    return {"jax": found} if found else {}

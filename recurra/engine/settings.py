"""JAX's settings in other threads: JAX keeps what `with jax.enable_x64(True):` and its like set for one thread."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import jax

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


def settings_of_this_thread() -> Callable[[], AbstractContextManager[None]]:
    """A context in which any thread has the settings that this one has now."""
    now = {name: getattr(jax.config, f"jax_{name}") for name in NAMES if hasattr(jax, name)}

    @contextmanager
    def there() -> Iterator[None]:
        with ExitStack() as stack:
            for name, value in now.items():
                stack.enter_context(getattr(jax, name)(value))
            yield

    return there

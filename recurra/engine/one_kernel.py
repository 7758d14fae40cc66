"""One kernel for a whole training loop on a CPU: the one setting that JAX takes for the process and not for a program.

A step of a small network takes less time than starting the dozens of kernels that its loop is cut into. Up to a number
of bytes touched a step, JAX's compiler for CPUs makes one kernel of the whole loop instead, which runs up to three
times as fast. The number can be set only in the environment variable XLA_FLAGS, which JAX reads when it first
computes, so `import recurra` sets it there. What a user has set in `xla_backend_extra_options` stays, and with
RECURRA_XLA_FLAGS=off nothing is set.
"""

import functools
import os
import warnings

#: Bytes that a step may touch. On a core of an AMD EPYC, 100,000 steps of one product and one outer product at n = 256
#: take 0.66 s in one kernel and 1.35 s without.
LIMIT = 2**24
FLAG = f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={LIMIT}"


def request() -> None:
    """Set the flag, unless the user has said otherwise."""
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags and _wanted():
        os.environ["XLA_FLAGS"] = f"{flags} {FLAG}".strip()


@functools.cache
def warn_if_late() -> None:
    """Say once if JAX had computed before the flag was set, for then it has no effect."""
    if FLAG in os.environ.get("XLA_FLAGS", "") and _wanted() and not _has_effect():
        warnings.warn(
            "JAX had computed something before recurra was imported, so small networks run up to three times slower on "
            "this CPU than they could. Import recurra before the first computation, or start the process with "
            f'XLA_FLAGS="{FLAG}". RECURRA_XLA_FLAGS=off silences this.',
            stacklevel=2,
        )


def _wanted() -> bool:
    return os.environ.get("RECURRA_XLA_FLAGS", "") != "off"


def _has_effect() -> bool:
    """Whether the compiler makes one kernel of a small loop, as its compiled program tells."""
    import jax
    import jax.numpy as jnp

    from recurra.engine.hardware import core_device

    loop = lambda x: jax.lax.fori_loop(0, 10, lambda i, y: 2 * jnp.tanh(y), x)
    with jax.default_device(core_device()):
        program = jax.jit(loop).lower(jnp.ones((64, 64), "float32")).compile().as_text()
    return "small_call" in (program or "")

"""The machine: its cores and devices, and how many bytes arrays take."""

import os
import platform
from pathlib import Path
from typing import Any


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def core_device() -> Any:
    """The processor as a device of JAX's, or None where JAX was told to use an accelerator alone."""
    import jax

    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def bytes_of(arrays: Any) -> int:
    """The bytes that a tree of arrays takes; leaves may be `jax.ShapeDtypeStruct`."""
    import jax

    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(arrays))


def processor() -> str:
    """The processor's name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

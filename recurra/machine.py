"""Where a number was measured: what a report must say beside it."""

import os
import platform
from pathlib import Path
from typing import Any

PACKAGES = ("recurra", "jax", "jaxlib", "equinox", "numpy", "scipy", "matplotlib")


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def backend() -> str:
    """The kind of device that JAX computes on here: "cpu", "gpu" or "tpu"."""
    import jax

    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]: made at run time
    return chosen if isinstance(chosen, str) else chosen.platform if chosen else jax.default_backend()


def core() -> Any:
    """The processor as a device of JAX's, or None where JAX was told to use an accelerator alone."""
    import jax

    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def bytes_of(arrays: Any) -> int:
    """What a tree of arrays takes in memory; their shapes alone will do."""
    import jax

    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(arrays))


def machine() -> dict[str, Any]:
    """Processor, cores, accelerator and system."""
    import jax

    accelerators = sorted({device.device_kind for device in jax.devices() if device.platform != "cpu"})
    found = {"processor": processor(), "cores": cores(), "system": platform.system()}
    return {**found, "accelerator": ", ".join(accelerators)} if accelerators else found


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    from importlib.metadata import version

    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def processor() -> str:
    """Its name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

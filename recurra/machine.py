"""Where a number was measured: what a report must say beside it."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("recurra", "jax", "jaxlib", "equinox", "numpy", "scipy", "matplotlib")


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """Processor, cores, accelerator and system."""
    accelerators = sorted({device.device_kind for device in jax.devices() if device.platform != "cpu"})
    found = {"processor": _processor(), "cores": cores(), "system": platform.system()}
    return {**found, "accelerator": ", ".join(accelerators)} if accelerators else found


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

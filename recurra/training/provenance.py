"""Where a number was measured: what a report must say beside it."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax

from recurra.engine.hardware import cores, processor

PACKAGES = ("recurra", "jax", "jaxlib", "equinox", "numpy", "scipy", "matplotlib")


def machine() -> dict[str, Any]:
    """Processor, cores, accelerator and system.

    >>> sorted(rc.provenance.machine())[:3]
    ['cores', 'processor', 'system']
    """
    accelerators = sorted({device.device_kind for device in jax.devices() if device.platform != "cpu"})
    found = {"processor": processor(), "cores": cores(), "system": platform.system()}
    return {**found, "accelerator": ", ".join(accelerators)} if accelerators else found


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on, as far as they are installed.

    >>> rc.provenance.versions()["recurra"] == rc.__version__
    True
    """
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

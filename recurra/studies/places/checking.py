"""Whether a worker can take an order: it imports the library that is installed there, so versions must agree."""

import functools
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    import recurra

    return (
        ("recurra", recurra.__version__),
        ("jax", _version("jax")),
        ("jaxlib", _version("jaxlib")),
        ("python", ".".join(platform.python_version_tuple()[:2])),
    )


def versions() -> dict[str, str]:
    """What results depend on, as it is installed here. An order carries it."""
    return dict(_versions())


def differing(wanted: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What is not as wanted, in words; empty if all is."""
    seen = [(name, here.get(name, "none"), value) for name, value in wanted.items() if here.get(name) != value]
    return " and ".join(f"{name} {there} where the study has {value}" for name, there, value in seen)


def refusal(wanted: Mapping[str, str], here: Mapping[str, str], worker: str) -> str:
    """Why a worker takes no orders, in one line; empty if it does."""
    different = differing(wanted, here)
    return f"worker {worker} has {different}: install the same there" if different else ""


def described() -> dict[str, Any]:
    """What a worker has: this runs on the worker, which imports it by name."""
    return {"versions": versions(), "accelerated": bool(accelerators())}


def accelerators() -> list[Any]:
    """The devices of this process that are faster than its cores."""
    import jax

    try:
        return [device for device in jax.local_devices() if device.platform != "cpu"]
    except RuntimeError:  # JAX was told to use something that is not there: computing will say so
        return []


def accelerated_so_far() -> bool | None:
    """Whether there is an accelerator, if JAX has been asked to compute at all."""
    return bool(accelerators()) if "jax" in sys.modules else None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"

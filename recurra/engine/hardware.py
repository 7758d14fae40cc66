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


def check_fits(needed: int, what: str, advice: str, device: Any = None) -> None:
    """Raise before anything is computed if `what` takes more bytes than are free on the device, the processor if None.

    What cannot be known, as on some systems, is not checked.
    """
    free = _free_host_bytes() if device is None or device.platform == "cpu" else _free_device_bytes(device)
    if free is not None and needed > free:
        raise MemoryError(f"{what} would take {in_words(needed)}, and {in_words(free)} of memory are free: {advice}.")


def in_words(number: int | float) -> str:
    """A number of bytes as text, such as "2.1 GB"."""
    units = ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.3g} {units[0]}"


def _free_device_bytes(device: Any) -> int | None:
    stats = device.memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None


def _free_host_bytes() -> int | None:
    """What the system says is available, or less where a container allows less."""
    return min(filter(None, [_free_of_system(), _free_of_container()]), default=None)


def _free_of_system() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def _free_of_container() -> int | None:
    """The least that is free in any of the control groups around this process, of version 2 or 1."""
    free = []
    for line in _lines("/proc/self/cgroup"):
        number, kinds, group = line.split(":", 2)
        root = Path("/sys/fs/cgroup") if number == "0" else Path("/sys/fs/cgroup/memory")
        if number != "0" and "memory" not in kinds.split(","):
            continue
        own = root / group.strip("/")
        free += [_free_of_group(folder) for folder in (own, *own.parents) if folder.is_relative_to(root)]
    return min(filter(None, free), default=None)


def _free_of_group(folder: Path) -> int | None:
    for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, taken = (_lines(f"{folder}/{name}") for name in (most, used))
        if limit and taken and limit[0] != "max":
            stat = dict(line.split() for line in _lines(f"{folder}/memory.stat"))
            cached = sum(int(stat.get(name, 0)) for name in ("inactive_file", "active_file"))  # given back on demand
            return max(int(limit[0]) - int(taken[0]) + cached, 1)
    return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def processor() -> str:
    """The processor's name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

"""Online learning for recurrent networks: every algorithm behind one small interface."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recurra.public import *  # noqa: F403

from recurra.engine import one_kernel as _one_kernel

__version__ = "0.2.0"

_one_kernel.request()

if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` would accept every name

    def __getattr__(name: str) -> Any:
        """A public name on its first use.

        JAX takes a second to import, and the command line must answer `--help` without it.
        """
        if name == "__all__":  # asked for by `from recurra import *`
            return _public_names()
        if not name.startswith("_"):
            if find_spec(f"recurra.{name}"):  # a room, which `recurra.public` may just be importing
                try:
                    return import_module(f"recurra.{name}")
                except ImportError as error:  # it needs an extra, and `hasattr` is to be answered
                    raise AttributeError(str(error)) from error
            if name in _public_names():
                globals()[name] = value = getattr(import_module("recurra.public"), name)
                return value
        raise AttributeError(f"module 'recurra' has no attribute {name!r}")


def _public_names() -> list[str]:
    # The import hook of jaxtyping, with which types are checked at run time, adds a module of its own.
    offered = vars(import_module("recurra.public"))
    return [name for name in offered if not name.startswith("_") and name != "jaxtyping"]


def __dir__() -> list[str]:
    return sorted({*_public_names(), *(name for name in globals() if name.startswith("__"))})

"""Parameters of which `make test` takes some, and `make test-all` every one."""

import pytest


def often(names, one):
    """All of them; those but one are slow."""
    return [pytest.param(name, marks=() if name == one else pytest.mark.slow) for name in names]

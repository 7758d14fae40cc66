"""The session runs in float64, promotes no dtype silently, checks shapes at run time and fails on warnings."""

import os
import tempfile

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
install_import_hook("recurra", "beartype.beartype")

# Commands that tests start keep their compiled programs for each other, and nothing in the user's own folder.
os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp(prefix="recurra-tests-"))

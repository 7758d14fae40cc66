"""The session runs in float64, promotes no dtype silently, checks shapes at run time and fails on warnings."""

import jax
from jaxtyping import install_import_hook

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
install_import_hook("recurra", "beartype.beartype")

"""Ten kinds of recurrent weights, which tell apart what the paper's four leave together.

The paper blames the real spectra of symmetric and diagonal weights. Three pairs here differ in that alone: a matrix
with real eigenvalues, and one of the same shape and size with complex ones. Two scales of orthogonal weights vary the
norm, and two kinds are not normal: their eigenvectors are not orthogonal, and they can remember more than their
eigenvalues tell.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recurra.cells import MatrixInit, diagonal, gaussian, orthogonal, symmetric


def orthogonal_09(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Orthogonal times 0.9: every eigenvalue has modulus 0.9."""
    return 0.9 * orthogonal(key, n, dtype)


def orthogonal_07(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Orthogonal times 0.7: every eigenvalue has modulus 0.7."""
    return 0.7 * orthogonal(key, n, dtype)


def reflections(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Symmetric and orthogonal: half of the eigenvalues are 1, half are -1."""
    Q = orthogonal(key, n, dtype)
    sign = jnp.where(jnp.arange(n) % 2 == 0, 1, -1).astype(dtype)
    return (Q * sign) @ Q.T


def skew(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Skew-symmetric Gaussian, scaled so that its imaginary eigenvalues fill [-i, i]."""
    G = gaussian(key, n, dtype)
    return (G - G.T) / math.sqrt(8)


def rotations(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Pairs of units that hear only each other: turned by any angle, and shrunk by a factor uniform on [0, 1]."""
    key_modulus, key_angle = jax.random.split(key)
    pairs = -(-n // 2)
    modulus = jax.random.uniform(key_modulus, (pairs,), dtype)
    angle = jax.random.uniform(key_angle, (pairs,), dtype, 0, 2 * math.pi)
    same = jnp.repeat(modulus * jnp.cos(angle), 2)[:n]
    across = jnp.stack([modulus * jnp.sin(angle), jnp.zeros(pairs, dtype)], axis=1).ravel()[: n - 1]
    return jnp.diag(same) + jnp.diag(across, -1) - jnp.diag(across, 1)


def delay_line(key: PRNGKeyArray, n: int, dtype: jnp.dtype) -> Float[Array, "n n"]:
    """Each unit hears the one before it: every eigenvalue is zero, and an input still lasts n steps."""
    return jnp.eye(n, k=-1, dtype=dtype)


class Spectrum(NamedTuple):
    """A way to draw recurrent weights, and whether their spectrum is real and the matrix normal."""

    draw: MatrixInit
    shown: str
    real: bool
    normal: bool


SPECTRA = {
    "orthogonal": Spectrum(orthogonal, "orthogonal", real=False, normal=True),
    "orthogonal-0.9": Spectrum(orthogonal_09, "orthogonal × 0.9", False, True),
    "orthogonal-0.7": Spectrum(orthogonal_07, "orthogonal × 0.7", False, True),
    "rotations": Spectrum(rotations, "rotations", False, True),
    "skew": Spectrum(skew, "skew", False, True),
    "gaussian": Spectrum(gaussian, "Gaussian", False, False),
    "symmetric": Spectrum(symmetric, "symmetric", True, True),
    "reflections": Spectrum(reflections, "reflections", True, True),
    "diagonal": Spectrum(diagonal, "diagonal", True, True),
    "delay-line": Spectrum(delay_line, "delay line", True, False),
}
#: matrices that differ in whether their spectrum is real: real, complex
PAIRS = (("symmetric", "skew"), ("reflections", "orthogonal"), ("diagonal", "rotations"))

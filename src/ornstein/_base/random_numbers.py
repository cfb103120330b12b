"""Random numbers for the inner loop: a counter hash, several times cheaper than JAX's own.

A block's key gives two words; number i of the block is i, multiplied by an odd constant and mixed
twice with those words by a 32-bit finaliser of full avalanche. Blocks get keys of their own from
JAX's generator, so a counter never runs further than one block.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ornstein._base.types import Array

_ODD = 0x9E3779B9  # the golden ratio's fraction: successive counters start far apart


def words(key: Array, shape: tuple[int, ...]) -> Array:
    """Uniform 32-bit words."""
    first, second = jax.random.bits(key, (2,), jnp.uint32)
    counter = jnp.arange(math.prod(shape), dtype=jnp.uint32) * jnp.uint32(_ODD)
    return _mix(_mix(counter ^ first) + second).reshape(shape)


def normals(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Standard normals by inversion, as fine in the tails as 23 bits (float32) or 32 allow."""
    return normal_of(words(key, shape), dtype)


def normal_of(bits: Array, dtype: Any) -> Array:
    """The normal that a uniform word stands for."""
    kept = 23 if np.dtype(dtype) == np.float32 else 32
    number = (bits >> (32 - kept)).astype(dtype)
    # The centres of 2^kept cells between -1 and 1: symmetric, exact, and never an end.
    centred = (number + jnp.asarray(0.5, dtype)) * 2.0 ** (1 - kept) - 1
    return jax.lax.erf_inv(centred) * jnp.asarray(math.sqrt(2), dtype)


def below(key: Array, shape: tuple[int, ...], bound: int) -> Array:
    """Uniform whole numbers from 0 to ``bound - 1``."""
    return scale(words(key, shape), bound)


def scale(bits: Array, bound: int) -> Array:
    """The high word of ``bits * bound``, by halves."""
    low, high = bits & 0xFFFF, bits >> 16
    bound_low, bound_high = jnp.uint32(bound & 0xFFFF), jnp.uint32(bound >> 16)
    middle = high * bound_low + ((low * bound_low) >> 16)
    carry = low * bound_high + (middle & 0xFFFF)
    return (high * bound_high + (middle >> 16) + (carry >> 16)).astype(jnp.int32)


def _mix(word: Array) -> Array:
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)

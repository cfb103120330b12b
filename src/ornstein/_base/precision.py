"""Single or double precision: the only place that switches JAX between them.

JAX has one switch for all code of a thread. Planning and statistics are always in double precision;
loops run in the precision that was asked for. Both functions serve as contexts and as decorators.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def precision_of(dtype: str) -> Iterator[None]:
    """JAX in the precision of ``dtype``, float32 or float64.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with precision_of("float32"):
    ...     jnp.ones(1).dtype
    dtype('float32')
    """
    with jax.enable_x64(dtype == "float64"):
        yield


@contextmanager
def double_precision() -> Iterator[None]:
    """JAX in double precision."""
    with precision_of("float64"):
        yield

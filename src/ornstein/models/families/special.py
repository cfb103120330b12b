"""Special functions whose derivatives of every order are cheap to compile and to evaluate."""

import math

import jax.numpy as jnp

from ornstein._base.types import Array

_FROM = 10.0  # where Stirling's series has the precision of a double
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_ODD = (17, 15, 13, 11, 9, 7, 5, 3, 1)  # terms that give the precision of a single
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_gamma(x: Array) -> Array:
    """``log Gamma(x)`` of numbers above 0, by Stirling's series from 10 on.

    JAX's own has derivatives by series that take seconds to compile.

    Examples
    --------
    >>> [round(float(log_gamma(jnp.asarray(x))), 4) for x in (0.5, 3.0, 40.0)]
    [0.5724, 0.6931, 106.6318]
    """
    small = x < _FROM
    low = jnp.where(small, x, jnp.ones_like(x))
    product = low
    for k in range(1, int(_FROM)):
        product = product * (low + float(k))
    high = jnp.where(small, x + _FROM, x)
    square = 1 / (high * high)
    series = jnp.full_like(x, _SERIES[-1])
    for term in reversed(_SERIES[:-1]):
        series = term + square * series
    whole = (high - 0.5) * jnp.log(high) - high + _HALF_LOG_TWO_PI + series / high
    return whole - jnp.where(small, jnp.log(product), jnp.zeros_like(x))


def log1p_of_share(x: Array) -> Array:
    """``log(1 + x)`` of numbers from 0 to 1, in single precision.

    By the series of ``2 artanh(x / (2 + x))``: compiled code works on many numbers at once, as it
    does not where it calls a logarithm.

    Examples
    --------
    >>> [round(float(log1p_of_share(jnp.asarray(x))), 6) for x in (0.0, 1e-3, 1.0)]
    [0.0, 0.001, 0.693147]
    """
    part = x / (2 + x)
    square = part * part
    series = jnp.full_like(square, 1 / _ODD[0])
    for odd in _ODD[1:]:
        series = series * square + 1 / odd
    return 2 * part * series

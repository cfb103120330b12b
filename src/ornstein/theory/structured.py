"""Exact plans from an approximate Hessian: one rate, and what the approximation costs (X2, X6).

With ``K = h Â^-1`` and X2's most general noise ``Q = (2K - K (Â + N C_S) K) / N``, made from an
approximation Â of A, T2's covariance is ``(2 - h) (2 - h M)^-1`` times the posterior's, in
coordinates in which Â is the identity and A is M. It is exact where ``M = I``, and everywhere as h
vanishes.
"""

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.eigen import Spectrum
from ornstein.theory.recipes import Recipe

_FASTEST = 1.0  # of K A, the true A's


def exact_at_rate(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, rate: float | Vector
) -> Recipe:
    """X2 at a given rate h, one for all directions or one each, for diagonals: ``K = h / a``.

    ``Q = (2K - K^2 (a + N c)) / N``, cut off at zero: it is negative if ``h (1 + N c / a) > 2``.

    Examples
    --------
    >>> gain, injected, _ = exact_at_rate(np.array([1.0, 4.0]), np.zeros(2), 10, rate=1.0)
    >>> gain.tolist(), injected.tolist()
    ([1.0, 0.25], [0.1, 0.025])
    """
    K = rate / hessian
    Q = K * (2 - rate - num_data * batch_noise_cov * K) / num_data
    return Recipe(K, np.maximum(Q, 0.0))


def variance_ratios(spectrum: Spectrum, rate: float) -> Vector:
    """Variances over the posterior's, ``(2 - h) / (2 - h m)``; infinite where unstable (T2).

    Examples
    --------
    >>> variance_ratios(Spectrum(np.array([0.5, 1.0]), np.ones(2) / 2), 1.0).round(4).tolist()
    [0.6667, 1.0]
    """
    left = 2 - rate * spectrum.nodes
    with np.errstate(divide="ignore"):
        return np.where((left > 0) & (spectrum.nodes > 0), (2 - rate) / left, np.inf)


def structure_kl(spectrum: Spectrum, rate: float, dim: int) -> float:
    """T3's divergence of that covariance from the posterior, in nats.

    Examples
    --------
    >>> round(structure_kl(Spectrum(np.array([0.5, 1.0]), np.ones(2) / 2), 1.0, dim=2), 4)
    0.0361
    """
    ratios = variance_ratios(spectrum, rate)
    if not np.all(np.isfinite(ratios)):
        return float("inf")
    return float(0.5 * dim * spectrum.shares @ (ratios - 1 - np.log(ratios)))


def noise_kl(square: float, aligned: float, noise_factor: float, rate: float, dim: int) -> float:
    """What noise that X2 does not know adds to the divergence, in nats, to second order (T3).

    Of ``N C`` in coordinates in which Â is the identity, less what Q was made for, ``square`` is
    the mean square over directions and ``aligned`` the mean product with ``M - 1``. With
    ``C_S = noise_factor C`` it adds ``h noise_factor / 2`` times itself to the covariance, next to
    ``h / 2 (M - 1)``; half the square of the Frobenius norm, halved, is the divergence.

    Examples
    --------
    >>> noise_kl(square=4.0, aligned=0.0, noise_factor=0.5, rate=0.5, dim=16)
    0.25
    """
    off = noise_factor * (noise_factor * square + 2 * aligned)
    return 0.25 * dim * (0.5 * rate) ** 2 * off


def approximation_kl(spectrum: Spectrum, dim: int) -> float:
    """T3's divergence of ``(N Â)^-1`` itself, whose variances are m times the posterior's."""
    m = spectrum.nodes
    return float(0.5 * dim * spectrum.shares @ (m - 1 - np.log(m)))


def accurate_rate(spectrum: Spectrum, error: float) -> float:
    """The largest rate whose covariance is off by no more than ``error``.

    ``error`` is the root mean square relative error of a variance, about: the divergence is at
    most ``error^2 / 4`` a direction. ``K A`` stays at or below 1.

    Examples
    --------
    >>> accurate_rate(Spectrum(np.ones(1), np.ones(1)), 0.01)
    1.0
    """
    high = min(1.0, _FASTEST / float(spectrum.nodes.max()))
    if structure_kl(spectrum, high, 1) <= error**2 / 4:
        return high
    low = 0.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if structure_kl(spectrum, middle, 1) <= error**2 / 4:
            low = middle
        else:
            high = middle
    return low

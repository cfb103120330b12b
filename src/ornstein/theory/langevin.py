"""Langevin dynamics: injected noise beside the minibatches' own (R8, X4), constant or decreasing.

Gains and preconditioners are numbers (times the identity), vectors (diagonals) or matrices; A and
``C_S`` are matrices, or vectors where only diagonals are known.
"""

import math
from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.storage.codec import register
from ornstein.theory.kl import posterior_kl
from ornstein.theory.recipes import Recipe
from ornstein.theory.stationary import (
    _from_modes,
    _noise_in_modes,
    _unstable,
    finite_step_covariance,
    modes,
    within_limits,
)

_HALVINGS = 60
_SMOOTH = 1e-3  # relative change of a decreasing step within a piece that takes it as constant


def sgld(num_data: int, step_size: float, preconditioner: Vector | float = 1.0) -> Recipe:
    """R8 (Welling and Teh): ``K = (eps N / 2) M``, ``Q = eps M``; ``M = I`` unless given."""
    M = np.asarray(preconditioner, float)
    return Recipe(step_size * num_data / 2 * M, step_size * M)


def sgld_step_size(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, preconditioner: Vector, kl: float
) -> float:
    """The largest step of R8 that T2 and T3 find within ``kl`` nats of the posterior.

    All arguments are matrices, or batches of 1 x 1 matrices where only diagonals are known.

    Examples
    --------
    >>> one = np.eye(1)
    >>> step = sgld_step_size(one, one, 10, one, kl=0.01)
    >>> K, Q, _ = sgld(10, step, one)
    >>> round(posterior_kl(finite_step_covariance(K, one, one, Q), one, 10), 4)
    0.01
    """

    def too_far(step: float) -> bool:
        K, Q, _ = sgld(num_data, step, preconditioner)
        cov = finite_step_covariance(K, hessian, batch_noise_cov, Q)
        return not (np.all(np.isfinite(cov)) and posterior_kl(cov, hessian, num_data) <= kl)

    fastest = float(modes(preconditioner, hessian).rates.max())
    high = 4 / (num_data * fastest)  # the edge of stability
    low = high
    while too_far(low) and low > high * 1e-30:
        low, high = low / 8, low
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if too_far(middle) else (middle, high)
    return low


def sghmc(
    hessian: Vector,
    batch_noise_cov: Vector,
    num_data: int,
    gain: Vector,
    friction: float,
    corrected: bool = True,
) -> Recipe:
    """X4 with injected noise: ``Q = mu (2 K - K A K / (2-mu)) / N - K C_S K`` is exact.

    Uncorrected, ``Q = 2 mu K / N``: the friction's noise alone, as if gradients had none and steps
    were small.

    Examples
    --------
    >>> from ornstein.theory import momentum_covariance
    >>> A, C_S, K = np.diag([1.0, 2.0]), 0.01 * np.eye(2), 0.1 * np.eye(2)
    >>> _, Q, mu = sghmc(A, C_S, num_data=10, gain=K, friction=0.3)
    >>> cov = momentum_covariance(K, A, C_S, mu, Q)
    >>> bool(np.allclose(cov, np.linalg.inv(10 * A)))
    True
    """
    gain, mu = np.asarray(gain, float), friction
    if not corrected:
        return Recipe(gain, 2 * mu / num_data * gain, mu)
    noise = between(gain, mu / (2 - mu) / num_data * hessian + batch_noise_cov)
    total = 2 * mu / num_data * gain
    if noise.ndim == 2 and gain.ndim < 2:
        total = np.diag(np.broadcast_to(total, (len(noise),)))
    return Recipe(gain, total - noise, mu)


def sghmc_step_limit(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, gain: Vector, friction: float
) -> float:
    """The multiple of ``gain`` beyond which X4's ``Q`` is not a covariance.

    Examples
    --------
    >>> sghmc_step_limit(np.eye(2), 0 * np.eye(2), 10, np.asarray(1.0), friction=1.0)
    2.0
    """
    mu = friction
    inner = mu / (2 - mu) * hessian + num_data * batch_noise_cov
    return 2 * mu / largest_rate(gain, inner)


def largest_rate(gain: Vector, matrix: Vector) -> float:
    """The largest eigenvalue of ``K M`` for a symmetric positive gain of any structure."""
    gain = np.asarray(gain, float)
    if gain.ndim == 2:
        root = np.linalg.cholesky(gain)
        return float(np.linalg.eigvalsh(root.T @ matrix @ root).max())
    if matrix.ndim == 1:
        return float(np.max(gain * matrix))
    root = np.sqrt(np.broadcast_to(gain, (len(matrix),)))
    return float(np.linalg.eigvalsh(root[:, None] * matrix * root).max())


def between(gain: Vector, matrix: Vector) -> Vector:
    """``K M K`` for a gain of any structure and a matrix or a diagonal."""
    if gain.ndim == 2:
        return np.asarray(gain @ matrix @ gain)
    if gain.ndim == 0 or matrix.ndim == 1:
        return np.asarray(gain**2 * matrix)
    return np.asarray(gain[:, None] * matrix * gain)


@register
class Decay(NamedTuple):
    """A decreasing step: ``(1 + t / steps)^-power`` of the first after t steps."""

    power: float
    steps: float


def decreasing_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    injected_cov: Vector,
    decay: Decay,
    first: int,
    last: int,
) -> Vector:
    """R8 with decreasing steps: mean covariance of the iterates from ``first`` to ``last``.

    The chain starts in stationarity at its first step. T2's recursion is solved piece by piece,
    each piece short enough that the step hardly changes. NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> K, Q, _ = sgld(100, 0.001)
    >>> constant = finite_step_covariance(K * one, one, one, Q * one)
    >>> falling = decreasing_covariance(K * one, one, one, Q * one, Decay(0.5, 50.0), 0, 10_000)
    >>> bool(0.01 < falling < constant)
    True
    """
    k, basis = modes(gain, hessian)
    if not within_limits(k):
        return _unstable(hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    ki, kj = k[..., :, None], k[..., None, :]
    cov = (gradient + injected) / (ki + kj - ki * kj)
    total, step = np.zeros_like(cov), 0
    while step < last:
        scale = (1 + step / decay.steps) ** -decay.power
        steps = max(1, int(_SMOOTH * (step + decay.steps) / max(decay.power, _SMOOTH)))
        if step < first:
            steps = min(steps, first - step)
        steps = min(steps, last - step)
        keep = (1 - scale * ki) * (1 - scale * kj)
        level = (scale**2 * gradient + scale * injected) / (1 - keep)
        end = level + keep**steps * (cov - level)
        if step >= first:
            mean = level + (cov - level) * keep * (1 - keep**steps) / (steps * (1 - keep))
            total += steps * mean
        cov, step = end, step + steps
    return _from_modes(basis, total / max(1, last - first))

"""Averages of successive iterates as samples (X5), and batches of an epoch loader (X7)."""

import numpy as np

from ornstein._base.types import Vector
from ornstein.theory.stationary import (
    _from_modes,
    _noise_in_modes,
    _unstable,
    finite_step_covariance,
    modes,
    within_limits,
)


def averaged_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    window: int,
    injected_cov: Vector | None = None,
) -> Vector:
    """X5: exact covariance of the mean of ``window`` successive stationary iterates.

    From T2 and the lag-t autocovariance ``(I - K A)^t Sigma``. NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> bool(
    ...     averaged_covariance(0.1 * one, one, one, 1)
    ...     == finite_step_covariance(0.1 * one, one, one)
    ... )
    True
    """
    cov = finite_step_covariance(gain, hessian, batch_noise_cov, injected_cov)
    if np.any(np.isnan(cov)):
        return cov
    k, basis = modes(gain, hessian)
    in_modes = np.linalg.solve(basis, np.swapaxes(np.linalg.solve(basis, cov), -1, -2))
    lagged = window * (window - 1) / 2 - lag_deficit(k, window)
    scale = (window + lagged[..., :, None] + lagged[..., None, :]) / window**2
    return basis @ (in_modes * scale) @ np.swapaxes(basis, -1, -2)


def averaged_covariance_limit(
    hessian: Vector, noise_cov: Vector, batch_size: int, window: int
) -> Vector:
    """X5: ``A^-1 C A^-1 / (T S)``, the limit for a window far above the relaxation time.

    Examples
    --------
    >>> averaged_covariance_limit(2 * np.eye(1), np.eye(1), batch_size=5, window=10).item()
    0.005
    """
    half = np.linalg.solve(hessian, noise_cov)
    return np.linalg.solve(hessian, np.swapaxes(half, -1, -2)) / (window * batch_size)


def lag_deficit(k: Vector, window: int) -> Vector:
    """``sum_{t=1}^{T-1} (T - t) (1 - (1 - k)^t)``, with its digits kept for slow modes."""
    T = float(window)
    slow = T * k < 0.5
    fast_k, slow_k = np.where(slow, 1.0, k), np.where(slow, k, 0.0)
    decay = (1 - fast_k) ** window
    closed = T * (T - 1) / 2 - (1 - fast_k) * (T * fast_k - 1 + decay) / fast_k**2
    # -sum_{m>0} (-k)^m C(T+1, m+2), where the closed form would cancel.
    term = np.full_like(k, T * (T + 1) / 2)
    series = np.zeros_like(k)
    for m in range(16):
        term = term * -slow_k * (T - 1 - m) / (m + 3)
        series = series - term
    return np.where(slow, series, closed)


def batch_noise_factor(num_data: int, batch_size: int, replacement: bool) -> float:
    """``C_S / C``: ``1/S`` with replacement, ``(N - S) / (S (N - 1))`` without (X7).

    Examples
    --------
    >>> batch_noise_factor(101, 50, replacement=True), batch_noise_factor(101, 51, False)
    (0.02, 0.00980392156862745)
    """
    if replacement:
        return 1 / batch_size
    return (num_data - batch_size) / (batch_size * max(num_data - 1, 1))


def epoch_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    batches_per_epoch: int,
    injected_cov: Vector | None = None,
) -> Vector:
    """X7: covariance under an epoch loader (one shuffle, then consecutive blocks).

    Within an epoch of M batches the noises have covariance ``C_S`` (without replacement) and
    cross-covariance ``-C_S / (M - 1)``; epochs are independent. The result is the average over
    the M positions in the epoch. NaN where unstable.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.eye(1)
    >>> loader = epoch_covariance(0.1 * one, one, one, batches_per_epoch=20)
    >>> bool(loader < 0.5 * finite_step_covariance(0.1 * one, one, one))
    True
    """
    k, basis = modes(gain, hessian)
    if not within_limits(k):
        return _unstable(hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    M = batches_per_epoch
    if M > 1:
        # Two steps a lag l apart share an epoch with probability 1 - l/M: the noise's share of a
        # covariance is multiplied by 1 - sum_{0<l<M} (1 - l/M) (r_i^l + r_j^l) / (M - 1).
        deficit = lag_deficit(k, M) / (M * (M - 1))
        gradient = gradient * (deficit[..., :, None] + deficit[..., None, :])
    ki, kj = k[..., :, None], k[..., None, :]
    return _from_modes(basis, (gradient + injected) / (ki + kj - ki * kj))

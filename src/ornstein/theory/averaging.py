"""Averages of successive iterates as samples (X5)."""

import numpy as np

from ornstein._base.types import Vector
from ornstein.theory.stationary import finite_step_covariance, modes


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

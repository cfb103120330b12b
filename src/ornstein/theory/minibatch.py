"""How minibatches are drawn decides the noise (X7)."""

import numpy as np

from ornstein._types import Vector
from ornstein.theory.stationary import _from_modes, _noise_in_modes, _unstable, modes


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
    >>> one = np.eye(1)
    >>> loader = epoch_covariance(0.1 * one, one, one, batches_per_epoch=20)
    >>> independent = epoch_covariance(0.1 * one, one, one, batches_per_epoch=10**9)
    >>> bool(loader < 0.5 * independent)
    True
    """
    k, basis = modes(gain, hessian)
    if not np.all((k > 0) & (k < 2)):
        return _unstable(hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    M = batches_per_epoch
    ki, kj = k[..., :, None], k[..., None, :]
    anti = 1 / (M - 1) if M > 1 else 0.0
    joint = ki + kj - ki * kj  # 1 - r_i r_j, r = 1 - k

    # After m steps of an epoch begun with covariance s:
    #   (r_i r_j)^m s + (C_S (1 + anti) + Q) a_m - C_S anti b_m,
    # a_m = sum_{t<m} (r_i r_j)^t and b_m = (sum_{t<m} r_i^t) (sum_{t<m} r_j^t).
    def powers_sum(one_minus: Vector) -> Vector:
        return _power_deficit(one_minus, M) / one_minus

    white = gradient * (1 + anti) + injected
    a_end = powers_sum(joint)
    b_end = powers_sum(ki) * powers_sum(kj)
    start = (white * a_end - gradient * anti * b_end) / _power_deficit(joint, M)
    # Averages over m = 1..M of (r_i r_j)^m, a_m and b_m.
    mean_joint = (1 - joint) * a_end / M
    mean_i, mean_j = (1 - ki) * powers_sum(ki) / M, (1 - kj) * powers_sum(kj) / M
    mean_a = (1 - mean_joint) / joint
    mean_b = (1 - mean_i - mean_j + mean_joint) / (ki * kj)
    return _from_modes(basis, mean_joint * start + white * mean_a - gradient * anti * mean_b)


def _power_deficit(one_minus: Vector, exponent: int) -> Vector:
    """``1 - (1 - x)^M``, with its digits kept for small x."""
    small = np.minimum(one_minus, 0.5)
    return np.where(
        one_minus < 0.5,
        -np.expm1(exponent * np.log1p(-small)),
        1 - (1 - one_minus) ** exponent,
    )

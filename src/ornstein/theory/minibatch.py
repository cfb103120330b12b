"""How minibatches are drawn decides the noise (X7)."""

from ornstein._base.types import Vector
from ornstein.theory.averaging import lag_deficit
from ornstein.theory.stationary import _from_modes, _noise_in_modes, _unstable, modes, within_limits


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
    >>> from ornstein.theory import finite_step_covariance
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

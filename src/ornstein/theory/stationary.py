"""Stationary covariances of the update ``theta <- theta - K ghat + Q^(1/2) xi`` (T1, T2, X4).

All are solved in the *modes* of the drift: with ``K = B B'`` and ``B' A B = diag(k)`` the matrix
equations become one scalar equation per entry. The Cholesky factor of ``K`` makes this accurate
however badly the parameters are scaled against each other.
"""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector

_EDGE = 1e-9  # relative distance from the stability limit that counts as on it


class Modes(NamedTuple):
    """Eigenmodes of the drift ``K A``.

    Attributes
    ----------
    rates
        ``k``, the eigenvalues of ``K A``, ascending; mode i shrinks by ``1 - k_i`` a step.
    basis
        ``B`` with ``B B' = K`` and ``B' A B = diag(k)``; column i is the mode in parameter space.
    """

    rates: Vector
    basis: Vector


def _transpose(matrix: Vector) -> Vector:
    return np.swapaxes(matrix, -1, -2)


def modes(gain: Vector, hessian: Vector) -> Modes:
    """Eigenmodes of ``K A`` for a symmetric positive definite gain; NaN if it is not.

    Examples
    --------
    >>> rates, _ = modes(0.25 * np.eye(2), np.diag([1.0, 3.0]))
    >>> rates.tolist()
    [0.25, 0.75]
    """
    gain, hessian = np.broadcast_arrays(np.asarray(gain, float), np.asarray(hessian, float))
    try:
        factor: Vector = np.linalg.cholesky(gain)
        drift = _transpose(factor) @ hessian @ factor
        rates, rotation = np.linalg.eigh(0.5 * (drift + _transpose(drift)))
    except np.linalg.LinAlgError:
        return Modes(np.full(gain.shape[:-1], np.nan), np.full(gain.shape, np.nan))
    return Modes(rates, factor @ rotation)


def noise_shares(
    drift: Modes, batch_noise_cov: Vector, injected_cov: Vector | None = None
) -> Vector:
    """The minibatches' share of the noise of a step (T2), mode by mode; the rest is injected.

    Examples
    --------
    >>> drift = modes(np.eye(2), np.eye(2))
    >>> noise_shares(drift, np.diag([1.0, 3.0]), np.eye(2)).tolist()
    [0.5, 0.75]
    """
    rates, basis = drift
    own = np.diagonal(_transpose(basis) @ batch_noise_cov @ basis, axis1=-2, axis2=-1)
    if injected_cov is None or not np.all(np.isfinite(basis)):
        return np.ones_like(rates)
    half = np.linalg.solve(basis, injected_cov)
    added = np.diagonal(np.linalg.solve(basis, _transpose(half)), axis1=-2, axis2=-1)
    total = own + added
    return np.divide(own, total, out=np.zeros_like(total), where=total > 0)


def is_stable(gain: Vector, hessian: Vector, friction: float = 1.0) -> bool:
    """T2's stability test: every eigenvalue of ``K A`` in (0, 2), with momentum in (0, 2(2 - mu)).

    Examples
    --------
    >>> is_stable(np.array([[1.9]]), np.eye(1)), is_stable(np.array([[2.1]]), np.eye(1))
    (True, False)
    """
    rates = modes(gain, hessian).rates
    return 0 < friction < 2 and within_limits(rates, stability_limit(friction))


def stability_limit(friction: float = 1.0) -> float:
    """``2 (2 - mu)``: the rates ``K A`` at which a chain with friction mu diverges (T2, X4)."""
    return 2 * (2 - friction)


def within_limits(rates: Vector, limit: float = 2.0) -> bool:
    """Whether all modes shrink; at the limit itself, as far as rounding tells, they do not."""
    return bool(np.all((rates > 0) & (rates < limit * (1 - _EDGE))))


def relaxation_steps(rates: Vector, friction: float = 1.0) -> Vector:
    """Steps in which a mode forgets, ``1 / (1 - |r|)``, r its slowest shrink factor (T2, X4).

    Without momentum ``r = 1 - k``, so a slow mode takes ``1 / k`` steps. Unstable modes give inf.
    """
    trace = 2 - friction - np.asarray(rates, float)
    root = np.sqrt((trace**2 - 4 * (1 - friction)).astype(complex))
    radius = np.maximum(np.abs(trace + root), np.abs(trace - root)) / 2
    with np.errstate(divide="ignore"):
        return np.where(radius < 1, 1 / (1 - radius), np.inf)


def _noise_in_modes(
    basis: Vector, batch_noise_cov: Vector, injected_cov: Vector | None
) -> tuple[Vector, Vector]:
    """``B^-1 (K C_S K') B^-T`` and ``B^-1 Q B^-T``."""
    gradient = _transpose(basis) @ batch_noise_cov @ basis
    if injected_cov is None:
        return gradient, np.zeros_like(gradient)
    half: Vector = np.linalg.solve(basis, np.asarray(injected_cov, float))
    return gradient, np.linalg.solve(basis, _transpose(half))


def _from_modes(basis: Vector, cov: Vector) -> Vector:
    return basis @ _symmetric(cov) @ _transpose(basis)


def _unstable(hessian: Vector) -> Vector:
    return np.full(np.shape(hessian), np.nan)


def ou_covariance(
    gain: Vector, hessian: Vector, batch_noise_cov: Vector, injected_cov: Vector | None = None
) -> Vector:
    """T1: solves ``K A Sigma + Sigma A K' = K C_S K' + Q``, the Ornstein-Uhlenbeck limit.

    NaN where ``K A`` has an eigenvalue that is not positive.

    Examples
    --------
    >>> one = np.eye(1)
    >>> ou_covariance(0.1 * one, one, 4 * one).item()
    0.2
    """
    k, basis = modes(gain, hessian)
    if not np.all(k > 0):
        return _unstable(hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    return _from_modes(basis, (gradient + injected) / (k[..., :, None] + k[..., None, :]))


def finite_step_covariance(
    gain: Vector, hessian: Vector, batch_noise_cov: Vector, injected_cov: Vector | None = None
) -> Vector:
    """T2: solves ``Sigma = (I - K A) Sigma (I - K A)' + K C_S K' + Q``.

    Exact at any step for a quadratic loss with constant noise. NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> round(finite_step_covariance(0.1 * one, one, 4 * one).item(), 6)
    0.210526
    """
    k, basis = modes(gain, hessian)
    if not within_limits(k):
        return _unstable(hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    ki, kj = k[..., :, None], k[..., None, :]
    return _from_modes(basis, (gradient + injected) / (ki + kj - ki * kj))


def momentum_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    friction: float,
    injected_cov: Vector | None = None,
) -> Vector:
    """X4: position covariance of ``v <- (1-mu) v - K ghat + Q^(1/2) xi; theta <- theta + v``.

    ``friction`` is mu: the velocity keeps ``1 - mu`` of itself, 1 means none. NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> plain = finite_step_covariance(0.1 * one, one, 4 * one)
    >>> bool(np.isclose(momentum_covariance(0.1 * one, one, 4 * one, friction=1.0), plain))
    True
    """
    joint = phase_space_covariance(gain, hessian, batch_noise_cov, friction, injected_cov)
    dim = joint.shape[-1] // 2
    return joint[..., :dim, :dim]


def phase_space_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    friction: float,
    injected_cov: Vector | None = None,
) -> Vector:
    """X4: joint covariance of position and velocity, (..., 2 D, 2 D), position first.

    In modes each pair (i, j) is a linear recursion in four moments (position-position,
    position-velocity, velocity-position, velocity-velocity). NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> phase_space_covariance(0.1 * one, one, 4 * one, friction=0.5).shape
    (2, 2)
    """
    gain, hessian = np.broadcast_arrays(np.asarray(gain, float), np.asarray(hessian, float))
    if not is_stable(gain, hessian, friction):
        return np.full((*hessian.shape[:-2], 2 * hessian.shape[-1], 2 * hessian.shape[-1]), np.nan)
    k, basis = modes(gain, hessian)
    gradient, injected = _noise_in_modes(basis, batch_noise_cov, injected_cov)
    keep = 1 - friction
    # One mode's step on (position, velocity); the noise enters both alike.
    step = np.empty((*k.shape, 2, 2))
    step[..., 0, 0], step[..., 0, 1] = 1 - k, keep
    step[..., 1, 0], step[..., 1, 1] = -k, keep
    left, right = step[..., :, None, :, :], step[..., None, :, :, :]
    pair = np.einsum("...ab,...cd->...acbd", left, right)
    pair = pair.reshape(*pair.shape[:-4], 4, 4)
    noise = np.repeat((gradient + injected)[..., None, None], 4, axis=-2)
    moments = np.linalg.solve(np.eye(4) - pair, noise)
    position, across, _, velocity = (
        basis @ moments[..., which, 0] @ _transpose(basis) for which in range(4)
    )
    rows = [
        np.concatenate([_symmetric(position), across], axis=-1),
        np.concatenate([_transpose(across), _symmetric(velocity)], axis=-1),
    ]
    return np.concatenate(rows, axis=-2)


def _symmetric(matrix: Vector) -> Vector:
    return 0.5 * (matrix + _transpose(matrix))

"""Rotation steps (X11): Hamiltonian motion that is exact where the posterior is Gaussian.

With ``theta = center + W z``, ``W W' = (N A)^-1``, the potential is ``|z|^2 / 2 + R(z)``. A step of
angle h and keep r

    v <- r v + q xi;  rotate (z, v) by h/2;  v <- v - kappa grad R(z);  rotate by h/2

solves the Gaussian's motion without error, whatever h is. With ``kappa = 2 sin(h/2)`` the draws'
mean is right to first order in R at any h; with h in its place, as in the usual splitting, only for
small ones. Variances err by ``1 / cos(h/2) - 1`` of what R changes them.
"""

import math

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.eigen import inverse
from ornstein.theory.kl import joint_diagonalisation
from ornstein.theory.recipes import Recipe
from ornstein.theory.stationary import modes


def kick(angle: float) -> float:
    """X11: ``kappa = 2 sin(h/2)``, by which a step of angle h multiplies the remainder's gradient.

    Examples
    --------
    >>> round(kick(0.1), 5), round(kick(np.pi / 2), 5)
    (0.09996, 1.41421)
    """
    return 2 * math.sin(angle / 2)


def critical_keep(angle: float) -> float:
    """X11: the share of the velocity to keep so that positions forget soonest.

    ``r = tan^2(pi/4 - h/2)``. Both eigenvalues of a step are then its root: at a quarter turn 0,
    and every step makes a draw.

    Examples
    --------
    >>> round(critical_keep(np.pi / 2), 12), round(critical_keep(0.8), 4)
    (0.0, 0.1646)
    """
    return math.tan(math.pi / 4 - angle / 2) ** 2


def velocity_noise(angle: float, keep: float, kick_noise: Vector) -> Vector:
    """X11: the variance ``q^2`` to inject into the velocity so that positions have variance 1.

    ``kick_noise`` is what the minibatch adds to the velocity's variance in a step,
    ``kappa^2 N C_S`` relative to A. Without it ``q^2 = 1 - r^2``; with keep 0 it is
    ``1 - k / (4 cos^2(h/2))``. Negative where the noise is too large to be made up for.

    Examples
    --------
    >>> velocity_noise(1.0, 0.5, np.zeros(1)).tolist()
    [0.75]
    """
    h, r = angle, keep
    # Second moments of (z, v) before a step, (1, u, w), are linear in the noise; y = 1 - w + k.
    turned = np.array(
        [
            [1 - math.cos(2 * h), -2 * r * math.sin(2 * h)],
            [math.sin(2 * h) / 2, 1 - r * math.cos(2 * h)],
        ]
    )
    y, _ = np.linalg.solve(turned, [1 - math.cos(h), math.sin(h) / 2])
    share = 1 - (1 - r**2) * (1 - y)
    return np.asarray((1 - r**2) - share * np.asarray(kick_noise, float))


def rotation(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, angle: float, keep: float
) -> Recipe:
    """X11: ``K = A^-1``, and the velocity's noise Q that makes the covariance ``(N A)^-1``.

    Q is singular, and the draws too wide, along directions whose noise exceeds what the refreshed
    velocity can make up for.

    Examples
    --------
    >>> A, C_S = np.diag([1.0, 4.0]), np.diag([0.02, 0.0])
    >>> K, Q, _ = rotation(A, C_S, num_data=10, angle=1.2, keep=0.1)
    >>> cov = rotation_covariance(K, A, C_S, 1.2, 0.1, Q)
    >>> bool(np.allclose(cov, np.linalg.inv(10 * A)))
    True
    """
    V, c = joint_diagonalisation(hessian, batch_noise_cov)
    noise = velocity_noise(angle, keep, kick(angle) ** 2 * num_data * c)
    return Recipe(inverse(hessian), (V * (np.maximum(noise, 0.0) / num_data)) @ V.T)


def rotation_diagonal(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, angle: float, keep: float
) -> Recipe:
    """X11 along a basis in which A and ``C_S`` are diagonal, given as diagonals."""
    a, c = np.asarray(hessian, float), np.asarray(batch_noise_cov, float)
    noise = velocity_noise(angle, keep, kick(angle) ** 2 * num_data * c / a)
    return Recipe(1 / a, np.maximum(noise, 0.0) / (num_data * a))


def rotation_covariance(
    gain: Vector,
    hessian: Vector,
    batch_noise_cov: Vector,
    angle: float,
    keep: float,
    injected_cov: Vector | None = None,
) -> Vector:
    """X11: position covariance of rotation steps with any gain, for a quadratic loss.

    The kick is ``v <- v - kappa (K ghat - x)``. In modes each pair (i, j) is a linear recursion in
    four moments. NaN where unstable.

    Examples
    --------
    >>> one = np.eye(1)
    >>> round(rotation_covariance(one, one, 0 * one, 1.0, 0.0, 0.25 * one).item(), 6)
    0.25
    """
    k, basis = modes(gain, hessian)
    if not np.all((k > 0) & (k < rotation_limit(angle))):
        return np.full(np.shape(hessian), np.nan)
    c, s, kappa = math.cos(angle / 2), math.sin(angle / 2), kick(angle)
    turn = np.array([[c, s], [-s, c]])
    push = np.zeros((*k.shape, 2, 2))
    push[..., 0, 0] = push[..., 1, 1] = 1.0
    push[..., 1, 0] = -kappa * (k - 1)
    after = turn @ push @ turn  # of the refreshed velocity
    step = after * np.array([1.0, keep])
    transposed = np.swapaxes(basis, -1, -2)
    gradient = kappa**2 * (transposed @ batch_noise_cov @ basis)
    injected: Vector = np.zeros_like(gradient)
    if injected_cov is not None:
        half: Vector = np.linalg.solve(basis, np.asarray(injected_cov, float))
        injected = np.linalg.solve(basis, np.swapaxes(half, -1, -2))
    left, right = step[..., :, None, :, :], step[..., None, :, :, :]
    pair = np.einsum("...ab,...cd->...acbd", left, right)
    pair = pair.reshape(*pair.shape[:-4], 4, 4)
    by_kick = np.outer(turn[:, 1], turn[:, 1])
    by_refresh = np.einsum("...ia,...jb->...ijab", after[..., 1], after[..., 1])
    noise = injected[..., None, None] * by_refresh + gradient[..., None, None] * by_kick
    moments = np.linalg.solve(np.eye(4) - pair, noise.reshape(*noise.shape[:-2], 4, 1))
    cov = moments[..., 0, 0]
    return np.asarray(basis @ (0.5 * (cov + np.swapaxes(cov, -1, -2))) @ transposed)


def rotation_limit(angle: float) -> float:
    """X11: the rate ``K A`` at which steps diverge, ``1 + cot(h/2) / sin(h/2)``; 1 if exact.

    Examples
    --------
    >>> round(rotation_limit(np.pi / 2), 4)
    2.4142
    """
    return 1 + 1 / (math.tan(angle / 2) * math.sin(angle / 2))


def rotation_relaxation(rates: Vector, angle: float, keep: float) -> Vector:
    """X11: steps in which modes of these rates ``K A`` forget, ``1 / (1 - |eigenvalue|)``.

    Examples
    --------
    >>> rotation_relaxation(np.ones(1), np.pi / 2, 0.0).round(6).tolist()
    [1.0]
    """
    rest = np.asarray(rates, float) - 1
    trace = (1 + keep) * (math.cos(angle) - kick(angle) * rest * math.sin(angle) / 2)
    root = np.sqrt((trace**2 - 4 * keep).astype(complex))
    radius = np.maximum(np.abs(trace + root), np.abs(trace - root)) / 2
    with np.errstate(divide="ignore"):
        return np.where(radius < 1, 1 / (1 - radius), np.inf)

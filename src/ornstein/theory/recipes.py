"""Recipes: the gain and injected noise of each method (R1-R7, X1-X4).

Each takes the minibatch noise ``C_S`` itself, so the paper's ``C / S`` (drawn with replacement)
and a finite population's ``C / S (N-S)/(N-1)`` follow from the same formula. A gain is a number
(times the identity), a vector (a diagonal) or a matrix, as the method's structure has it.
"""

from typing import NamedTuple

import numpy as np

from ornstein._base.types import Vector
from ornstein.linalg.eigen import inverse
from ornstein.theory.kl import joint_diagonalisation

_TINY = 1e-150  # stands for zero noise, so that gains stay finite and fail the stability test


class Recipe(NamedTuple):
    """What turns stochastic gradients into samples.

    Attributes
    ----------
    gain
        ``K``: 0-d for a multiple of the identity, 1-d for a diagonal, 2-d for a matrix.
    injected_cov
        ``Q`` in the same manner; ``None`` for no injected noise.
    friction
        ``mu`` in (0, 1]: the velocity keeps ``1 - mu`` of itself at every step; 1 for no momentum.
    """

    gain: Vector
    injected_cov: Vector | None = None
    friction: float = 1.0


def diagonal(matrix: Vector) -> Vector:
    """The diagonal of a matrix; a vector stands for a diagonal matrix already."""
    return np.diag(matrix) if np.ndim(matrix) == 2 else np.asarray(matrix, float)


def _reciprocal(values: Vector) -> Vector:
    return 1 / np.maximum(values, _TINY)


def constant_sgd(batch_noise_cov: Vector, num_data: int) -> Recipe:
    """R1 (Theorem 1): ``K = eps I``, ``eps = 2 D / (N Tr C_S)``.

    Examples
    --------
    >>> float(constant_sgd(np.eye(4) / 8, num_data=100).gain)
    0.16
    """
    dim = len(batch_noise_cov)
    return Recipe(
        np.asarray(2 * dim / (num_data * max(float(diagonal(batch_noise_cov).sum()), _TINY)))
    )


def optimal_batch_size(step_size: float, noise_cov: Vector, num_data: int) -> float:
    """R1 solved for the batch: ``S = eps N Tr C / (2 D)`` (drawn with replacement).

    Examples
    --------
    >>> optimal_batch_size(0.2, np.eye(3), num_data=100)
    10.0
    """
    return float(step_size * num_data * diagonal(noise_cov).sum() / (2 * len(noise_cov)))


def full_sgd(batch_noise_cov: Vector, num_data: int) -> Recipe:
    """R2 (Theorem 2): ``K = (2 / N) C_S^-1``."""
    return Recipe(2 / num_data * inverse(batch_noise_cov))


def diagonal_sgd(batch_noise_cov: Vector, num_data: int) -> Recipe:
    """R3 (Corollary 1): ``K_kk = 2 / (N (C_S)_kk)``."""
    return Recipe(2 / num_data * _reciprocal(diagonal(batch_noise_cov)))


def square_root_sgd(batch_noise_cov: Vector, num_data: int) -> Recipe:
    """R4 (appendix C): ``K = eps G^-1``, ``G = sqrt(diag C_S)``, as AdaGrad and RMSProp scale.

    ``eps = 2 D / (N Tr(C_S G^-1))``; a constant factor in G cancels.
    """
    root = np.sqrt(diagonal(batch_noise_cov))
    step = 2 * len(root) / (num_data * max(float(root.sum()), _TINY))
    return Recipe(step * np.sqrt(_reciprocal(root**2)))


def sgfs_full(
    batch_noise_cov: Vector, num_data: int, step_size: float, extra_noise: Vector
) -> Recipe:
    """R5 (Theorem 3): ``K = eps H``, ``H = (2/N) (eps C_S + E E')^-1``, ``Q = eps H E E' H``.

    ``extra_noise`` is ``E E'``.
    """
    H = 2 / num_data * inverse(step_size * batch_noise_cov + extra_noise)
    return Recipe(step_size * H, step_size * H @ extra_noise @ H)


def sgfs_diagonal(
    batch_noise_cov: Vector, num_data: int, step_size: float, extra_noise: Vector
) -> Recipe:
    """R6 (Corollary 2), diagonal: R5 with the diagonals of ``C_S`` and ``E E'`` in ``H``."""
    H = 2 / num_data * _reciprocal(step_size * diagonal(batch_noise_cov) + diagonal(extra_noise))
    scaled = H[:, None] * extra_noise * H if np.ndim(extra_noise) == 2 else H**2 * extra_noise
    return Recipe(step_size * H, step_size * scaled)


def sgfs_scalar(
    batch_noise_cov: Vector, num_data: int, step_size: float, extra_noise: Vector
) -> Recipe:
    """R6 (Corollary 2), scalar: ``H = (2 D / N) / sum_k (eps (C_S)_kk + (E E')_kk)``."""
    total = step_size * float(diagonal(batch_noise_cov).sum()) + float(diagonal(extra_noise).sum())
    H = 2 * len(batch_noise_cov) / (num_data * max(total, _TINY))
    return Recipe(np.asarray(step_size * H), step_size * H**2 * extra_noise)


def sgfs_bounded(batch_noise_cov: Vector, num_data: int, step_size: float, h_max: float) -> Recipe:
    """R7: diagonal SGFS with ``H_kk <= h_max``, the noise injected only where that binds.

    ``(E E')_kk = max(0, 2 / (h_max N) - eps (C_S)_kk)``.
    """
    noise = step_size * diagonal(batch_noise_cov)
    extra = np.maximum(0.0, 2 / (h_max * num_data) - noise)
    H = 2 / (num_data * (noise + extra))
    return Recipe(step_size * H, step_size * extra * H**2)


def finite_step_sgd(hessian: Vector, batch_noise_cov: Vector, num_data: int) -> Recipe:
    """X1: ``K = 2 (A + N C_S)^-1`` makes T2's covariance ``(N A)^-1`` at any batch size."""
    return Recipe(2 * inverse(hessian + num_data * batch_noise_cov))


def exact(hessian: Vector, batch_noise_cov: Vector, num_data: int, rho: float = 1.0) -> Recipe:
    """X2: ``K = 2 ((1 + rho) A + N C_S)^-1``, ``Q = rho K A K / N``; ``rho = 0`` is X1.

    Exact for every ``rho >= 0``, also where ``C_S`` is singular. With ``rho = 1`` no eigenvalue
    of ``K A`` exceeds 1.

    Examples
    --------
    >>> from ornstein.theory import finite_step_covariance
    >>> A, C_S = np.diag([1.0, 2.0]), np.diag([0.3, 0.0])
    >>> K, Q, _ = exact(A, C_S, num_data=10)
    >>> bool(np.allclose(finite_step_covariance(K, A, C_S, Q), np.linalg.inv(10 * A)))
    True
    """
    K = 2 * inverse((1 + rho) * hessian + num_data * batch_noise_cov)
    return Recipe(K, rho / num_data * K @ hessian @ K if rho else None)


def exact_diagonal(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, rho: float = 1.0
) -> Recipe:
    """X2 on the diagonals of A and ``C_S``: exact only where those are diagonal themselves."""
    a, c = diagonal(hessian), diagonal(batch_noise_cov)
    K = 2 / ((1 + rho) * a + num_data * c)
    return Recipe(K, rho / num_data * K**2 * a if rho else None)


def sandwich(hessian: Vector, noise_factor: float, num_data: int) -> Recipe:
    """X3: ``K = k A^-1`` with ``k = 2 / (1 + N f)`` gives ``A^-1 C A^-1 / N``.

    ``noise_factor`` is ``f = C_S / C``; with replacement ``f = 1/S`` and ``k = 2S / (N + S)``.
    """
    return Recipe(2 / (1 + num_data * noise_factor) * inverse(hessian))


def clustered_sandwich(
    hessian: Vector, batch_noise_cov: Vector, cluster_noise_cov: Vector, num_data: int
) -> Recipe:
    """X3 for another noise B than that of minibatches: ``A^-1 B A^-1 / N``.

    ``K = h A^-1`` and ``Q = A^-1 ((2h - h^2) B / N - h^2 C_S) A^-1``, with the largest ``h`` up to
    1 by which Q is a covariance: ``2 / (1 + l)``, l the largest eigenvalue of ``N C_S`` relative to
    B. For ``B = C`` that is X3 itself, and Q zero.
    """
    V, relative = joint_diagonalisation(cluster_noise_cov, num_data * batch_noise_cov)
    largest = max(1.0, float(relative.max()))
    h, back = 2 / (1 + largest), inverse(hessian)
    root = back @ cluster_noise_cov @ V * np.sqrt(np.maximum(largest - relative, 0.0))
    injected = h**2 / num_data * root @ root.T
    return Recipe(h * back, injected if np.any(injected) else None)


def momentum_sgd(
    hessian: Vector, batch_noise_cov: Vector, num_data: int, friction: float
) -> Recipe:
    """X4: ``K = 2 mu (2-mu) (mu A + (2-mu) N C_S)^-1`` is exact; ``mu = 1`` is X1."""
    mu = friction
    inner = mu * hessian + (2 - mu) * num_data * batch_noise_cov
    return Recipe(2 * mu * (2 - mu) * inverse(inner), None, mu)

"""The equations, one pure float64 NumPy function each.

Matrices may carry leading batch axes: a diagonal problem is a batch of 1 x 1 problems and a
block-diagonal one a batch of blocks, so one formula serves every structure.

Symbols: ``A`` Hessian of the mean loss, ``C_S`` covariance of the minibatch gradient, ``K`` gain,
``Q`` covariance of the injected noise, ``N`` number of examples, ``S`` batch size.
"""

from ornstein.linalg.eigen import Spectrum
from ornstein.theory.averaging import (
    averaged_covariance,
    averaged_covariance_limit,
)
from ornstein.theory.kl import (
    gaussian_kl,
    joint_diagonalisation,
    posterior_kl,
    relative_eigenvalues,
)
from ornstein.theory.langevin import (
    Decay,
    decreasing_covariance,
    sghmc,
    sghmc_step_limit,
    sgld,
    sgld_step_size,
)
from ornstein.theory.minibatch import batch_noise_factor, epoch_covariance
from ornstein.theory.recipes import (
    Recipe,
    constant_sgd,
    diagonal_sgd,
    exact,
    exact_diagonal,
    finite_step_sgd,
    full_sgd,
    momentum_sgd,
    optimal_batch_size,
    sandwich,
    sgfs_bounded,
    sgfs_diagonal,
    sgfs_full,
    sgfs_scalar,
    square_root_sgd,
)
from ornstein.theory.stationary import (
    Modes,
    finite_step_covariance,
    is_stable,
    modes,
    momentum_covariance,
    noise_shares,
    ou_covariance,
    phase_space_covariance,
    relaxation_steps,
    stability_limit,
    within_limits,
)
from ornstein.theory.structured import (
    accurate_rate,
    approximation_kl,
    exact_at_rate,
    noise_kl,
    structure_kl,
    variance_ratios,
)

__all__ = [
    "Decay",
    "Modes",
    "Recipe",
    "Spectrum",
    "accurate_rate",
    "approximation_kl",
    "averaged_covariance",
    "averaged_covariance_limit",
    "batch_noise_factor",
    "constant_sgd",
    "decreasing_covariance",
    "diagonal_sgd",
    "epoch_covariance",
    "exact",
    "exact_at_rate",
    "exact_diagonal",
    "finite_step_covariance",
    "finite_step_sgd",
    "full_sgd",
    "gaussian_kl",
    "is_stable",
    "joint_diagonalisation",
    "modes",
    "momentum_covariance",
    "momentum_sgd",
    "noise_kl",
    "noise_shares",
    "optimal_batch_size",
    "ou_covariance",
    "phase_space_covariance",
    "posterior_kl",
    "relative_eigenvalues",
    "relaxation_steps",
    "sandwich",
    "sgfs_bounded",
    "sgfs_diagonal",
    "sgfs_full",
    "sgfs_scalar",
    "sghmc",
    "sghmc_step_limit",
    "sgld",
    "sgld_step_size",
    "square_root_sgd",
    "stability_limit",
    "structure_kl",
    "variance_ratios",
    "within_limits",
]

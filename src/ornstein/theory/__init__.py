"""The equations, one pure float64 NumPy function each.

Matrices may carry leading batch axes: a diagonal problem is a batch of 1 x 1 problems and a
block-diagonal one a batch of blocks, so one formula serves every structure.

Symbols: ``A`` Hessian of the mean loss, ``C_S`` covariance of the minibatch gradient, ``K`` gain,
``Q`` covariance of the injected noise, ``N`` number of examples, ``S`` batch size.
"""

from ornstein.linalg.eigen import Spectrum
from ornstein.theory.arrow import arrow_draw, arrow_logdet, arrow_schur
from ornstein.theory.averaging import (
    averaged_covariance,
    averaged_covariance_limit,
    batch_noise_factor,
    epoch_covariance,
)
from ornstein.theory.held_out import held_out_curvature
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
from ornstein.theory.recipes import (
    Recipe,
    clustered_sandwich,
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
from ornstein.theory.rotation import (
    critical_keep,
    kick,
    rotation,
    rotation_covariance,
    rotation_diagonal,
    rotation_limit,
    rotation_relaxation,
    velocity_noise,
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
from ornstein.theory.stein import (
    ImpliedErrors,
    MarginalMoments,
    SteinMoments,
    implied_errors,
    marginal_errors,
    marginal_moments,
    stein_moments,
)
from ornstein.theory.structured import (
    accurate_rate,
    approximation_kl,
    exact_at_rate,
    noise_kl,
    structure_kl,
    variance_ratios,
)

# Stationary covariances, and when there are any.
__all__ = ["Modes", "averaged_covariance", "averaged_covariance_limit", "batch_noise_factor"]
__all__ += ["decreasing_covariance", "epoch_covariance", "finite_step_covariance", "is_stable"]
__all__ += ["modes", "momentum_covariance", "noise_shares", "ou_covariance"]
__all__ += ["phase_space_covariance", "relaxation_steps", "stability_limit", "within_limits"]
# How far they are from the posterior's.
__all__ += ["Spectrum", "accurate_rate", "approximation_kl", "gaussian_kl"]
__all__ += ["joint_diagonalisation", "noise_kl", "posterior_kl", "relative_eigenvalues"]
__all__ += ["structure_kl", "variance_ratios"]
# What draws show of the posterior.
__all__ += ["ImpliedErrors", "MarginalMoments", "SteinMoments", "held_out_curvature"]
__all__ += ["implied_errors", "marginal_errors", "marginal_moments", "stein_moments"]
# Groups that are independent given the rest.
__all__ += ["arrow_draw", "arrow_logdet", "arrow_schur"]
# Rotation steps.
__all__ += ["critical_keep", "kick", "rotation", "rotation_covariance", "rotation_diagonal"]
__all__ += ["rotation_limit", "rotation_relaxation", "velocity_noise"]
# Recipes: gain and injected noise.
__all__ += ["Decay", "Recipe", "constant_sgd", "diagonal_sgd", "exact", "exact_at_rate"]
__all__ += ["exact_diagonal", "finite_step_sgd", "full_sgd", "momentum_sgd", "optimal_batch_size"]
__all__ += [
    "clustered_sandwich",
    "sandwich",
    "sgfs_bounded",
    "sgfs_diagonal",
    "sgfs_full",
    "sgfs_scalar",
    "sghmc",
]
__all__ += ["sghmc_step_limit", "sgld", "sgld_step_size", "square_root_sgd"]

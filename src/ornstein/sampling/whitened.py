"""A plan's update in the coordinates z of ``theta = center + W z`` (X8): kernel and noise."""

from functools import partial

import numpy as np

from ornstein._base.types import PyTree, Vector
from ornstein.linalg.operators import (
    BasisRoot,
    Dense,
    Diagonal,
    Factor,
    Operator,
    as_matrix,
    dim_of,
)
from ornstein.planning.kernels.fisher import Fisher
from ornstein.planning.plans import Plan

IDENTITY = Diagonal(np.ones(()))
"""The factor by which z is ``theta - center``."""


def update_rule(plan: Plan, factor: Factor) -> tuple[str, Factor | None, PyTree]:
    """Name of the kernel, factor of its injected noise by z, and its constants."""
    rule, constants = plan.rule
    noise = None if plan.injected_cov is None else in_basis(factor, plan.injected_cov)
    if rule == "fisher":
        step, extra = constants
        by_z = partial(_by_z, factor, plan.dim)
        fisher = Fisher(
            step_size=np.asarray(step),  # type: ignore[arg-type]
            num_data=np.asarray(float(plan.num_data)),  # type: ignore[arg-type]
            noise_factor=np.asarray(plan.batches.noise_factor),  # type: ignore[arg-type]
            extra_noise=by_z(as_matrix(np.asarray(extra))),  # type: ignore[arg-type]
            noise_cov=by_z(as_matrix(plan.noise_cov)),  # type: ignore[arg-type]
        )
        root = None if noise is None else Dense(np.asarray(fisher.extra_noise)).sqrt()
        return rule, root, fisher
    return rule, noise, constants


def _by_z(factor: Factor, dim: int, matrix: Vector) -> Vector:
    """``W' M W``."""
    W = factor.dense(dim)
    return W.T @ matrix @ W


def in_basis(factor: Factor, cov: Operator) -> Factor:
    """Factor of a covariance in the coordinates z, ``W^-1 R`` with ``R R'`` the covariance."""
    root = cov.sqrt()
    if factor is IDENTITY:
        return root
    diagonal = isinstance(factor, Diagonal) and isinstance(root, Diagonal)
    if isinstance(factor, BasisRoot) and isinstance(root, BasisRoot):
        diagonal = factor.basis is root.basis
    if diagonal:
        return Diagonal(np.asarray(root.array) / np.asarray(factor.array))
    size = dim_of(root) or dim_of(factor)
    return Dense(np.asarray(factor.solve(root.dense(size).T)).T)

"""Laplace's approximation: independent draws of the Gaussian at the optimum."""

from time import perf_counter

import jax
import numpy as np
import scipy.linalg

from ornstein._base.errors import InputError
from ornstein._base.types import Array, Vector
from ornstein.curvature.estimation import FACTORED
from ornstein.linalg.operators import Dense, Diagonal, Factor, dim_of
from ornstein.models.posterior import Posterior
from ornstein.planning.plans import Plan
from ornstein.sampling.settings import OpenProgress, Run, Settings, Status


def run(post: Posterior, plan: Plan, key: Array, settings: Settings, progress: OpenProgress) -> Run:
    """Draw from ``N(theta*, (N A)^-1)``, or from the product of its conditionals if diagonal.

    A draw is a step.
    """
    del post
    began = perf_counter()
    with progress(settings.draws) as report:
        flat = draw(key, plan.center, local_root(plan), settings)
        report(settings.draws, settings.draws)
    return Run(flat, Status(True, "ok"), settings.draws, perf_counter() - began)


def local_root(plan: Plan) -> Factor:
    """``W`` with ``W W' = (N A)^-1``; of A's diagonal where the plan's structure is diagonal.

    In factors where the plan's structure is that.

    A triangular solve with the Cholesky factor of the precision, in units in which the precision's
    diagonal is one.
    """
    factors = plan.geometry.factors
    if plan.structure in FACTORED and factors is not None:
        return factors.operator(1 / (plan.num_data * factors.hessian)).sqrt()
    precision = plan.posterior_precision
    diagonal = np.diag(precision) if precision.ndim == 2 else precision
    if not (diagonal > 0).all():
        raise _no_minimum()
    scale = 1 / np.sqrt(diagonal)
    if precision.ndim < 2 or plan.structure == "diagonal":
        return Diagonal(scale)
    try:
        lower = np.linalg.cholesky(precision * scale[:, None] * scale)
    except np.linalg.LinAlgError:
        raise _no_minimum() from None
    root = scipy.linalg.solve_triangular(lower, np.diag(scale), lower=True)
    return Dense(np.ascontiguousarray(root.T))


def draw(key: Array, mean: Vector, root: Factor, settings: Settings) -> Vector:
    """Independent draws (chains, draws, D) of ``N(mean, R R')`` in float64.

    Every chain has a key of its own, so that fewer chains are the first of more.
    """
    flat = np.empty((settings.chains, settings.draws, len(mean)))
    shape = settings.draws, dim_of(root) or len(mean)
    for chain, target in enumerate(flat):
        seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, chain))).tolist()
        normal = np.random.default_rng(seed).standard_normal(shape)  # which need not be compiled
        target[:] = mean + np.asarray(root.matvec(normal))
    return flat


def _no_minimum() -> InputError:
    return InputError(
        "the loss has no strict minimum at the plan's centre: its curvature there is not positive "
        "definite. Plan at the optimum (leave out at=), or give every parameter a proper prior."
    )

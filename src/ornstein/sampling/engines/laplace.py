"""Laplace's approximation: independent draws of the Gaussian at the optimum."""

from time import perf_counter

import jax
import numpy as np

from ornstein._base.errors import InputError
from ornstein._base.types import Array, Vector
from ornstein.linalg.operators import Diagonal, Factor, Operator
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
    """``W`` with ``W W' = (N A)^-1``, in the structure of the plan's gain."""
    frame = plan.geometry.frame
    precision: Operator = frame.precision
    if plan.structure == "diagonal":
        precision = Diagonal(precision.own)
    try:
        return precision.inverse_root()
    except np.linalg.LinAlgError:
        raise InputError(
            "the loss has no strict minimum at the plan's centre: its curvature there is not "
            "positive definite. Plan at the optimum (leave out at=), or give every parameter a "
            "proper prior."
        ) from None


def draw(key: Array, mean: Vector, root: Factor, settings: Settings) -> Vector:
    """Independent draws (chains, draws, D) of ``N(mean, R R')`` in float64.

    Every chain has a key of its own, so that fewer chains are the first of more.
    """
    flat = np.empty((settings.chains, settings.draws, len(mean)))
    shape = settings.draws, root.coordinates(len(mean))
    for chain, target in enumerate(flat):
        seed = np.asarray(jax.random.key_data(jax.random.fold_in(key, chain))).tolist()
        normal = np.random.default_rng(seed).standard_normal(shape)  # which need not be compiled
        target[:] = mean + np.asarray(root.matvec(normal))
    return flat

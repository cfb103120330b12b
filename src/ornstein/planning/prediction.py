"""What a chain's draws will be, for matrices or for diagonals alone."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base.types import Vector
from ornstein.curvature.estimation import Factors, Geometry
from ornstein.linalg.operators import as_operator
from ornstein.planning.methods import Setting, Tuned
from ornstein.planning.plans import Plan
from ornstein.planning.rules import LinearChain


def linear_chain(recipe: Tuned, setting: Setting) -> LinearChain:
    """K, A, C_S, Q as matrices, or as a batch of 1 x 1 problems where only diagonals are known."""
    dim = len(setting.hessian)
    if setting.hessian.ndim == 2:
        K, Q = setting.operator(recipe.gain).dense(dim), recipe.injected_cov
        dense = None if Q is None else setting.operator(Q).dense(dim)
        return LinearChain(K, setting.hessian, setting.batch_noise_cov, dense)

    def single(values: Vector) -> Vector:
        return np.broadcast_to(values, (dim,))[:, None, None]

    injected = None if recipe.injected_cov is None else single(recipe.injected_cov)
    return LinearChain(
        single(recipe.gain), single(setting.hessian), single(setting.batch_noise_cov), injected
    )


def for_run(plan: Plan, first: int, last: int) -> Plan:
    """The plan with the prediction for iterates ``first`` to ``last``, if that depends on them."""
    if plan.rule.stationary:
        return plan
    tuned = Tuned(
        np.asarray(plan.gain.array),
        None if plan.injected_cov is None else np.asarray(plan.injected_cov.array),
    )
    setting = Setting(
        plan.geometry.hessian,
        plan.noise_cov,
        plan.batches.noise_factor,
        plan.num_data,
        plan.batch_size,
    )
    chain = linear_chain(tuned, setting)
    cov = plan.rule.run_covariance(first, last, chain)
    array = flat(cov, plan.geometry)
    predicted = as_operator(array)
    return replace(
        plan,
        predicted=predicted,
        predicted_cov=array,
        predicted_trace=predicted.trace(plan.dim),
        predicted_kl=theory.posterior_kl(cov, chain.hessian, plan.num_data),
    )


def flat(cov: Vector, known: Geometry) -> Vector:
    """Variances where only diagonals are known."""
    return cov[:, 0, 0] if known.structure == "diagonal" else cov


class Foresight(NamedTuple):
    """What is known of a chain whose gain is in factors, from A's spectrum there."""

    kl: float
    kl_ou: float
    slowest: float
    fastest: float
    trace: float


def foresee(rate: float, factors: Factors, num_data: int, dim: int) -> Foresight:
    """T2 and T3 for ``K = h Â^-1``, from the eigenvalues of A relative to Â (X2)."""
    nodes = factors.spectrum.nodes
    weighted = factors.by_variance
    ratios = theory.variance_ratios(weighted, rate) / weighted.nodes
    approximate = factors.operator(1 / (num_data * factors.hessian)).trace(dim)
    limit = 1 - rate / 2  # T1 knows nothing of the step's own length
    return Foresight(
        kl=theory.structure_kl(factors.spectrum, rate, dim),
        kl_ou=0.5 * dim * (limit - 1 - float(np.log(limit))),
        slowest=rate * float(nodes.min()),
        fastest=rate * float(nodes.max()),
        trace=approximate * float(weighted.shares @ ratios),
    )

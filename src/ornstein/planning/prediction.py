"""What a chain's draws will be: T2 and its kin, for matrices or for diagonals alone."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.estimation import Factors, Geometry
from ornstein.data.batches import Batches
from ornstein.linalg.operators import as_operator
from ornstein.planning.methods import Setting, Tuned
from ornstein.planning.plans import Plan


def as_problem(recipe: Tuned, setting: Setting) -> tuple[Vector, Vector, Vector, Vector | None]:
    """K, A, C_S, Q as matrices, or as a batch of 1 x 1 problems where only diagonals are known."""
    dim = len(setting.hessian)
    if setting.hessian.ndim == 2:
        K, Q = setting.operator(recipe.gain).dense(dim), recipe.injected_cov
        dense = None if Q is None else setting.operator(Q).dense(dim)
        return K, setting.hessian, setting.batch_noise_cov, dense

    def single(values: Vector) -> Vector:
        return np.broadcast_to(values, (dim,))[:, None, None]

    injected = None if recipe.injected_cov is None else single(recipe.injected_cov)
    return single(recipe.gain), single(setting.hessian), single(setting.batch_noise_cov), injected


def predict(
    tuned: Tuned, batches: Batches, K: Vector, A: Vector, C_S: Vector, Q: Vector | None
) -> Vector:
    """Covariance of the draws (T2, X4, X5), under an epoch loader X7."""
    if batches.scheme == "epochs":
        special = [
            name
            for name, used in (
                ("Momentum", tuned.momentum < 1),
                ("Averaging", tuned.window > 1),
                ("A decreasing step", tuned.decay is not None),
            )
            if used
        ]
        if special:
            raise InputError(f"{special[0]} under an epoch loader is not planned for; use windows.")
        return theory.epoch_covariance(K, A, C_S, batches.per_epoch, Q)
    return theory.chain_covariance(K, A, C_S, Q, tuned.momentum, tuned.window)


def small_steps(tuned: Tuned, K: Vector, A: Vector, C_S: Vector, Q: Vector | None) -> Vector:
    """The covariance as steps vanish (T1); of means, as windows grow long (X5)."""
    if tuned.window > 1:
        return theory.averaged_covariance_limit(A, C_S, 1, tuned.window)
    mu = tuned.momentum
    injected = None if Q is None else Q / mu**2
    return theory.ou_covariance(K / mu, A, C_S, injected)


def predict_decreasing(plan: Plan, first: int, last: int) -> Plan:
    """The plan with the prediction for iterates ``first`` to ``last`` of a decreasing step."""
    if plan.decay is None or plan.injected_cov is None:
        return plan
    tuned = Tuned(np.asarray(plan.gain.array), np.asarray(plan.injected_cov.array))
    noise_cov = plan.noise_cov * plan.batches.noise_factor
    setting = Setting(
        plan.geometry.hessian, noise_cov, plan.batches.noise_factor, plan.num_data, plan.batch_size
    )
    K, A, C_S, Q = as_problem(tuned, setting)
    assert Q is not None
    cov = theory.decreasing_covariance(K, A, C_S, Q, plan.decay, first, last)
    kl = theory.posterior_kl(cov, A, plan.num_data)
    array = flat(cov, plan.geometry)
    predicted = as_operator(array)
    return replace(
        plan,
        predicted=predicted,
        predicted_cov=array,
        predicted_trace=predicted.trace(plan.dim),
        predicted_kl=kl,
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

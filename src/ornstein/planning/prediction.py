"""What draws will be: by T2 and its kin where A is held, else by its relative spectrum."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base.errors import InputError
from ornstein.curvature.control_variates import Anchor
from ornstein.curvature.geometry import Geometry
from ornstein.data.batches import Batches
from ornstein.linalg.operators import Operator
from ornstein.planning import plan_checks as checks
from ornstein.planning.plans import Plan
from ornstein.planning.rules.contract import LinearChain, Rule
from ornstein.theory import Spectrum


class Update(NamedTuple):
    """What a step does: gain ``K``, injected noise ``Q`` and rule; with the noise C in use."""

    gain: Operator
    injected_cov: Operator | None
    rule: Rule
    noise_cov: Operator


class Prediction(NamedTuple):
    """What a plan says of its draws; see :class:`~ornstein.planning.plans.Plan`."""

    predicted: Operator
    predicted_trace: float
    limit: Operator
    predicted_kl: float
    predicted_kl_ou: float
    relaxation_steps: float = 1.0
    stability_margin: float = 1.0
    noise_share: float = 0.0


def linear_chain(geometry: Geometry, update: Update, batches: Batches) -> LinearChain:
    """K, A, C_S, Q as matrices, or as a batch of 1 x 1 problems where only diagonals are known."""
    A, dim, Q = geometry.hessian, geometry.dim, update.injected_cov
    noise = update.noise_cov.scaled(batches.noise_factor)
    injected = None if Q is None else A.aligned(Q, dim)
    return LinearChain(
        A.aligned(update.gain, dim), A.aligned(A, dim), A.aligned(noise, dim), injected
    )


def by_matrices(
    geometry: Geometry, update: Update, batches: Batches, method: str, labels: tuple[str, ...]
) -> Prediction:
    """From A and C as they are, or their diagonals alone."""
    chain, rule, N = linear_chain(geometry, update, batches), update.rule, geometry.num_data
    K, A, C_S, Q = chain
    modes = theory.modes(K, A)
    checks.refuse_unstable(method, modes, rule.stability_limit, geometry, labels)
    relaxation = checks.refuse_endless(float(np.max(rule.relaxation_steps(modes.rates))))
    cov, limit = rule.covariance_under(batches, chain), rule.small_step_covariance(chain)
    predicted = geometry.hessian.from_aligned(cov)
    return Prediction(
        predicted,
        predicted.trace(geometry.dim),
        geometry.hessian.from_aligned(limit),
        theory.posterior_kl(cov, A, N),
        theory.posterior_kl(limit, A, N),
        relaxation,
        float(1 - modes.rates.max() / rule.stability_limit),
        float(np.max(theory.noise_shares(modes, C_S, Q))),
    )


def by_spectrum(
    geometry: Geometry, update: Update, batches: Batches, anchored: Anchor | None
) -> Prediction:
    """For ``K = h Â^-1``, from the eigenvalues of A relative to Â (X2, T2, T3)."""
    (spectrum, weighted), dim = _spectra(geometry), geometry.dim
    if batches.scheme == "epochs":
        raise InputError(
            f"An epoch loader is not planned for with structure={geometry.structure!r}; use "
            "windows, or structure='diagonal'."
        )
    a, K = np.asarray(geometry.hessian.array), np.asarray(update.gain.array)
    rate = float(np.max(K * a))
    slowest, fastest = rate * float(spectrum.nodes.min()), rate * float(spectrum.nodes.max())
    checks.refuse_beyond(slowest, fastest)
    kl = theory.structure_kl(spectrum, rate, dim)
    if anchored is not None:
        unseen = anchored.beyond, anchored.aligned
        kl = max(0.0, kl + theory.noise_kl(*unseen, batches.noise_factor, rate, dim))
    ends = np.array([min(slowest, float(np.min(K * a))), fastest])
    own = K**2 * np.asarray(update.noise_cov.array) * batches.noise_factor
    Q = update.injected_cov
    injected = np.zeros_like(a) if Q is None else np.asarray(Q.array)
    ratios = theory.variance_ratios(weighted, rate) / weighted.nodes
    predicted, limit = geometry.covariance, 1 - rate / 2  # T1 ignores the step's own length
    return Prediction(
        predicted,
        predicted.trace(dim) * float(weighted.shares @ ratios),
        predicted.scaled(limit),
        kl,
        0.5 * dim * (limit - 1 - float(np.log(limit))),
        checks.refuse_endless(float(np.max(theory.relaxation_steps(ends)))),
        1 - fastest / 2,
        float(np.max(own / (own + injected))),
    )


def of_draws(geometry: Geometry, predicted: Operator) -> Prediction:
    """Independent draws of a Gaussian, or those of another sampler that are as good."""
    if geometry.approximate:
        kl = theory.approximation_kl(_spectra(geometry)[0], geometry.dim)
    else:
        A, dim = geometry.hessian, geometry.dim
        matrices = A.aligned(A, dim)
        checks.refuse_not_convex(matrices)
        kl = theory.posterior_kl(A.aligned(predicted, dim), matrices, geometry.num_data)
    return Prediction(predicted, predicted.trace(geometry.dim), predicted, kl, kl)


def _spectra(geometry: Geometry) -> tuple[Spectrum, Spectrum]:
    assert geometry.missed is not None
    return geometry.missed.spectrum, geometry.missed.by_variance


def for_run(plan: Plan, first: int, last: int) -> Plan:
    """The plan with the prediction for iterates ``first`` to ``last``, if that depends on them."""
    if plan.rule.stationary:
        return plan
    update = Update(plan.gain, plan.injected_cov, plan.rule, plan.noise_cov)
    chain = linear_chain(plan.geometry, update, plan.batches)
    cov = plan.rule.run_covariance(first, last, chain)
    predicted = plan.geometry.hessian.from_aligned(cov)
    return replace(
        plan,
        predicted=predicted,
        predicted_trace=predicted.trace(plan.dim),
        predicted_kl=theory.posterior_kl(cov, chain.hessian, plan.num_data),
    )

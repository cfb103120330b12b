"""From geometry to plan: a method tuned to batches of rows, and what its draws will be."""

import math
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base.errors import InputError
from ornstein._base.types import Vector
from ornstein.curvature.control_variates import Anchor, plain_batch_size
from ornstein.curvature.control_variates import batch_size as anchored_batch_size
from ornstein.curvature.estimation import FACTORED, Geometry
from ornstein.data.batches import Batches
from ornstein.linalg.operators import AlongBasis, as_operator
from ornstein.models.posterior import Posterior
from ornstein.planning import plan_checks as checks
from ornstein.planning.methods import Method, Setting, Tuned
from ornstein.planning.plans import Plan
from ornstein.planning.prediction import flat, for_run, foresee, linear_chain

_WARMUP = 7  # relaxation times; an over-dispersed start's excess variance is down to e^-14
_DRAWS = 1000
_MANY_PARAMETERS_DRAWS = 200  # where steps are expensive
_WORTH_ARRANGING = 2  # passes over the rows that a permutation must serve to be worth making


class Task(NamedTuple):
    """What is to be tuned: a method and the structure of its gain, to a posterior's geometry."""

    method: Method
    structure: str
    options: dict[str, Any]
    known: Geometry
    post: Posterior


def make(task: Task, scheme: str, batch_size: int | None, anchored: Anchor | None) -> Plan:
    """The plan, reading windows unless another scheme is asked for or would be quicker."""
    N = task.known.num_data
    S = batch_size or _default_batch_size(task, anchored)
    if anchored is not None and anchored.multiplicity is not None:
        weighted = Batches("weighted", N, S, int(anchored.multiplicity.sum()))
        return _tune(task, weighted, anchored)
    batches = Batches("windows" if scheme == "auto" else scheme, N, S)
    made = _tune(task, batches, anchored)
    steps = min(made.segment_draws(made.thin) * made.thin, made.warmup + made.draws * made.thin)
    # Arranging takes time by the column, gathering a batch hardly so.
    if scheme == "auto" and steps * S < (_WORTH_ARRANGING + task.post.dim / 4) * N:
        independent = Batches("independent", N, S)
        made = _tune(task, independent, anchored)
    return made


def _default_batch_size(task: Task, anchored: Anchor | None) -> int:
    known = task.known
    if anchored is not None:
        return anchored_batch_size(known, anchored)[0]
    if task.method.any_step and known.structure in ("dense", *FACTORED):
        return plain_batch_size(known)
    return max(1, min(100, known.num_data // 4))


def _tune(task: Task, batches: Batches, anchored: Anchor | None) -> Plan:
    method, structure, options, known, post = task
    N, labels = batches.num_data, tuple(post.labels)
    noise_cov = known.noise_cov if anchored is None else anchored.noise_cov
    factor = batches.noise_factor
    factors = known.factors
    if factors is not None:
        factors = replace(factors, noise_cov=factors.diagonal(noise_cov))
    setting = Setting(
        known.hessian,
        noise_cov,
        factor,
        N,
        batches.batch_size,
        anchored is not None,
        factors,
    )
    tuned = method.tune(structure, setting, options)
    if anchored is not None and tuned.injected_cov is None:
        raise InputError(
            "control_variates leave no noise at the optimum, and without injected noise the chain "
            "would stop moving. Use options that inject some (rho=1 for exact), or "
            "control_variates=False."
        )
    if known.in_factors:
        return _foreseen(task, batches, anchored, setting, tuned)
    chain, rule = linear_chain(tuned, setting), tuned.rule
    K, A, C_S, Q = chain
    modes = theory.modes(K, A)
    checks.refuse_unstable(method, modes, rule.stability_limit, A, labels)
    relaxation = float(np.max(rule.relaxation_steps(modes.rates)))
    checks.refuse_endless(relaxation)
    thin = max(_stride(relaxation, batches), rule.min_thin)
    cov = rule.covariance_under(batches, chain)
    limit = rule.small_step_covariance(chain)
    kl = theory.posterior_kl(cov, A, N)
    made = Plan(
        **_common(task, batches, setting, tuned),
        **_covariances(cov, limit, known),
        anchor=anchored,
        noise_share=float(np.max(theory.noise_shares(modes, C_S, Q))),
        predicted_kl=kl,
        predicted_kl_ou=theory.posterior_kl(limit, A, N),
        relaxation_steps=relaxation,
        stability_margin=float(1 - modes.rates.max() / rule.stability_limit),
        warmup=_WARMUP * thin,
        thin=thin,
        draws=_DRAWS,
        warnings=tuple(
            checks.warnings(method, structure, batches, known, anchored, labels, kl, relaxation)
        ),
    )
    return for_run(made, made.warmup, made.warmup + made.draws * made.thin)


def _foreseen(
    task: Task, batches: Batches, anchored: Anchor | None, setting: Setting, tuned: Tuned
) -> Plan:
    """The plan of a chain where A is known in factors, and by its spectrum there."""
    method, structure, _, known, post = task
    factors, N, labels = setting.factors, batches.num_data, tuple(post.labels)
    assert factors is not None
    if batches.scheme == "epochs":
        raise InputError(
            f"An epoch loader is not planned for with structure={structure!r}; use windows, or "
            "structure='diagonal'."
        )
    a, K = factors.hessian, tuned.gain
    rate, nodes = float(np.max(K * a)), factors.spectrum.nodes
    checks.refuse_beyond(rate * float(nodes.min()), rate * float(nodes.max()))
    ahead = foresee(rate, factors, N, post.dim)
    kl = ahead.kl
    if anchored is not None:
        unseen = anchored.beyond, anchored.aligned
        kl = max(0.0, kl + theory.noise_kl(*unseen, batches.noise_factor, rate, post.dim))
    ends = np.array([min(ahead.slowest, float(np.min(K * a))), ahead.fastest])
    relaxation = float(np.max(theory.relaxation_steps(ends)))
    checks.refuse_endless(relaxation)
    thin = max(_stride(relaxation, batches), tuned.rule.min_thin)
    own = K**2 * factors.noise_cov * batches.noise_factor
    injected = np.zeros_like(a) if tuned.injected_cov is None else tuned.injected_cov
    share = float(np.max(own / (own + injected)))
    return Plan(
        **_common(task, batches, setting, tuned),
        **_along_basis(factors.operator(1 / (N * a)), ahead.trace, 1 - rate / 2),
        anchor=anchored,
        noise_share=share,
        predicted_kl=kl,
        predicted_kl_ou=ahead.kl_ou,
        relaxation_steps=relaxation,
        stability_margin=1 - ahead.fastest / 2,
        warmup=_WARMUP * thin,
        thin=thin,
        draws=_MANY_PARAMETERS_DRAWS,
        warnings=tuple(
            checks.warnings(method, structure, batches, known, anchored, labels, kl, relaxation)
            + (checks.noise_beyond_factors(share) if anchored is None else [])
        ),
    )


def _covariances(cov: Vector, limit: Vector, known: Geometry) -> dict[str, Any]:
    """The predicted covariances as arrays, and as an operator with its trace."""
    predicted = as_operator(flat(cov, known))
    return {
        "predicted": predicted,
        "predicted_cov": flat(cov, known),
        "predicted_trace": predicted.trace(len(known.center)),
        "limit_cov": flat(limit, known),
    }


def _along_basis(predicted: AlongBasis, trace: float, limit: float) -> dict[str, Any]:
    """The same for a covariance in factors, T1's being a multiple of it."""
    variances = predicted.variances(predicted.values.size)
    return {
        "predicted": predicted,
        "predicted_cov": variances,
        "predicted_trace": trace,
        "limit_cov": limit * variances,
    }


def _stride(relaxation: float, batches: Batches) -> int:
    """Steps between kept draws: a relaxation time."""
    steps = max(1, round(relaxation))
    if batches.scheme == "epochs":  # draws that see every phase of an epoch
        while math.gcd(steps, batches.per_epoch) > 1:
            steps += 1
        return steps
    if steps <= 256:
        return steps
    even = min(64, 2 ** (steps.bit_length() - 5))  # so that it splits evenly into blocks
    return -(-steps // even) * even


def fit(task: Task, batch_size: int | None, anchored: bool) -> Plan:
    """The plan of a method that is not a chain of SGD: what its draws are expected to be."""
    method, structure, options, known, post = task
    N = known.num_data
    S = batch_size or _default_batch_size(task, None)
    batches = Batches("independent", N, S)
    factor = batches.noise_factor
    factors = known.factors
    setting = Setting(known.hessian, known.noise_cov, factor, N, S, factors=factors)
    tuned = method.tune(structure, setting, options)
    if method.control_variates is not None:
        task = task._replace(options={**options, "control_variates": anchored})
    K, A, _, Q = linear_chain(tuned, setting)
    labels = tuple(post.labels)
    checks.refuse_not_convex(A)
    cov = Q if Q is not None else K / N
    if factors is not None and known.in_factors:
        predicted = factors.operator(cov[:, 0, 0])
        kl = theory.approximation_kl(factors.spectrum, post.dim)
        covariances = _along_basis(predicted, predicted.trace(post.dim), 1.0)
    else:
        kl, covariances = theory.posterior_kl(cov, A, N), _covariances(cov, cov, known)
    return Plan(
        **_common(task, batches, setting, tuned),
        **covariances,
        anchor=None,
        noise_share=0.0,
        predicted_kl=kl,
        predicted_kl_ou=kl,
        relaxation_steps=1.0,
        stability_margin=1.0,
        warmup=0,
        thin=1,
        draws=_DRAWS,
        warnings=tuple(checks.warnings(method, structure, batches, known, None, labels, kl, 1.0)),
    )


def _common(task: Task, batches: Batches, setting: Setting, tuned: Tuned) -> dict[str, Any]:
    """The fields of a plan that repeat what it was made from."""
    method, structure, options, known, post = task
    injected = tuned.injected_cov
    return {
        "method": method.name,
        "equation": method.variants[structure][0],
        "target": method.target,
        "structure": structure,
        "batches": batches,
        "engine": method.engine,
        "options": MappingProxyType(options),
        "gain": setting.operator(tuned.gain),
        "injected_cov": None if injected is None else setting.operator(injected),
        "rule": tuned.rule,
        "geometry": known,
        "labels": tuple(post.labels),
        "layout": post.layout,
        "model": post.model,
    }

"""From statistics to a plan: a method tuned to batches of rows, and what its draws will be.

Predictions are by T2 and its kin where A is held, else by its relative spectrum.
"""

import math
from dataclasses import replace
from inspect import signature
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError
from ornstein._base.trees import Layout
from ornstein.curvature import structures
from ornstein.curvature.control_variates import Anchor, plain_batch_size
from ornstein.curvature.control_variates import batch_size as anchored_batch_size
from ornstein.curvature.geometry import Geometry
from ornstein.data.batches import SCHEMES, Batches
from ornstein.linalg.operators import Operator, as_operator
from ornstein.models.contract import Model
from ornstein.planning import methods, plan_checks
from ornstein.planning.methods import Method, Setting
from ornstein.planning.plans import Plan
from ornstein.planning.rules.contract import LinearChain, Rule
from ornstein.theory import Spectrum

_WARMUP = 7  # relaxation times; an over-dispersed start's excess variance is down to e^-14
_DRAWS = 1000
_MANY_PARAMETERS_DRAWS = 200  # where steps are expensive
_WORTH_ARRANGING = 2  # passes over the rows that a permutation must serve to be worth making
_SMALL_STEPS = 100  # rows of a batch for methods that want small steps


class Task(NamedTuple):
    """What is to be tuned: a method and the structure of its gain, to a geometry."""

    method: Method
    structure: str
    options: dict[str, Any]
    geometry: Geometry
    labels: tuple[str, ...]
    layout: Layout
    model: Model | None = None


class Update(NamedTuple):
    """What a step does: gain ``K``, injected noise ``Q`` and rule; with the noise C in use."""

    gain: Operator
    injected_cov: Operator | None
    rule: Rule
    noise_cov: Operator


class Forecast(NamedTuple):
    """What a plan says of its draws; see :class:`~ornstein.planning.plans.Plan`."""

    predicted: Operator
    predicted_trace: float
    limit: Operator
    predicted_kl: float
    predicted_kl_ou: float
    relaxation_steps: float = 1.0
    stability_margin: float = 1.0
    noise_share: float = 0.0


def tune(
    geometry: Geometry,
    method: str = "exact",
    structure: str | None = None,
    batch_size: int | None = None,
    batches: str = "auto",
    **options: Any,
) -> Plan:
    """Tune a method to statistics of a loss, without a posterior.

    For streams, other frameworks and online estimates: whoever knows an optimum, the curvature
    there, the noise of a row's gradient and the number of rows has a plan. Gradients are plain;
    :func:`ornstein.plan` finds the statistics of a posterior, and may anchor gradients too.

    Parameters
    ----------
    geometry
        From :meth:`Geometry.of <ornstein.Geometry.of>`, or :func:`ornstein.geometry`.
    method
        One of ``ornstein.METHODS``.
    structure
        Structure of the gain; by default the method's own that the geometry can hold.
    batch_size
        Rows per minibatch; by default those that make the quickest draws, at most a quarter.
    batches
        ``windows``, ``independent``, ``epochs`` or ``auto``.
    **options
        The method's own options, e.g. ``rho`` for ``exact``.

    Examples
    --------
    >>> import ornstein as orn
    >>> A, C = np.diag([1.0, 4.0]), np.diag([1.0, 4.0])
    >>> plan = tune(orn.Geometry.of(np.zeros(2), A, C, num_data=1000), batch_size=50)
    >>> plan.predicted_cov.diagonal().round(6).tolist(), bool(plan.predicted_kl < 1e-9)
    ([0.001, 0.00025], True)
    """
    if not isinstance(geometry, Geometry):
        raise InputError(
            f"geometry must be an ornstein Geometry, found {type(geometry).__name__}. Make one "
            "with ornstein.Geometry.of or ornstein.geometry."
        )
    chosen, structure, anchored = methods.resolve(method, structure)
    if anchored:
        raise InputError("tune plans for plain gradients; for control variates, use ornstein.plan.")
    given = chosen.all_options(options, tuple(signature(tune).parameters))
    own = [s for s in chosen.structures if structures.find(s).suits(geometry)]
    structure = next(iter(own), chosen.structures[0]) if structure is None else structure
    if checks.choice("structure", structure, chosen.structures) not in own:
        remedy = f"use structure={own[0]!r}" if own else "use a geometry with structure='dense'"
        raise InputError(
            f"structure={structure!r} needs more than the geometry holds, which is "
            f"{geometry.structure}; {remedy}."
        )
    N = geometry.num_data
    if batch_size is not None:
        checks.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    drawn = (scheme for scheme in SCHEMES if scheme not in ("weighted", "blocks"))
    chosen.check_batches(batches, drawn)
    layout = Layout.of(np.zeros(geometry.dim))
    task = Task(chosen, structure, given, geometry, tuple(layout.labels()), layout)
    if chosen.engine != "chain":
        return tune_engine(task, batch_size, anchored=False)
    return tune_chain(task, batches, batch_size, None)


def tune_chain(task: Task, scheme: str, batch_size: int | None, anchored: Anchor | None) -> Plan:
    """The plan, reading windows unless another scheme is asked for or would be quicker."""
    N = task.geometry.num_data
    S = batch_size or _default_batch_size(task, anchored)
    if anchored is not None and anchored.multiplicity is not None:
        weighted = Batches("weighted", N, S, int(anchored.multiplicity.sum()))
        return _tuned(task, weighted, anchored)
    made = _tuned(task, Batches("windows" if scheme == "auto" else scheme, N, S), anchored)
    steps = min(made.segment_draws(made.thin) * made.thin, made.warmup + made.draws * made.thin)
    # Arranging takes time by the column, gathering a batch hardly so.
    if scheme == "auto" and S < N and steps * S < (_WORTH_ARRANGING + task.geometry.dim / 4) * N:
        return _tuned(task, Batches("independent", N, S), anchored)
    return made


def tune_engine(task: Task, batch_size: int | None, anchored: bool) -> Plan:
    """The plan of a method that is not a chain of SGD: what its draws are expected to be."""
    method, geometry = task.method, task.geometry
    N = geometry.num_data
    batches = Batches("independent", N, batch_size or _default_batch_size(task, None))
    update = _update(task, batches, None)
    if method.control_variates is not None:
        task = task._replace(options={**task.options, "control_variates": anchored})
    assert update.injected_cov is not None
    made = of_draws(geometry, update.injected_cov)
    return _plan(task, batches, None, update, made, warmup=0, thin=1, draws=_DRAWS)


def _default_batch_size(task: Task, anchored: Anchor | None) -> int:
    geometry = task.geometry
    if anchored is not None:
        kick = task.method.kick
        return anchored_batch_size(geometry, anchored, kick and kick(task.options))[0]
    if task.method.any_step and geometry.structure != "diagonal":
        return plain_batch_size(geometry)
    return max(1, min(_SMALL_STEPS, geometry.num_data // 4))


def _update(task: Task, batches: Batches, anchored: Anchor | None) -> Update:
    """What the method's recipe makes of the geometry, along the coordinates of its gain."""
    method, structure, options, geometry, *_ = task
    noise_cov = geometry.noise_cov if anchored is None else anchored.noise_cov
    frame, clustered = geometry.frame, geometry.clustered
    setting = Setting(
        np.asarray(frame.hessian.array),
        np.asarray(frame.hessian.project(noise_cov).array),
        batches.noise_factor,
        batches.num_data,
        batches.batch_size,
        anchored is not None,
        None if clustered is None else np.asarray(clustered.noise_cov.array),
        frame.rate,
    )
    tuned = method.tune(structure, setting, options)
    if anchored is not None and tuned.injected_cov is None:
        raise InputError(
            "control_variates leave no noise at the optimum, and without injected noise the chain "
            "would stop moving. Use options that inject some (rho=1 for exact), or "
            "control_variates=False."
        )

    def operator(array: Any) -> Operator:
        return frame.covariance.like(array) if frame.approximate else as_operator(array)

    injected = None if tuned.injected_cov is None else operator(tuned.injected_cov)
    return Update(operator(tuned.gain), injected, tuned.rule, noise_cov)


def _tuned(task: Task, batches: Batches, anchored: Anchor | None) -> Plan:
    geometry, update = task.geometry, _update(task, batches, anchored)
    if geometry.approximate:
        draws = _MANY_PARAMETERS_DRAWS
        made = by_spectrum(geometry, update, batches, anchored)
    else:
        draws = _DRAWS
        made = by_matrices(geometry, update, batches, task.method.name, task.labels)
    thin = max(_stride(made.relaxation_steps, batches), update.rule.min_thin)
    warmup = _WARMUP * thin
    tuned = _plan(task, batches, anchored, update, made, warmup, thin, draws)
    plan = for_run(tuned, warmup, warmup + draws * thin)
    return plan if plan is tuned else replace(plan, warnings=tuple(plan_checks.warnings(plan)))


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


def _plan(
    task: Task,
    batches: Batches,
    anchored: Anchor | None,
    update: Update,
    made: Forecast,
    warmup: int,
    thin: int,
    draws: int,
) -> Plan:
    method, structure, options, geometry, labels, layout, model = task
    plan = Plan(
        method=method.name,
        equation=method.variant(structure)[0],
        target=method.target,
        structure=structure,
        batches=batches,
        engine=method.engine,
        options=MappingProxyType(options),
        gain=update.gain,
        injected_cov=update.injected_cov,
        rule=update.rule,
        geometry=geometry,
        anchor=anchored,
        labels=labels,
        layout=layout,
        model=model,
        **made._asdict(),
        warmup=warmup,
        thin=thin,
        draws=draws,
        warnings=(),
    )
    return replace(plan, warnings=tuple(plan_checks.warnings(plan)))


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
) -> Forecast:
    """From A and C as they are, or their diagonals alone."""
    chain, rule, N = linear_chain(geometry, update, batches), update.rule, geometry.num_data
    K, A, C_S, Q = chain
    modes = theory.modes(K, A)
    plan_checks.refuse_unstable(method, modes, rule.stability_limit, geometry, labels)
    relaxation = plan_checks.refuse_endless(float(np.max(rule.relaxation_steps(modes.rates))))
    epochs, limit = batches.scheme == "epochs", rule.small_step_covariance(chain)
    cov = rule.epoch_covariance(batches.per_epoch, chain) if epochs else rule.covariance(chain)
    predicted = geometry.hessian.from_aligned(cov)
    return Forecast(
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
) -> Forecast:
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
    plan_checks.refuse_beyond(slowest, fastest)
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
    return Forecast(
        predicted,
        predicted.trace(dim) * float(weighted.shares @ ratios),
        predicted.scaled(limit),
        kl,
        0.5 * dim * (limit - 1 - float(np.log(limit))),
        plan_checks.refuse_endless(float(np.max(theory.relaxation_steps(ends)))),
        1 - fastest / 2,
        float(np.max(own / (own + injected))),
    )


def of_draws(geometry: Geometry, predicted: Operator) -> Forecast:
    """Independent draws of a Gaussian, or those of another sampler that are as good."""
    if geometry.approximate:
        kl = theory.approximation_kl(_spectra(geometry)[0], geometry.dim)
    else:
        A, dim = geometry.hessian, geometry.dim
        matrices = A.aligned(A, dim)
        plan_checks.refuse_not_convex(matrices)
        kl = theory.posterior_kl(A.aligned(predicted, dim), matrices, geometry.num_data)
    return Forecast(predicted, predicted.trace(geometry.dim), predicted, kl, kl)


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

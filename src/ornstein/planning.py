"""Planning: find the optimum, look at the loss around it, tune a method, predict the draws."""

import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from ornstein import _check, advice, methods, theory
from ornstein._check import InputError, UnstablePlanError
from ornstein._types import Key, PyTree, Vector
from ornstein.anchor import Anchor, anchor, plain_batch_size
from ornstein.anchor import batch_size as anchored_batch_size
from ornstein.data import SCHEMES, Batches
from ornstein.geometry import Geometry, geometry
from ornstein.methods import Method, Setting, Tuned
from ornstein.operators import as_operator
from ornstein.optimum import MAX_DENSE, find_optimum
from ornstein.plan import Plan
from ornstein.posterior import Posterior
from ornstein.prediction import as_problem, flat, predict, predict_decreasing, small_steps

_WARMUP = 7  # relaxation times; an over-dispersed start's excess variance is down to e^-14
_DRAWS = 1000
_WORTH_ARRANGING = 2  # passes over the rows that a reading order must serve to be worth making
_PASSES = 20  # to find the covariance over which anchored noise is averaged
_SETTLED = 1e-3  # relative to the variances


def plan(
    post: Posterior,
    method: str = "exact",
    structure: str | None = None,
    batch_size: int | None = None,
    at: PyTree | None = None,
    batches: str = "auto",
    control_variates: bool | None = None,
    geometry_rows: int | None = None,
    key: Key = 0,
    **options: Any,
) -> Plan:
    """Find the optimum, look at the loss around it, and tune a method to sample the posterior.

    Parameters
    ----------
    post
        The posterior.
    method
        One of ``ornstein.METHODS``.
    structure
        Structure of the gain; the method's default, or ``diagonal`` where a matrix would be too
        large.
    batch_size
        Rows per minibatch. By default those that make the quickest draws (with control variates as
        few as the rows' leverages allow), or 100 for methods that want small steps; at most a
        quarter of the rows.
    at
        Parameters to plan at; the optimum is found if not given.
    batches
        ``windows``, ``independent``, ``weighted``, ``epochs`` or ``auto``
        (see :mod:`ornstein.data`).
    control_variates
        Anchor the gradients at the optimum (X9): mixing then takes a few steps however many rows
        there are. The method's default if not given: on for ``exact`` at an optimum that was found.
    geometry_rows
        Estimate A and C from this many random rows instead of all.
    key
        Chooses those rows.
    **options
        The method's own options, e.g. ``rho`` for ``exact``.

    Raises
    ------
    InputError
        For an argument that does not fit.
    UnstablePlanError
        If the chain would diverge, before any step is made.

    Examples
    --------
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> plan = orn.plan(post, method="exact", batch_size=20)
    >>> bool(plan.predicted_kl < 1e-9), plan.structure
    (True, 'dense')
    """
    if not isinstance(post, Posterior):
        raise InputError(
            f"post must be an ornstein Posterior, found {type(post).__name__}. "
            "Make one with ornstein.models or ornstein.Posterior."
        )
    chosen = methods.find(method)
    options = chosen.all_options(options, tuple(signature(plan).parameters))
    N = post.num_data
    _check.random_key(key)
    if batch_size is not None:
        _check.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    _check.choice("batches", batches, ("auto", *SCHEMES))
    if chosen.engine != "chain" and batches not in ("auto", "independent"):
        raise InputError(
            f"method={method!r} has no use for batches={batches!r}; leave batches out."
        )
    if at is not None:
        post = post.at(at)
    structure = _structure(chosen, structure, post.dim)
    dense = post.dim <= MAX_DENSE or structure == "dense"
    if control_variates and batches == "epochs":
        raise InputError(
            "control_variates under an epoch loader are not planned for; use windows, or leave "
            "them out."
        )
    likely = at is None and structure == "dense" and batches != "epochs"
    anchored = _whether_anchored(chosen, control_variates, likely, dense)
    if batches == "weighted" and not anchored:
        raise InputError(
            "batches='weighted' draw rows by the leverage they have on control variates: use "
            "control_variates=True, or other batches."
        )
    theta = find_optimum(post) if at is None else post.layout.ravel(at)
    known = geometry(
        post, post.layout.unravel(theta), "dense" if dense else "diagonal", geometry_rows, key
    )
    make = partial(_make, chosen, structure, batches, batch_size, known, post, options)
    if chosen.engine != "chain":
        anchored = control_variates is not False and chosen.control_variates is not None
        return _fit(chosen, structure, batch_size, known, post, options, anchored)
    if anchored and advice.ill_conditioned(known):
        if control_variates:
            raise InputError(
                "control_variates need a curvature that double precision can resolve, and some "
                "columns are too nearly collinear or unequal in scale: standardise X, or drop some."
            )
        anchored = False
    if not anchored:
        return make(None)
    look = partial(
        anchor, post, known, rows=geometry_rows, key=key, scheme=batches, size=batch_size
    )
    return _self_consistent(make, look, known)


def _whether_anchored(method: Method, wanted: bool | None, likely: bool, dense: bool) -> bool:
    """Whether to use control variates; if not said, where the method likes them and they fit."""
    if wanted is None:
        return bool(method.control_variates) and likely
    if not isinstance(wanted, bool | np.bool_):
        raise InputError(f"control_variates must be True or False, found {wanted!r}.")
    if wanted and method.control_variates is None:
        why = (
            "lives on the noise of plain gradients, which control variates take away"
            if method.engine == "chain"
            else "makes no steps of SGD"
        )
        raise InputError(f"method={method.name!r} {why}; leave control_variates out.")
    if wanted and not dense and method.engine == "chain":
        raise InputError(
            "control_variates need the dense curvature, to know how far draws are from the "
            "anchor; use structure='dense' if its matrices fit memory, or leave them out."
        )
    return bool(wanted)


def _self_consistent(
    make: Callable[[Anchor], Plan], look: Callable[[Vector], Anchor], known: Geometry
) -> Plan:
    """A plan whose anchored noise is averaged over the very covariance it predicts (X9)."""
    cov: Vector = theory.recipes.inverse(known.num_data * known.hessian)
    for _ in range(_PASSES):
        made = make(look(cov))
        change = made.predicted_cov - cov
        scale = np.sqrt(np.diag(cov))
        if np.abs(change / scale[:, None] / scale).max() < _SETTLED:
            return made
        cov = made.predicted_cov
    raise UnstablePlanError(
        f"method={made.method!r} with control variates does not settle: away from the anchor "
        "their noise grows faster than the chain forgets. Raise batch_size, or leave "
        "control_variates out."
    )


def _structure(method: Method, structure: str | None, dim: int) -> str:
    if structure is None:
        structure = method.structures[0]
        if structure == "dense" and dim > MAX_DENSE and "diagonal" in method.structures:
            structure = "diagonal"
    return _check.choice("structure", structure, method.structures)


def _make(
    method: Method,
    structure: str,
    scheme: str,
    batch_size: int | None,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    anchored: Anchor | None,
) -> Plan:
    """The plan, reading windows unless another scheme is asked for or would be quicker."""
    N = known.num_data
    S = batch_size or _default_batch_size(method, known, anchored)
    if anchored is not None and anchored.multiplicity is not None:
        weighted = Batches("weighted", N, S, int(anchored.multiplicity.sum()))
        return _tune(method, structure, weighted, known, post, options, anchored)
    batches = Batches("windows" if scheme == "auto" else scheme, N, S)
    made = _tune(method, structure, batches, known, post, options, anchored)
    steps = min(made.segment_draws(made.thin) * made.thin, made.warmup + made.draws * made.thin)
    # Arranging takes time by the column, gathering a batch hardly so.
    if scheme == "auto" and steps * S < (_WORTH_ARRANGING + post.dim / 4) * N:
        independent = Batches("independent", N, S)
        made = _tune(method, structure, independent, known, post, options, anchored)
    return made


def _default_batch_size(method: Method, known: Geometry, anchored: Anchor | None) -> int:
    if anchored is not None:
        return anchored_batch_size(known, anchored)[0]
    if method.any_step and known.structure == "dense":
        return plain_batch_size(known)
    return max(1, min(100, known.num_data // 4))


def _tune(
    method: Method,
    structure: str,
    batches: Batches,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    anchored: Anchor | None,
) -> Plan:
    N, labels = batches.num_data, tuple(post.labels)
    noise_cov = known.noise_cov if anchored is None else anchored.noise_cov
    factor = batches.noise_factor
    setting = Setting(
        known.hessian, noise_cov * factor, factor, N, batches.batch_size, anchored is not None
    )
    tuned = method.tune(structure, setting, options)
    if anchored is not None and tuned.injected_cov is None:
        raise InputError(
            "control_variates leave no noise at the optimum, and without injected noise the chain "
            "would come to rest. Use options that inject some (rho=1 for exact), or "
            "control_variates=False."
        )
    K, A, C_S, Q = as_problem(tuned, setting)
    mu = tuned.momentum
    modes = theory.modes(K, A)
    advice.refuse_unstable(method, modes, mu, A, labels)
    relaxation = float(np.max(theory.relaxation_steps(modes.rates, mu)))
    advice.refuse_endless(relaxation)
    thin = max(_stride(relaxation, batches), tuned.window)
    cov = predict(tuned, batches, K, A, C_S, Q)
    limit = small_steps(tuned, K, A, C_S, Q)
    kl = theory.posterior_kl(cov, A, N)
    made = Plan(
        **_common(method, structure, batches, known, post, options, tuned),
        anchor=anchored,
        noise_share=float(np.max(theory.noise_shares(modes, C_S, Q))),
        predicted_cov=flat(cov, known),
        limit_cov=flat(limit, known),
        predicted_kl=kl,
        predicted_kl_ou=theory.posterior_kl(limit, A, N),
        relaxation_steps=relaxation,
        stability_margin=float(1 - modes.rates.max() / (2 * (2 - mu))),
        warmup=_WARMUP * thin,
        thin=thin,
        draws=_DRAWS,
        warnings=tuple(
            advice.warnings(method, structure, batches, known, anchored, labels, kl, relaxation)
        ),
    )
    if made.decay is None:
        return made
    return predict_decreasing(made, made.warmup, made.warmup + made.draws * made.thin)


def _stride(relaxation: float, batches: Batches) -> int:
    """Steps between kept draws: a relaxation time."""
    steps = max(1, round(relaxation))
    if batches.scheme == "epochs":  # draws that see every phase of an epoch
        while math.gcd(steps, batches.per_epoch) > 1:
            steps += 1
        return steps
    return steps if steps <= 256 else -(-steps // 64) * 64  # splits evenly into blocks


def _fit(
    method: Method,
    structure: str,
    batch_size: int | None,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    anchored: bool,
) -> Plan:
    """The plan of a method that is no chain of SGD: what its draws are expected to be."""
    N = known.num_data
    S = batch_size or _default_batch_size(method, known, None)
    batches = Batches("independent", N, S)
    factor = batches.noise_factor
    setting = Setting(known.hessian, known.noise_cov * factor, factor, N, S)
    tuned = method.tune(structure, setting, options)
    if method.control_variates is not None:
        options = {**options, "control_variates": anchored}
    K, A, _, Q = as_problem(tuned, setting)
    labels = tuple(post.labels)
    advice.refuse_not_convex(A)
    cov = Q if Q is not None else K / N
    kl = theory.posterior_kl(cov, A, N)
    return Plan(
        **_common(method, structure, batches, known, post, options, tuned),
        anchor=None,
        noise_share=0.0,
        predicted_cov=flat(cov, known),
        limit_cov=flat(cov, known),
        predicted_kl=kl,
        predicted_kl_ou=kl,
        relaxation_steps=1.0,
        stability_margin=1.0,
        warmup=0,
        thin=1,
        draws=_DRAWS,
        warnings=tuple(advice.warnings(method, structure, batches, known, None, labels, kl, 1.0)),
    )


def _common(
    method: Method,
    structure: str,
    batches: Batches,
    known: Geometry,
    post: Posterior,
    options: dict[str, Any],
    tuned: Tuned,
) -> dict[str, Any]:
    """The fields of a plan that repeat what it was made from."""
    injected = tuned.injected_cov
    return {
        "method": method.name,
        "equation": method.variants[structure][0],
        "target": method.target,
        "structure": structure,
        "batches": batches,
        "engine": method.engine,
        "options": MappingProxyType(options),
        "gain": as_operator(tuned.gain),
        "injected_cov": None if injected is None else as_operator(injected),
        "momentum": tuned.momentum,
        "window": tuned.window,
        "decay": tuned.decay,
        "running": tuned.running,
        "geometry": known,
        "labels": tuple(post.labels),
        "layout": post.layout,
        "model": post.model,
    }

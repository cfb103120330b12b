"""Planning: find the optimum, look at the loss around it, tune a method, predict the draws."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from ornstein import theory
from ornstein._base import checks
from ornstein._base.errors import InputError, UnstablePlanError
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature import block_noise
from ornstein.curvature.control_variates import Anchor, anchor
from ornstein.curvature.estimation import (
    FACTORED,
    Geometry,
    factorise,
    geometry,
    mean_gradient,
    under_prior,
)
from ornstein.curvature.factored import predictors
from ornstein.curvature.optimum import MAX_DENSE, find_optimum, large_structures
from ornstein.data import prefetch
from ornstein.data.batches import SCHEMES
from ornstein.data.passes import fingerprint
from ornstein.models.posterior import Posterior
from ornstein.planning import methods, plan_checks
from ornstein.planning.methods import Method
from ornstein.planning.plans import Plan
from ornstein.planning.tuning import Task, fit, make

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
        One of ``ornstein.METHODS``, or one with its structure: see ``ornstein.VARIANTS``.
    structure
        Structure of the gain; the method's default, or where a matrix would be too large
        ``classes`` (or ``kronecker`` if there are too many columns) for a softmax, else
        ``diagonal``.
    batch_size
        Rows per minibatch. By default those that make the quickest draws (with control variates as
        few as the rows' leverages allow), or 100 for methods that want small steps; at most a
        quarter of the rows.
    at
        Parameters to plan at; the optimum is found if not given.
    batches
        ``windows``, ``independent``, ``weighted``, ``epochs``, ``blocks`` or ``auto``
        (see :mod:`ornstein.data.batches`).
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
    chosen, structure, control_variates = methods.resolve(method, structure, control_variates)
    options = chosen.all_options(options, tuple(signature(plan).parameters))
    N = post.num_data
    checks.random_key(key)
    if batch_size is not None:
        checks.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    checks.choice("batches", batches, ("auto", *SCHEMES))
    if chosen.engine != "chain" and batches not in ("auto", "independent"):
        raise InputError(
            f"method={method!r} has no use for batches={batches!r}; leave batches out."
        )
    if at is not None:
        post = post.at(at)
    batches = _readable(post, chosen, batches)
    structure = _structure(chosen, structure, post)
    dense = post.dim <= MAX_DENSE or structure == "dense"
    if control_variates and batches == "epochs":
        raise InputError(
            "control_variates under an epoch loader are not planned for; use windows, or leave "
            "them out."
        )
    matrices = structure in ("dense", *FACTORED)
    likely = at is None and matrices and batches != "epochs"
    anchored = _whether_anchored(chosen, control_variates, likely, dense or matrices)
    if batches == "weighted" and not anchored:
        raise InputError(
            "batches='weighted' draw rows by the leverage they have on control variates: use "
            "control_variates=True, or other batches."
        )
    theta = find_optimum(post) if at is None else post.layout.ravel(at)
    known = _known(post, theta, structure, dense, geometry_rows, key)
    task = Task(chosen, structure, options, known, post)
    tuned = partial(make, task, batches, batch_size)
    if chosen.engine != "chain":
        anchored = control_variates is not False and chosen.control_variates is not None
        return fit(task, batch_size, anchored)
    if anchored and plan_checks.ill_conditioned(known):
        if control_variates:
            raise InputError(
                "control_variates need a curvature that double precision can resolve, and some "
                "columns are too nearly collinear or unequal in scale: standardise X, or drop some."
            )
        anchored = False
    if anchored:
        look = partial(
            anchor, post, known, rows=geometry_rows, key=key, scheme=batches, size=batch_size
        )
        made = _self_consistent(tuned, look, known)
    else:
        made = tuned(None)
    if batches == "blocks":
        alike = block_noise.warnings(post, known, anchored)
        made = replace(made, warnings=made.warnings + alike)
    return made


def moved(post: Posterior, near: Plan) -> Plan:
    """A chain's plan under another prior, so near that what was seen of the rows there holds here.

    Curvature, noise and leverages of the rows are those of ``near``; the optimum and the slope
    there are looked up. Rows are read as there.
    """
    theta = find_optimum(post)
    seen = under_prior(near.geometry, post)
    known = replace(seen, center=theta, gradient=mean_gradient(post, theta))
    task = Task(methods.METHODS[near.method], near.structure, dict(near.options), known, post)
    anchored = near.anchor
    if anchored is not None:
        slope = post.num_data * known.gradient
        anchored = replace(anchored, slope=slope, seen=fingerprint((post.data, post.hyper)))
    return make(task, near.batches.scheme, near.batch_size, anchored)


def _readable(post: Posterior, method: Method, batches: str) -> str:
    """The scheme, or blocks for rows on disk unless it is said."""
    if not post.on_disk:
        if batches == "blocks":
            raise InputError("batches='blocks' are read from disk; for rows in memory, use others.")
        return batches
    if not method.reads_disks:
        raise InputError(
            f"method={method.name!r} needs all rows in memory, and these stay on disk. Use "
            "method='exact', or read them with rows[:] if they fit."
        )
    if batches not in ("auto", *prefetch.SCHEMES):
        raise InputError(
            f"batches={batches!r} need the rows in memory; from disk, use 'blocks' or "
            "'independent'."
        )
    return "blocks" if batches == "auto" and method.engine == "chain" else batches


def _known(
    post: Posterior,
    theta: Vector,
    structure: str,
    dense: bool,
    rows: int | None,
    key: Key,
) -> Geometry:
    """A and C as matrices where they fit, and in factors where the gain is to be."""
    if structure in FACTORED:
        predictors(post, balanced=structure == "classes")
    if structure == "classes":
        held = structure
    else:
        held = "dense" if dense else "kronecker" if structure == "kronecker" else "diagonal"
    known = geometry(post, post.layout.unravel(theta), held, rows, key)
    return factorise(post, known) if structure == "kronecker" and dense else known


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
    precision = known.num_data * known.hessian
    cov: Vector = 1 / precision if precision.ndim == 1 else theory.recipes.inverse(precision)
    for _ in range(_PASSES):
        made = make(look(cov))
        found = np.asarray(made.predicted.array)
        scale = np.sqrt(cov if cov.ndim == 1 else np.diag(cov))
        units = scale**2 if cov.ndim == 1 else scale[:, None] * scale
        if np.abs((found - cov) / units).max() < _SETTLED:
            return made
        cov = found
    raise UnstablePlanError(
        f"method={made.method!r} with control variates does not settle: away from the anchor "
        "their noise grows faster than the chain forgets. Raise batch_size, or leave "
        "control_variates out."
    )


def _structure(method: Method, structure: str | None, post: Posterior) -> str:
    if structure is None:
        structure = method.structures[0]
        if structure == "dense" and post.dim > MAX_DENSE:
            smaller = large_structures(post.model)
            structure = next((s for s in smaller if s in method.structures), structure)
    return checks.choice("structure", structure, method.structures)


def fitting(post: Posterior, plan: Plan) -> Posterior:
    """The posterior, its parameters known; raises where the plan was made for another."""
    if not isinstance(post, Posterior):
        raise InputError(f"post must be an ornstein Posterior, found {type(post).__name__}.")
    if post.num_data != plan.num_data:
        raise InputError(
            f"the plan was made for {plan.num_data} rows, the posterior has {post.num_data}. "
            "Plan again for this posterior."
        )
    post = post if post.known else post.at(plan.layout.unravel(plan.center))
    if post.dim != plan.dim:
        raise InputError(
            f"the plan was made for {plan.dim} parameters, the posterior has {post.dim}. "
            "Plan again for this posterior."
        )
    if post.model != plan.model:
        raise InputError(
            "the plan was made for another model or other parameters. Plan again for this "
            "posterior."
        )
    if plan.anchor is not None and plan.anchor.seen != fingerprint((post.data, post.hyper)):
        raise InputError(
            "the plan's control variates were made for other rows or another prior. Plan again for "
            "this posterior."
        )
    return post

"""Planning: find the optimum, estimate the loss around it, tune a method, predict the draws."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.errors import InputError, UnstablePlanError
from ornstein._base.types import Key, PyTree, Vector
from ornstein.curvature import block_noise, estimation, structures
from ornstein.curvature.clustered import cluster_codes, clustered
from ornstein.curvature.control_variates import Anchor, anchor, lacking
from ornstein.curvature.geometry import Geometry
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.row_sums import mean_gradient
from ornstein.curvature.structures import Structure
from ornstein.data import prefetch
from ornstein.data.batches import SCHEMES
from ornstein.data.passes import fingerprint
from ornstein.linalg.eigen import scaled_eigh
from ornstein.linalg.operators import Dense, Operator
from ornstein.models.posterior import Posterior, as_posterior
from ornstein.planning import methods, plan_checks
from ornstein.planning.methods import Method
from ornstein.planning.plans import Plan
from ornstein.planning.tuning import Task, tune_chain, tune_engine

_PASSES = 20  # to find the covariance over which anchored noise is averaged
_SETTLED = 1e-3  # relative to the variances
_SINGULAR = 1e-10  # least eigenvalue of a correlation matrix that is inverted


def plan(
    post: Posterior,
    method: str = "auto",
    structure: str | None = None,
    batch_size: int | None = None,
    at: PyTree | None = None,
    batches: str = "auto",
    control_variates: bool | str | None = None,
    geometry_rows: int | None = None,
    key: Key = 0,
    clusters: npt.ArrayLike | None = None,
    **options: Any,
) -> Plan:
    """Find the optimum, estimate the loss around it, and tune a method to sample the posterior.

    The public :func:`ornstein.plan` has the same arguments; it also says how far the draws will be
    from the posterior, if need be by a pilot.
    """
    post = as_posterior(post)
    order = _order(control_variates)
    if isinstance(control_variates, str):
        control_variates = True
    if method == methods.AUTO and clusters is not None:
        method = "sandwich"
    if method == methods.AUTO:
        method = _default_method(post, structure, at, batches, control_variates, options)
    chosen, structure, control_variates = methods.resolve(method, structure, control_variates)
    options = chosen.all_options(options, tuple(signature(plan).parameters))
    N = post.num_data
    checks.random_key(key)
    codes = None if clusters is None else _codes(chosen, clusters, N)
    if batch_size is not None:
        checks.whole("batch_size", batch_size, high=N, why=f"the data has {N} rows")
    chosen.check_batches(batches, SCHEMES)
    if at is not None:
        post = post.at(at)
    batches = _readable(post, chosen, batches)
    gain = _structure(chosen, structure, post)
    if control_variates and batches == "epochs":
        raise InputError(
            "control_variates under an epoch loader are not planned for; use windows, or leave "
            "them out."
        )
    likely = at is None and gain.anchored and batches != "epochs"
    anchored = _whether_anchored(chosen, control_variates, likely)
    if batches == "weighted" and not anchored:
        raise InputError(
            "batches='weighted' draws rows by the leverage they have on control variates: use "
            "control_variates=True, or other batches."
        )
    if anchored and chosen.engine == "chain":
        gain.held(post).refuse_anchors()
    theta = find_optimum(post) if at is None else post.layout.ravel(at)
    geometry = estimation.around(post, theta, gain, geometry_rows, key)
    if codes is not None:
        geometry = replace(geometry, clustered=clustered(post, theta, codes))
    task = Task(chosen, gain.name, options, geometry, tuple(post.labels), post.layout, post.model)
    if chosen.engine != "chain":
        anchored = control_variates is not False and chosen.control_variates is not None
        return tune_engine(task, batch_size, anchored)
    if anchored and plan_checks.ill_conditioned(geometry):
        if control_variates:
            raise InputError(
                "control_variates need a curvature that double precision can resolve, and some "
                "columns are too nearly collinear or unequal in scale: standardise X, or drop some."
            )
        anchored = False
    tuned = partial(tune_chain, task, batches, batch_size)
    if anchored:
        if order == 2 and (why := lacking(geometry)):
            raise InputError(
                f"control_variates='second' need the whole curvature of all rows, and {why}. Use "
                "control_variates=True, or structure='dense' without geometry_rows."
            )
        noise = partial(
            anchor,
            post,
            geometry,
            rows=geometry_rows,
            key=key,
            scheme=batches,
            size=batch_size,
            order=order,
        )
        made = _self_consistent(tuned, noise, geometry)
    else:
        made = tuned(None)
    if batches != "blocks":
        return made
    used = made.anchor.order if made.anchor else 0
    return replace(made, warnings=made.warnings + block_noise.warnings(post, geometry, used))


def _codes(method: Method, clusters: npt.ArrayLike, num_data: int) -> npt.NDArray[np.intp]:
    """Every row's cluster; raises for methods that aim at the posterior."""
    if not method.clusters:
        able = " or ".join(repr(one.name) for one in methods.METHODS.values() if one.clusters)
        raise InputError(
            f"clusters change the covariance that draws aim at, and method={method.name!r} aims at "
            f"another: use method={able}, or leave clusters out."
        )
    return cluster_codes(clusters, num_data)


def _order(control_variates: object) -> int | None:
    """The order of control variates that is asked for by name."""
    if not isinstance(control_variates, str):
        return None
    names = {"first": 1, "second": 2}
    return names[checks.choice("control_variates", control_variates, tuple(names))]


def _default_method(
    post: Posterior,
    structure: str | None,
    at: PyTree | None,
    batches: str,
    control_variates: bool | str | None,
    options: Mapping[str, Any],
) -> str:
    """Rotation steps where they are on offer, and ``exact`` elsewhere."""
    rotation = methods.METHODS["rotation"]
    anchored = control_variates is not False and batches != "epochs" and at is None
    fits = not post.known or structures.find("dense").fits(post)
    dense = structure in (None, "dense") and fits
    known = set(options) <= set(rotation.options)
    return "rotation" if anchored and dense and known else "exact"


def replan(post: Posterior, near: Plan) -> Plan:
    """A chain's plan under another prior, so near that what was found of the rows holds here.

    Curvature, noise and leverages of the rows are those of ``near``; the optimum and the slope
    there are found again. Rows are drawn as there.
    """
    theta = find_optimum(post)
    under = estimation.under_prior(near.geometry, post)
    geometry = replace(under, center=theta, gradient=mean_gradient(post, theta))
    anchored = near.anchor
    if anchored is not None:
        slope = post.num_data * geometry.gradient
        anchored = replace(anchored, slope=slope, seen=fingerprint((post.data, post.hyper)))
    method, options = methods.METHODS[near.method], dict(near.options)
    named = tuple(post.labels), post.layout, post.model
    task = Task(method, near.structure, options, geometry, *named)
    return tune_chain(task, near.batches.scheme, near.batch_size, anchored)


def of_all_rows(post: Posterior, near: Plan) -> Plan:
    """A chain's plan whose steps take all rows, under another prior than that of ``near``.

    Optimum and curvature are found again. What is known of batches' noise, of which all rows have
    none, is that of ``near``: estimating it takes most of a plan's time.
    """
    theta = find_optimum(post)
    geometry = estimation.around(post, theta, structures.find(near.structure), None, 0)
    anchored = near.anchor
    if anchored is not None:
        slope, seen = post.num_data * geometry.gradient, fingerprint((post.data, post.hyper))
        anchored = replace(anchored, slope=slope, seen=seen, multiplicity=None)
    method, options = methods.METHODS[near.method], dict(near.options)
    named = tuple(post.labels), post.layout, post.model
    task = Task(method, near.structure, options, geometry, *named)
    return tune_chain(task, "windows", post.num_data, anchored)


def retuned(plan: Plan, batch_size: int, **options: Any) -> Plan:
    """A chain's plan with another batch size and other options: nothing is estimated again.

    A Metropolis test takes every row once, so that rows are not drawn by their leverage then.
    """
    task = Task(
        methods.METHODS[plan.method],
        plan.structure,
        {**plan.options, **options},
        plan.geometry,
        plan.labels,
        plan.layout,
        plan.model,
    )
    anchored, scheme = plan.anchor, plan.batches.scheme
    if options.get("metropolis"):
        scheme = "windows"
        anchored = None if anchored is None else replace(anchored, multiplicity=None)
    return tune_chain(task, scheme, batch_size, anchored)


def moved(post: Posterior, plan: Plan, center: Vector, cov: Vector, **options: Any) -> Plan:
    """A chain's plan of all rows, from draws' mean and covariance instead of the optimum's.

    For posteriors whose peak says little of them, such as those of hierarchies. Steps take all
    rows, whose gradients have no noise.

    Raises
    ------
    UnstablePlanError
        If the covariance is not positive definite, as where chains hardly moved.
    """
    if not (np.isfinite(center).all() and np.isfinite(cov).all() and np.diag(cov).min() > 0):
        raise UnstablePlanError("the draws to plan around do not vary, or are not finite.")
    if scaled_eigh(cov).values[0] <= _SINGULAR:
        raise UnstablePlanError("the draws to plan around lie in fewer dimensions than they have.")
    found = estimation.around(post, center, structures.find("dense"), None, 0)
    N = post.num_data
    precision = Dense(np.linalg.inv(N * cov))
    # Around a mean the slope is not zero, and should not be: positions count from there.
    geometry = replace(found, hessian=precision, gradient=np.zeros_like(center))
    named = plan.labels, plan.layout, plan.model
    given = {**plan.options, **options}
    task = Task(methods.METHODS[plan.method], plan.structure, given, geometry, *named)
    return tune_chain(task, "windows", N, None)


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


def _whether_anchored(method: Method, wanted: bool | None, likely: bool) -> bool:
    """Whether to use control variates; if not said, where the method likes them and they fit."""
    if wanted is None:
        return bool(method.control_variates) and likely
    if checks.flag("control_variates", wanted) and method.control_variates is None:
        why = (
            "relies on the noise of plain gradients, which control variates take away"
            if method.engine == "chain"
            else "makes no steps of SGD"
        )
        raise InputError(f"method={method.name!r} {why}; leave control_variates out.")
    return bool(wanted)


def _self_consistent(
    tuned: Callable[[Anchor], Plan], noise: Callable[[Operator], Anchor], geometry: Geometry
) -> Plan:
    """A plan whose anchored noise is averaged over the very covariance it predicts (X9)."""
    cov = geometry.covariance
    for _ in range(_PASSES):
        made = tuned(noise(cov))
        if cov.change(made.predicted) < _SETTLED:
            return made
        cov = made.predicted
    raise UnstablePlanError(
        f"method={made.method!r} with control variates does not settle: away from the anchor "
        "their noise grows faster than the chain forgets. Raise batch_size, or leave "
        "control_variates out."
    )


def _structure(method: Method, name: str | None, post: Posterior) -> Structure:
    """The structure of the gain: as asked for, or the method's first, or the next that fits."""
    if name is not None:
        return structures.find(checks.choice("structure", name, method.structures))
    first = structures.find(method.structures[0])
    offered = (s for s in structures.STRUCTURES.values() if s.name in method.structures)
    return first if first.fits(post) else next((s for s in offered if s.fits(post)), first)


def fitting(post: Posterior, plan: Plan) -> Posterior:
    """The posterior, its parameters known; raises where the plan was made for another."""
    post = as_posterior(post)

    def refuse(reason: str) -> NoReturn:
        raise InputError(f"the plan was made for {reason}. Plan again for this posterior.")

    if post.num_data != plan.num_data:
        refuse(f"{plan.num_data} rows, the posterior has {post.num_data}")
    post = post if post.known else post.at(plan.layout.unravel(plan.center))
    if post.dim != plan.dim:
        refuse(f"{plan.dim} parameters, the posterior has {post.dim}")
    if plan.model is not None and post.model != plan.model:
        refuse("another model or other parameters")
    if plan.anchor is not None and plan.anchor.seen != fingerprint((post.data, post.hyper)):
        refuse("other rows or another prior, on which its control variates depend")
    return post

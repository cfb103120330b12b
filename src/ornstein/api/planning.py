"""Planning for the posterior itself: a plan, and a pilot where its shape is not known.

Plans are made from the posterior's peak. Where it is not Gaussian, nor so near it that the rows'
remainders say so (X10), a pilot runs the plan and measures its draws by Stein's identities (X12).
"""

from typing import Any, overload

import numpy.typing as npt

from ornstein._base import checks
from ornstein._base.types import Key, PyTree
from ornstein.api.pilots import piloted
from ornstein.models.posterior import Posterior
from ornstein.models.random_effects.posterior import MixedPosterior
from ornstein.planning import planner
from ornstein.planning.mixed import MixedPlan, plan_mixed
from ornstein.planning.plans import Plan

TOLERANCE = 0.05
"""What means may err by, in posterior standard deviations, and standard deviations relatively."""


@overload
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
    tolerance: float | None = TOLERANCE,
    clusters: npt.ArrayLike | None = None,
    **options: Any,
) -> Plan: ...


@overload
def plan(post: MixedPosterior, *, batch_size: int | None = None) -> MixedPlan: ...


def plan(
    post: Posterior | MixedPosterior,
    method: str = "auto",
    structure: str | None = None,
    batch_size: int | None = None,
    at: PyTree | None = None,
    batches: str = "auto",
    control_variates: bool | str | None = None,
    geometry_rows: int | None = None,
    key: Key = 0,
    tolerance: float | None = TOLERANCE,
    clusters: npt.ArrayLike | None = None,
    **options: Any,
) -> Plan | MixedPlan:
    """Find the optimum, estimate the loss around it, and tune a method to sample the posterior.

    Parameters
    ----------
    post
        The posterior. That of a mixed model takes ``batch_size`` only, and gives a
        :class:`ornstein.MixedPlan`.
    method
        One of ``ornstein.METHODS``, or one with its structure: see ``ornstein.VARIANTS``.
        ``auto`` is ``rotation`` where the curvature is held as a matrix and gradients are anchored,
        and ``exact`` elsewhere, or with its option ``rho``.
    structure
        Structure of the gain; the method's default, or where a matrix would be too large
        ``per-class`` (or ``kronecker`` if there are too many columns) for a softmax, else
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
        Anchor the gradients at the optimum (X9, X10): mixing then takes a few steps however many
        rows there are. ``"first"`` or ``"second"`` for that order; True for the one that leaves
        less noise. The method's default if not given: on for ``rotation`` and ``exact`` at an
        optimum that was found.
    geometry_rows
        Estimate A and C from this many random rows instead of all.
    key
        Chooses those rows, and a pilot's draws.
    tolerance
        What the draws may err by: means in posterior standard deviations, standard deviations
        relatively. Unless the posterior is Gaussian or nearly so, a pilot of the plan is run and
        measured; where it errs by more, smaller angles (``rho`` of ``exact`` larger) and larger
        batches are tried, except those that are given. ``plan.predicted_error`` says what was
        found, a warning where nothing helped. None: no pilot.
    clusters
        A label for every row, whose rows depend on one another within clusters: the draws'
        covariance is then the cluster-robust sandwich, which is valid if the clusters are
        independent and many. For ``method="sandwich"``, the default with clusters.
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
    >>> import numpy as np
    >>> import ornstein as orn
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> post = orn.models.linear(X, np.sin(X[:, 0]))
    >>> plan = orn.plan(post, method="exact", batch_size=20)
    >>> bool(plan.predicted_kl < 1e-9), plan.structure
    (True, 'dense')
    >>> plan.predicted_error.known
    'the posterior is Gaussian'
    """
    if isinstance(post, MixedPosterior):
        asked = {"method": (method, "auto"), "structure": (structure, None), "at": (at, None)}
        asked |= {"batches": (batches, "auto"), "geometry_rows": (geometry_rows, None)}
        asked |= {"control_variates": (control_variates, None)}
        unknown = {name: value for name, (value, usual) in asked.items() if value != usual}
        unknown |= {} if clusters is None else {"clusters": clusters}
        return plan_mixed(post, batch_size, **unknown, **options)
    tolerance = checked_tolerance(tolerance)
    given: dict[str, Any] = {"method": method, "structure": structure, "at": at}
    given |= {"batch_size": batch_size, "batches": batches, "control_variates": control_variates}
    given |= {"geometry_rows": geometry_rows, "key": key, "clusters": clusters, **options}
    made = planner.plan(post, **given)
    return piloted(planner.fitting(post, made), made, tolerance, given)


def checked_tolerance(tolerance: float | None) -> float | None:
    """Positive, or None."""
    return None if tolerance is None else checks.positive("tolerance", tolerance)

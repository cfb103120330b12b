"""What helps a chain that became non-finite: a nearer start, or shorter steps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ornstein._base.errors import OrnsteinError
from ornstein._base.types import Vector
from ornstein.models.posterior import Posterior
from ornstein.planning.planner import plan as make_plan
from ornstein.planning.plans import Plan
from ornstein.planning.rules import Rotation
from ornstein.sampling.settings import Settings, Status

MOST = 3
"""Restarts of one run."""


class Again(NamedTuple):
    """How to run again, and what to say about it."""

    plan: Plan
    dispersion: float
    how: str


def easier(post: Posterior, plan: Plan, settings: Settings, status: Status) -> Again | None:
    """A more careful way to run a plan that diverged; None if none is known.

    A chain that diverged while warming up began too far out: it starts as wide as the prediction.
    One that diverged later, or from there, met a loss more curved, or noise larger, than at the
    optimum: all start again with shorter steps, planned for the same target.
    """
    if settings.dispersion > 1 and status.step is not None and status.step < settings.warmup:
        return Again(plan, 1.0, "starts nearer the optimum, dispersion=1")
    for how, changed in _gentler(plan):
        try:
            found = make_plan(post, plan.method, **{**_as_made(plan), **changed})
        except OrnsteinError:
            continue
        if found.stability_margin > plan.stability_margin:
            margins = f"{plan.stability_margin:.3f} to {found.stability_margin:.3f}"
            how = f"shorter steps, {how} (stability margin {margins})"
            return Again(found, min(1.0, settings.dispersion), how)
    return None


def _as_made(plan: Plan) -> dict[str, Any]:
    """The arguments of a plan."""
    geometry = plan.geometry
    return {
        "structure": plan.structure,
        "batch_size": plan.batch_size,
        "at": plan.layout.unravel(plan.center),
        "batches": plan.batches.scheme,
        "control_variates": False
        if plan.anchor is None
        else ("first", "second")[plan.anchor.order - 1],
        "geometry_rows": geometry.rows_used if geometry.rows_used < plan.num_data else None,
        **plan.options,
    }


def _outweighing(plan: Plan, extra: Vector) -> Vector:
    """``E E'`` four times as large, and too large for C's estimate to matter much.

    ``K = (2 / N) (C_S + E E' / eps)^-1``: however small C is estimated, the gain is below a third
    of what it would be without injected noise.
    """
    noise, eps = plan.noise_cov, plan.options["step_size"]
    own = eps * plan.batches.noise_factor * np.asarray(noise.own if extra.ndim < 2 else noise.array)
    return 4 * extra + 3 * own


def _gentler(plan: Plan) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes that shorten the steps of one method or another."""
    options, geometry = plan.options, plan.geometry
    if "rho" in options:  # K A = 2 / (1 + rho + noise)
        chosen = 2 / geometry.rate - 1 if geometry.approximate else 1.0
        rho = chosen if options["rho"] is None else float(options["rho"])
        for longer in (2, 4, 8):
            rho_now = longer * (1 + rho) - 1
            yield f"rho={rho_now:g}", {"rho": rho_now}
    if isinstance(plan.rule, Rotation):
        angle = 0.5 * plan.rule.angle
        yield f"angle={angle:.3g}", {"angle": angle, "keep": None}
    own = plan.rule.own_noise
    extra = options.get("extra_noise") if own is None else own
    if extra is not None:
        yield "more injected noise", {"extra_noise": _outweighing(plan, np.asarray(extra, float))}
    if options.get("step_size") is not None:
        step = 0.5 * float(options["step_size"])
        yield f"step_size={step:g}", {"step_size": step}
    if plan.batch_size > 1:
        yield f"batch_size={plan.batch_size // 2}", {"batch_size": plan.batch_size // 2}

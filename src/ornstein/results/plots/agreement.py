"""How predictions agree with what happened: rows, divergences and gradient noise."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from ornstein import theory
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.linalg.operators import as_operator
from ornstein.planning.plans import Plan
from ornstein.results.accuracy import GOOD
from ornstein.results.comparison import EFFECTIVE, Comparison
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.noise import Noise, simulated
from ornstein.results.plots.style import (
    DRAWS,
    MOST_POINTS,
    POSTERIOR,
    PREDICTED,
    diagonal,
    logarithmic,
    panel,
)
from ornstein.results.result import Result


def residuals(mean: Vector, sd: Vector, target: Vector) -> tuple[Figure, Figure]:
    """Residuals against predictions, and how often intervals of every mass contain the target."""
    score = (target - mean) / sd
    (first, left), (second, right) = panel(), panel()
    shown = slice(None, None, max(1, len(mean) // MOST_POINTS))
    left.plot(mean[shown], (target - mean)[shown], ".", color=DRAWS, alpha=0.5, markersize=4)
    left.axhline(0, color="grey", linewidth=0.8)
    left.set(xlabel="predicted", ylabel="residual")
    masses = np.linspace(0.05, 0.95, 19)
    inside = [np.mean(np.abs(score) <= norm.isf((1 - mass) / 2)) for mass in masses]
    diagonal(right, masses, np.asarray(inside))
    right.set(xlabel="mass of the interval", ylabel="share of rows inside")
    return first, second


def reliability(chances: Vector, happened: Vector) -> Figure:
    """How often what was given a chance happened, by tenths of the rows."""
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, 10) if part.size]
    figure, ax = panel()
    said, came = (np.array([of[part].mean() for part in parts]) for of in (chances, happened))
    diagonal(ax, said, came)
    ax.set(xlabel="predicted probability", ylabel="share that came true")
    return figure


def comparison(found: Comparison, title: str = "") -> Figure:
    """The error of every method's draws against the time they take, on logarithmic axes."""
    figure, ax = panel((6, 5))
    for entry in found.entries:
        needed, error = entry.seconds_needed, entry.mean_error
        if needed is None or error is None:
            continue
        at, taken = (needed, error), entry.method == found.recommendation.method
        ax.plot(*at, "o", color=DRAWS if entry.verdict == "ok" else "grey", markersize=5)
        weight = "bold" if taken else "normal"
        ax.annotate(entry.method, at, (5, 3), textcoords="offset points", fontsize=8, weight=weight)
    ax.axhline(GOOD[0], color=PREDICTED, linestyle=":", label="right below this line")
    ax.legend(frameon=False)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"seconds for {EFFECTIVE:,} effective draws, planning included",
        ylabel="largest error of a mean, in posterior standard deviations",
        title=title,
    )
    return figure


def gradient_noise(result: Result, diagnosis: Diagnosis) -> tuple[Figure, ...]:
    """Planned against measured variances, and the quantiles of a step's noise.

    Nothing where the diagnosis did not measure the noise: for draws that are not iterates of SGD,
    and where matrices would not fit. Nor where there is none: with all rows in every step, or with
    control variates that take it off whole.
    """
    result.require_draws()
    if diagnosis.noise is None or diagnosis.roughest is None:
        return ()
    planned, drawn, plain = along_modes(result.plan, diagnosis.noise)
    seen = (planned > 1e-9 * planned.max()) & (drawn > 0)
    if not seen.any():
        return ()
    (first, left), (second, right) = panel(), panel()
    _variances(left, result.plan, planned[seen], drawn[seen], plain[seen])
    flat = result.flat.reshape(-1, result.plan.dim)
    with double_precision():
        noise = simulated(result.posterior, result.plan, flat, diagnosis.roughest)
    _quantiles(right, noise)
    return first, second


def along_modes(plan: Plan, noise: Noise) -> tuple[Vector, Vector, Vector]:
    """Planned, measured and plain variances ``N C_S / A``, direction by direction (X8)."""
    V, _ = theory.joint_diagonalisation(
        plan.geometry.hessian.dense(plan.dim), as_operator(noise.planned).dense(plan.dim)
    )
    scale = plan.num_data * plan.batches.noise_factor
    planned, drawn, plain = (
        scale * np.einsum("ij,ik,kj->j", V, as_operator(cov).dense(plan.dim), V) for cov in noise
    )
    return planned, drawn, plain


def _variances(ax: Axes, plan: Plan, planned: Vector, drawn: Vector, plain: Vector) -> None:
    kind = "measured"
    if plan.control_variates:
        kind = "with control variates"
        ax.plot(planned, plain, "x", color="grey", markersize=5, label="plain gradients")
    ax.plot(planned, drawn, "o", color=POSTERIOR, markersize=5, label=kind)
    ends = [planned.min() / 1.5, planned.max() * 1.5]
    ax.plot(ends, ends, color=PREDICTED, linewidth=1, label="as planned")
    logarithmic(ax, "x", "y")
    ax.set(xlabel="noise planned for, over the posterior's width", ylabel="noise at the draws")
    ax.legend(frameon=False, fontsize=8)


def _quantiles(ax: Axes, noise: Vector) -> None:
    chances = (np.arange(len(noise)) + 0.5) / len(noise)
    expected = norm.ppf(chances)
    ax.plot(expected[[0, -1]], expected[[0, -1]], color=PREDICTED, linewidth=1, label="as planned")
    ax.plot(expected, np.sort(noise), ".", color=DRAWS, markersize=3, label="simulated steps")
    ax.set(xlabel="normal quantile", ylabel="noise of a step, in planned deviations")
    ax.legend(frameon=False, fontsize=8)

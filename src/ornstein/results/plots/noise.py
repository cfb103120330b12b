"""The gradient noise at the draws against what the plan was made for."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from ornstein import theory
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.linalg.operators import as_matrix
from ornstein.planning.plans import Plan
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.noise import Noise, simulated
from ornstein.results.plots.style import DRAWS, POSTERIOR, PREDICTED, logarithmic, panel
from ornstein.results.result import Result


def gradient_noise(result: Result, diagnosis: Diagnosis) -> tuple[Figure, ...]:
    """Planned against measured variances, and the quantiles of a step's noise.

    Nothing where the diagnosis did not measure the noise: for draws that are not iterates of SGD,
    and where matrices would not fit.
    """
    if diagnosis.noise is None or diagnosis.roughest is None:
        return ()
    (first, left), (second, right) = panel(), panel()
    _variances(left, result.plan, diagnosis.noise)
    flat = result.flat.reshape(-1, result.plan.dim)
    with double_precision():
        noise = simulated(result.posterior, result.plan, flat, diagnosis.roughest)
    _quantiles(right, noise)
    return first, second


def along_modes(plan: Plan, noise: Noise) -> tuple[Vector, Vector, Vector]:
    """Planned, measured and plain variances ``N C_S / A``, direction by direction (X8)."""
    V, _ = theory.joint_diagonalisation(
        plan.geometry.hessian.dense(plan.dim), as_matrix(noise.planned)
    )
    scale = plan.num_data * plan.batches.noise_factor
    planned, drawn, plain = (
        scale * np.einsum("ij,ik,kj->j", V, as_matrix(cov), V) for cov in noise
    )
    return planned, drawn, plain


def _variances(ax: Axes, plan: Plan, noise: Noise) -> None:
    planned, drawn, plain = along_modes(plan, noise)
    seen = (planned > 1e-9 * planned.max()) & (drawn > 0)
    planned, drawn, plain = planned[seen], drawn[seen], plain[seen]
    kind = "measured"
    if plan.control_variates:
        kind = "with control variates"
        ax.plot(planned, plain, "x", color="grey", markersize=5, label="plain gradients")
    ax.plot(planned, drawn, "o", color=POSTERIOR, markersize=5, label=kind)
    ends = [planned.min() / 1.5, planned.max() * 1.5] if seen.any() else [1, 2]
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

"""How predictions agree with what happened: rows against a model, divergences against a plan."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from ornstein._base.types import Vector
from ornstein.results.comparison import Comparison
from ornstein.results.plots.style import DRAWS, MOST_POINTS, POSTERIOR, PREDICTED, diagonal, panel

_LEAST_KL = 1e-4  # nats; smaller ones are shown as this


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
    """Measured against predicted divergence of every method, on logarithmic axes."""
    points, floors = [_LEAST_KL], []
    figure, ax = panel((6, 5))
    for entry in found.entries:
        if entry.measured_kl is None or entry.predicted_kl is None:
            continue
        at = max(entry.predicted_kl, _LEAST_KL), max(entry.measured_kl, _LEAST_KL)
        ax.plot(*at, "o", color=POSTERIOR, markersize=5)
        ax.annotate(entry.method, at, textcoords="offset points", xytext=(5, 3), fontsize=8)
        points += at
        floors += [entry.mc_error] if entry.mc_error else []
    ends = [_LEAST_KL, 2 * max(10 * _LEAST_KL, *points)]
    ax.plot(ends, ends, color="grey", linewidth=0.8)
    if floors:
        ax.axhline(min(floors), color=PREDICTED, linestyle=":", label="least Monte-Carlo error")
        ax.legend(frameon=False)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel=f"KL predicted, nats (at least {_LEAST_KL:g} shown)",
        ylabel="KL measured, nats",
        title=title,
    )
    return figure

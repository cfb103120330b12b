"""How predictions agree with rows."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from ornstein._base.types import Vector
from ornstein.results.plots._style import DRAWS, MOST_POINTS, diagonal, panel


def residuals(mean: Vector, sd: Vector, target: Vector) -> tuple[Figure, Figure]:
    """Residuals against predictions, and how often intervals of every mass hold the target."""
    score = (target - mean) / sd
    (first, left), (second, right) = panel(), panel()
    shown = slice(None, None, max(1, len(mean) // MOST_POINTS))
    left.plot(mean[shown], (target - mean)[shown], ".", color=DRAWS, alpha=0.5, markersize=4)
    left.axhline(0, color="grey", linewidth=0.8)
    left.set_xlabel("predicted")
    left.set_ylabel("residual")
    masses = np.linspace(0.05, 0.95, 19)
    held = [np.mean(np.abs(score) <= norm.isf((1 - mass) / 2)) for mass in masses]
    diagonal(right, masses, np.asarray(held))
    right.set_xlabel("mass of the interval")
    right.set_ylabel("share of rows inside")
    return first, second


def reliability(chances: Vector, happened: Vector) -> Figure:
    """How often what was given a chance happened, by tenths of the rows."""
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, 10) if part.size]
    figure, ax = panel()
    said = np.array([chances[part].mean() for part in parts])
    diagonal(ax, said, np.array([happened[part].mean() for part in parts]))
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share that came true")
    return figure

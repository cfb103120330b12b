"""The path of learned hyperparameters, and their final values."""

from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

from ornstein._base.types import Vector
from ornstein.hyper import Learning
from ornstein.hyper.learning import interval
from ornstein.models.hyperparameters import Learnable
from ornstein.results.plots import style

_APART = 4  # hyperparameters that get a picture each
_WIDEST = 1e9  # by which factor a band reaches, at most
_MARKS = {"optimum": ("o", "none"), "plan": ("s", style.POSTERIOR), "draws": ("o", style.CHAINS[0])}


def hyperparameters(learning: Learning, learnable: Learnable) -> tuple[Figure, ...]:
    """The path of each, or of all together where they are many, and their final values.

    Bands and bars reach two posterior standard deviations, by the curvature of the evidence.
    """
    path = np.column_stack([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(learning.path)])
    low, middle, high = interval(learning, learnable)
    positive = _positive(learnable)
    low = np.where(positive, np.maximum(low, middle / _WIDEST), low)
    high = np.where(positive, np.minimum(high, middle * _WIDEST), high)
    if path.shape[1] <= _APART:
        each = zip(path.T, low, middle, high, positive, learning.labels, strict=True)
        return tuple(_one(learning.stages, *facts) for facts in each)
    figure, ax = style.panel()
    ax.plot(path, color=style.POSTERIOR, linewidth=0.8, alpha=0.6)
    ax.set(xlabel="step", ylabel="value")
    shown = slice(0, style.MOST_PARAMETERS)
    bars = low[shown], middle[shown], high[shown]
    final, right = style.forest(learning.labels[shown], *bars, style.HALF[0])
    right.set_xlabel("value and two standard deviations")
    if positive.all():
        style.logarithmic(ax, "y")
        style.logarithmic(right, "x")
    return figure, final


def _positive(learnable: Learnable) -> Vector:
    each = zip(learnable.constraints, learnable.layout.shapes, strict=True)
    return np.concatenate(
        [np.full(int(np.prod(shape)), rule.name == "positive") for rule, shape in each]
    )


def _one(
    stages: tuple[str, ...],
    path: Vector,
    low: float,
    value: float,
    high: float,
    positive: bool,
    label: str,
) -> Figure:
    figure, ax = style.panel((style.HALF[0], 2.6))
    ax.axhspan(low, high, color=style.POSTERIOR, alpha=0.12, linewidth=0)
    ax.axhline(value, color=style.PREDICTED, linewidth=0.8)
    ax.plot(np.arange(len(path)), path, color=style.POSTERIOR, linewidth=0.8)
    dots: dict[str, Any] = {"color": style.POSTERIOR, "markersize": 5}
    for stage, (marker, fill) in _MARKS.items():
        at = [i for i, name in enumerate(stages) if name == stage]
        if at:
            ax.plot(at, path[at], marker, markerfacecolor=fill, label=stage, **dots)
    if positive:
        style.logarithmic(ax, "y")
    style.heading(ax, label)
    ax.set_xlabel("step")
    ax.legend(frameon=False, fontsize=8)
    return figure

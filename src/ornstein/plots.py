"""Pictures of a result. Each function returns a Matplotlib figure; nothing is shown or saved."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ornstein._types import Vector
from ornstein.measure import as_matrix
from ornstein.result import Result

_POSTERIOR, _DRAWS, _PREDICTED = "#1f4e8c", "#2bb3c0", "#c0392b"
_MOST_PARAMETERS = 40
_MOST_POINTS = 2000


def projection(result: Result, title: str = "") -> Figure:
    """Draws and posterior on the posterior's smallest and largest principal component.

    Ellipses hold three standard deviations of the posterior, of the plan's prediction and of the
    draws.
    """
    cov = np.linalg.inv(as_matrix(result.plan.posterior_precision))
    _, vectors = np.linalg.eigh(cov)
    axes = vectors[:, [0, -1]]
    flat = (result.flat.reshape(-1, result.plan.dim) - result.plan.center) @ axes
    figure = Figure(figsize=(5.5, 4.5), layout="constrained")
    ax: Axes = figure.subplots()
    shown = flat[:: max(1, len(flat) // _MOST_POINTS)]
    ax.plot(*shown.T, ".", color=_DRAWS, alpha=0.35, markersize=3, label="draws")
    predicted = as_matrix(result.plan.predicted_cov)
    measured = np.cov(result.flat.reshape(-1, result.plan.dim), rowvar=False)
    for matrix, colour, style, label in (
        (cov, _POSTERIOR, "-", "posterior"),
        (predicted, _PREDICTED, "--", "predicted"),
        (np.atleast_2d(measured), "black", ":", "measured"),
    ):
        ax.plot(*_ellipse(axes.T @ matrix @ axes), color=colour, linestyle=style, label=label)
    ax.set_xlabel("smallest principal component")
    ax.set_ylabel("largest principal component")
    ax.set_title(title)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


def _ellipse(cov: Vector, deviations: float = 3.0) -> Vector:
    values, vectors = np.linalg.eigh(cov)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return deviations * vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle)


def intervals(result: Result, title: str = "", mass: float = 0.9) -> Figure:
    """Mean and central interval of every parameter (the first forty)."""
    count = min(result.plan.dim, _MOST_PARAMETERS)
    flat = result.flat.reshape(-1, result.plan.dim)[:, :count]
    low, high = np.quantile(flat, [(1 - mass) / 2, (1 + mass) / 2], axis=0)
    figure = Figure(figsize=(6, 0.28 * count + 1.2), layout="constrained")
    ax: Axes = figure.subplots()
    rows = np.arange(count)[::-1]
    ax.hlines(rows, low, high, color=_POSTERIOR, linewidth=2)
    ax.plot(flat.mean(axis=0), rows, "o", color=_POSTERIOR, markersize=4)
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set_yticks(rows, [label.replace("$", r"\$") for label in result.plan.labels[:count]])
    ax.set_xlabel(f"mean and {mass:.0%} interval")
    ax.set_title(title)
    return figure


def covariances(result: Result, title: str = "") -> Figure:
    """Predicted and measured covariance in the posterior's own scale: exact draws show identity."""
    root = np.linalg.cholesky(as_matrix(result.plan.posterior_precision))
    flat = result.flat.reshape(-1, result.plan.dim)
    measured = np.atleast_2d(np.cov(flat, rowvar=False))
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    pairs = (("predicted", as_matrix(result.plan.predicted_cov)), ("measured", measured))
    for ax, (name, cov) in zip(panels, pairs, strict=True):
        image = ax.imshow(root.T @ cov @ root, vmin=-1.5, vmax=1.5, cmap="RdBu_r")
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
    figure.colorbar(image, ax=list(panels), label="posterior variance = 1")
    figure.suptitle(title)
    return figure

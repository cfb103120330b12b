"""Draws and posterior on two axes, with ellipses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ornstein._base.types import Vector
from ornstein.results.plots.style import DRAWS, LEGEND, MOST_POINTS, POSTERIOR, PREDICTED, panel
from ornstein.results.result import Result


def projection(result: Result, title: str = "") -> Figure:
    """Draws and posterior on the posterior's smallest and largest principal component.

    Ellipses contain three standard deviations of the posterior, of the plan's prediction and of
    the draws.
    """
    figure, ax = panel((5.5, 4.5))
    _project(ax, result)
    ax.set_title(title)
    figure.legend(*ax.get_legend_handles_labels(), **LEGEND)
    return figure


def projections(
    results: Sequence[Sequence[Result]], rows: Sequence[str], columns: Sequence[str]
) -> Figure:
    """The same for a grid of results."""
    size = (4.2 * len(columns) + 0.4, 3.2 * len(rows) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for i, line in enumerate(results):
        for j, result in enumerate(line):
            ax: Axes = grid[i][j]
            _project(ax, result)
            ax.set_title(f"{rows[i]}, {columns[j]}", fontsize="medium")
    figure.legend(*grid[0][0].get_legend_handles_labels(), **LEGEND)
    return figure


def projected(result: Result) -> tuple[Vector, Vector, Vector]:
    """2 x 2 covariances of posterior, prediction and draws along the projection's axes."""
    covs, _ = _projected(result)
    return covs


def _projected(result: Result) -> tuple[tuple[Vector, Vector, Vector], Vector]:
    """The three covariances, and the draws around the optimum, along the axes."""
    result.require_draws()
    result.plan.refuse_matrices("projection")
    posterior = np.linalg.inv(result.plan.geometry.precision.dense(result.plan.dim))
    axes = np.linalg.eigh(posterior)[1][:, [0, -1]]
    flat = result.flat.reshape(-1, result.plan.dim)
    covs = posterior, result.plan.predicted.dense(result.plan.dim), np.atleast_2d(np.cov(flat.T))
    one, other, drawn = (axes.T @ cov @ axes for cov in covs)
    return (one, other, drawn), (flat - result.plan.center) @ axes


def _project(ax: Axes, result: Result) -> None:
    (posterior, predicted, measured), flat = _projected(result)
    shown = flat[:: max(1, len(flat) // MOST_POINTS)]
    normal = np.random.default_rng(0).normal(size=(len(shown), 2))
    exact = normal @ np.linalg.cholesky(posterior).T
    dots: dict[str, Any] = {"marker": ".", "linestyle": "", "alpha": 0.3, "markersize": 3}
    ax.plot(*exact.T, color=POSTERIOR, label="posterior draws", **dots)
    ax.plot(*shown.T, color=DRAWS, label="draws", **dots)
    for matrix, colour, style, label in (
        (posterior, POSTERIOR, "-", "posterior"),
        (predicted, PREDICTED, "--", "predicted"),
        (measured, "black", ":", "measured"),
    ):
        ax.plot(*_ellipse(matrix), color=colour, linestyle=style, label=label)
    ax.locator_params(axis="x", nbins=5)
    ax.set(xlabel="smallest principal component", ylabel="largest principal component")


def _ellipse(cov: Vector, deviations: float = 3.0) -> Vector:
    values, vectors = np.linalg.eigh(cov)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return deviations * vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle)

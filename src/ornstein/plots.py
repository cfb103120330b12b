"""Pictures of a result. Each function returns a Matplotlib figure; nothing is shown or saved."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from ornstein._check import choice
from ornstein._types import Vector
from ornstein.compare import Comparison
from ornstein.operators import as_matrix
from ornstein.result import Result

_POSTERIOR, _DRAWS, _PREDICTED = "#1f4e8c", "#2bb3c0", "#c0392b"
_MOST_PARAMETERS = 40
_MOST_POINTS = 2000
_MOST_TRACES = 5
_LEGEND: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "frameon": False}


def projection(result: Result, title: str = "") -> Figure:
    """Draws and posterior on the posterior's smallest and largest principal component.

    Ellipses hold three standard deviations of the posterior, of the plan's prediction and of the
    draws.
    """
    figure = Figure(figsize=(5.5, 4.5), layout="constrained")
    ax: Axes = figure.subplots()
    _project(ax, result)
    ax.set_title(title)
    figure.legend(*ax.get_legend_handles_labels(), **_LEGEND)
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
    figure.legend(*grid[0][0].get_legend_handles_labels(), **_LEGEND)
    return figure


def projected(result: Result) -> tuple[Vector, Vector, Vector]:
    """2 x 2 covariances of posterior, prediction and draws along the projection's axes."""
    axes = _axes(result)
    flat = result.flat.reshape(-1, result.plan.dim)
    measured = np.atleast_2d(np.cov(flat, rowvar=False))
    covs = _posterior_cov(result), as_matrix(result.plan.predicted_cov), measured
    posterior, predicted, drawn = (axes.T @ cov @ axes for cov in covs)
    return posterior, predicted, drawn


def _posterior_cov(result: Result) -> Vector:
    return np.linalg.inv(as_matrix(result.plan.posterior_precision))


def _axes(result: Result) -> Vector:
    """The posterior's smallest and largest principal component, (D, 2)."""
    _, vectors = np.linalg.eigh(_posterior_cov(result))
    return vectors[:, [0, -1]]


def _project(ax: Axes, result: Result) -> None:
    posterior, predicted, measured = projected(result)
    flat = (result.flat.reshape(-1, result.plan.dim) - result.plan.center) @ _axes(result)
    shown = flat[:: max(1, len(flat) // _MOST_POINTS)]
    normal = np.random.default_rng(0).normal(size=(len(shown), 2))
    exact = normal @ np.linalg.cholesky(posterior).T
    dots: dict[str, Any] = {"marker": ".", "linestyle": "", "alpha": 0.3, "markersize": 3}
    ax.plot(*exact.T, color=_POSTERIOR, label="posterior draws", **dots)
    ax.plot(*shown.T, color=_DRAWS, label="draws", **dots)
    for matrix, colour, style, label in (
        (posterior, _POSTERIOR, "-", "posterior"),
        (predicted, _PREDICTED, "--", "predicted"),
        (measured, "black", ":", "measured"),
    ):
        ax.plot(*_ellipse(matrix), color=colour, linestyle=style, label=label)
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("smallest principal component")
    ax.set_ylabel("largest principal component")


def _ellipse(cov: Vector, deviations: float = 3.0) -> Vector:
    values, vectors = np.linalg.eigh(cov)
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return deviations * vectors @ (np.sqrt(np.maximum(values, 0.0))[:, None] * circle)


def plain(text: str) -> str:
    """Text that Matplotlib takes for no formula."""
    return text.replace("$", r"\$")


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
    ax.set_yticks(rows, [plain(label) for label in result.plan.labels[:count]])
    ax.set_xlabel(f"mean and {mass:.0%} interval")
    ax.set_title(title)
    return figure


def covariances(result: Result, title: str = "", scale: str = "posterior") -> Figure:
    """Predicted and measured covariance, side by side.

    On the posterior's own scale, where exact draws show the identity, or in the predicted standard
    deviations (``scale="predicted"``), where the predicted matrix shows correlations.
    """
    choice("scale", scale, ("posterior", "predicted"))
    predicted = as_matrix(result.plan.predicted_cov)
    if scale == "posterior":
        root = np.linalg.cholesky(as_matrix(result.plan.posterior_precision))
    else:
        root = np.diag(1 / np.sqrt(np.diag(predicted)))
    flat = result.flat.reshape(-1, result.plan.dim)
    measured = np.atleast_2d(np.cov(flat, rowvar=False))
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for ax, (name, cov) in zip(
        panels, (("predicted", predicted), ("measured", measured)), strict=True
    ):
        image = ax.imshow(root.T @ cov @ root, vmin=-1.5, vmax=1.5, cmap="RdBu_r")
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
    figure.colorbar(image, ax=list(panels), label=f"{scale} variance = 1")
    figure.suptitle(title)
    return figure


def traces(result: Result, title: str = "") -> Figure:
    """Traces and ranks, chain by chain, of the parameters with the fewest effective draws."""
    chains, draws, dim = result.flat.shape
    shown = _least_effective(result.flat, min(dim, _MOST_TRACES))
    figure = Figure(figsize=(8, 1.5 * len(shown) + 0.4), layout="constrained")
    grid = figure.subplots(len(shown), 2, squeeze=False, width_ratios=(3, 2))
    step = max(1, draws // _MOST_POINTS)
    bins = np.linspace(0, chains * draws, 21)
    for (line, ranked), index in zip(grid, shown, strict=True):
        values = result.flat[..., index]
        ranks = values.reshape(-1).argsort().argsort().reshape(values.shape)
        for chain in range(chains):
            line.plot(values[chain, ::step], linewidth=0.5, alpha=0.8)
            ranked.hist(ranks[chain], bins, histtype="step", linewidth=1)
        line.set_ylabel(plain(result.plan.labels[index])[:24], fontsize=8)
        ranked.set_yticks([])
    grid[0][0].set_title("trace")
    grid[0][1].set_title("ranks")
    figure.suptitle(title)
    return figure


def _least_effective(flat: Vector, count: int) -> list[int]:
    """Parameters whose neighbouring draws are most alike."""
    centred = flat - flat.mean(axis=(0, 1))
    spread = np.maximum((centred**2).mean(axis=(0, 1)), np.finfo(float).tiny)
    alike = (centred[:, 1:] * centred[:, :-1]).mean(axis=(0, 1)) / spread
    return [int(index) for index in np.argsort(-alike, kind="stable")[:count]]


def residuals(mean: Vector, sd: Vector, target: Vector, title: str = "") -> Figure:
    """Residuals against predictions, and how often intervals of every mass hold the target."""
    score = (target - mean) / sd
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    shown = slice(None, None, max(1, len(mean) // _MOST_POINTS))
    left.plot(mean[shown], (target - mean)[shown], ".", color=_DRAWS, alpha=0.4, markersize=3)
    left.axhline(0, color="grey", linewidth=0.8)
    left.set_xlabel("predicted")
    left.set_ylabel("residual")
    masses = np.linspace(0.05, 0.95, 19)
    held = [np.mean(np.abs(score) <= norm.isf((1 - mass) / 2)) for mass in masses]
    _diagonal(right, masses, np.asarray(held))
    right.set_xlabel("mass of the interval")
    right.set_ylabel("share of rows inside")
    figure.suptitle(title)
    return figure


def reliability(chances: Vector, happened: Vector, title: str = "") -> Figure:
    """How often what was given a chance happened, by tenths of the rows."""
    order = np.argsort(chances, kind="stable")
    parts = [part for part in np.array_split(order, 10) if part.size]
    figure = Figure(figsize=(4.6, 3.8), layout="constrained")
    ax: Axes = figure.subplots()
    said = np.array([chances[part].mean() for part in parts])
    _diagonal(ax, said, np.array([happened[part].mean() for part in parts]))
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("share that came true")
    ax.set_title(title)
    return figure


def _diagonal(ax: Axes, x: Vector, y: Vector) -> None:
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    ax.plot(x, y, "o-", color=_POSTERIOR, markersize=4)


def comparison(found: Comparison, title: str = "") -> Figure:
    """Measured against predicted divergence of every method, on logarithmic axes."""
    known = [
        entry
        for entry in found.entries
        if entry.measured_kl is not None and entry.predicted_kl is not None
    ]
    figure = Figure(figsize=(6, 5), layout="constrained")
    ax: Axes = figure.subplots()
    low = 1e-4
    for entry in known:
        x, y = max(entry.predicted_kl or 0.0, low), max(entry.measured_kl or 0.0, low)
        ax.plot([x], [y], "o", color=_POSTERIOR, markersize=5)
        ax.annotate(entry.method, (x, y), textcoords="offset points", xytext=(5, 3), fontsize=8)
    high = max([10 * low, *(max(e.predicted_kl or 0, e.measured_kl or 0) for e in known)])
    ax.plot([low, 2 * high], [low, 2 * high], color="grey", linewidth=0.8)
    floors = [entry.mc_error for entry in known if entry.mc_error]
    if floors:
        ax.axhline(min(floors), color=_PREDICTED, linestyle=":", label="least Monte-Carlo error")
        ax.legend(frameon=False)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(f"KL predicted, nats (at least {low:g} shown)")
    ax.set_ylabel("KL measured, nats")
    ax.set_title(title)
    return figure

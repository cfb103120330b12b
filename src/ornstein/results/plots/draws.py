"""What the draws are: intervals, traces and ranks, covariances."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from ornstein._base.checks import choice
from ornstein._base.types import Vector
from ornstein.results.arviz import ess
from ornstein.results.plots import style
from ornstein.results.result import Result

_MOST_TRACES = 3
_TRACE_POINTS = 400
_LOW = (style.HALF[0], 1.7)


def intervals(result: Result, title: str = "", mass: float = 0.9) -> Figure:
    """Mean and central interval of every parameter, or of the forty most clearly not zero."""
    result.require_draws()
    flat = result.flat.reshape(-1, result.plan.dim)
    shown = _clearest(flat)
    low, high = np.quantile(flat[:, shown], [(1 - mass) / 2, (1 + mass) / 2], axis=0)
    labels = [result.plan.labels[i] for i in shown]
    figure, ax = style.forest(labels, low, flat[:, shown].mean(axis=0), high)
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set(xlabel=f"mean and {mass:.0%} interval", title=title)
    return figure


def caterpillar(table: pd.DataFrame, named: bool, title: str = "") -> Figure:
    """Means and intervals of the lines of a table, one below the other; many are not named.

    ``table`` has ``mean`` and a ``low`` and ``high`` end, as summaries have.
    """
    ends = [str(name) for name in table.columns if str(name).startswith(("low ", "high "))][:2]
    low, middle, high = (table[name].to_numpy(float) for name in (ends[0], "mean", ends[1]))
    if named:
        figure, ax = style.forest([str(name) for name in table.index], low, middle, high)
    else:
        figure, ax = style.panel((4.6, 6.0))
        rows = np.arange(len(table))[::-1]
        some = np.unique(np.linspace(0, len(table) - 1, style.MOST_POINTS).astype(int))
        ax.hlines(rows[some], low[some], high[some], color=style.DRAWS, linewidth=0.5, alpha=0.5)
        ax.plot(middle[some], rows[some], ".", color=style.POSTERIOR, markersize=2)
        ax.set_yticks([])
    ax.axvline(0, color="grey", linewidth=0.8)
    ax.set_xlabel(f"mean and {ends[0].removeprefix('low ')} interval")
    style.heading(ax, title)
    return figure


def _clearest(flat: Vector) -> npt.NDArray[np.intp]:
    """Numbers of the parameters to show, in their own order."""
    if flat.shape[1] <= style.MOST_PARAMETERS:
        return np.arange(flat.shape[1])
    clear = np.abs(flat.mean(axis=0)) / np.maximum(flat.std(axis=0), np.finfo(float).tiny)
    return np.sort(np.argsort(-clear, kind="stable")[: style.MOST_PARAMETERS])


def covariances(result: Result, title: str = "", scale: str = "posterior") -> Figure:
    """Predicted and measured covariance, side by side.

    On the posterior's own scale, where exact draws show the identity, or in the predicted standard
    deviations (``scale="predicted"``), where the predicted matrix shows correlations.
    """
    choice("scale", scale, ("posterior", "predicted"))
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for ax, (name, cov) in zip(panels, _scaled_covariances(result, scale).items(), strict=True):
        image = _map(ax, name, cov)
    figure.colorbar(image, ax=list(panels), label=f"{scale} variance = 1")
    figure.suptitle(title)
    return figure


def covariance_maps(result: Result) -> tuple[Figure, ...]:
    """Predicted and measured covariance on the posterior's own scale, a picture each."""
    figures = []
    for name, cov in _scaled_covariances(result, "posterior").items():
        figure, ax = style.panel()
        image = _map(ax, name, cov)
        figure.colorbar(image, label="posterior variance = 1")
        figures.append(figure)
    return tuple(figures)


def _scaled_covariances(result: Result, scale: str) -> dict[str, Vector]:
    result.plan.refuse_matrices("covariances")
    result.require_draws()
    predicted = result.plan.predicted.dense(result.plan.dim)
    if scale == "posterior":
        root = np.linalg.cholesky(result.plan.geometry.precision.dense(result.plan.dim))
    else:
        root = np.diag(1 / np.sqrt(np.diag(predicted)))
    flat = result.flat.reshape(-1, result.plan.dim)
    measured = np.atleast_2d(np.cov(flat, rowvar=False))
    return {"predicted": root.T @ predicted @ root, "measured": root.T @ measured @ root}


def _map(ax: Axes, name: str, cov: Vector) -> AxesImage:
    image = ax.imshow(cov, vmin=-1.5, vmax=1.5, cmap=_clear_middle())
    ax.set(title=name, xticks=[], yticks=[])
    return image


def _clear_middle() -> ListedColormap:
    """Blue to red, with nothing at zero: it looks right on any background."""
    share = np.linspace(-1, 1, 255)
    rgb = np.where(share[:, None] < 0, to_rgb("#2166ac"), to_rgb("#b2182b"))
    return ListedColormap(np.column_stack([rgb, np.abs(share) ** 0.8]))


def spread(result: Result) -> Figure:
    """Measured over predicted standard deviation of parameters, with two Monte-Carlo errors."""
    result.require_draws()
    flat = result.flat.reshape(-1, result.plan.dim)
    shown = _clearest(flat)
    expected = np.sqrt(result.plan.predicted.variances(result.plan.dim))[shown]
    ratio = flat[:, shown].std(axis=0, ddof=1) / expected
    error = 2 * ratio / np.sqrt(2 * ess(result.flat[..., shown], "sd"))
    labels = [result.plan.labels[i] for i in shown]
    figure, ax = style.forest(labels, ratio - error, ratio, ratio + error, style.HALF[0])
    ax.axvline(1, color=style.PREDICTED, linewidth=1)
    ax.set_xlabel("sd over prediction")
    return figure


def traces(result: Result) -> tuple[Figure, ...]:
    """Trace and ranks by chain, a picture each, where effective draws are fewest."""
    result.require_draws()
    return traces_of(result.flat, result.plan.labels)


def traces_of(flat: Vector, labels: Sequence[str]) -> tuple[Figure, ...]:
    """The same of draws (chains, draws, D) of parameters with these names."""
    chains, draws, dim = flat.shape
    step = max(1, draws // _TRACE_POINTS)
    bins = np.linspace(0, chains * draws, 21)
    figures = []
    for index in _least_effective(flat, min(dim, _MOST_TRACES)):
        values = flat[..., index]
        ranks = values.reshape(-1).argsort().argsort().reshape(values.shape)
        (left, trace), (right, ranked) = style.panel(_LOW), style.panel(_LOW)
        for chain in range(chains):
            colour = style.CHAINS[chain % len(style.CHAINS)]
            at = np.arange(0, draws, step)
            trace.plot(at, values[chain, ::step], linewidth=0.6, alpha=0.8, color=colour)
            counts, _ = np.histogram(ranks[chain], bins)
            ranked.stairs(counts, bins, baseline=None, linewidth=1.2, color=colour)
        style.heading(trace, labels[index])
        style.heading(ranked, "ranks by chain")
        ranked.set_yticks([])
        ranked.axhline(draws / 20, color="grey", linewidth=0.8)
        ranked.set_ylim(bottom=0)
        figures += [left, right]
    return tuple(figures)


def _least_effective(flat: Vector, count: int) -> list[int]:
    """Parameters whose neighbouring draws are most alike."""
    centred = flat - flat.mean(axis=(0, 1))
    spread = np.maximum((centred**2).mean(axis=(0, 1)), np.finfo(float).tiny)
    alike = (centred[:, 1:] * centred[:, :-1]).mean(axis=(0, 1)) / spread
    return [int(index) for index in np.argsort(-alike, kind="stable")[:count]]

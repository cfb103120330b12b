"""Targets that were observed, on the band of simulated ones."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ornstein._base.types import Vector
from ornstein.results.plots.style import DRAWS, POSTERIOR, PREDICTED, heading, panel, plain, short
from ornstein.results.predictive_checks import Replications

_BINS = 40
_MOST_COUNTS = 40  # with a bar of their own
_MOST_CLASSES = 20
_BAND = (5, 50, 95)  # percentiles of simulated shares
_OUTER = (0.2, 99.8)  # percentiles of all targets between which densities are shown


def predictive_checks(found: Replications) -> tuple[Figure, ...]:
    """The distribution of the targets, and the statistics beside their simulated values.

    Measurements as densities, counts as a rootogram (square roots of frequencies, so that rare
    ones are seen), classes as bars; bands have the middle 90% of simulations.
    """
    figure, ax = panel()
    if found.classes:
        _classes(ax, found)
    elif found.discrete:
        _rootogram(ax, found)
    else:
        _densities(ax, found)
    ax.legend(frameon=False, fontsize=8)
    return figure, _statistics(found)


def _shares(found: Replications, edges: Vector) -> tuple[Vector, Vector]:
    """Of the rows in every bin: observed, and (percentiles, bins) of what draws simulate."""
    rows = len(found.observed)
    made = np.stack([np.histogram(line, edges)[0] for line in found.simulated]) / rows
    return np.histogram(found.observed, edges)[0] / rows, np.percentile(made, _BAND, axis=0)


def _densities(ax: Axes, found: Replications) -> None:
    ends = np.percentile(np.concatenate([found.observed, found.simulated[0]]), _OUTER)
    low, high = float(ends[0]), float(ends[1])
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    observed, (least, middle, most) = _shares(found, edges)
    width = edges[1] - edges[0]
    ax.stairs(most / width, edges, baseline=least / width, fill=True, color=DRAWS, alpha=0.3)
    ax.stairs(middle / width, edges, color=DRAWS, label="simulated, 90%")
    ax.stairs(observed / width, edges, color=POSTERIOR, linewidth=1.5, label="observed")
    ax.set(xlabel=plain(short(found.target)), ylabel="density")


def _rootogram(ax: Axes, found: Replications) -> None:
    top = int(max(found.observed.max(), np.percentile(found.simulated, 99.8)))
    step = -(-(top + 1) // _MOST_COUNTS)
    edges = np.arange(0, top + 1 + step, step) - 0.5
    observed, band = _shares(found, edges)
    middle = (edges[1:] + edges[:-1]) / 2
    roots = np.sqrt(len(found.observed) * observed)
    ax.bar(middle, roots, width=0.9 * step, color=POSTERIOR, alpha=0.35, label="observed")
    _bars(ax, middle, np.sqrt(len(found.observed) * band))
    unit = "" if step == 1 else f", {step} together"
    ax.set(xlabel=plain(short(found.target) + unit), ylabel="square root of rows")


def _classes(ax: Axes, found: Replications) -> None:
    shown = found.classes[:_MOST_CLASSES]
    observed, band = _shares(found, np.arange(len(shown) + 1) - 0.5)
    at = np.arange(float(len(shown)))
    ax.bar(at, observed, color=POSTERIOR, alpha=0.35, label="observed")
    _bars(ax, at, band)
    crowded = sum(map(len, shown)) > 24
    names = [plain(short(name, 14)) for name in shown]
    ax.set_xticks(at, names, rotation=45 if crowded else 0)
    ax.set(xlabel=plain(short(found.target)), ylabel="share of rows")


def _bars(ax: Axes, at: Vector, band: Vector) -> None:
    ax.vlines(at, band[0], band[2], color=PREDICTED, linewidth=2, label="simulated, 90%")
    ax.plot(at, band[1], "o", color=PREDICTED, markersize=3)


def _statistics(found: Replications) -> Figure:
    """A histogram for each of at most six statistics, with what was observed."""
    statistics = list(found.statistics.items())[:6]
    columns = min(2, len(statistics))
    lines = -(-len(statistics) // columns)
    figure = Figure(figsize=(4.1, max(3.3, 1.5 * lines)), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for ax, (name, (seen, made)) in zip(grid.flat, statistics, strict=False):
        ax.hist(made, bins=20, color=DRAWS, alpha=0.6)
        ax.axvline(seen, color=PREDICTED, linewidth=1.5)
        ax.set_yticks([])
        ax.tick_params(labelsize=7)
        ax.locator_params(axis="x", nbins=3)
        heading(ax, name)
    for ax in grid.flat[len(statistics) :]:
        ax.set_visible(False)
    return figure

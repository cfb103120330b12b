"""Ranks of true parameters among draws, against what chance makes of uniform ones."""

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from ornstein.results.calibration import Calibration
from ornstein.results.plots import style

_PANELS = 9
_COLUMNS = 3
_PER_BIN = 20  # runs
_BINS = 16  # at most
_OUTSIDE = 0.05  # chance that any bar of a picture leaves the band


def calibration(found: Calibration, title: str = "") -> Figure:
    """Histograms of ranks, at most nine, those furthest off first.

    The band contains all bars of right draws in 95 of 100 pictures (binomial counts, Bonferroni).
    Bars high in the middle mean intervals too wide, high at both ends too narrow, high at one end
    draws too low (right) or too high (left).
    """
    shown = np.argsort(found.p_values, kind="stable")[:_PANELS]
    bins = int(np.clip(found.runs // _PER_BIN, 4, _BINS))
    tail = _OUTSIDE / (2 * bins * len(shown))
    low, high = binom.ppf([tail, 1 - tail], found.runs, 1 / bins)
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(2.8 * columns, 2.0 * lines + 0.4), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    edges = np.linspace(0, 1, bins + 1)
    for ax, index in zip(grid.flat, shown, strict=False):
        counts, _ = np.histogram(found.ranks[:, index], edges)
        ax.axhspan(low, high, color="grey", alpha=0.2, linewidth=0)
        ax.axhline(found.runs / bins, color="grey", linewidth=0.8)
        ax.stairs(counts, edges, fill=True, color=style.DRAWS, alpha=0.8)
        ax.set(xlim=(0, 1), xticks=[0, 0.5, 1])
        ax.set_ylim(bottom=0)
        style.heading(ax, found.labels[index])
    for ax in grid.flat[len(shown) :]:
        ax.set_visible(False)
    figure.supxlabel("share of draws below the true value", fontsize="medium")
    figure.suptitle(title)
    return figure

"""Colours, sizes and shapes that pictures share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ornstein._base.types import Vector

POSTERIOR, DRAWS, PREDICTED = "#1f4e8c", "#2bb3c0", "#c0392b"
CHAINS = ("#3b7dd8", "#e08a2b", "#2a9d6f", "#b05cc6")
HALF = (4.1, 3.3)  # inches: two fit beside each other on a page, one on a phone
MOST_PARAMETERS = 40
MOST_POINTS = 2000
LEGEND: dict[str, Any] = {"loc": "outside lower center", "ncols": 5, "frameon": False}


def plain(text: str) -> str:
    """Text that Matplotlib takes for no formula."""
    return text.replace("$", r"\$")


def short(text: str, most: int = 28) -> str:
    """A long name without its middle."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[: most - 1 - half]}…{text[-half:]}"


def panel(size: tuple[float, float] = HALF) -> tuple[Figure, Axes]:
    """A picture with one panel."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def logarithmic(ax: Axes, *axes: str) -> None:
    """Logarithmic axes, "x" or "y", with few plain numbers beside them."""
    for name in axes:
        ax.set(**{f"{name}scale": "log"})
        axis = ax.xaxis if name == "x" else ax.yaxis
        low, high = axis.get_view_interval()
        decades = np.log10(high / low) if low > 0 else 1.0
        subs = (1.0,) if decades > 2 else (1.0, 2.0, 5.0) if decades > 0.5 else range(1, 10)
        axis.set_major_locator(LogLocator(subs=subs, numticks=5 if decades > 5 else 8))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def forest(
    labels: Sequence[str], low: Vector, middle: Vector, high: Vector, width: float = 4.6
) -> tuple[Figure, Axes]:
    """A picture with one bar and dot per label, the first on top."""
    figure, ax = panel((width, 0.26 * len(labels) + 0.9))
    rows = np.arange(len(labels))[::-1]
    ax.hlines(rows, low, high, color=POSTERIOR, linewidth=2)
    ax.plot(middle, rows, "o", color=POSTERIOR, markersize=4)
    ax.set_yticks(rows, [plain(short(label)) for label in labels])
    ax.set_ylim(-0.7, len(labels) - 0.3)
    return figure, ax


def heading(ax: Axes, text: str) -> None:
    """A small title on the left."""
    ax.set_title(plain(short(text, 40)), fontsize=9, loc="left")


def diagonal(ax: Axes, x: Vector, y: Vector) -> None:
    """Points that should lie on the line from 0 to 1."""
    ax.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    ax.plot(x, y, "o-", color=POSTERIOR, markersize=4)

"""Curves and points of conditional effects, one picture a term."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ornstein.results.plots.style import CHAINS, LEGEND, POSTERIOR, panel, plain, short

MOST_TERMS = 8
"""Pictures in a report: of the terms along which the target changes most."""

_MOST_CURVES = 6
_MOST_LEVELS = 20
_ROTATED = 24  # letters of all levels, from which they are written at an angle


def conditional_effects(found: pd.DataFrame, target: str = "") -> tuple[Figure, ...]:
    """One picture for every term of ``model.conditional_effects()``: means and intervals.

    Numbers make curves with bands, labels points with bars; a second column of an interaction, and
    the classes of a target, have colours of their own.
    """
    terms = found["term"].unique()
    return tuple(_picture(found[found["term"] == term], term, target) for term in terms)


def steepest_terms(found: pd.DataFrame, most: int = MOST_TERMS) -> list[str]:
    """The terms along which the expected target changes most, in the table's order."""
    spans = found.groupby("term", sort=False)["mean"].agg(lambda mean: mean.max() - mean.min())
    largest = set(spans.sort_values(ascending=False, kind="stable").index[:most])
    return [str(term) for term in spans.index if term in largest]


def _picture(found: pd.DataFrame, term: str, target: str) -> Figure:
    figure, ax = panel()
    keys = [name for name in ("outcome", "beside") if name in found]
    groups = _groups(found, keys)
    bars = isinstance(found["value"].iloc[0], str)
    for number, (label, part) in enumerate(groups[:_MOST_CURVES]):
        colour = POSTERIOR if len(groups) == 1 else CHAINS[number % len(CHAINS)]
        style = "-" if number < len(CHAINS) else "--"
        if bars:
            _points(ax, part.iloc[:_MOST_LEVELS], colour, label, 0.12 * number)
        else:
            _curve(ax, part, colour, style, label)
    first, *second = term.split(":") if groups[0][1]["beside"].notna().any() else [term]
    ax.set(xlabel=plain(short(first)), ylabel=plain(short(target)))
    if len(groups) > 1:
        title = plain(short(second[0])) if second else None
        figure.legend(**{**LEGEND, "ncols": 3}, title=title, fontsize=8)
    return figure


def _groups(found: pd.DataFrame, keys: list[str]) -> list[tuple[str, pd.DataFrame]]:
    """Parts that have a colour each, with their names."""
    parts: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(found[keys].itertuples(index=False, name=None)):
        parts.setdefault(tuple(_word(value) for value in key if value is not None), []).append(
            place
        )
    return [(", ".join(name), found.iloc[places]) for name, places in parts.items()]


def _word(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _ends(part: pd.DataFrame) -> tuple[Any, Any]:
    low, high = part.columns[-2:]
    return part[low].to_numpy(float), part[high].to_numpy(float)


def _curve(ax: Axes, part: pd.DataFrame, colour: str, style: str, label: str) -> None:
    numbers = isinstance(part["value"].iloc[0], float)
    x = part["value"].to_numpy(float) if numbers else pd.to_datetime(part["value"]).to_numpy()
    ax.fill_between(x, *_ends(part), color=colour, alpha=0.2, linewidth=0)
    ax.plot(x, part["mean"], style, color=colour, label=plain(short(label, 18)))
    if not numbers:
        ax.tick_params(axis="x", rotation=30)


def _points(ax: Axes, part: pd.DataFrame, colour: str, label: str, shift: float) -> None:
    at = np.arange(len(part)) + shift
    ax.vlines(at, *_ends(part), color=colour, linewidth=2)
    ax.plot(at, part["mean"], "o", color=colour, markersize=4, label=plain(short(label, 18)))
    names = [plain(short(str(value), 14)) for value in part["value"]]
    crowded = sum(map(len, names)) > _ROTATED
    ax.set_xticks(np.arange(len(part)), names, rotation=45 if crowded else 0)

"""Figures of the results, in colours that colour-blind readers tell apart."""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Section = dict[str, Any]

# Okabe and Ito's palette.
_BLUE, _SKY, _ORANGE, _GREEN = "#0072B2", "#56B4E9", "#E69F00", "#009E73"
_RED, _PINK, _BLACK, _GREY = "#D55E00", "#CC79A7", "#000000", "#999999"
STYLE = {
    "ours": (_BLUE, "o"),
    "ours_plain": (_SKY, "s"),
    "nuts": (_RED, "^"),
    "nuts_given_metric": (_ORANGE, "v"),
    "sgld": (_PINK, "D"),
    "laplace": (_BLACK, "*"),
    "svi": (_GREEN, "P"),
}
_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "ornstein",
    "legend.frameon": False,
}


def draw(name: str, section: Section, folder: Path) -> Path:
    """Draw a section into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    with matplotlib.rc_context(_SETTINGS):
        figure = {"rates": _rates, "answer": _answer, "growth": _growth}[name](section)
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    return path


def _rates(section: Section) -> Figure:
    """Steps per second of every contestant, a panel per workload."""
    workloads = section["workloads"]
    figure, axes = plt.subplots(1, len(workloads), figsize=(3.1 * len(workloads), 2.6))
    for axis, (name, work) in zip(axes, workloads.items(), strict=True):
        rates = {which: row["median"] for which, row in work["rates"].items()}
        for which, foreign in section.get("foreign", {}).items():
            if name in foreign.get("rates", {}):
                rates[which] = foreign["rates"][name]
        names = sorted(rates, key=lambda which: rates[which])
        colours = [_rate_colour(which) for which in names]
        axis.barh(names, [rates[which] for which in names], color=colours)
        axis.set(xscale="log", title=f"{name}: N={work['rows']:,}, S={work['batch_size']:,}")
        axis.grid(axis="y", visible=False)
        axis.set_xlabel("steps per second")
    figure.tight_layout()
    return figure


def _rate_colour(which: str) -> str:
    if which.startswith("limit"):
        return _GREY
    return _BLUE if which.split()[0] in ("sgd", "exact") else _ORANGE


def _answer(section: Section) -> Figure:
    """Seconds to the answer; hollow where it was not reached in the time spent."""
    problems = section["problems"]
    figure, axis = plt.subplots(figsize=(7.5, 0.9 + 0.75 * len(problems)))
    shown: set[str] = set()
    for height, problem in enumerate(problems.values()):
        for row, (name, record) in enumerate(problem["records"].items()):
            spent = record["setup_seconds"] + record["sampling_seconds"]
            reached = record["seconds_to_kl"]
            if reached is None and spent == 0:
                continue
            colour, marker = STYLE[name]
            label = section["contestants"][name]
            axis.scatter(
                spent if reached is None else reached,
                height + 0.09 * (row - 3),
                marker=marker,
                s=45,
                facecolor="none" if reached is None else colour,
                edgecolor=colour,
                label=label if label not in shown else None,
            )
            shown.add(label)
    axis.set(xscale="log", xlabel="seconds from call to answer (hollow: not reached by then)")
    axis.set_yticks(range(len(problems)), [problem["title"] for problem in problems.values()])
    axis.set_ylim(len(problems) - 0.5, -0.5)
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def _growth(section: Section) -> Figure:
    """Seconds and rows per effective draw, and seconds before the first, by rows and columns."""
    figure, axes = plt.subplots(3, 2, figsize=(8, 8), sharex="col", sharey="row")
    panels = (
        ("seconds_per_ess", "seconds per effective draw"),
        ("rows_per_ess", "rows per effective draw"),
        ("setup_seconds", "seconds of setup"),
    )
    for column, (sweep, size) in enumerate((("rows", "rows"), ("columns", "parameters"))):
        for row, (quantity, label) in enumerate(panels):
            _curves(axes[row, column], section, section[sweep], size, quantity)
            if column == 0:
                axes[row, column].set_ylabel(label)
        axes[-1, column].set_xlabel(size)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=2)
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    return figure


def _curves(axis: Axes, section: Section, sweep: list[Section], size: str, quantity: str) -> None:
    for name, title in section["contestants"].items():
        colour, marker = STYLE[name]
        for model, line in (("linear", "-"), ("logistic", "--")):
            points = [
                (entry[size], entry["records"][name].get(quantity))
                for entry in sweep
                if entry["model"] == model and entry["records"][name].get("ess") is not None
            ]
            points = [(x, y) for x, y in points if y]
            axis.plot(
                [x for x, _ in points],
                [y for _, y in points],
                line,
                color=colour,
                marker=marker,
                markersize=5,
                label=f"{title} ({model})",
            )
    axis.set(xscale="log", yscale="log")

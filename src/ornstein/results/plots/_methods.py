"""Methods side by side."""

from matplotlib.figure import Figure

from ornstein.results.comparison import Comparison
from ornstein.results.plots._style import POSTERIOR, PREDICTED, panel


def comparison(found: Comparison, title: str = "") -> Figure:
    """Measured against predicted divergence of every method, on logarithmic axes."""
    known = [
        entry
        for entry in found.entries
        if entry.measured_kl is not None and entry.predicted_kl is not None
    ]
    figure, ax = panel((6, 5))
    low = 1e-4
    for entry in known:
        x, y = max(entry.predicted_kl or 0.0, low), max(entry.measured_kl or 0.0, low)
        ax.plot([x], [y], "o", color=POSTERIOR, markersize=5)
        ax.annotate(entry.method, (x, y), textcoords="offset points", xytext=(5, 3), fontsize=8)
    high = max([10 * low, *(max(e.predicted_kl or 0, e.measured_kl or 0) for e in known)])
    ax.plot([low, 2 * high], [low, 2 * high], color="grey", linewidth=0.8)
    floors = [entry.mc_error for entry in known if entry.mc_error]
    if floors:
        ax.axhline(min(floors), color=PREDICTED, linestyle=":", label="least Monte-Carlo error")
        ax.legend(frameon=False)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(f"KL predicted, nats (at least {low:g} shown)")
    ax.set_ylabel("KL measured, nats")
    ax.set_title(title)
    return figure

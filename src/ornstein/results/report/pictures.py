"""The sections of a page: pictures and tables, each with a heading and how to read it."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.text import Text

from ornstein.results import plots
from ornstein.results.answers import CONVERGENCE, FIT
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.report.words import compares_matrices, learned
from ornstein.results.result import Result

_INK = "#3a3f47"
_DARK = {
    _INK: "#c3c8d0",
    "#000000": "#c3c8d0",
    "#808080": "#8b919b",
    "#1f4e8c": "#7fb2f5",
    "#c0392b": "#ff8f80",
    "#3b7dd8": "#6fa8f0",
    "#2a9d6f": "#4cc796",
    "#b05cc6": "#cf8ae2",
}  # what a colour of a picture becomes on dark paper

_RULES = "".join(
    f'[style*="{part}: {light}"]{{{part}:{dark}!important}}'
    for light, dark in _DARK.items()
    for part in ("fill", "stroke")
)
_STYLE = f"<style>@media screen and (prefers-color-scheme: dark){{{_RULES}}}</style>"


SOURCE = "data:image/svg+xml;base64,"
"""How the source of a picture begins, which is part of the page."""

COEFFICIENTS, DETAILS = "coefficients", "details"
"""Parts of the page that answer none of the questions."""


@dataclass(frozen=True)
class Section:
    """Pictures and a table, with a heading and a sentence that says how to read them.

    Attributes
    ----------
    heading, text
        Shown above.
    figure
        One picture, or several.
    table
        Shown below the pictures.
    under
        The part of the page: a name of :data:`ornstein.results.answers.QUESTIONS`,
        ``coefficients`` or ``details``. Sections of a part are shown in their order.
    """

    heading: str
    text: str
    figure: Figure | Sequence[Figure] = ()
    table: pd.DataFrame | None = None
    under: str = FIT

    def sources(self) -> list[str]:
        """The pictures, as sources of images."""
        figures = [self.figure] if isinstance(self.figure, Figure) else self.figure
        return [data_uri(figure) for figure in figures]


def of_coefficients(result: Result) -> Section:
    """The forest of intervals."""
    text = "Mean and central 90% interval of every parameter, in the model's own units."
    if result.plan.dim > plots.MOST_PARAMETERS:
        text += " The forty parameters farthest from zero, in standard deviations."
    return Section("Coefficients", text, plots.intervals(result), under=COEFFICIENTS)


def of_run(result: Result, diagnosis: Diagnosis) -> list[Section]:
    """The path of learned hyperparameters, and whether the chains did what the plan predicted."""
    sections = []
    if result.learning is not None:
        text = (
            "How the values moved while they were learned: evaluations at the optimum, plans, and "
            "rounds of draws. The band is two posterior standard deviations wide to each side."
        )
        learning, learnable = result.learning, result.posterior.learnable
        steps = f"{len(learning.stages)} steps, {learning.replans} re-plans"
        said = [text, f"Learning: {learning.message}; {steps}.", *learning.notes]
        paths, values = plots.hyperparameters(learning, learnable), learned(learning, learnable)
        sections.append(Section("Hyperparameters", " ".join(said), paths, values, DETAILS))
    text = (
        "The parameters with the fewest effective draws. The chains' traces should look alike, and "
        "their ranks should be level."
    )
    sections.append(Section("Traces and ranks", text, plots.traces(result), under=CONVERGENCE))
    spread = (
        "Each standard deviation is divided by its prediction, with two Monte-Carlo errors: bars "
        "should touch the line."
    )
    if result.hyper is not None:
        spread += " The prediction is for fixed hyperparameters: drawn ones may widen the draws."
    if not compares_matrices(result):
        picture = plots.spread(result)
        return [*sections, Section("Predicted and measured spread", spread, picture, under=DETAILS)]
    text = (
        "On the posterior's own scale, exact draws show ones on the diagonal and zeros elsewhere. "
        + spread
    )
    maps = (*plots.covariance_maps(result), plots.spread(result))
    sections.append(Section("Predicted and measured covariance", text, maps, under=DETAILS))
    noise = plots.gradient_noise(result, diagnosis)
    if noise:
        text = (
            "The noise of minibatch gradients, direction by direction: the plan assumed the line, "
            "the points are measured on the rows at the draws. Beside it, the steps in the "
            "direction that is least Gaussian; Gaussian steps lie on the line. How much of their "
            "tails reaches the draws is checked below (A1)."
        )
        sections.append(Section("Gradient noise", text, noise, under=DETAILS))
    return sections


def data_uri(figure: Figure) -> str:
    """The figure as SVG without a background, as a source of an image."""
    for ax in figure.axes:
        ax.tick_params(colors=_INK, which="both")
        for name, spine in ax.spines.items():
            spine.set_color(_INK)
            spine.set_visible(bool(ax.images) or name not in ("top", "right"))
    for text in figure.findobj(Text):
        text.set(color=_INK)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "ornstein"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = re.sub(r"(<svg\b[^>]*>)", lambda found: found[1] + _STYLE, buffer.getvalue(), count=1)
    return SOURCE + base64.b64encode(svg.encode()).decode()

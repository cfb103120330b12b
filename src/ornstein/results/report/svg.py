"""Figures as images inside the page, right on light and on dark paper."""

import base64
import io
import re

import matplotlib
from matplotlib.figure import Figure
from matplotlib.text import Text

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
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"

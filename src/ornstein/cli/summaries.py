"""The table of coefficients as a terminal shows it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

_WIDE = 10_000  # characters, of a terminal that has room for any table
_MOST_LINES = 100


def print_summary(found: "pd.DataFrame", say: Console, details: bool) -> None:
    """The coefficients; where the terminal is narrow, the columns that say most of them.

    How well every one mixed is a detail.
    """
    from ornstein.results import report

    console, count = Console(), len(found)
    found = found[:_MOST_LINES]
    read = report.MIXING
    found = found.rename(columns=read) if details else found.drop(columns=list(read))
    ends = [name for name in found.columns if name.startswith("ratio ")]
    mixing = [name for name in found.columns if name in read.values()]
    fewer: list[str]
    for fewer in ([], ends, [*ends, *mixing[:1]], [*ends, *mixing], [*ends, *mixing, "sd"]):
        some = found.drop(columns=fewer)
        shown = Table("", *some.columns)
        for name, row in report.cells(some):
            shown.add_row(escape(name), *row)
        if Console(width=_WIDE).measure(shown).maximum <= console.width:
            break
    console.print(shown)
    if count > _MOST_LINES:
        say.print(f"The first {_MOST_LINES:,} of {count:,}; the others are in summary.csv.")
    if "per" in found:
        said = "A ratio is for as much more of a column as 'per' says: one standard deviation of "
        say.print(f"{said}numbers, 1 of levels.")
    if fewer:
        say.print("Further columns, for which the terminal is too narrow, are in summary.csv.")

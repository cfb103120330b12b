"""``ornstein effects``: conditional and marginal effects of a fitted model, over a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ornstein.cli.options import Interval, refuse_picture
from ornstein.cli.root import Quiet, app

if TYPE_CHECKING:
    import pandas as pd


@app.command()
def effects(
    run: Annotated[Path, typer.Argument(help="Folder that ornstein fit wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file: the fit's, or other rows.")],
    term: Annotated[
        list[str] | None,
        typer.Option(help="Column, or two as in x:z; may be repeated; all if not given."),
    ] = None,
    conditional: Annotated[
        Path | None, typer.Option(help="CSV file to write points of conditional effects to.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to write marginal effects to.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of conditional effects to write, one a term.")
    ] = None,
    interval: Interval = 0.9,
    quiet: Quiet = False,
) -> None:
    """Say what each column does to the target: slopes and contrasts in the target's own unit.

    Marginal effects are averaged over the rows of the table; conditional ones, for --plot and
    --conditional, follow one column with the others held at mean or first level.

    Example: ornstein effects houses houses.csv --plot effects.png
    """
    from ornstein import tables
    from ornstein._base.progress import phase
    from ornstein.tables.model import read_new

    if plot is not None:
        refuse_picture("--plot", plot)
    bars = False if quiet else None
    with phase(f"reading {table.name}", bars):
        model = tables.TableModel.load(run)
        frame = read_new(table, model.encoding, model.marks)
    columns = None if term is None else [name for name in term if name in frame.columns]
    if columns is None or columns:
        with phase("averaging effects over the rows", bars):
            found = model.marginal_effects(frame, columns, interval)
        _print(found)
        if out is not None:
            found.to_csv(out)
    if conditional is None and plot is None:
        return
    with phase("following the columns", bars):
        curves = model.conditional_effects(frame, term, interval)
    if conditional is not None:
        curves.to_csv(conditional, index=False)
    if plot is None:
        return
    from ornstein.results import plots

    say = Console(stderr=True, quiet=quiet, highlight=False)
    figures = plots.conditional_effects(curves, model.encoding.target.name)
    for number, figure in enumerate(figures):
        place = plot if len(figures) == 1 else plot.with_stem(f"{plot.stem}-{number + 1}")
        figure.savefig(place, dpi=110)
        say.print(f"{curves['term'].unique()[number]}: {place}", markup=False, soft_wrap=True)


def _print(found: "pd.DataFrame") -> None:
    """A line per effect."""
    flat = found.reset_index()
    shown = Table(*map(str, flat.columns))
    for line in flat.itertuples(index=False, name=None):
        shown.add_row(
            *(f"{cell:.4g}" if isinstance(cell, float) else escape(str(cell)) for cell in line)
        )
    Console().print(shown)

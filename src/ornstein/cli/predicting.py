"""``ornstein predict``: new rows, from a folder that ``fit`` wrote."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ornstein.cli.options import Interval, Unseen, refuse_file, say_unseen
from ornstein.cli.root import Quiet, app


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder that ornstein fit wrote.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file of new rows.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to write; printed if not given.")
    ] = None,
    interval: Interval = 0.9,
    unseen: Unseen = "error",
    quiet: Quiet = False,
) -> None:
    """Predict new rows, with intervals or class probabilities.

    Example: ornstein predict houses new.csv -o prices.csv
    """
    from ornstein import tables
    from ornstein._base.checks import choice
    from ornstein._base.progress import phase
    from ornstein.results.arviz import mass
    from ornstein.storage.folders import write_file
    from ornstein.tables.encoding import UNSEEN
    from ornstein.tables.model import read_new

    choice("unseen", unseen, UNSEEN)
    mass(interval)
    if out is not None:
        refuse_file("--out", out)
    bars = False if quiet else None
    with phase(f"reading {table.name}", bars):
        model = tables.TableModel.load(run)
        frame = read_new(table, model.encoding, model.marks, unseen)
    say_unseen(model, frame, Console(stderr=True, quiet=quiet, highlight=False))
    with phase(f"predicting {len(frame):,} rows", bars):
        found = model.predict(frame, interval, unseen)
    if out is None:
        typer.echo(found.to_csv(index=False), nl=False)
        return
    write_file(out, [found.to_csv(index=False).encode()])

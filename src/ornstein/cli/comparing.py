"""``ornstein compare``: methods on one table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ornstein.cli.options import BatchSize, Draws, Model, Seed, TablePath, Target, refuse_picture
from ornstein.cli.reading_options import (
    Categorical,
    Decimal,
    Drop,
    Keep,
    Missing,
    ParseDates,
    Thousands,
    learn_table,
    read_table,
)
from ornstein.cli.root import Quiet, app


@app.command()
def compare(
    table: TablePath,
    target: Target,
    model: Model = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="Method to compare; may be repeated; most if not given."),
    ] = None,
    batch_size: BatchSize = None,
    draws: Draws = 1000,
    reference: Annotated[
        str, typer.Option(help="What divergences are measured from: laplace or nuts.")
    ] = "laplace",
    missing: Missing = "refuse",
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    parse_dates: ParseDates = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    seed: Seed = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="JSON file to write, too.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, too.")] = None,
    quiet: Quiet = False,
) -> None:
    """Compare methods on a table: predicted and measured error, time, effective draws.

    Example: ornstein compare houses.csv --target price --method exact --method nuts
    """
    import ornstein
    from ornstein import tables
    from ornstein.api.comparison import DEFAULT

    if plot is not None:
        from ornstein.results import plots

        refuse_picture("--plot", plot)
    options = {
        "target": target,
        "model": model,
        "missing": missing,
        "drop": drop,
        "keep": keep,
        "categorical": categorical,
        "parse_dates": parse_dates,
        "decimal": decimal,
        "thousands": thousands,
    }
    encoding, X, y, notes = learn_table(read_table(table, options), options)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    for note in notes:
        say.print(note, markup=False, soft_wrap=True)
    found = ornstein.compare(
        tables.posterior(X, y, encoding),
        tuple(methods) if methods else DEFAULT,
        batch_size=batch_size,
        draws=draws,
        reference=reference,
        key=seed,
        progress=False if quiet else None,
    )
    head, *rows = found.rows()
    shown = Table(*head, caption=f"KL in nats, from {found.reference}")
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)
    for entry in found.entries:
        if entry.note:
            say.print(f"{entry.method}: {entry.note}", markup=False, soft_wrap=True)
    if json_file is not None:
        found.save(json_file)
    if plot is not None:
        plots.comparison(found, plots.plain(table.name)).savefig(plot, dpi=110)

"""``ornstein calibrate``: whether intervals contain the truth as often as they say."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

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
    reading,
)
from ornstein.cli.root import Quiet, app


@app.command()
def calibrate(
    table: TablePath,
    target: Target,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Picture of the ranks to write, too.")
    ] = None,
    runs: Annotated[int, typer.Option(min=20, help="Simulated data sets.")] = 100,
    model: Model = None,
    method: Annotated[str, typer.Option(help="Sampling method.")] = "exact",
    batch_size: BatchSize = None,
    draws: Draws = 200,
    prior_precision: Annotated[
        float, typer.Option(help="Of standardised coefficients and the intercept.")
    ] = 1.0,
    missing: Missing = "refuse",
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    parse_dates: ParseDates = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Check on simulated targets that intervals contain the truth as often as they should.

    The table's own columns are kept; coefficients are drawn from the prior.

    Example: ornstein calibrate houses.csv --target price -o ranks.png
    """
    import ornstein
    from ornstein import tables

    if out is not None:
        refuse_picture("--out", out)
    options = reading(locals())
    encoding, X, y, notes = learn_table(read_table(table, options), options)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    for note in notes:
        say.print(note, markup=False, soft_wrap=True)
    found = ornstein.calibrate(
        tables.posterior(X, y, encoding, [prior_precision] * (X.shape[1] + 1)),
        runs,
        key=seed,
        progress=False if quiet else None,
        method=method,
        batch_size=batch_size,
        draws=draws,
    )
    typer.echo(str(found))
    if out is not None:
        from ornstein.results import plots

        found.plot(plots.plain(table.name)).savefig(out, dpi=110)

"""``ornstein compare``: methods on one table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ornstein.cli.options import (
    BatchSize,
    Draws,
    Model,
    NoiseScale,
    PriorPrecision,
    Seed,
    TablePath,
    Target,
    refuse_file,
    refuse_picture,
)
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
from ornstein.cli.wording import in_options


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
    prior_precision: PriorPrecision = None,
    noise_scale: NoiseScale = None,
    reference: Annotated[
        str,
        typer.Option(help="What divergences in the JSON file are measured from: laplace or nuts."),
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
    """Compare methods on a table by the error of their draws and by time, and recommend one.

    All have the prior precision and the noise scale that ornstein fit finds, unless they are given.
    The method's name is what ornstein fit --method takes.

    Example: ornstein compare houses.csv --target price --method exact --method nuts
    """
    import ornstein
    from ornstein._base.progress import phase
    from ornstein.api.comparison import DEFAULT, checked_request
    from ornstein.tables import fit_tables
    from ornstein.tables.fitting import refuse_many, settled

    if plot is not None:
        from ornstein.results import plots

        refuse_picture("--plot", plot)
    if json_file is not None:
        refuse_file("--json", json_file)
    names = checked_request(methods or DEFAULT, reference)
    options = reading(locals())
    encoded = learn_table(read_table(table, options), options)
    refuse_many(encoded.encoding)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    bars = False if quiet else None
    with phase("fitting, for prior and noise", bars):
        fitted = fit_tables.fit_table(encoded, prior_precision, noise_scale, seed, progress=bars)
    for remark in fitted.remarks:
        say.print(in_options(remark), markup=False, soft_wrap=True)
    found = ornstein.compare(
        settled(fitted.result),
        names,
        batch_size=batch_size,
        draws=draws,
        reference=reference,
        key=seed,
        progress=bars,
    )
    head, *rows = found.rows()
    shown = Table(*head, caption=found.legend)
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)
    for note in found.notes:
        say.print(in_options(note), markup=False, soft_wrap=True)
    advice = in_options(found.recommendation.reason)
    Console(highlight=False).print(advice, markup=False, soft_wrap=True)
    if json_file is not None:
        found.save(json_file)
    if plot is not None:
        plots.comparison(found, plots.plain(table.name)).savefig(plot, dpi=110)
    if not any(entry.ran for entry in found.entries):
        raise typer.Exit(1)

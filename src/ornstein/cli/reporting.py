"""``ornstein report``: the page of a run again, from its folder."""

from pathlib import Path
from typing import Annotated

import typer

from ornstein.cli.options import refuse_file
from ornstein.cli.root import app


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Folder that ornstein fit wrote.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="HTML file to write; report.html of the run by default."),
    ] = None,
) -> None:
    """Write the page of a run again, from what its folder keeps: the table is not needed.

    Example: ornstein report houses -o houses.html
    """
    from ornstein.results import report as pages
    from ornstein.storage.folders import write_file

    if out is not None:
        refuse_file("--out", out)
    page = pages.kept(run).html()
    place = run / "report.html" if out is None else out
    write_file(place, [page.encode()])
    typer.echo(f"wrote {place}")

"""``ornstein compare-models``: fitted models of the same rows beside one another."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ornstein._base.errors import InputError
from ornstein.cli.options import AsJson
from ornstein.cli.root import app


@app.command()
def compare_models(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that ornstein fit wrote, two or more.")
    ],
    as_json: AsJson = False,
) -> None:
    """Compare models by leave-one-out scores: differences with standard errors, and weights.

    Of runs on the same rows of the same target. A difference within a few of its standard errors,
    or of less than 4, says little.

    Example: ornstein compare-models houses houses-splines
    """
    if len({run.absolute() for run in runs}) < len(runs):
        raise InputError(f"a run is given twice: {', '.join(map(str, runs))}.")
    names = [run.absolute().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    from ornstein.results.model_comparison import compare_models as compared

    found = compared(dict(zip(names, runs, strict=True)))
    if as_json:
        typer.echo(found.to_json(orient="index", force_ascii=False))
        return
    shown = Table("", *found.columns)
    for name, line in found.iterrows():
        shown.add_row(
            escape(str(name)),
            *(f"{line[column]:,.1f}" for column in ("elpd", "se", "elpd_diff", "se_diff", "p_loo")),
            f"{line['weight']:.2f}",
            f"{line['influential']:.0f}",
        )
    Console().print(shown)

"""Commands that need no table: a demonstration, the paper's experiments and its data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ornstein._base.errors import InputError
from ornstein.cli.root import Quiet, app


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plots.")] = Path("demo"),
    page: Annotated[
        Path, typer.Option("--report", help="Report on the first example: an HTML file.")
    ] = Path("report.html"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    draws: Annotated[int, typer.Option(min=8, help="Draws per chain.")] = 2000,
    quick: Annotated[bool, typer.Option("--quick", help="200 draws per chain at most.")] = False,
) -> None:
    """Sample two small posteriors, check the draws, and write plots and a report.

    Example: ornstein demo --out pictures
    """
    from ornstein.demo import run_demo

    run_demo(out, page, Console(), seed, min(draws, 200) if quick else draws)


_WHAT = ("table1", "figure1", "figure2", "figure3")
_MIXED = "mixed"


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help=f"{', '.join(_WHAT)}, all, or {_MIXED}.")] = "all",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for JSON and pictures.")] = Path(
        "reproduced"
    ),
    draws: Annotated[int, typer.Option(min=100, help="Draws per chain; there are four.")] = 2500,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="Row of table1; repeatable; all if not given."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", help="Data set of table1, figure3 or mixed; repeatable; all if not given."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compute the paper's table and figures again, on its data sets (downloaded if needed).

    With mixed, the mixed models of the field's tables instead, beside NUTS and lme4.

    Example: ornstein reproduce table1 --out reproduced
    """
    from ornstein._base.checks import choice
    from ornstein.experiments import divergence, held_out

    choice("what", what, (*_WHAT, "all", _MIXED))
    if methods and what != "table1":
        raise InputError("--method chooses rows of table1; leave it out for anything else.")
    if data and what not in ("table1", "figure3", _MIXED):
        raise InputError(
            "--data chooses data sets of table1, figure3 or mixed; leave it out for anything else."
        )
    console, progress = Console(), False if quiet else None
    if what in ("table1", "all"):
        rows, columns = methods or divergence.METHODS, data or divergence.PROBLEMS
        divergence.table1(out, console, draws, tuple(rows), tuple(columns), progress)
    if what in ("figure1", "all"):
        divergence.figure1(out, console, draws, progress)
    if what in ("figure2", "all"):
        divergence.figure2(out, console, draws, progress)
    if what in ("figure3", "all"):
        held_out.figure3(out, console, tuple(data or held_out.PROBLEMS), progress)
    if what == _MIXED:
        from ornstein.experiments import mixed

        mixed.mixed(out, console, draws, tuple(data or mixed.PROBLEMS), progress)


sets = typer.Typer(help="List or download the paper's data sets.", no_args_is_help=True)
app.add_typer(sets, name="datasets")

_Home = Annotated[
    Path | None,
    typer.Option("--data-home", help="Data folder; by default $ORNSTEIN_DATA or the user's cache."),
]


@sets.command("list")
def list_datasets(data_home: _Home = None) -> None:
    """List the data sets and the tables with groups, and whether they are downloaded.

    Example: ornstein datasets list
    """
    from ornstein.data import datasets
    from ornstein.data.datasets.grouped import TABLES

    here = datasets.available(data_home)
    for name in datasets.names():
        spec = datasets.info(name)
        state = "here" if name in here else "not downloaded"
        typer.echo(f"{name:<13} {spec.train.rows:>7,} rows  {state:<14}  {spec.title}")
    for table in TABLES.values():
        state = "here" if table.name in here else "not downloaded"
        typer.echo(f"{table.name:<13} {table.rows:>7,} rows  {state:<14}  {table.title}")
    typer.echo(f"folder: {datasets.folder(data_home)}")


@sets.command("download")
def download_datasets(
    names: Annotated[list[str], typer.Argument(help="Names, as datasets list shows them.")],
    data_home: _Home = None,
) -> None:
    """Download data sets from their publishers.

    Example: ornstein datasets download wine skin
    """
    from ornstein._base.checks import choice
    from ornstein.data import datasets

    known = (*datasets.names(), *datasets.table_names())
    for name in names:
        choice("name", name, known)
    for name in names:
        typer.echo(f"saved {datasets.download(name, data_home)}")

"""The program that all commands belong to, and an option they share."""

import time
from importlib import import_module
from typing import Annotated

import typer

from ornstein import __version__

_STARTED = time.perf_counter()

app = typer.Typer(
    name="ornstein",
    help="Fit Bayesian models to tables: draws by constant-rate SGD, with a predicted error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars, no remarks.")]


def since_start() -> float:
    """Seconds since the program started."""
    return time.perf_counter() - _STARTED


def load(bars: bool | None) -> None:
    """Import what fits and draws, which takes seconds where files are not in memory yet."""
    from ornstein._base.progress import PATIENCE, phase

    with phase("loading", bars, max(0.0, PATIENCE - since_start())):
        for name in ("tables", "results.report", "tables.regression_report"):
            import_module(f"ornstein.{name}")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"ornstein {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version

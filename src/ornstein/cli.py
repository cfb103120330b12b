"""The command line: ``ornstein --help``."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ornstein import __version__, datasets
from ornstein._check import OrnsteinError, choice
from ornstein.datasets import DatasetError

app = typer.Typer(
    name="ornstein",
    help="Constant-rate SGD as a posterior sampler that predicts its own error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plots.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    draws: Annotated[int, typer.Option(min=8, help="Draws per chain.")] = 2000,
) -> None:
    """Sample two small posteriors and check them.

    Example: ornstein demo --out pictures
    """
    from ornstein.demo import demo as run_demo

    run_demo(out, Console(), seed, draws)


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help="Which figures: core.")] = "core",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for JSON and pictures.")] = Path(
        "reproduced"
    ),
    draws: Annotated[int, typer.Option(min=100, help="Draws per chain, of four.")] = 2500,
    slow: Annotated[bool, typer.Option(help="Also run plans of many million steps.")] = False,
) -> None:
    """Recompute figures of the paper on its own data sets (downloaded if need be).

    Example: ornstein reproduce core --out reproduced
    """
    from ornstein.experiments.core_figures import core_figures

    choice("what", what, ("core",))
    core_figures(out, Console(), draws, slow)


sets = typer.Typer(help="The paper's data sets.", no_args_is_help=True)
app.add_typer(sets, name="datasets")

_Home = Annotated[
    Path | None, typer.Option("--data-home", help="Data folder; default ORNSTEIN_DATA or cache.")
]


@sets.command("list")
def list_datasets(data_home: _Home = None) -> None:
    """Show the data sets and whether they are here.

    Example: ornstein datasets list
    """
    here = datasets.available(data_home)
    for name in datasets.names():
        spec = datasets.info(name)
        state = "here" if name in here else "not downloaded"
        typer.echo(f"{name:<10} {spec.train.rows:>7,} rows  {state:<14}  {spec.title}")
    typer.echo(f"folder: {datasets.folder(data_home)}")


@sets.command("download")
def download_datasets(
    names: Annotated[list[str], typer.Argument(help="Data sets, as datasets list shows them.")],
    data_home: _Home = None,
) -> None:
    """Download data sets from their publishers.

    Example: ornstein datasets download wine skin
    """
    for name in names:
        choice("name", name, datasets.names())
    for name in names:
        typer.echo(f"saved {datasets.download(name, data_home)}")


# Compiles small loops into one kernel each; read when JAX first computes something.
_FAST_LOOPS = "xla_cpu_small_while_loop_byte_threshold"


def _use_fast_loops() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        option = f"--xla_backend_extra_options={_FAST_LOOPS}=65536"
        os.environ["XLA_FLAGS"] = f"{flags} {option}".strip()


def main() -> None:
    """Run the command line; a user's mistake ends in one line on standard error."""
    _use_fast_loops()
    try:
        app()
    except (OrnsteinError, DatasetError, OSError) as error:
        Console(stderr=True).print(f"ornstein: {error}", style="red", markup=False, soft_wrap=True)
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("ornstein: interrupted", markup=False)
        sys.exit(130)

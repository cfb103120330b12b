"""The command line: ``ornstein --help``."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ornstein import __version__, datasets
from ornstein._check import InputError, OrnsteinError, choice
from ornstein.datasets import DatasetError

app = typer.Typer(
    name="ornstein",
    help="Constant-rate SGD as a posterior sampler that predicts its own error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


_Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No bars, no remarks.")]


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
    page: Annotated[
        Path, typer.Option("--report", help="Page to write about the first example.")
    ] = Path("report.html"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    draws: Annotated[int, typer.Option(min=8, help="Draws per chain.")] = 2000,
) -> None:
    """Sample two small posteriors, check them, and leave plots and a page to look at.

    Example: ornstein demo --out pictures
    """
    from ornstein.demo import demo as run_demo

    run_demo(out, page, Console(), seed, draws)


_WHAT = ("table1", "figure1", "figure2", "figure3")


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help=f"{', '.join(_WHAT)} or all.")] = "all",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for JSON and pictures.")] = Path(
        "reproduced"
    ),
    draws: Annotated[int, typer.Option(min=100, help="Draws per chain, of four.")] = 2500,
    methods: Annotated[
        list[str] | None, typer.Option("--method", help="Rows of table1; all if not given.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Columns of table1, or panels of figure3; all if not given."),
    ] = None,
    quiet: _Quiet = False,
) -> None:
    """Recompute figures of the paper on its own data sets (downloaded if need be).

    Example: ornstein reproduce table1 --out reproduced
    """
    from ornstein.experiments import figure3, figures, table1
    from ornstein.experiments.problems import PROBLEMS

    choice("what", what, (*_WHAT, "all"))
    if methods and what != "table1":
        raise InputError("--method chooses rows of table1 only.")
    if data and what not in ("table1", "figure3"):
        raise InputError("--data chooses columns of table1 or panels of figure3 only.")
    console, progress = Console(), False if quiet else None
    if what in ("table1", "all"):
        table1.table1(
            out,
            console,
            draws,
            tuple(methods or table1.METHODS),
            tuple(data or PROBLEMS),
            progress,
        )
    if what in ("figure1", "all"):
        figures.figure1(out, console, draws, progress)
    if what in ("figure2", "all"):
        figures.figure2(out, console, draws, progress)
    if what in ("figure3", "all"):
        figure3.figure3(out, console, tuple(data or figure3.PROBLEMS), progress)


_Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
_Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="linear, logistic, softmax or poisson; else guessed."),
]
_Missing = Annotated[str, typer.Option(help="Missing values: refuse, drop or impute.")]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of the draws.")]


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: _Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to keep the run in.")],
    model: _Model = None,
    method: Annotated[str, typer.Option(help="How to sample.")] = "exact",
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows per minibatch.")] = None,
    draws: Annotated[int, typer.Option(min=8, help="Draws per chain, of four.")] = 1000,
    prior_precision: Annotated[
        float | None, typer.Option(help="Of standardised coefficients; else learned.")
    ] = None,
    noise_scale: Annotated[
        float | None, typer.Option(help="Of a linear model, in the target's unit; else learned.")
    ] = None,
    missing: _Missing = "refuse",
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Leave this column out; may be repeated.")
    ] = None,
    seed: _Seed = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier run.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder to keep the run in as it goes; see ornstein resume."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: _Quiet = False,
) -> None:
    """Fit a model to a table, check it, and keep draws, plan and summary in a folder.

    Example: ornstein fit houses.csv --target price -o houses --checkpoint houses-run
    """
    from ornstein import fitted
    from ornstein.checkpoint import keep_command
    from ornstein.folders import claimed_beside, refuse_occupied

    options: dict[str, Any] = {
        "target": target,
        "model": model,
        "method": method,
        "batch_size": batch_size,
        "draws": draws,
        "prior_precision": prior_precision,
        "noise_scale": noise_scale,
        "missing": missing,
        "drop": drop,
        "key": seed,
    }
    with _saying_how_to_resume(checkpoint), claimed_beside(out):
        refuse_occupied(out, fitted.FILES, overwrite)
        if checkpoint is not None:
            places = {"table": table.absolute(), "out": out.absolute()}
            where = {name: str(path) for name, path in places.items()}
            keep_command(checkpoint, options, {**where, "overwrite": overwrite})
        _fit(table, out, overwrite, checkpoint, as_json, quiet, options)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="Folder that was given as --checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: _Quiet = False,
) -> None:
    """Go on with a fit that was stopped, from its last checkpoint.

    Example: ornstein resume houses-run
    """
    from ornstein.checkpoint import kept_command

    command = kept_command(run)
    try:
        table, out = (Path(command.pop(name)) for name in ("table", "out"))
        command["seed"] = command.pop("key")
        signature(fit).bind(table, out=out, **command)
    except (TypeError, KeyError) as error:
        raise InputError(f"{run} holds no command that can be resumed: {error}.") from error
    if out.is_dir() and not command["overwrite"]:
        Console(stderr=True).print(f"it has ended: see {out}", markup=False, soft_wrap=True)
        return
    fit(table, out=out, checkpoint=run, as_json=as_json, quiet=quiet, **command)


@contextmanager
def _saying_how_to_resume(checkpoint: Path | None) -> Iterator[None]:
    """Ctrl-C ends a command with 130, and a line that says what is kept."""
    try:
        yield
    except KeyboardInterrupt as stop:
        how = "Nothing is kept: with --checkpoint FOLDER it would be."
        if checkpoint is not None:
            how = f"To go on: {shlex.join(['ornstein', 'resume', str(checkpoint)])}"
        message = f"ornstein: {str(stop).split('. ')[0] or 'interrupted'}. {how}"
        Console(stderr=True).print(message, markup=False, soft_wrap=True)
        raise typer.Exit(130) from None


def _fit(
    table: Path,
    out: Path,
    overwrite: bool,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
    options: dict[str, Any],
) -> None:
    from ornstein import fitted, report, tables

    frame, drop = tables.read(table), options.pop("drop")
    if drop:
        tables.require_columns(frame, drop)
        frame = frame.drop(columns=drop)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    fitting, result, remarks = fitted.fit_table(
        frame, progress=False if quiet else None, checkpoint=checkpoint, **options
    )
    found = fitted.summary(fitting.encoding, result)
    page = partial(
        report.write,
        result=result,
        title=f"{fitting.encoding.target.name} ({table.name})",
        about=fitted.about(fitting, result),
        remarks=remarks,
        summary=found,
        sections=[report.Section(*fitted.fit_picture(fitting, frame))],
        command=shlex.join(["ornstein", *sys.argv[1:]]),
        key=options["key"],
    )
    place = fitted.save(out, fitting, result, {"report.html": page}, overwrite)
    for remark in remarks:
        say.print(remark, markup=False, soft_wrap=True)
    if as_json:
        typer.echo(found.to_json(orient="index", force_ascii=False))
        return
    shown = Table("", *found.columns)
    for name, row in found.iterrows():
        shown.add_row(escape(str(name)), *(f"{value:.4g}" for value in row))
    Console().print(shown)
    say.print(str(result.diagnose()), markup=False)
    say.print(f"kept in {place}; open {place / 'report.html'}", markup=False, soft_wrap=True)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder that ornstein fit made.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file of new rows.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV to write; else shown.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Mass of the intervals.")] = 0.9,
) -> None:
    """Predict new rows, with intervals or class probabilities.

    Example: ornstein predict houses new.csv -o prices.csv
    """
    from ornstein import fitted, tables

    model = fitted.load(run)
    frame = tables.read(table, text=model.encoding.text_columns)
    found = model.predict(frame, interval)
    if out is None:
        typer.echo(found.to_csv(index=False), nl=False)
        return
    beside = out.with_name(f".{out.name}.part")
    try:
        found.to_csv(beside, index=False)
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)


@app.command()
def compare(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: _Target,
    model: _Model = None,
    methods: Annotated[
        list[str] | None, typer.Option("--method", help="Methods to compare; most if not given.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows per minibatch.")] = None,
    draws: Annotated[int, typer.Option(min=8, help="Draws per chain, of four.")] = 1000,
    reference: Annotated[
        str, typer.Option(help="laplace or nuts: what divergences are measured from.")
    ] = "laplace",
    missing: _Missing = "refuse",
    seed: _Seed = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write JSON here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also write a picture here.")] = None,
    quiet: _Quiet = False,
) -> None:
    """Run every method on a table of yours: predicted and measured error, time, effective draws.

    Example: ornstein compare houses.csv --target price --method exact --method nuts
    """
    import ornstein
    from ornstein import plots, tables
    from ornstein.compare import DEFAULT

    frame = tables.read(table)
    kind, why = (model, "") if model else tables.guess_model(frame, target)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    encoding, X, y, notes = tables.learn(frame, target, kind, missing)
    for note in (*([why] if why else []), *notes):
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
    if json_file is not None:
        found.save(json_file)
    if plot is not None:
        plots.comparison(found, plots.plain(table.name)).savefig(plot, dpi=110)
    head, *rows = found.rows()
    shown = Table(*head, caption=f"KL in nats, from {found.reference}")
    for row in rows:
        shown.add_row(*row)
    Console().print(shown)
    for entry in found.entries:
        if entry.note:
            say.print(f"{entry.method}: {entry.note}", markup=False, soft_wrap=True)


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

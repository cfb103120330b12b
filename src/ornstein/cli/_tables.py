"""Commands on a user's own table: fit, resume, predict, compare."""

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

from ornstein._base.errors import InputError
from ornstein.cli._app import Quiet, app

_Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
_Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="linear, logistic, softmax or poisson; else guessed."),
]
_Missing = Annotated[str, typer.Option(help="Missing values: refuse, drop or impute.")]
_Interval = Annotated[float, typer.Option(help="Mass of the intervals.")]
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
    predict: Annotated[
        Path | None,
        typer.Option("--predict", help="CSV or Parquet file of new rows to predict as well."),
    ] = None,
    interval: _Interval = 0.9,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier run.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder to keep the run in as it goes; see ornstein resume."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table, check it, and keep draws, plan, summary and report in a folder.

    With --predict, predictions.csv of other rows is kept there too.

    Example: ornstein fit houses.csv --target price --predict new.csv -o houses
    """
    from ornstein.storage.checkpoint import keep_command
    from ornstein.storage.folders import claimed_beside, refuse_occupied
    from ornstein.tables import table_model

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
        refuse_occupied(out, table_model.FILES, overwrite)
        if checkpoint is not None:
            places = {"table": table, "out": out, "predict": predict}
            where = {name: path and str(path.absolute()) for name, path in places.items()}
            keep_command(
                checkpoint, options, {**where, "overwrite": overwrite, "interval": interval}
            )
        _fit(table, out, predict, interval, overwrite, checkpoint, as_json, quiet, options)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="Folder that was given as --checkpoint.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a fit that was stopped, from its last checkpoint.

    Example: ornstein resume houses-run
    """
    from ornstein.storage.checkpoint import kept_command

    command = kept_command(run)
    try:
        table, out = (Path(command.pop(name)) for name in ("table", "out"))
        new, command["seed"] = command.pop("predict", None), command.pop("key")
        command["predict"] = new and Path(new)
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
    new: Path | None,
    interval: float,
    overwrite: bool,
    checkpoint: Path | None,
    as_json: bool,
    quiet: bool,
    options: dict[str, Any],
) -> None:
    from ornstein import tables
    from ornstein.results import predictive, report
    from ornstein.storage.folders import Writer
    from ornstein.tables import table_model

    predictive.mass(interval)
    frame, drop = tables.read(table), options.pop("drop")
    if drop:
        tables.require_columns(frame, drop)
        frame = frame.drop(columns=drop)
    learned = tables.learn(frame, *(options.pop(name) for name in ("target", "model", "missing")))
    new_frame = None if new is None else table_model.read_new(new, learned.encoding)
    say = Console(stderr=True, quiet=quiet, highlight=False)
    fitting, result, remarks = table_model.fit_table(
        learned, progress=False if quiet else None, checkpoint=checkpoint, **options
    )
    found = table_model.summary(fitting.encoding, result, interval)
    page = partial(
        report.write,
        result=result,
        title=f"{fitting.encoding.target.name} ({table.name})",
        about=table_model.about(fitting, result),
        remarks=remarks,
        summary=found,
        sections=[report.Section(*table_model.fit_picture(fitting, frame))],
        command=shlex.join(["ornstein", *sys.argv[1:]]),
        key=options["key"],
    )
    files: dict[str, Writer] = {"summary.csv": found.to_csv, "report.html": page}
    if new_frame is not None:
        predictions = fitting.predict(new_frame, interval)
        files["predictions.csv"] = partial(predictions.to_csv, index=False)
    place = table_model.save(out, fitting, result, files, overwrite)
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
    if new_frame is not None:
        what = f"{len(new_frame):,} rows predicted: {place / 'predictions.csv'}"
        say.print(what, markup=False, soft_wrap=True)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Folder that ornstein fit made.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file of new rows.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV to write; else shown.")
    ] = None,
    interval: _Interval = 0.9,
) -> None:
    """Predict new rows, with intervals or class probabilities.

    Example: ornstein predict houses new.csv -o prices.csv
    """
    from ornstein import tables
    from ornstein.tables import table_model

    model = table_model.load(run)
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
    quiet: Quiet = False,
) -> None:
    """Run every method on a table of yours: predicted and measured error, time, effective draws.

    Example: ornstein compare houses.csv --target price --method exact --method nuts
    """
    import ornstein
    from ornstein import tables
    from ornstein.api.comparison import DEFAULT
    from ornstein.results import plots

    encoding, X, y, notes = tables.learn(tables.read(table), target, model, missing)
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

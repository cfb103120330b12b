"""``ornstein fit`` and ``ornstein resume``: a table becomes a folder with draws and a report."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from ornstein._base.errors import InputError
from ornstein.cli.options import (
    AsJson,
    BatchSize,
    Interval,
    Model,
    NoiseScale,
    PriorPrecision,
    Seed,
    SomeDraws,
    TablePath,
    Unseen,
    say_unseen,
)
from ornstein.cli.priors import read_priors
from ornstein.cli.reading_options import (
    READING,
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
from ornstein.cli.root import Quiet, app, load, since_start
from ornstein.cli.summaries import print_summary
from ornstein.cli.wording import answer_in_options, diagnosis_in_options, in_options

_COLOURS = {"warn": "yellow", "fail": "red"}  # of answers


_MIXED_DRAWS = 1000  # of a chain of a model with random effects, whose sums take most of the time


@app.command()
def fit(
    table: TablePath,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column to predict from all others.")
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            "--formula", "-f", help="Such as 'y ~ x + bs(age, df=5) + (1|school)', for --target."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to write; named after the table if not given."),
    ] = None,
    model: Model = None,
    method: Annotated[str, typer.Option(help="Sampling method.")] = "auto",
    clusters: Annotated[
        str | None,
        typer.Option(
            help="Column of clusters, such as schools, within which rows are dependent: draws have "
            "the cluster-robust covariance."
        ),
    ] = None,
    batch_size: BatchSize = None,
    draws: SomeDraws = None,
    prior_precision: PriorPrecision = None,
    noise_scale: NoiseScale = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            "--prior",
            help="Prior of a parameter by its name in the summary, such as 'age=normal(0, 1)' or, "
            "with random effects, 'sd(school)=halfnormal(1)' and 'cor(school)=lkj(2)', in units of "
            "standard deviations of column and target; repeatable.",
        ),
    ] = None,
    hyper: Annotated[
        str,
        typer.Option(
            help="Draw prior precision and noise scale, or learn one value: draw, learn or auto."
        ),
    ] = "auto",
    missing: Missing = "refuse",
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    parse_dates: ParseDates = None,
    decimal: Decimal = ".",
    thousands: Thousands = "",
    seed: Seed = 0,
    predict: Annotated[
        Path | None,
        typer.Option("--predict", help="CSV or Parquet file of new rows, to predict too."),
    ] = None,
    interval: Interval = 0.9,
    unseen: Unseen = "error",
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier run in that folder.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder for checkpoints, from which ornstein resume continues."),
    ] = None,
    strict: Annotated[
        bool, typer.Option(help="End with exit code 2 if the draws or the model fail a check.")
    ] = False,
    holdout: Annotated[
        float,
        typer.Option(help="Share of the rows to keep aside and score first; 0 for none."),
    ] = 0.2,
    folds: Annotated[
        int, typer.Option(help="Keep every row aside once, in so many parts, instead.")
    ] = 0,
    details: Annotated[
        bool, typer.Option("--details", help="Print the checks of the theory's assumptions, too.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a table, check it, and write draws, plan, summary and report to a folder.

    With --predict, the folder has predictions.csv for other rows, too. Families: linear, logistic,
    softmax, poisson, binomial, negative_binomial, zero_inflated_poisson, hurdle_poisson, gamma,
    exponential, weibull, student_t, beta, ordinal.

    Example: ornstein fit houses.csv --target price --predict new.csv -o houses
    """
    if (target is None) == (formula is None):
        raise InputError(
            "give either --target COLUMN, to be predicted from all others, or --formula "
            "'COLUMN ~ TERMS'."
        )
    load(False if quiet else None)
    from ornstein._base.checks import choice
    from ornstein.planning.methods import find
    from ornstein.results.arviz import mass
    from ornstein.storage.checkpoint import keep_command
    from ornstein.storage.folders import claimed_beside
    from ornstein.tables.encoding import UNSEEN
    from ornstein.tables.reading import require_file

    require_file(table)
    if predict is not None:
        require_file(predict)
    engine = find(method).method.engine
    if batch_size is not None and engine in ("nuts", "laplace"):
        raise InputError(
            f"--batch-size is for methods that read minibatches; --method {method} takes all rows "
            "at once. Leave out one of them."
        )
    choice("unseen", unseen, UNSEEN)
    mass(interval)
    read_priors(prior)

    out = _named_after(table) if out is None else out
    options: dict[str, Any] = {
        **reading(locals()),
        "method": method,
        "clusters": clusters,
        "batch_size": batch_size,
        "draws": draws,
        "prior_precision": prior_precision,
        "noise_scale": noise_scale,
        "prior": prior,
        "hyper": hyper,
        "holdout": holdout,
        "folds": folds,
        "key": seed,
    }
    with _saying_how_to_resume(checkpoint), claimed_beside(out):
        _refuse_occupied(out, overwrite)
        if checkpoint is not None:
            places = {"table": table, "out": out, "predict": predict}
            where = {name: path and str(path.absolute()) for name, path in places.items()}
            asked = {"overwrite": overwrite, "interval": interval, "unseen": unseen}
            asked |= {"strict": strict, "details": details}
            keep_command(checkpoint, options, {**where, **asked})
        wanted = Wanted(interval, unseen, overwrite, details, as_json, quiet)
        passed = _fit(table, out, predict, checkpoint, wanted, options)
    if strict and not passed:
        raise typer.Exit(2)


def _named_after(table: Path) -> Path:
    """The folder that a table's run is written to: the file's name without its suffixes."""
    from ornstein.tables.reading import known_suffix

    suffix = known_suffix(table)
    return Path(table.name[: -len(suffix)] if suffix else table.stem)


def _refuse_occupied(out: Path, overwrite: bool) -> None:
    """Raise if the run cannot be written there, and say what to do."""
    from ornstein.storage.folders import refuse_occupied, remove_leftovers
    from ornstein.tables.model import FILES

    remove_leftovers(out, FILES)
    try:
        refuse_occupied(out, FILES, overwrite)
    except InputError as error:
        remedy = "--out FOLDER" if overwrite else "--out FOLDER, or --overwrite"
        raise InputError(f"{error} On the command line: {remedy}.") from None


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The folder given as --checkpoint.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Continue a fit that was stopped, from its last checkpoint.

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
        raise InputError(f"{run} has no command that can be resumed: {error}.") from error
    if out.is_dir() and not command["overwrite"]:
        Console(stderr=True).print(f"the fit is complete: see {out}", markup=False, soft_wrap=True)
        return
    fit(table, out=out, checkpoint=run, as_json=as_json, quiet=quiet, **command)


@contextmanager
def _saying_how_to_resume(checkpoint: Path | None) -> Iterator[None]:
    """Ctrl-C ends a command with 130, and a line that says how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        how = "Nothing is saved; use --checkpoint FOLDER to be able to resume."
        if checkpoint is not None:
            how = f"To continue: {shlex.join(['ornstein', 'resume', str(checkpoint)])}"
        message = f"ornstein: {str(stop).split('. ')[0] or 'interrupted'}. {how}"
        Console(stderr=True).print(message, markup=False, soft_wrap=True)
        raise typer.Exit(130) from None


class Wanted(NamedTuple):
    """What is to be written and said of a fit."""

    interval: float
    unseen: str
    overwrite: bool
    details: bool
    as_json: bool
    quiet: bool


def _learned(frame: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The encoded table, and the clusters of its rows, whose column predicts nothing by itself."""
    from ornstein.tables import require_columns, row_clusters

    column = options["clusters"]
    if column is None:
        return learn_table(frame, options), None
    require_columns(frame, [column])
    if options["formula"] is None:
        options = {**options, "drop": [*(options["drop"] or ()), column]}
    encoded = learn_table(frame, options)
    return encoded, row_clusters(encoded.encoding, frame, column)


def _fit(
    table: Path,
    out: Path,
    new: Path | None,
    checkpoint: Path | None,
    wanted: Wanted,
    options: dict[str, Any],
) -> bool:
    """Fit, write the folder and say what was found; whether no check failed."""
    from ornstein._base.progress import phase
    from ornstein.results import report
    from ornstein.results.answers import answers, failed, quality
    from ornstein.storage.checkpoint import keep_answer
    from ornstein.storage.folders import Writer
    from ornstein.tables import fit_tables
    from ornstein.tables.formulas.learning import FormulaTable
    from ornstein.tables.model import read_new
    from ornstein.tables.regression_report import regression_sections
    from ornstein.tables.text_files import NumberMarks
    from ornstein.tables.toolbox import sample_rows

    interval, unseen = wanted.interval, wanted.unseen
    bars = False if wanted.quiet else None
    with phase(f"reading {table.name}", bars):
        frame = read_table(table, options)
    with phase("turning columns into numbers", bars):
        encoded, clusters = _learned(frame, options)
        pictured = encoded if options["formula"] is None else frame
        some_rows = sample_rows(encoded.encoding, frame)
        del frame  # large, and encoded
    if checkpoint is not None:
        keep_answer(checkpoint, "model", encoded.encoding.model)
    marks = NumberMarks(options["decimal"], options["thousands"])
    new_frame = None if new is None else read_new(new, encoded.encoding, marks, unseen)
    run = {name: value for name, value in options.items() if name not in READING}
    run |= {"clusters": clusters, "priors": read_priors(run.pop("prior"))}
    if run["draws"] is None and isinstance(encoded, FormulaTable) and encoded.encoding.random:
        run["draws"] = _MIXED_DRAWS
    say = Console(stderr=True, quiet=wanted.quiet, highlight=False)
    fitted = fit_tables.fit_table(encoded, progress=bars, checkpoint=checkpoint, marks=marks, **run)
    with phase("checking the draws", bars):
        found, diagnosis = fitted.summary(interval), fitted.result.diagnose()
    first, name = quality(fitted.scores, fitted.unscored), fitted.encoding.target.name
    found_out = answers(fitted.result, diagnosis, first, name, options["formula"] or "")
    answered = [answer_in_options(answer) for answer in found_out]
    remarks = [in_options(remark) for remark in fitted.remarks]
    with phase("comparing predictions with the rows", bars):
        agreement = report.Section(*fitted.fit_picture(pictured))
        regression = regression_sections(fitted, some_rows) if fitted.result.status.ok else []
    page = report.writers(
        fitted.result,
        title=f"{fitted.encoding.target.name} ({table.name})",
        about=fitted.about(),
        remarks=remarks,
        summary=found,
        sections=[agreement, *regression],
        command=shlex.join(["ornstein", *sys.argv[1:]]),
        key=options["key"],
        diagnosis=diagnosis_in_options(diagnosis),
        seconds=since_start,
        answered=answered,
    )
    files: dict[str, Writer] = {"summary.csv": found.to_csv, **page}
    if new_frame is not None:
        say_unseen(fitted, new_frame, say)
        with phase(f"predicting {len(new_frame):,} rows", bars):
            predictions = fitted.predict(new_frame, interval, unseen)
        files["predictions.csv"] = partial(predictions.to_csv, index=False)
    with phase("drawing pictures and writing the folder", bars):
        place = fitted.save(out, files, wanted.overwrite)
    for remark in remarks:
        say.print(remark, markup=False, soft_wrap=True)
    if wanted.as_json:
        typer.echo(found.to_json(orient="index", force_ascii=False))
        return not failed(answered)
    for answer in answered:
        say.print(str(answer), style=_COLOURS.get(answer.verdict), markup=False, soft_wrap=True)
    print_summary(found.drop(columns=report.LEFT_OUT), say, wanted.details)
    if wanted.details:
        say.print(f"Details\n{in_options(str(diagnosis))}", markup=False, soft_wrap=True)
    took = f"{since_start():.0f} s, of which sampling {fitted.result.seconds:.2g} s"
    say.print(f"saved in {place} after {took}", markup=False, soft_wrap=True)
    say.print(f"open {place / 'report.html'}", markup=False, soft_wrap=True)
    if new_frame is not None:
        what = f"{len(new_frame):,} rows predicted: {place / 'predictions.csv'}"
        say.print(what, markup=False, soft_wrap=True)
    return not failed(answered)

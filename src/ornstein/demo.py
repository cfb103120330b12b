"""The demonstration: two tables bundled with scikit-learn, from rows to a diagnosed posterior."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ornstein import models
from ornstein._base import extras
from ornstein._base.types import Vector
from ornstein.api.sampling import sample_whole
from ornstein.models.posterior import Posterior
from ornstein.results import plots, predictive, report
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.result import Result

_DIABETES, _CANCER = "Linear regression: diabetes", "Logistic regression: breast cancer"
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}  # of the lines with a verdict


def run_demo(
    folder: Path, page: Path, console: Console, key: int = 0, draws: int = 2000
) -> list[Result]:
    """Run both examples, print what they show, and write plots and a report on the first."""
    extras.require("sklearn", "ornstein demo")
    folder.mkdir(parents=True, exist_ok=True)
    console.rule(_DIABETES)
    first = sample_whole(_diabetes(), key=key, draws=draws, learn_hyper=True, batch_size=40)
    diagnosis = _show(first, _DIABETES, folder / "diabetes", console)
    console.rule(_CANCER)
    second = sample_whole(_cancer(), key=key, draws=draws, batch_size=250)
    _show(second, _CANCER, folder / "cancer", console)
    _write(first, diagnosis, page, key)
    console.print(f"\nA report on the first example, for a browser: {page}", markup=False)
    return [first, second]


def _diabetes() -> Posterior:
    from sklearn.datasets import load_diabetes

    table = load_diabetes(scaled=False)
    y = (table.target - table.target.mean()) / table.target.std()
    return models.linear(_standardised(table.data), y, feature_names=table.feature_names)


def _cancer() -> Posterior:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    first = slice(0, 10)  # the mean of each measurement; the rest are its error and its extreme
    X, names = _standardised(table.data[:, first]), table.feature_names[first]
    return models.logistic(X, table.target, intercept=True, feature_names=names)


def _standardised(X: Vector) -> Vector:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _show(result: Result, title: str, stem: Path, console: Console) -> Diagnosis:
    if result.learning is not None:
        console.print(f"{result.learning}\n", highlight=False, markup=False, soft_wrap=True)
    console.print(str(result.plan), highlight=False, markup=False, soft_wrap=True)
    console.print(f"\n{result} in {result.seconds:.1f} s of sampling\n", markup=False)
    console.print(_summary_table(result))
    diagnosis = result.diagnose()
    _print_diagnosis(diagnosis, console)
    _compare(result, diagnosis, console)
    for draw in (plots.projection, plots.intervals, plots.covariances):
        path = stem.with_name(f"{stem.name}-{draw.__name__}.png")
        draw(result, title).savefig(path, dpi=120)
        console.print(f"saved {path}", markup=False)
    return diagnosis


def _write(result: Result, diagnosis: Diagnosis, page: Path, key: int) -> None:
    rows = result.posterior.data
    found = predictive.summarise(predictive.Coefficients.of_result(result), rows["x"])
    fit = report.Section(
        "Residuals and coverage",
        "Residuals should show no pattern; an interval should contain the share of rows that it "
        "states.",
        plots.residuals(found.mean, found.std, rows["y"]),
    )
    report.write(
        page,
        result,
        title=_DIABETES,
        about={
            "data": "442 patients, bundled with scikit-learn: ten measurements, standardised",
            "target": "progression of the disease a year later, standardised",
            "model": "linear regression; noise and prior precision are learned",
        },
        sections=[fit],
        command="ornstein demo",
        key=key,
        diagnosis=diagnosis,
    )


def _compare(result: Result, diagnosis: Diagnosis, console: Console) -> None:
    """How far the draws are from the posterior, then from the Gaussian of the plan."""
    found = diagnosis.accuracy
    console.print()
    if found is not None:
        console.print(
            "Against the posterior itself, whatever its shape: means are off by at most "
            f"{np.abs(found.mean_error).max():.3f} posterior standard deviations, standard "
            f"deviations by {np.abs(found.sd_error).max():.1%}.",
            markup=False,
        )
    value, floor = result.measured_kl()
    exact = result.posterior.quadratic
    gaussian = "which is this posterior" if exact else "which this posterior only resembles"
    console.print(
        f"Against the Gaussian at the optimum, {gaussian}: KL of the draws {value:.4f} nats (as "
        f"many exact draws would measure {floor:.4f}); the plan predicted "
        f"{result.plan.predicted_kl:.4f}.",
        markup=False,
    )


def _summary_table(result: Result) -> Table:
    frame = result.summary().drop(columns=report.LEFT_OUT)
    head = (Column(str(name), justify="right") for name in frame.columns)
    table = Table("parameter", *head, title="Summary", title_justify="left")
    for label, numbers in report.cells(frame):
        table.add_row(escape(label), *numbers)
    return table


def _print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    console.print("\nDiagnosis", style="italic")
    for line in str(diagnosis).splitlines():
        style = _COLOURS.get(line[:4].rstrip())
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

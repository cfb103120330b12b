"""The demonstration: two tables bundled with scikit-learn, from rows to a diagnosed posterior."""

from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes

from ornstein import models
from ornstein._base.types import Vector
from ornstein.api.sampling import sample_whole
from ornstein.models.posterior import Posterior
from ornstein.results import plots, predictive, report
from ornstein.results.diagnosis import Diagnosis
from ornstein.results.result import Result

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}  # other lines: remedies


class _Example(NamedTuple):
    """A posterior to sample, and how."""

    title: str
    name: str
    post: Posterior
    batch_size: int
    learn: bool


def demo(
    folder: Path, page: Path, console: Console, key: int = 0, draws: int = 2000
) -> list[Result]:
    """Run both examples, print what they show, and write plots and a report on the first."""
    folder.mkdir(parents=True, exist_ok=True)
    (first, diagnosis), (second, _) = (
        _show(example, folder, console, key, draws) for example in (_diabetes(), _cancer())
    )
    _write(first, diagnosis, page, key)
    console.print(f"\nA report on the first example, for a browser: {page}", markup=False)
    return [first, second]


def _diabetes_rows() -> tuple[Vector, Vector, list[str]]:
    table = load_diabetes(scaled=False)
    y = (table.target - table.target.mean()) / table.target.std()
    return _standardised(table.data), y, table.feature_names


def _diabetes() -> _Example:
    X, y, names = _diabetes_rows()
    post = models.linear(X, y, feature_names=names)
    return _Example("Linear regression: diabetes", "diabetes", post, 40, learn=True)


def _cancer() -> _Example:
    table = load_breast_cancer()
    first = slice(0, 10)  # the mean of each measurement; the rest are its error and its extreme
    X = _standardised(table.data[:, first])
    names = table.feature_names[first]
    post = models.logistic(X, table.target, intercept=True, feature_names=names)
    return _Example("Logistic regression: breast cancer", "cancer", post, 250, learn=False)


def _standardised(X: Vector) -> Vector:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _show(
    example: _Example, folder: Path, console: Console, key: int, draws: int
) -> tuple[Result, Diagnosis]:
    console.rule(example.title)
    result = sample_whole(
        example.post, key=key, draws=draws, learn_hyper=example.learn, batch_size=example.batch_size
    )
    if result.learning is not None:
        console.print(f"{result.learning}\n", highlight=False, markup=False, soft_wrap=True)
    console.print(str(result.plan), highlight=False, markup=False, soft_wrap=True)
    console.print(f"\n{result} in {result.seconds:.1f} s of sampling\n", markup=False)
    console.print(_summary_table(result))
    diagnosis = result.diagnose()
    _print_diagnosis(diagnosis, console)
    _compare(result, console)
    for draw in (plots.projection, plots.intervals, plots.covariances):
        path = folder / f"{example.name}-{draw.__name__}.png"
        draw(result, example.title).savefig(path, dpi=120)
        console.print(f"saved {path}", markup=False)
    return result, diagnosis


def _write(result: Result, diagnosis: Diagnosis, page: Path, key: int) -> None:
    X, y, _ = _diabetes_rows()
    found = predictive.summarise(predictive.Coefficients.of_result(result), X)
    fit = report.Section(
        "Residuals and coverage",
        "Residuals should show no pattern; an interval should contain the share of rows that it "
        "states.",
        plots.residuals(found.mean, found.std, y),
    )
    report.write(
        page,
        result,
        title="Linear regression: diabetes",
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


def _compare(result: Result, console: Console) -> None:
    value, floor = result.measured_kl()
    exact = result.posterior.quadratic
    against = "the exact posterior" if exact else "the Gaussian approximation at the optimum"
    console.print(
        f"\nKL of the draws from {against}: {value:.4f} nats "
        f"(as many exact draws would measure {floor:.4f}); the plan predicted "
        f"{result.plan.predicted_kl:.4f}.",
        markup=False,
    )


def _summary_table(result: Result) -> Table:
    frame = result.summary().drop(columns=report.LEFT_OUT)
    table = Table(title="Summary", title_justify="left")
    table.add_column("parameter")
    for name in frame.columns:
        table.add_column(str(name), justify="right")
    for label, row in zip(result.plan.labels, frame.to_numpy(float), strict=True):
        table.add_row(escape(label), *(f"{number:.4g}" for number in row))
    return table


def _print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    console.print("\nDiagnosis", style="italic")
    for line in str(diagnosis).splitlines():
        verdict = line.split(maxsplit=1)[0]
        style = _COLOURS.get(verdict)
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

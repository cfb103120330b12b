"""The demonstration: two tables bundled with scikit-learn, from rows to a diagnosed posterior."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes

from ornstein import models, plots
from ornstein._types import Vector
from ornstein.api import sample_whole
from ornstein.diagnosis import Diagnosis
from ornstein.planning import plan
from ornstein.posterior import Posterior
from ornstein.result import Result

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}  # other lines: remedies


def demo(folder: Path, console: Console, key: int = 0, draws: int = 2000) -> list[Result]:
    """Run both examples, print what there is to see and save plots into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    examples = (
        ("Linear regression: diabetes", _diabetes(), 40, folder / "diabetes"),
        ("Logistic regression: breast cancer", _cancer(), 250, folder / "cancer"),
    )
    return [_show(*example, console, key, draws) for example in examples]


def _diabetes() -> Posterior:
    table = load_diabetes(scaled=False)
    target = (table.target - table.target.mean()) / table.target.std()
    X = _standardised(table.data)
    return models.linear(X, target, noise_scale=0.7, feature_names=table.feature_names)


def _cancer() -> Posterior:
    table = load_breast_cancer()
    first = slice(0, 10)  # the mean of each measurement; the rest are its error and its extreme
    X = _standardised(table.data[:, first])
    return models.logistic(
        X, table.target, intercept=True, feature_names=table.feature_names[first]
    )


def _standardised(X: Vector) -> Vector:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _show(
    title: str,
    post: Posterior,
    batch_size: int,
    stem: Path,
    console: Console,
    key: int,
    draws: int,
) -> Result:
    console.rule(title)
    made = plan(post, batch_size=batch_size)
    console.print(str(made), highlight=False, markup=False, soft_wrap=True)
    result = sample_whole(post, made, key=key, draws=draws)
    console.print(f"\n{result} in {result.seconds:.1f} s of sampling\n", markup=False)
    console.print(_summary_table(result))
    _print_diagnosis(result.diagnose(), console)
    _compare(result, console)
    for draw in (plots.projection, plots.intervals, plots.covariances):
        path = stem.with_name(f"{stem.name}-{draw.__name__}.png")
        draw(result, title).savefig(path, dpi=120)
        console.print(f"saved {path}", markup=False)
    return result


def _compare(result: Result, console: Console) -> None:
    value, floor = result.measured_kl()
    exact = result.posterior.quadratic
    against = "the exact posterior" if exact else "the Gaussian approximation at the optimum"
    console.print(
        f"\nKL of the draws from {against}: {value:.4f} nats "
        f"(as many exact draws would show {floor:.4f}); the plan predicted "
        f"{result.plan.predicted_kl:.4f}.",
        markup=False,
    )


def _summary_table(result: Result) -> Table:
    frame = result.summary()
    low, high = (str(name) for name in frame.columns if str(name).startswith("hdi_"))
    columns = ("mean", "sd", low, high, "ess_bulk", "r_hat")
    table = Table(title="Summary", title_justify="left")
    table.add_column("parameter")
    for name in columns:
        table.add_column(name, justify="right")
    for label, row in zip(result.plan.labels, frame[list(columns)].to_numpy(float), strict=True):
        table.add_row(escape(label), *(f"{number:.4g}" for number in row))
    return table


def _print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    console.print("\nDiagnosis", style="italic")
    for line in str(diagnosis).splitlines():
        verdict = line.split(maxsplit=1)[0]
        style = _COLOURS.get(verdict)
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

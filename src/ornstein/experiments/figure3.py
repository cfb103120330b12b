"""The paper's Figure 3: prior precisions learned while sampling, against held-out losses."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import ornstein as orn
from ornstein._base import checks
from ornstein._base.errors import UnstablePlanError
from ornstein._base.progress import each
from ornstein.hyper import LearningOptions, ascend
from ornstein.hyper.baselines import mean_loss
from ornstein.hyper.expectation import at_optimum

KEY = 2016
TOLERANCE = 0.5  # posterior standard deviations of log lambda, which are some hundredths
DRAWS = 50
START = 10.0
_GRID = (1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)


@dataclass(frozen=True)
class Problem:
    """Multinomial logistic regression without intercept: rows to learn from and rows held out.

    Attributes
    ----------
    name, title
        The data set, and the panel's title.
    rows
        ``() -> (X, y, X_test, y_test)``.
    grid
        Prior precisions, from large to small: every search starts where the last one ended.
    """

    name: str
    title: str
    rows: Callable[[], tuple[npt.NDArray[Any], ...]]
    grid: tuple[float, ...]

    def posteriors(self) -> tuple[orn.Posterior, orn.Posterior]:
        """Of the rows to learn from, and of those held out."""
        X, y, X_test, y_test = self.rows()
        classes = int(y.max()) + 1
        return (
            orn.models.softmax(X, y, num_classes=classes),
            orn.models.softmax(X_test, y_test, num_classes=classes),
        )


def _mnist() -> tuple[npt.NDArray[Any], ...]:
    """Pixels from 0 to 1, the publisher's own test rows."""
    data = orn.datasets.load("mnist")
    assert data.X_test is not None
    assert data.y_test is not None
    X, X_test = (part.astype(np.float32) / np.float32(255) for part in (data.X, data.X_test))
    return X, data.y.astype(int), X_test, data.y_test.astype(int)


def _covertype() -> tuple[npt.NDArray[Any], ...]:
    """Measured columns standardised, indicators as they are; 81,012 random rows held out."""
    data = orn.datasets.load("covertype")
    X, y = data.X.astype(np.float32), data.y.astype(int) - 1
    measured = data.X[:, :10].astype(float)
    X[:, :10] = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    order = np.random.default_rng(KEY).permutation(len(X))
    train, test = np.sort(order[:500_000]), np.sort(order[500_000:])
    return X[train], y[train], X[test], y[test]


PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        problem.name: problem
        for problem in (
            Problem("mnist", "MNIST", _mnist, _GRID),
            Problem(
                "covertype", "covertype", _covertype, (*_GRID, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
            ),
        )
    }
)

METHODS = ("exact", "laplace", "scalar", "diagonal", "bbvi")
"""``exact`` learns from its draws and ``laplace`` is MacKay's fixed point, both from lambda = 10.
The others, whose chains would need millions of steps, go on from where ``laplace`` came to rest,
with the moments T2 predicts of them."""

_PLANS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "scalar": {"method": "sgd", "structure": "scalar"},
        "diagonal": {"method": "exact", "structure": "diagonal", "control_variates": False},
        "bbvi": {"method": "bbvi", "structure": "diagonal"},
    }
)
_RHO = (1.0, 4.0, 16.0, 64.0, 256.0)  # of X2 on diagonals: the first at which it is stable


def figure3(
    folder: Path,
    console: Console,
    data: Sequence[str] = tuple(PROBLEMS),
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Held-out loss of the MAP estimate over a grid, and where each method comes to rest.

    Writes ``figure3.png`` and ``figure3.json``.
    """
    for name in data:
        checks.choice("data", name, tuple(PROBLEMS))
    folder.mkdir(parents=True, exist_ok=True)
    records = []
    pieces = sum(len(PROBLEMS[name].grid) + 1 + len(METHODS) for name in data)
    with each("figure 3", pieces, progress) as ready:
        for name in data:
            records.append(_measure(PROBLEMS[name], ready))
            (folder / "figure3.json").write_text(json.dumps(records, indent=1) + "\n")
    draw(records).savefig(folder / "figure3.png", dpi=110)
    for record in records:
        console.print(_table(record))
    for suffix in ("png", "json"):
        console.print(f"wrote {folder / 'figure3'}.{suffix}", markup=False, highlight=False)
    return records


def _measure(problem: Problem, ready: Callable[[str], None]) -> dict[str, Any]:
    train, test = problem.posteriors()
    grid, seconds, here = [], [], train
    for precision in problem.grid:
        ready(f"{problem.name}, lambda = {precision:g}")
        began = perf_counter()
        here = at_optimum(here.with_hyper({"prior_precision": precision}))
        seconds.append(perf_counter() - began)
        grid.append({"lambda": precision, "test_loss": mean_loss(test, here)})
    best = min(grid, key=lambda point: point["test_loss"])
    chosen, here, fixed = [], train.with_hyper({"prior_precision": START}), 0.0
    for name in METHODS:
        ready(f"{problem.name}, {name}")
        record, there = _choose(name, here, test)
        chosen.append(record)
        if name == "exact":
            ready(f"{problem.name}, a fixed lambda")
            fixed = _fixed_seconds(train.with_hyper({"prior_precision": record["lambda"]}))
        here = there if name == "laplace" else here
    return {
        "dataset": problem.name,
        "rows": train.num_data,
        "held_out": test.num_data,
        "parameters": train.dim,
        "grid": grid,
        "grid_seconds": sum(seconds),
        "fixed_seconds": fixed,
        "chosen": chosen,
        "best_lambda": best["lambda"],
        "best_loss": best["test_loss"],
    }


def _fixed_seconds(post: orn.Posterior) -> float:
    """What planning and sampling cost where nothing is learned, from the same start."""
    began = perf_counter()
    orn.sample(post, key=KEY, draws=DRAWS, progress=False, dtype="float32")
    return perf_counter() - began


def _choose(
    name: str, post: orn.Posterior, test: orn.Posterior
) -> tuple[dict[str, Any], orn.Posterior]:
    """A method's choice, and the posterior there."""
    began, learning = perf_counter(), None
    if name == "laplace":
        found = orn.evidence(post, tolerance=0.01)
        there, message = found.posterior, f"{found.iterations} iterations"
    elif name == "exact":
        learned = orn.learn(
            post,
            tolerance=TOLERANCE,
            key=KEY,
            draws=DRAWS,
            progress=False,
            dtype="float32",
        )
        there, message, learning = learned.posterior, learned.message, learned.seconds
    else:
        there, message = _by_prediction(post, _PLANS[name])
    record = {
        "method": name,
        "lambda": float(there.hyperparameters["prior_precision"]),
        "test_loss": mean_loss(test, there),
        "seconds": perf_counter() - began,
        "message": message,
    }
    return record if learning is None else {**record, "learning_seconds": learning}, there


def _by_prediction(post: orn.Posterior, plan: Mapping[str, Any]) -> tuple[orn.Posterior, str]:
    """Where a sampler's own moments, as T2 predicts them, come to rest."""
    options = LearningOptions(tolerance=TOLERANCE, moments="plan")
    diagonal = plan["method"] == "exact"
    for rho in _RHO if diagonal else (None,):
        given = {**plan, "rho": rho} if diagonal else dict(plan)
        try:
            there, _, learning = ascend(post, given, options, _no_draws)
        except UnstablePlanError:
            continue
        return there, learning.message + (f"; rho = {rho:g}" if diagonal else "")
    raise UnstablePlanError(f"no plan {dict(plan)} is stable up to rho = {_RHO[-1]:g}")


def _no_draws(*_: Any) -> Any:
    raise AssertionError("moments are the plan's own")


def draw(records: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel a data set: the grid's losses, and every method's choice on the curve."""
    figure = Figure(figsize=(5.2 * len(records), 4.2), layout="constrained")
    panels = figure.subplots(1, len(records), squeeze=False)[0]
    for ax, record in zip(panels, records, strict=True):
        grid = sorted(record["grid"], key=lambda point: point["lambda"])
        ax.plot(
            [point["lambda"] for point in grid],
            [point["test_loss"] for point in grid],
            "k.-",
            label="MAP estimate over the grid",
        )
        for marker, choice in zip("sD*^v", record["chosen"], strict=False):
            ax.plot(choice["lambda"], choice["test_loss"], marker, ms=9, label=choice["method"])
        ax.set(xscale="log", xlabel="prior precision", ylabel="held-out loss per row")
        ax.set_title(PROBLEMS[record["dataset"]].title)
    panels[0].legend(frameon=False)
    return figure


def _table(record: Mapping[str, Any]) -> Table:
    title = (
        f"{record['dataset']}: best of the grid {record['best_loss']:.4f} at lambda = "
        f"{record['best_lambda']:g} ({record['grid_seconds']:.0f} s)"
    )
    table = Table("method", "lambda", "held-out loss", "above the best", "seconds", title=title)
    for choice in record["chosen"]:
        above = choice["test_loss"] / record["best_loss"] - 1
        table.add_row(
            choice["method"],
            f"{choice['lambda']:.4g}",
            f"{choice['test_loss']:.4f}",
            f"{above:+.2%}",
            f"{choice['seconds']:.0f}",
        )
    return table

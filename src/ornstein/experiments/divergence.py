"""The paper's Table 1 and Figures 1 and 2: how far each method's draws are from the posterior."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

import ornstein as orn
from ornstein._base import checks
from ornstein._base.progress import each
from ornstein.api.comparison import affordable, laplace_reference, run_one
from ornstein.api.sampling import sample_whole
from ornstein.results import plots
from ornstein.results.comparison import number

_KEY = 2016
_CHAINS = 4


@dataclass(frozen=True)
class Experiment:
    """A data set with the paper's batch size and its step of SGLD.

    The model is linear with unit noise, or logistic; prior precision 1, no intercept.
    """

    name: str
    batch_size: int
    sgld_step: float
    logistic: bool = False

    def posterior(self, unit_length: bool = False) -> orn.Posterior:
        """Columns divided by their largest absolute value (regression) or standardised.

        With ``unit_length``, divided by their Euclidean norms instead.
        """
        data = orn.datasets.load(self.name)
        X, names = data.X.astype(float), data.feature_names
        if unit_length:
            X = X / np.linalg.norm(X, axis=0)
        elif self.logistic:
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        else:
            X = X / np.abs(X).max(axis=0)
        model = orn.models.logistic if self.logistic else orn.models.linear
        return model(X, data.y, feature_names=names)


PROBLEMS: Mapping[str, Experiment] = MappingProxyType(
    {
        "wine": Experiment("wine", 100, 1e-3),
        "skin": Experiment("skin", 10_000, 1e-5, logistic=True),
        "protein": Experiment("protein", 100, 1e-6),
    }
)

PAPER: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "sgd-scalar": {"wine": 18.7, "skin": 0.471, "protein": 1000.9},
        "sgd-diagonal": {"wine": 14.0, "skin": 0.921, "protein": 678.4},
        "sgd-dense": {"wine": 0.7, "skin": 0.005, "protein": 1.8},
        "sgld": {"wine": 2.9, "skin": 0.905, "protein": 4.5},
        "sgfs-diagonal": {"wine": 12.8, "skin": 0.864, "protein": 597.4},
        "sgfs-dense": {"wine": 0.8, "skin": 0.005, "protein": 1.3},
        "bbvi": {"wine": 44.7, "skin": 5.74, "protein": 478.1},
    }
)
"""Table 1 of Mandt, Hoffman and Blei (2016): KL to the posterior, in nats."""

METHODS = (
    "sgd-scalar",
    "sgd-diagonal",
    "sgd-dense",
    "sgd-sqrt",
    "exact-plain",
    "momentum",
    "averaged",
    "sghmc",
    "sgld",
    "sgld-paper",
    "sgfs-diagonal",
    "sgfs-dense",
    "bbvi",
    "bbvi-dense",
    "laplace",
)
"""Rows of our table: ``sgld`` takes the step our plan chooses, ``sgld-paper`` the paper's."""

_ROWS = {"sgd-dense": "full-rank SGD", "sgd-scalar": "constant SGD", "bbvi": "BBVI"}
_COLUMNS = {"wine": "linear regression (wine)", "skin": "logistic regression (skin)"}


def table1(
    folder: Path,
    console: Console,
    draws: int = 2500,
    methods: Sequence[str] = METHODS,
    data: Sequence[str] = tuple(PROBLEMS),
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """Run every method on every data set; print the table and write ``table1.json``."""
    for name in methods:
        checks.choice("method", name, METHODS)
    for name in data:
        checks.choice("data", name, tuple(PROBLEMS))
    records = []
    with each("table 1", len(methods) * len(data), progress) as ready:
        for name, method in product(data, methods):
            ready(f"{name}, {method}")
            records.append(_measured(PROBLEMS[name], method, draws))
            write_json(folder, "table1", records)
    console.print(_table(records, methods, data))
    for record in records:
        if record["note"]:
            text = f"{record['dataset']}, {record['method']}: {record['note']}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    return records


def _measured(problem: Experiment, method: str, draws: int) -> dict[str, Any]:
    """One cell of the table."""
    variant = method.removesuffix("-paper")
    given: dict[str, Any] = {"batch_size": problem.batch_size}
    post, notes = problem.posterior(), []
    if variant != method:
        given["step_size"] = problem.sgld_step
        if problem.name == "wine":
            post = problem.posterior(unit_length=True)
            notes.append(
                "columns of unit length: divided by their largest absolute value, as elsewhere in "
                "this column, K A reaches 7 at the paper's step, and any chain diverges"
            )
    target = laplace_reference(post, orn.plan(post, "laplace"))
    entry, _ = run_one(post, variant, given, target, draws, _CHAINS, _KEY, "float32")
    notes += [entry.note] if entry.note else []
    paper = PAPER.get(variant, {}).get(problem.name)
    record = asdict(replace(entry, method=method, note="; ".join(notes)))
    return {"dataset": problem.name, **record, "paper_kl": paper}


def _table(records: list[dict[str, Any]], methods: Sequence[str], data: Sequence[str]) -> Table:
    table = Table("method", title="KL to the posterior: predicted, measured (MC error) | paper")
    for name in data:
        table.add_column(name, justify="right")
    found = {(record["dataset"], record["method"]): record for record in records}
    for method in methods:
        table.add_row(method, *(_cell(found[name, method]) for name in data))
    return table


def _cell(record: dict[str, Any]) -> str:
    error = "" if record["mc_error"] is None else f" ({record['mc_error']:.2g})"
    measured = number(record["measured_kl"]) + error
    return f"{number(record['predicted_kl'])}, {measured} | {number(record['paper_kl'])}"


def figure1(
    folder: Path,
    console: Console,
    draws: int = 2500,
    progress: bool | None = None,
    methods: Sequence[str] = tuple(_ROWS),
    data: Sequence[str] = tuple(_COLUMNS),
) -> list[dict[str, Any]]:
    """Posterior, draws and prediction on the posterior's smallest and largest component.

    Writes ``figure1.png`` and ``figure1.json``.
    """
    panels, records = {}, []
    with each("figure 1", len(methods) * len(data), progress) as ready:
        for dataset, method in product(data, methods):
            ready(f"{dataset}, {method}")
            result = panels[method, dataset] = _run(dataset, method, draws)
            kl = result.measured_kl()
            covs = zip(("posterior", "predicted", "measured"), plots.projected(result), strict=True)
            records.append(
                {
                    "dataset": dataset,
                    "method": method,
                    "predicted_kl": result.plan.predicted_kl,
                    "measured_kl": kl.value,
                    "mc_error": kl.floor,
                    "draws": result.flat.shape[0] * result.flat.shape[1],
                    **{f"{name}_cov": cov.tolist() for name, cov in covs},
                }
            )
    grid = [[panels[method, dataset] for dataset in data] for method in methods]
    rows, columns = [_ROWS[method] for method in methods], [_COLUMNS[dataset] for dataset in data]
    figure = plots.projections(grid, rows, columns)
    save(folder, "figure1", records, figure, console)
    return records


def figure2(
    folder: Path, console: Console, draws: int = 2500, progress: bool | None = None
) -> dict[str, Any]:
    """Measured and predicted covariance of constant SGD's iterates on wine.

    Writes ``figure2.png`` and ``figure2.json``.
    """
    with each("figure 2", 1, progress) as ready:
        ready("wine, sgd-scalar")
        result = _run("wine", "sgd-scalar", draws)
    flat = result.flat.reshape(-1, result.plan.dim)
    own = result.measured_kl("predicted")
    record = {
        "dataset": "wine",
        "method": "sgd-scalar",
        "labels": list(result.plan.labels),
        "predicted_cov": result.plan.predicted.dense(result.plan.dim).tolist(),
        "limit_cov": result.plan.limit.dense(result.plan.dim).tolist(),
        "measured_cov": np.cov(flat, rowvar=False).tolist(),
        "divergence_from_prediction": own.value,
        "mc_error": own.floor,
        "draws": len(flat),
    }
    title = "Wine: covariance of constant SGD's iterates, in predicted standard deviations"
    save(folder, "figure2", record, plots.covariances(result, title, "predicted"), console)
    return record


def _run(data: str, name: str, draws: int) -> orn.Result:
    problem = PROBLEMS[data]
    post = problem.posterior()
    plan = orn.plan(post, name, batch_size=problem.batch_size, tolerance=None)
    settings, _ = affordable(plan, draws, _CHAINS)
    return sample_whole(post, plan, key=_KEY, dtype="float32", progress=False, **settings)


def save(folder: Path, name: str, record: Any, figure: Figure, console: Console) -> None:
    """Write a figure as PNG and its numbers as JSON."""
    write_json(folder, name, record)
    figure.savefig(folder / f"{name}.png", dpi=110)
    for suffix in ("png", "json"):
        console.print(f"wrote {folder / name}.{suffix}", markup=False, highlight=False)


def write_json(folder: Path, name: str, record: Any) -> None:
    """Write numbers as JSON, into a folder that is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")

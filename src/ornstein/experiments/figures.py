"""The paper's Figures 1 and 2 on its own data."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

import ornstein as orn
from ornstein._base.progress import each
from ornstein.api.comparison import affordable
from ornstein.api.sampling import sample_whole
from ornstein.experiments.problems import PROBLEMS
from ornstein.linalg.operators import as_matrix
from ornstein.results import plots

_ROWS = {"sgd-dense": "full-rank SGD", "sgd-scalar": "constant SGD", "bbvi": "BBVI"}
_COLUMNS = {"wine": "linear regression (wine)", "skin": "logistic regression (skin)"}
_KEY = 2016


def figure1(
    folder: Path, console: Console, draws: int = 2500, progress: bool | None = None
) -> list[dict[str, Any]]:
    """Posterior, draws and prediction on the posterior's smallest and largest component.

    Writes ``figure1.png`` and ``figure1.json``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    panels, records = {}, []
    with each("figure 1", len(_ROWS) * len(_COLUMNS), progress) as ready:
        for data, column in _COLUMNS.items():
            for name, row in _ROWS.items():
                ready(f"{data}, {name}")
                result = _run(data, name, draws)
                panels[row, column] = result
                posterior, predicted, measured = plots.projected(result)
                records.append(
                    {
                        "dataset": data,
                        "method": name,
                        "predicted_kl": result.plan.predicted_kl,
                        "measured_kl": result.measured_kl().value,
                        "mc_error": result.measured_kl().floor,
                        "draws": result.flat.shape[0] * result.flat.shape[1],
                        "posterior_cov": posterior.tolist(),
                        "predicted_cov": predicted.tolist(),
                        "measured_cov": measured.tolist(),
                    }
                )
    grid = [[panels[row, column] for column in _COLUMNS.values()] for row in _ROWS.values()]
    figure = plots.projections(grid, list(_ROWS.values()), list(_COLUMNS.values()))
    _save(folder, "figure1", figure, records, console)
    return records


def figure2(
    folder: Path, console: Console, draws: int = 2500, progress: bool | None = None
) -> dict[str, Any]:
    """Measured and predicted covariance of constant SGD's iterates on wine.

    Writes ``figure2.png`` and ``figure2.json``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with each("figure 2", 1, progress) as ready:
        ready("wine, sgd-scalar")
        result = _run("wine", "sgd-scalar", draws)
    flat = result.flat.reshape(-1, result.plan.dim)
    own = result.measured_kl("predicted")
    record = {
        "dataset": "wine",
        "method": "sgd-scalar",
        "labels": list(result.plan.labels),
        "predicted_cov": as_matrix(result.plan.predicted_cov).tolist(),
        "limit_cov": as_matrix(result.plan.limit_cov).tolist(),
        "measured_cov": np.cov(flat, rowvar=False).tolist(),
        "divergence_from_prediction": own.value,
        "mc_error": own.floor,
        "draws": len(flat),
    }
    title = "Wine: covariance of constant SGD's iterates, in predicted standard deviations"
    _save(folder, "figure2", plots.covariances(result, title, "predicted"), record, console)
    return record


def _run(data: str, name: str, draws: int) -> orn.Result:
    problem = PROBLEMS[data]
    post = problem.posterior()
    plan = orn.plan(post, name, batch_size=problem.batch_size)
    settings, _ = affordable(plan, draws, chains=4)
    return sample_whole(post, plan, key=_KEY, dtype="float32", progress=False, **settings)


def _save(folder: Path, name: str, figure: Figure, record: Any, console: Console) -> None:
    figure.savefig(folder / f"{name}.png", dpi=110)
    (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    for suffix in ("png", "json"):
        console.print(f"wrote {folder / name}.{suffix}", markup=False, highlight=False)

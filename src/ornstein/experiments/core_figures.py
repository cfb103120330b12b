"""Predicted and measured divergences on the paper's three data sets, and the README's picture."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import ornstein as orn
from ornstein import plots


@dataclass(frozen=True)
class Setting:
    """A data set with the paper's model and batch size."""

    name: str
    batch_size: int
    logistic: bool = False

    def posterior(self, data_home: str | None = None) -> orn.Posterior:
        """Columns divided by their largest absolute value (regression) or standardised."""
        data = orn.datasets.load(self.name, data_home)
        X = data.X.astype(float)
        if self.logistic:
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            return orn.models.logistic(X, data.y, feature_names=data.feature_names)
        return orn.models.linear(
            X / np.abs(X).max(axis=0), data.y, feature_names=data.feature_names
        )


SETTINGS = (
    Setting("wine", 100),
    Setting("skin", 10_000, logistic=True),
    Setting("protein", 100),
)
METHODS = (("sgd", "scalar"), ("sgd", "diagonal"), ("sgd", "dense"), ("exact", "dense"))
_MOST_ROWS = 1.5e9  # row visits of a chain; longer runs are predicted only, unless asked for


def core_figures(folder: Path, console: Console, draws: int = 2500, slow: bool = False) -> None:
    """Print the table, write it as JSON and save the picture of wine."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = ("data", "method", "gain", "KL, tiny steps", "KL predicted", "KL measured", "floor")
    table = Table(*columns)
    records = []
    for setting in SETTINGS:
        post = setting.posterior()
        for method, structure in METHODS:
            plan = orn.plan(post, method, structure, setting.batch_size)
            record = {
                "dataset": setting.name,
                "method": method,
                "structure": structure,
                "predicted_kl_ou": plan.predicted_kl_ou,
                "predicted_kl": plan.predicted_kl,
                "measured_kl": None,
                "floor": None,
            }
            if slow or draws * plan.thin * plan.batch_size < _MOST_ROWS:
                result = orn.sample(post, plan, key=2016, draws=draws, dtype="float32")
                record["measured_kl"], record["floor"] = result.measured_kl()
                if (setting.name, method) == ("wine", "exact"):
                    title = "White wine: eleven coefficients, 4,898 rows"
                    plots.projection(result, title).savefig(folder / "wine.png", dpi=110)
            records.append(record)
            table.add_row(*(_cell(value) for value in record.values()))
    (folder / "core_figures.json").write_text(json.dumps(records, indent=1) + "\n")
    console.print(table)


def _cell(value: object) -> str:
    return (
        "not run" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
    )

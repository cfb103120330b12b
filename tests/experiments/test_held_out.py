"""The paper's Figure 3: learned precisions predict as well as the best of a grid."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from ornstein.data.datasets import Dataset
from ornstein.experiments import held_out

Load = Callable[[str], Dataset]


def assert_learned_well(record: dict[str, Any]) -> None:
    """Within 1 % of the grid's best, and of the comparators'."""
    losses = {choice["method"]: choice["test_loss"] for choice in record["chosen"]}
    assert set(losses) == {"scalar", "diagonal", "exact", "bbvi", "laplace"}
    assert record["best_loss"] == min(point["test_loss"] for point in record["grid"])
    assert losses["exact"] <= 1.01 * record["best_loss"]
    assert losses["exact"] <= 1.01 * min(losses["bbvi"], losses["laplace"])


def test_figure_3_on_some_rows_of_covertype(
    dataset: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset("covertype")
    whole = held_out.PROBLEMS["covertype"]

    def few_rows() -> tuple[Any, ...]:
        """Every hundredth row, the measured columns only."""
        X, y, X_test, y_test = whole.rows()
        return X[::100, :10], y[::100], X_test[::100, :10], y_test[::100]

    small = replace(whole, rows=few_rows, grid=(1000.0, 30.0, 1.0))
    monkeypatch.setattr(held_out, "PROBLEMS", {"covertype": small})
    found = held_out.figure3(tmp_path, Console(quiet=True), ("covertype",), progress=False)
    (record,) = json.loads((tmp_path / "figure3.json").read_text())
    assert found == [record]
    assert (record["rows"], record["parameters"]) == (5000, 70)
    assert_learned_well(record)
    assert all(choice["seconds"] > 0 for choice in record["chosen"])
    assert record["fixed_seconds"] > 0
    assert (tmp_path / "figure3.png").stat().st_size > 5000


def test_covertype_is_split_once_and_for_all(dataset: Load) -> None:
    """Measured columns standardised over all rows, no row on both sides."""
    dataset("covertype")
    X, y, X_test, y_test = held_out.PROBLEMS["covertype"].rows()
    assert (len(X), len(X_test), X.shape[1]) == (500_000, 81_012, 54)
    assert (len(y), len(y_test)) == (500_000, 81_012)
    both = np.concatenate([X, X_test])[:, :10].astype(float)
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(both.std(axis=0), 1, atol=1e-6)
    assert np.bincount(np.concatenate([y, y_test])).tolist()[:2] == [211840, 283301]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(held_out.PROBLEMS))
def test_figure_3_keeps_its_promises(dataset: Load, tmp_path: Path, name: str) -> None:
    dataset(name)
    (record,) = held_out.figure3(tmp_path, Console(quiet=True), (name,), progress=False)
    assert_learned_well(record)

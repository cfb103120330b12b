"""How good a model is: rows are kept aside, and scored by a fit that has not seen them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.tables.held_out import LEAST, held_out, taken

QUICK: dict[str, Any] = {"method": "laplace", "hyper": "learn", "draws": 50}


def frame(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    rare = np.where(np.arange(rows) % 20 == 0, "rare", np.where(x > 0, "high", "low"))
    return pd.DataFrame({"x": x, "y": 10 + 3 * x + rng.normal(size=rows), "kind": rare})


def test_rows_kept_aside_are_not_learned_from() -> None:
    """Their targets do not matter to the fit that predicts them."""
    table, seen = tables.learn(frame()[["x", "y"]], "y"), list[Any]()

    def fit(part: Any) -> Any:
        seen.append(part)
        return tables.fit_table(part, **QUICK)

    scores, why = held_out(table, 0.2, 0, 3, fit)
    assert scores is not None
    assert not why
    assert scores.rows == 80
    assert len(seen[0].X) == 320
    whole = {tuple(row) for row in table.X.tolist()}
    assert len(whole - {tuple(row) for row in seen[0].X.tolist()}) == 80
    again, _ = held_out(table, 0.2, 0, 3, fit)
    other, _ = held_out(table, 0.2, 0, 4, fit)
    assert again == scores
    assert other != scores
    assert scores.values["R^2"] == pytest.approx(0.9, abs=0.05)
    assert scores.values["RMSE"] == pytest.approx(1.0, abs=0.25), "in the target's own unit"


def test_every_class_is_kept_aside_in_its_share() -> None:
    kept = list[Any]()
    table = tables.learn(frame()[["x", "kind"]], "kind")

    def fit(part: Any) -> Any:
        kept.append(np.bincount(part.y))
        return tables.fit_table(part, **QUICK)

    scores, _ = held_out(table, 0.2, 0, 0, fit)
    assert scores is not None
    assert np.abs(kept[0] - 0.8 * np.bincount(table.y)).max() <= 1
    assert scores.values["accuracy"] > scores.baseline["accuracy"] + 0.2


def test_folds_score_every_row_once() -> None:
    model = tables.fit_table(tables.learn(frame(40)[["x", "y"]], "y"), folds=4, **QUICK)
    assert model.scores is not None
    assert model.scores.rows == 40
    assert "4 parts" in model.scores.how


def test_small_tables_say_why_they_are_not_scored() -> None:
    table = tables.learn(frame(LEAST - 1)[["x", "y"]], "y")
    model = tables.fit_table(table, holdout=0.2, **QUICK)
    assert model.scores is None
    assert "--folds 5" in model.unscored
    with pytest.raises(orn.InputError, match="holdout must be a share"):
        tables.fit_table(table, holdout=1.5)
    with pytest.raises(orn.InputError, match="folds must be 2 or more"):
        tables.fit_table(table, folds=1)
    with pytest.raises(orn.InputError, match="too many"):
        tables.fit_table(table, folds=40)


def test_rows_of_a_formula_bring_trials_and_offsets() -> None:
    rng = np.random.default_rng(0)
    x, trials = rng.normal(size=200), rng.integers(5, 9, 200)
    wins = rng.binomial(trials, 1 / (1 + np.exp(-x)))
    data = pd.DataFrame({"x": x, "wins": wins, "trials": trials})
    table = tables.learn_formula(data, "p(wins, trials) ~ x + offset(0 * x)")
    part = taken(table, np.arange(5))
    assert isinstance(part, tables.FormulaTable)
    np.testing.assert_array_equal(np.asarray(part.weights), trials[:5])
    assert part.offset is not None
    assert part.offset.shape == (5,)
    model = tables.fit_table(table, holdout=0.25, method="laplace", draws=50)
    assert model.scores is not None
    assert 0.3 < model.scores.values["R^2"] < 0.9
    assert model.scores.values["90% coverage"] > 0.8


def test_the_command_line_says_it_first_and_keeps_it(tmp_path: Path) -> None:
    frame()[["x", "y"]].to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", f"{tmp_path}/t.csv", "-t", "y", "-o", f"{tmp_path}/run", "--overwrite"]
    words += ["--method", "laplace", "--draws", "50"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "R^2" in done.stderr
    assert done.stderr.index("R^2") < done.stderr.index("Did it converge?")
    assert "90% coverage" in (tmp_path / "run" / "report.html").read_text()
    kept = tables.TableModel.load(tmp_path / "run").scores
    assert kept is not None
    assert kept.rows == 80
    done = CliRunner().invoke(app, [*words, "--holdout", "0"])
    assert "No rows were held out." in done.stderr

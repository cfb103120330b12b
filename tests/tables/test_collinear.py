"""Columns that others nearly determine: seen, named, and not shrunk away."""

import numpy as np
import pandas as pd
import pytest

import ornstein as orn
from ornstein.estimators import BayesianLinearRegressor
from ornstein.models.posterior import Posterior
from ornstein.tables import collinear, learn
from ornstein.tables.fit_tables import fit_table

ROWS = 1000


def frame(gap: float = 1e-3, signal: float = 1.0) -> pd.DataFrame:
    """Two columns of which only the difference, a thousandth of either, has a large effect."""
    rng = np.random.default_rng(0)
    Z, (a, d, noise) = rng.normal(size=(2 * ROWS, 4)), rng.normal(size=(3, 2 * ROWS))
    found = pd.DataFrame(np.column_stack([Z, a, a + gap * d]), columns=list("abcdef"))
    found["y"] = Z @ [0.3, -0.2, 0.1, 0.0] + 0.5 * a + signal * d + noise
    return found


def rmse(predicted: object, target: pd.Series) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - target.to_numpy()) ** 2)))


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame, float]:
    """Rows to learn from, new ones, and the error of least squares on these."""
    whole = frame()
    train, new = whole[:ROWS], whole[ROWS:]
    design = [np.column_stack([part.drop(columns="y"), np.ones(ROWS)]) for part in (train, new)]
    coef = np.linalg.lstsq(design[0], train["y"], rcond=None)[0]
    return train, new, rmse(design[1] @ coef, new["y"])


def test_what_others_leave_of_a_column_is_that_of_least_squares_in_a_long_table() -> None:
    """More rows than one block, in units of their own and far from 0."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70_000, 3)) @ np.array([[1, 0.9, 0], [0, 0.1, 0.2], [0, 0, 1.0]])
    for number, column in enumerate(X.T):
        others = np.column_stack([np.delete(X, number, axis=1), np.ones(len(X))])
        rest = np.linalg.lstsq(others, column, rcond=None)[1][0]
        share = rest / np.sum((column - column.mean()) ** 2)
        found = collinear._unexplained(1e3 + X * [1e-3, 1.0, 50.0])
        assert found[number] == pytest.approx(share, rel=1e-6)


def test_columns_that_others_determine_are_found() -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.normal(size=(3, 1000))
    assert collinear.nearly_collinear(np.column_stack([a, b, c])) == ()
    assert collinear.nearly_collinear(np.column_stack([a, b, a + b + 0.01 * c])) == (0, 1, 2)
    exact = np.column_stack([a, b, a + b, np.ones(1000)])
    assert collinear.nearly_collinear(exact) == ()  # the rows say nothing of what separates them
    assert collinear.nearly_collinear(np.column_stack([a, a + 0.2 * b, c])) == ()


def test_one_precision_for_all_shrinks_a_difference_away(
    tables: tuple[pd.DataFrame, pd.DataFrame, float],
) -> None:
    """The loss that the default mends: learning ends at a peak where the difference has no say."""
    train, new, least_squares = tables
    X, y = train.drop(columns="y"), train["y"]
    shared = BayesianLinearRegressor(method="laplace", groups=["all"] * 6, draws=200).fit(X, y)
    assert rmse(shared.predict(new.drop(columns="y")), new["y"]) > 1.3 * least_squares


def test_the_default_keeps_the_difference(
    tables: tuple[pd.DataFrame, pd.DataFrame, float],
) -> None:
    train, new, least_squares = tables
    table = learn(train, "y", "linear")
    model = fit_table(table, method="laplace", hyper="learn", draws=200, progress=False)
    assert rmse(model.predict(new)["mean"], new["y"]) < 1.01 * least_squares
    (said,) = [remark for remark in model.remarks if "ollinear" in remark]
    assert "'e', 'f', and have a prior precision of their own" in said
    assert model.result.posterior.learnable.names["prior_precision"] == (
        "others",
        "nearly collinear",
    )


def test_estimators_draw_two_precisions(
    tables: tuple[pd.DataFrame, pd.DataFrame, float],
) -> None:
    train, new, least_squares = tables
    model = BayesianLinearRegressor(draws=100).fit(train.drop(columns="y"), train["y"])
    assert rmse(model.predict(new.drop(columns="y")), new["y"]) < 1.01 * least_squares


def test_one_precision_stays_where_the_difference_says_nothing() -> None:
    table = learn(frame(gap=0.05, signal=0.0)[:400], "y", "linear")
    model = fit_table(table, method="laplace", hyper="learn", draws=50, progress=False)
    assert isinstance(model.hyperparameters()["prior_precision"]["value"], float)
    assert any("ollinear" in remark and "'e', 'f'." in remark for remark in model.remarks)


def test_a_logistic_model_keeps_the_difference() -> None:
    rng = np.random.default_rng(2)
    whole = frame(gap=1e-3, signal=3.0)[:1000]
    won = whole["y"].to_numpy() > rng.logistic(size=1000)
    table, right = whole.drop(columns="y").assign(won=won), []
    for some in (table, table.drop(columns="f")):
        encoded = learn(some, "won", "logistic")
        model = fit_table(encoded, method="laplace", hyper="learn", draws=50, progress=False)
        right.append(np.mean((model.predict(some)["p(True)"] > 0.5) == won))
    assert right[0] > right[1] + 0.15


def test_a_table_of_nothing_but_collinear_columns() -> None:
    rng = np.random.default_rng(3)
    a, d, noise = rng.normal(size=(3, 300))
    X = np.column_stack([a, a + 1e-3 * d])
    post: Posterior = orn.models.linear((X - X.mean(0)) / X.std(0), d + noise, intercept=True)
    started = collinear.chosen(post, None, X, (0, 1))
    assert float(started.hyperparameters["prior_precision"]) < 1e-3

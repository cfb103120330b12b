"""A family defined here, in one file, goes through everything that the library's own do."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.models.families import (
    FAMILIES,
    Bernoulli,
    Family,
    Gaussian,
    Poisson,
    TargetColumn,
)
from ornstein.models.ready_made import Prior, of_family
from ornstein.results import predictive

Floats = np.ndarray[Any, np.dtype[np.float64]]
TRUTH = np.array([0.5, -0.3, 1.0])


@dataclass(frozen=True)
class Exponential(Family):
    """``y`` exponential with mean ``exp(eta)``: waiting times. The link is not canonical."""

    name = "waiting"
    canonical = False

    def loss(self, eta: Any, y: Any, hyper: Any) -> Any:
        del hyper
        return eta + y * jnp.exp(-eta)

    def mean(self, eta: Any, hyper: Any) -> Any:
        del hyper
        return jnp.exp(eta)

    def expectation(self, eta: Any, numbers: Any) -> Any:
        del numbers
        return np.exp(eta)

    def variance(self, eta: Any, numbers: Any) -> Any:
        del numbers
        return np.exp(2 * eta)

    def simulate(self, eta: Any, numbers: Any, rng: np.random.Generator) -> Any:
        del numbers
        return rng.exponential(np.exp(eta))

    @classmethod
    def recognise(cls, column: TargetColumn) -> str | None:
        return "It waits." if column.name == "wait" else None

    @classmethod
    def check_column(cls, column: TargetColumn) -> None:
        super().check_column(column)
        if np.min(np.asarray(column.values)) <= 0:
            raise orn.InputError("waiting times must be above 0.")


def exponential(X: Floats, y: Floats) -> orn.Posterior:
    """Its public builder."""
    return of_family(Exponential, X, y, Prior(1.0, intercept=True))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, Exponential.name, Exponential)


def rows(count: int = 1500) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, 2))
    return X, rng.exponential(np.exp(X @ TRUTH[:2] + TRUTH[2]))


def test_derivatives_follow_from_the_loss() -> None:
    X, y = rows(20)
    post = exponential(X, y)
    theta = np.array([0.2, 0.1, -0.3])
    eta = X @ theta[:2] + theta[2]
    with jax.enable_x64(True):
        found = Exponential().residual(jnp.asarray(eta), jnp.asarray(y), {})
        bent = Exponential().curvature(jnp.asarray(eta), jnp.asarray(y), {})
    np.testing.assert_allclose(found, 1 - y * np.exp(-eta), rtol=1e-12)
    np.testing.assert_allclose(bent, y * np.exp(-eta), rtol=1e-12)
    assert post.labels == ["coef[0]", "coef[1]", "intercept"]


@pytest.mark.parametrize("family", [Exponential(), Gaussian(), Bernoulli(), Poisson()])
def test_anchored_rows_have_the_residuals_from_the_anchor(family: Family) -> None:
    rng = np.random.default_rng(0)
    eta, step, y = rng.normal(size=50), rng.normal(size=50), rng.integers(0, 2, 50).astype(float)
    hyper = {"noise_scale": np.asarray(0.7)}
    rows = family.fold_anchored(step[:, None], eta, y, hyper)
    with jax.enable_x64(True):
        found = family.folded_residual(jnp.asarray(rows["x"][:, 0]), rows, hyper)
        there, here = (
            family.residual(jnp.asarray(at), jnp.asarray(y), hyper) for at in (eta + step, eta)
        )
    np.testing.assert_allclose(found, there - here, atol=1e-12)


@pytest.mark.parametrize("control_variates", [True, False])
def test_its_draws_are_those_of_its_posterior(control_variates: bool) -> None:
    X, y = rows()
    post = exponential(X, y)
    plan = orn.plan(post, control_variates=control_variates)
    assert plan.predicted_kl < 0.01
    result = orn.sample(post, plan, draws=1000)
    value, floor = result.measured_kl()
    assert value < 0.02 + 3 * floor
    assert {check.name: check.verdict for check in result.diagnose()}["stationarity"] == "ok"
    off = np.abs(result.flat.mean(axis=(0, 1)) - TRUTH) * np.sqrt(len(y))
    assert off.max() < 5


def test_its_draws_predict() -> None:
    X, y = rows()
    result = orn.sample(exponential(X, y), draws=500, method="laplace")
    draws = predictive.Coefficients.of_result(result)
    assert draws.model == "waiting"
    found = predictive.summarise(draws, X)
    np.testing.assert_allclose(found.std, found.mean, rtol=0.02)
    inside = (found.low <= y) & (y <= found.high)
    assert 0.87 < inside.mean() < 0.93
    np.testing.assert_allclose(predictive.expectation(draws, X), found.mean)
    simulated = predictive.simulate(draws, X, np.random.default_rng(0))
    assert simulated.shape == (2000, len(X))
    best = -(np.log(found.mean) + y / found.mean)
    np.testing.assert_allclose(predictive.log_score(draws, X, y), best, atol=0.05)
    with pytest.raises(orn.InputError, match="waiting model has no class"):
        predictive.probabilities(draws, X)


def frame() -> pd.DataFrame:
    X, y = rows(600)
    return pd.DataFrame({"age": 40 + 10 * X[:, 0], "size": X[:, 1], "wait": y})


def test_a_table_is_recognised_fitted_kept_and_asked(tmp_path: Path) -> None:
    assert tables.guess_model(frame(), "wait") == ("waiting", "It waits.")
    with pytest.raises(orn.InputError, match="above 0"):
        tables.learn(frame().assign(wait=-frame()["wait"]), "wait", "waiting")
    model = tables.fit_table(tables.learn(frame(), "wait", "waiting"), draws=200)
    found = model.summary()
    assert list(found.index) == ["age", "size", "intercept"]
    truth = [TRUTH[0] / 10, TRUTH[1], TRUTH[2] - 4 * TRUTH[0]]
    assert (np.abs(found["mean"] - truth) < 4 * found["sd"]).all()
    assert list(model.hyperparameters()) == ["prior_precision"]
    frame().to_csv(tmp_path / "queue.csv", index=False)
    done = CliRunner().invoke(
        app,
        [
            *("fit", f"{tmp_path}/queue.csv", "-t", "wait", "-m", "waiting"),
            *("--holdout", "0"),
            *("-o", f"{tmp_path}/run", "--draws", "20", "--method", "laplace"),
        ],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    assert re.search("Learned: prior precision", done.stderr)


def test_without_registration_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "waiting")
    with pytest.raises(orn.InputError, match="linear, logistic, softmax, poisson"):
        tables.learn(frame(), "wait", "waiting")
    assert tables.guess_model(frame(), "wait")[0] == "linear"

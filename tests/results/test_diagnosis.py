"""Toys that break one assumption each must fail that assumption's row."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import DivergenceWarning
from support.problems import as_generic, features, regression
from support.sizes import set_limits

NAMES = ["A1", "A2", "A3", "A4", "model", "stationarity", "covariance"]


def verdicts(result: orn.Result) -> dict[str, str]:
    return {check.name: check.verdict for check in result.diagnose()}


def test_A4_a_gaussian_of_correlated_parameters_passes_where_only_diagonals_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, dense=2)
    X = features(500, 3) @ np.array([[1.0, 0.9, 0.5], [0.0, 0.4, 0.3], [0.0, 0.0, 0.5]])
    result = orn.sample(orn.models.linear(X, X.sum(axis=1)), method="laplace", draws=100)
    assert result.plan.geometry.structure == "diagonal"
    check = result.diagnose()["A4"]
    assert check.verdict == "ok", check
    assert "warmup" not in result.diagnose()["stationarity"].remedy
    with pytest.raises(orn.InputError, match="check='A9'"):
        result.diagnose()["A9"]


@pytest.mark.parametrize("anchored", [False, True])
def test_a_well_specified_regression_passes_every_row(anchored: bool) -> None:
    result = orn.sample(
        regression(rows=5000), batch_size=100, draws=1000, control_variates=anchored
    )
    diagnosis = result.diagnose()
    names = [*NAMES[:2], "anchor", *NAMES[2:]] if anchored else NAMES
    assert [check.name for check in diagnosis] == names
    assert {check.verdict for check in diagnosis} == {"ok"}
    assert diagnosis.ok
    assert all(np.isfinite(check.number) for check in diagnosis)
    assert "A4" in str(diagnosis)


def test_A1_heavy_tailed_rows_fail() -> None:
    X = features(2000, 2)
    y = X[:, 0] + np.random.default_rng(0).normal(size=2000)
    y[7] += 400.0
    result = orn.sample(
        orn.models.linear(X, y, noise_scale=9.0), batch_size=50, draws=500, control_variates=False
    )
    assert verdicts(result)["A1"] == "fail"
    assert "batch_size" in result.diagnose()["A1"].remedy


def test_A2_noise_that_grows_over_a_wide_posterior_fails() -> None:
    """Few rows and little noise at the optimum: off it, the residuals are much larger."""
    X = features(60, 5)
    y = X @ np.ones(5) + 0.1 * np.random.default_rng(0).normal(size=60)
    result = orn.sample(orn.models.linear(X, y), batch_size=10, draws=500, control_variates=False)
    assert verdicts(result)["A2"] == "fail"
    assert verdicts(result)["A4"] == "ok"


def test_A3_large_steps_fail_for_the_papers_gain_and_not_for_the_exact_one() -> None:
    post = regression(rows=300)
    coarse = orn.sample(post, method="sgd", batch_size=90, batches="windows", draws=500)
    assert verdicts(coarse)["A3"] == "fail"
    exact = orn.sample(post, method="exact", batch_size=90, draws=500)
    assert verdicts(exact)["A3"] == "ok"


def test_A4_a_strongly_non_gaussian_posterior_fails() -> None:
    """One event in each of four groups: the log rates' posteriors are skewed."""
    group = np.repeat(np.eye(4), 50, axis=0)
    count = (np.arange(200) % 50 == 0).astype(float)
    post = orn.Posterior(
        lambda rate, row: row["count"] * (row["group"] @ rate) - jnp.exp(row["group"] @ rate),
        lambda rate: -0.5 * rate @ rate / 100,
        {"group": group, "count": count},
        init=np.zeros(4),
    )
    plan = orn.plan(post, "exact", batch_size=100, control_variates="first", tolerance=None)
    result = orn.sample(post, plan, draws=1000)
    found = verdicts(result)
    assert found["A4"] == "fail"
    assert result.diagnose().verdict != "ok"


@pytest.mark.parametrize(("noise_scale", "word"), [(0.3, "times more"), (3.0, "times less")])
def test_a_misspecified_model_fails_its_row(noise_scale: float, word: str) -> None:
    post = regression(rows=3000, noise_scale=noise_scale)
    result = orn.sample(post, batch_size=100, draws=500)
    check = result.diagnose()["model"]
    assert check.verdict == "fail"
    assert word in check.meaning
    assert "noise scale" in check.remedy


def test_a_custom_model_is_judged_by_its_noise_and_the_sandwich_allows_for_it() -> None:
    post = as_generic(regression(rows=3000, noise_scale=0.3))
    check = orn.sample(post, method="laplace", draws=100).diagnose()["model"]
    assert check.verdict == "fail"
    assert "too narrow" in check.remedy
    assert "method='sandwich'" in check.remedy
    robust = orn.sample(post, method="sandwich", draws=500).diagnose()
    assert robust["model"].verdict == "ok"
    assert "sandwich" in robust.allowed


def test_a_full_sampler_is_not_told_to_be_one() -> None:
    """What A4 recommends goes away when it is followed."""
    X = features(80, 2)
    post = orn.models.logistic(4 * X, X[:, 0] > 0, prior_precision=0.01)
    laplace = orn.sample(post, method="laplace", draws=500).diagnose()
    assert laplace["A4"].verdict != "ok"
    assert "method='nuts'" in laplace["A4"].remedy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergenceWarning)  # of a few trajectories
        full = orn.sample(post, method="nuts", draws=500).diagnose()
    assert "nuts" not in " ".join(check.remedy for check in full)
    assert full.verdict != "fail"


def test_a_chain_that_still_drifts_fails_stationarity() -> None:
    post = regression(rows=3000)
    plan = orn.plan(post, batch_size=10, control_variates=False)
    result = orn.sample(post, plan, draws=400, thin=1, warmup=0, dispersion=20.0)
    assert verdicts(result)["stationarity"] == "fail"
    few = orn.sample(post, plan, draws=6)
    assert verdicts(few)["stationarity"] == "fail"


def test_draws_of_the_wrong_covariance_fail_their_row() -> None:
    """A plan that believes in windows, fed by an epoch loader."""
    import dataclasses

    post = regression(rows=2000)
    plan = orn.plan(post, batch_size=100, rho=0.1, control_variates=False)
    loader = dataclasses.replace(plan.batches, scheme="epochs")
    result = orn.sample(post, dataclasses.replace(plan, batches=loader), draws=1000)
    assert verdicts(result)["covariance"] == "fail"

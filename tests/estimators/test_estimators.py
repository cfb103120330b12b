"""Estimators: units, learning, streams, weights, pipelines, folders."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import ornstein as orn
from ornstein.estimators import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianPoissonRegressor,
)
from support.montecarlo import Floats

QUICK: dict[str, Any] = {"draws": 100, "method": "laplace"}


def table(rows: int = 300, seed: int = 0) -> tuple[Floats, Floats]:
    """Columns of very unequal units."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5000.0, 1.0]
    y = 40 + X @ [10.0, 0.2, -5000.0] + 20 * rng.normal(size=rows)
    return X, y


def targets(y: Floats) -> dict[str, Any]:
    """A target for every kind of estimator."""
    z = (y - y.mean()) / y.std()
    rng = np.random.default_rng(7)
    return {
        "linear": y,
        "poisson": rng.poisson(np.exp(0.5 + 0.5 * z)),
        "logistic": np.where(z + 0.5 * rng.logistic(size=len(z)) > 0, "yes", "no"),
        "softmax": np.digitize(z + 0.5 * rng.normal(size=len(z)), [-0.5, 0.5]) * 10,
    }


KINDS: dict[str, Any] = {
    "linear": BayesianLinearRegressor,
    "poisson": BayesianPoissonRegressor,
    "logistic": BayesianLogisticClassifier,
    "softmax": BayesianLogisticClassifier,
}


def test_a_linear_fit_is_that_of_bayesian_ridge() -> None:
    """In standardised units, where its two hyperparameters are learned by the same evidence."""
    X, y = table()
    X, y = X - X.mean(axis=0), y - y.mean()
    model = BayesianLinearRegressor("learn", fit_intercept=False).fit(X, y)
    Z, t = X / X.std(axis=0), y / y.std()
    ridge = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=999, fit_intercept=False
    ).fit(Z, t)
    assert model.noise_scale_ == pytest.approx(y.std() / np.sqrt(ridge.alpha_), rel=1e-4)
    assert model.prior_precision_ == pytest.approx(ridge.lambda_, rel=1e-3)
    np.testing.assert_allclose(model.coef_ * X.std(axis=0) / y.std(), ridge.coef_, rtol=1e-5)
    mean, std = model.predict(X[:20], return_std=True)
    expected, spread = ridge.predict(Z[:20], return_std=True)
    np.testing.assert_allclose(mean, y.std() * expected, rtol=1e-5)
    # Of 4,000 draws, the relative error of a standard deviation is 1 / sqrt(8,000).
    np.testing.assert_allclose(std, y.std() * spread, rtol=5 / np.sqrt(8000))
    deviations = np.sqrt(np.diag(ridge.sigma_)) * y.std() / X.std(axis=0)
    np.testing.assert_allclose(model.coef_std_, deviations, rtol=5 / np.sqrt(8000))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", list(KINDS))
def test_units_do_not_matter(name: str, intercept: bool) -> None:
    X, y = table()
    target = targets(y)[name]
    X = X if intercept else X - X.mean(axis=0)
    model = KINDS[name](fit_intercept=intercept, **QUICK)
    plain = clone(model).fit(X, target)
    scaled = clone(model).fit(X * [7.0, 1e-6, 1e6], target)
    np.testing.assert_allclose(scaled.coef_ * [7.0, 1e-6, 1e6], plain.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled.intercept_, plain.intercept_, rtol=1e-6, atol=1e-8)
    assert intercept or not np.any(plain.intercept_)
    if name == "linear":
        np.testing.assert_allclose(plain.predict(X), scaled.predict(X * [7.0, 1e-6, 1e6]))
    elif name == "poisson":
        assert np.isclose(plain.predict(X).mean(), np.mean(target), rtol=0.02) or not intercept
    else:
        assert plain.score(X, target) > 0.5


def test_given_hyperparameters_are_kept_and_nothing_is_learned() -> None:
    X, y = table()
    model = BayesianLinearRegressor(prior_precision=3.0, noise_scale=25.0, **QUICK).fit(X, y)
    assert (model.prior_precision_, model.noise_scale_) == (3.0, 25.0)
    assert model.posterior_.learning is None
    learned = BayesianLinearRegressor(noise_scale=25.0, **QUICK).fit(X, y)
    assert learned.posterior_.learning is not None
    assert set(learned.posterior_.learning.values) == {"prior_precision"}
    each = BayesianLogisticClassifier(prior_precision=[1.0, 2.0, 3.0], **QUICK)
    each.fit(X, targets(y)["logistic"])
    assert np.array_equal(each.prior_precision_, [1.0, 2.0, 3.0])
    by_column = BayesianLinearRegressor(groups="columns", **QUICK).fit(X, y)
    assert np.shape(by_column.prior_precision_) == (3,)
    assert by_column.posterior_.learning is not None
    assert by_column.posterior_.learning.converged


def test_columns_that_determine_the_target_leave_some_noise() -> None:
    X, _ = table(60)
    model = BayesianLinearRegressor(**QUICK).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), X[:, 0], atol=1e-3)
    assert 0 < model.noise_scale_ < 1e-3
    constant = BayesianLinearRegressor(**QUICK).fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, atol=1e-6)


@pytest.mark.parametrize("name", list(KINDS))
def test_whole_weights_are_repeated_rows(name: str) -> None:
    X, y = table(80)
    target = targets(y)[name]
    weights = np.random.default_rng(1).integers(0, 4, 80)
    model = KINDS[name](**QUICK)
    weighted = clone(model).fit(X, target, sample_weight=weights)
    repeated = clone(model).fit(X.repeat(weights, axis=0), target.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    np.testing.assert_allclose(weighted.coef_std_, repeated.coef_std_, rtol=1e-6)
    np.testing.assert_allclose(weighted.prior_precision_, repeated.prior_precision_, rtol=1e-6)


def test_class_weights_multiply_those_of_rows() -> None:
    X, y = table(120)
    labels = targets(y)["softmax"]
    model = BayesianLogisticClassifier(**QUICK)
    given = clone(model).set_params(class_weight={0: 2.0, 10: 1.0, 20: 3.0}).fit(X, labels)
    by_row = clone(model).fit(X, labels, sample_weight=np.array([2.0, 1.0, 3.0])[labels // 10])
    np.testing.assert_allclose(given.coef_, by_row.coef_, rtol=1e-12)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, labels)
    share = 120 / (3 * np.bincount(labels // 10))
    by_row = clone(model).fit(X, labels, sample_weight=share[labels // 10])
    np.testing.assert_allclose(balanced.coef_, by_row.coef_, rtol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_stream_of_linear_rows_is_all_of_them(intercept: bool) -> None:
    X, y = table(400)
    X[:50, 2] = 1.0  # which does not vary in the first part
    weights = np.random.default_rng(0).uniform(0, 2, 400)
    whole = BayesianLinearRegressor(fit_intercept=intercept, **QUICK).fit(X, y, weights)
    stream = clone(whole)
    for part in (slice(0, 50), slice(50, 51), slice(51, 400)):
        stream.partial_fit(X[part], y[part], weights[part])
    for name in ("coef_", "intercept_", "noise_scale_", "prior_precision_", "coef_std_"):
        np.testing.assert_allclose(getattr(stream, name), getattr(whole, name), rtol=1e-5)
    late = clone(whole).fit(X[:200], y[:200], weights[:200])
    late.partial_fit(X[200:], y[200:], weights[200:])
    np.testing.assert_allclose(late.coef_, whole.coef_, rtol=1e-5)


@pytest.mark.parametrize("name", ["poisson", "logistic", "softmax"])
def test_a_stream_comes_near_the_posterior_of_all_rows(name: str) -> None:
    """Laplace's approximation of the rows before: off by a part of a standard deviation."""
    X, y = table(2000)
    target = targets(y)[name]
    whole = KINDS[name](**QUICK).fit(X, target)
    stream = clone(whole)
    classes = {} if name == "poisson" else {"classes": np.unique(target)}
    for part in np.array_split(np.arange(2000), 4):
        stream.partial_fit(X[part], target[part], **classes)
    off = np.abs(stream.coef_ - whole.coef_) / whole.coef_std_
    assert off.max() < 0.5
    np.testing.assert_allclose(stream.coef_std_, whole.coef_std_, rtol=0.15)


def test_streams_of_classes_may_lack_some() -> None:
    X, y = table(90)
    labels = targets(y)["logistic"]
    model = BayesianLogisticClassifier(**QUICK)
    with pytest.raises(orn.InputError, match="classes must be given"):
        model.partial_fit(X, labels)
    later = np.arange(60, 90)
    parts = [np.arange(60), later[labels[60:] == "no"], later[labels[60:] == "yes"]]
    for part in parts:
        model.partial_fit(X[part], labels[part], classes=["no", "yes"])
    whole = clone(model).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=0.1)
    with pytest.raises(orn.InputError, match="none of the classes"):
        model.partial_fit(X[:3], ["no", "yes", "maybe"])
    with pytest.raises(orn.InputError, match="classes changed"):
        model.partial_fit(X[:3], ["no", "yes", "no"], classes=["maybe", "no", "yes"])
    balanced = BayesianLogisticClassifier(class_weight="balanced", **QUICK)
    with pytest.raises(orn.InputError, match="all rows at once"):
        balanced.partial_fit(X, labels, classes=["no", "yes"])


def test_predictions_average_over_draws() -> None:
    X, y = table()
    labels = targets(y)
    model = BayesianLogisticClassifier(**QUICK).fit(X, labels["softmax"])
    eta = np.einsum("dkf,nf->dkn", model.draws_.coef, X[:5]) + model.draws_.intercept[..., None]
    chances = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[:5]), chances.mean(axis=0).T)
    np.testing.assert_allclose(model.predict_log_proba(X[:5]), np.log(model.predict_proba(X[:5])))
    drawn = model.sample_predictive(X[:5], draws=50)
    assert drawn.shape == (50, 5)
    assert set(np.unique(drawn)) <= {0, 10, 20}
    counts = BayesianPoissonRegressor(**QUICK).fit(X, labels["poisson"])
    rates = np.exp(counts.draws_.coef @ X[:5].T + counts.draws_.intercept[:, None])
    mean, std = counts.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, rates.mean(axis=0))
    np.testing.assert_allclose(std**2, rates.var(axis=0) + mean)
    low, high = counts.predict_interval(X[:5], interval=0.5)
    assert np.all(low <= high)
    assert counts.sample_predictive(X[:5]).shape == (400, 5)


def test_rates_with_exposures_are_counts() -> None:
    rng = np.random.default_rng(0)
    X, years = rng.normal(size=(200, 2)), rng.integers(1, 6, 200)
    counts = rng.poisson(years * np.exp(X @ [0.5, -0.3]))
    model = BayesianPoissonRegressor(prior_precision=1.0, **QUICK)
    model.fit(X, counts / years, sample_weight=years)
    theta = model.posterior_.plan.center
    Z = (X - np.average(X, axis=0, weights=years)) / np.sqrt(
        np.average((X - np.average(X, axis=0, weights=years)) ** 2, axis=0, weights=years)
    )
    slope = Z.T @ (counts - years * np.exp(Z @ theta[:2] + theta[2]))
    np.testing.assert_allclose(slope, theta[:2], rtol=1e-6)


@pytest.mark.parametrize("name", list(KINDS))
def test_predictions_before_a_fit_say_so(name: str) -> None:
    for method in ("predict", "predict_proba", "predict_interval", "sample_predictive"):
        if hasattr(KINDS[name], method):
            with pytest.raises(NotFittedError):
                getattr(KINDS[name](), method)(table(9)[0])


def test_names_pipelines_and_grids() -> None:
    X, y = table(120)
    frame = pd.DataFrame(X, columns=["age", "size", "weight"])
    model = BayesianLinearRegressor(**QUICK).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["age", "size", "weight"]
    assert model.posterior_.plan.labels[0] == "coef[age]"
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["size", "age", "weight"]])
    chain = make_pipeline(PolynomialFeatures(2), BayesianLinearRegressor(**QUICK))
    grid = {"bayesianlinearregressor__prior_precision": [1.0, "learn"]}
    search = GridSearchCV(chain, grid, cv=2).fit(frame, y)
    assert search.best_score_ > 0.3


@pytest.mark.parametrize("name", list(KINDS))
def test_folders_keep_what_was_fitted(tmp_path: Path, name: str) -> None:
    X, y = table(100)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    target = targets(y)[name]
    options = {"class_weight": dict.fromkeys(np.unique(target), 1.5)} if name == "softmax" else {}
    model = KINDS[name](**options, **QUICK).fit(frame, target)
    again = orn.estimators.load(model.save(tmp_path / "model"))
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(again.coef_std_, model.coef_std_)
    np.testing.assert_array_equal(again.sample_predictive(frame), model.sample_predictive(frame))
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert "coef" in arviz.from_netcdf(str(tmp_path / "model" / "draws.nc"))["posterior"]
    more = {} if name in ("linear", "poisson") else {"classes": np.unique(target)}
    for one in (again, model):
        one.partial_fit(frame[:40], target[:40], **more)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    with pytest.raises(orn.InputError, match="not empty"):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)


@pytest.mark.parametrize("name", ["estimator.json", "draws.nc", "stream.orn"])
def test_damaged_folders_are_refused(tmp_path: Path, name: str) -> None:
    X, y = table(40)
    path = BayesianLinearRegressor(**QUICK).fit(X, y).save(tmp_path / "model") / name
    whole = path.read_bytes()
    for damage in (b"", whole[: len(whole) // 2], b"{}", bytes(64)):
        path.write_bytes(damage)
        with pytest.raises(orn.InputError, match=r"is damaged|version None"):
            orn.estimators.load(tmp_path / "model")
    path.unlink()
    with pytest.raises(orn.InputError, match=f"it has no {name}"):
        orn.estimators.load(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "SVC"},
        {"estimator": "load"},
        {"parameters": {"exec": 1}},
        {"columns": 2},
        {"columns": "3"},
        {"names": ["a"]},
        {"coef": [1.0, None, 2.0]},
        {"intercept": []},
        {"seed": "x"},
        {"noise_scale": {}},
    ],
)
def test_strange_folders_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    X, y = table(40)
    path = BayesianLinearRegressor(**QUICK).fit(X, y).save(tmp_path / "model") / "estimator.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(orn.InputError, match="is damaged"):
        orn.estimators.load(tmp_path / "model")


def test_copies_go_without_the_rows(tmp_path: Path) -> None:
    X, y = table(40)
    model = BayesianLinearRegressor(**QUICK).fit(X, y)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        with pytest.raises(AttributeError, match="fit again"):
            _ = again.posterior_
    model.set_params(random_state=np.random.RandomState(0))
    with pytest.raises(orn.InputError, match="random_state"):
        model.save(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior_precision": "lern"}, "prior_precision='lern' is not known.*'learn'"),
        ({"prior_precision": -1.0}, "prior_precision must be a finite number above 0"),
        ({"prior_precision": [1.0]}, r"one for each of 3 columns .*; found 1"),
        ({"noise_scale": "x"}, "noise_scale='x' is not known"),
        ({"noise_scale": 0.0}, "noise_scale must be a finite number above 0"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False"),
        ({"method": "sdg"}, "method='sdg' is not known.*'sgd'"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"random_state": "a"}, "random_state must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"groups": ["a"]}, "groups must name a group for each of 3 columns"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    X, y = table(30)
    with pytest.raises(orn.InputError, match=message):
        BayesianLinearRegressor(**{**QUICK, **options}).fit(X, y)


def test_bad_tables() -> None:
    X, y = table(30)
    with pytest.raises(TypeError, match=r"[Ss]parse.*toarray"):
        BayesianLinearRegressor(**QUICK).fit(scipy.sparse.csr_array(X), y)
    with pytest.raises(orn.InputError, match="0 or above, for a Poisson model"):
        BayesianPoissonRegressor(**QUICK).fit(X, y - y.mean())
    labels = targets(y)["logistic"]
    with pytest.raises(orn.InputError, match="one class only"):
        BayesianLogisticClassifier(**QUICK).fit(X, labels, sample_weight=labels == "yes")
    with pytest.raises(orn.InputError, match="class_weight"):
        BayesianLogisticClassifier(class_weight={"nope": 1.0}, **QUICK).fit(X, labels)
    with pytest.raises(AttributeError, match=r"attribute '?estimator"):
        _ = orn.estimator  # type: ignore[attr-defined]

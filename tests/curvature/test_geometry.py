"""A and C at a point, and the optimum."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature import optimum, row_sums
from ornstein.curvature.optimum import find_optimum
from ornstein.curvature.row_sums import block_rows
from ornstein.curvature.structures.contract import SearchUnits
from ornstein.curvature.structures.dense import DenseStructure
from support.problems import as_generic, features, regression, zoo
from support.sizes import set_limits

MODELS = ["linear", "logistic", "softmax", "poisson"]


def at(post: orn.Posterior, value: float = 0.1) -> object:
    return post.layout.unravel(np.full(post.dim, value))


@pytest.mark.parametrize("name", MODELS)
def test_generic_models_and_closed_forms_agree(name: str) -> None:
    post = zoo()[name]
    closed = orn.geometry(post, at(post))
    generic = orn.geometry(as_generic(post), at(post))
    for field in ("hessian", "noise_cov", "gradient", "prior_hessian"):
        found, expected = (
            np.asarray(getattr(getattr(known, field), "array", getattr(known, field)))
            for known in (closed, generic)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_linear_regression_by_hand() -> None:
    X = features(80, 3)
    y = X[:, 0] - 0.3
    post = orn.models.linear(X, y, prior_precision=2.0, noise_scale=0.5)
    theta = np.array([0.2, -0.1, 0.4])
    found = orn.geometry(post, {"coef": theta})
    gradients = X * ((X @ theta - y) / 0.25)[:, None] + 2.0 * theta / 80
    np.testing.assert_allclose(found.hessian.array, X.T @ X / 0.25 / 80 + 2.0 * np.eye(3) / 80)
    np.testing.assert_allclose(found.noise_cov.array, np.cov(gradients.T, bias=True))
    np.testing.assert_allclose(found.gradient, gradients.mean(axis=0))


@pytest.mark.parametrize("generic", [False, True])
def test_blocks_do_not_change_the_sums(generic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    post = zoo()["softmax"]
    post = as_generic(post) if generic else post
    whole = orn.geometry(post, at(post))
    monkeypatch.setattr(row_sums, "_BLOCK_NUMBERS", 65 * post.dim)  # 240 rows: 65 + 65 + 65 + 45
    assert block_rows(post) == 65
    blocked = orn.geometry(post, at(post))
    np.testing.assert_allclose(blocked.hessian.array, whole.hessian.array, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        blocked.noise_cov.array, whole.noise_cov.array, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("generic", [False, True])
def test_structures_are_parts_of_the_dense_one(generic: bool) -> None:
    post = zoo()["logistic"]
    post = as_generic(post) if generic else post
    dense, diagonal, scalar = (
        orn.geometry(post, at(post), structure) for structure in ("dense", "diagonal", "scalar")
    )
    for field in ("hessian", "noise_cov", "prior_hessian"):
        expected = np.diag(getattr(dense, field).array)
        np.testing.assert_allclose(getattr(diagonal, field).array, expected, rtol=1e-12)
        np.testing.assert_allclose(getattr(scalar, field).array, expected.mean(), rtol=1e-12)
    assert (dense.structure, diagonal.structure, scalar.structure) == (
        "dense",
        "diagonal",
        "scalar",
    )


def test_subsamples_come_with_honest_standard_errors() -> None:
    post = regression(rows=4000)
    center = at(post)
    truth = orn.geometry(post, center)
    assert not truth.hessian_error.array.any()
    scores = []
    for key in range(40):
        part = orn.geometry(post, center, rows=1000, key=key)
        assert part.rows_used == 1000
        scores.append((part.hessian.own - truth.hessian.own) / part.hessian_error.own)
        scores.append((part.noise_cov.own - truth.noise_cov.own) / part.noise_cov_error.own)
    spread = np.sqrt(np.mean(np.square(scores)))
    # 240 scores, correlated within a subsample: at least 40 are independent.
    assert 0.7 < spread < 1.35
    assert np.array_equal(
        orn.geometry(post, center, rows=1000, key=7).hessian.array,
        orn.geometry(post, center, rows=1000, key=7).hessian.array,
    )


def test_geometry_is_double_precision_whatever_the_mode() -> None:
    post = zoo()["poisson"]
    expected = orn.geometry(post, at(post)).hessian.array
    with jax.enable_x64(False):
        for same in (post, as_generic(post)):
            found = orn.geometry(same, at(post)).hessian.array
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_optimum_of_a_linear_regression_is_its_ridge_solution() -> None:
    X = features(200, 4) * np.array([1e-4, 1.0, 30.0, 1e5])
    y = X @ np.array([1e4, 1.0, 0.03, 1e-5]) + np.random.default_rng(0).normal(size=200)
    post = orn.models.linear(X, y, prior_precision=0.5)
    expected = np.linalg.solve(X.T @ X + 0.5 * np.eye(4), X.T @ y)
    np.testing.assert_allclose(find_optimum(post), expected, rtol=1e-9)
    np.testing.assert_allclose(find_optimum(as_generic(post)), expected, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_vanishes_at_the_optimum(name: str) -> None:
    post = zoo()[name]
    found = orn.geometry(post, post.layout.unravel(find_optimum(post)))
    step = np.linalg.solve(found.hessian.array, found.gradient)
    assert post.num_data * found.gradient @ step < 1e-20


def test_newton_finds_its_way_from_where_the_loss_is_not_convex() -> None:
    """A Cauchy location: the loss is concave far from the data."""
    y = np.array([1.0, 1.2, 0.9, 1.1, 1.3])
    post = orn.Posterior(
        lambda params, row: -jnp.log1p((row - params) ** 2),
        lambda params: -0.5 * 1e-4 * params**2,
        y,
        init=np.array(30.0),
    )
    assert abs(find_optimum(post)[0] - 1.1) < 0.02


@pytest.mark.parametrize("start", [0.0, 30.0])
def test_a_long_search_goes_by_the_optimum_of_a_sample(
    start: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = (rng.random(20_000) < 1 / (1 + np.exp(-X @ np.array([1.0, -2.0, 0.5])))).astype(int)
    post = orn.models.logistic(X, y)
    post = post.with_hyper({"prior_precision": 1.0}, {"coef": np.full(3, start)})
    newton = find_optimum(post)
    looked: list[int] = []
    evaluate = row_sums.loss_and_gradient

    def counted(post: orn.Posterior, theta: Any, rows: Any = None, single: bool = False) -> Any:
        looked.append(post.num_data if rows is None else len(rows["y"]))
        return evaluate(post, theta, rows, single)

    monkeypatch.setattr(optimum, "loss_and_gradient", counted)
    monkeypatch.setattr(optimum, "_CHEAP", 0)
    search = SearchUnits(rows=1000, tolerance=1e-3, by_sample=True)
    monkeypatch.setattr(DenseStructure, "search", search)
    deviations = 1 / np.sqrt(20_000 * orn.geometry(post, {"coef": newton}).hessian.own)
    assert np.all(np.abs(find_optimum(post) - newton) < 2e-3 * deviations)
    assert looked.count(1000) > looked.count(20_000)
    looked.clear()
    there = post.with_hyper({"prior_precision": 1.0}, {"coef": newton})
    find_optimum(there)
    assert looked.count(1000) == 1  # no reason to go away from where it is


def test_lbfgs_agrees_with_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    post = zoo()["logistic"]
    newton = find_optimum(post)
    set_limits(monkeypatch, dense=1)
    np.testing.assert_allclose(find_optimum(post), newton, atol=1e-6)


def test_a_search_by_lbfgs_that_does_not_end_is_not_called_newtons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optimum, "_CHEAP", 0)
    with pytest.raises(orn.OptimumError, match=r"after \d+ searches by L-BFGS") as caught:
        find_optimum(zoo()["logistic"], slack=0.0)  # which no slope is small enough for
    assert "Newton" not in str(caught.value)


def test_an_improper_posterior_is_refused() -> None:
    x = np.linspace(-1, 1, 20)
    post = orn.Posterior(
        lambda params, row: -jnp.logaddexp(0.0, -params * jnp.abs(row)),
        lambda params: 0.0 * params,
        x,
        init=np.array(0.0),
    )
    with pytest.raises(orn.OptimumError, match="prior"):
        find_optimum(post)

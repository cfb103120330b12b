"""Models whose posteriors are far from Gaussian: they end well, or say why not."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn

pytestmark = pytest.mark.pilot


def network(rows: int, units: int) -> orn.Posterior:
    """A layer of tanh units: many modes, and directions that nothing holds but the prior."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(rows, 1))
    y = np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=rows)

    def log_likelihood(params: Any, row: Any) -> Any:
        hidden = jnp.tanh(params["W"] @ row["x"] + params["a"])
        return -0.5 * ((row["y"] - params["b"] @ hidden - params["c"]) / 0.2) ** 2

    def log_prior(params: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    init = {"W": rng.normal(size=(units, 1)), "a": rng.normal(size=units)}
    init |= {"b": 0.1 * rng.normal(size=units), "c": np.zeros(())}
    return orn.Posterior(log_likelihood, log_prior, {"x": x, "y": y}, init=init)


def gaussian_process(rows: int) -> orn.Posterior:
    """Counts whose log rate is a process of unknown scales, whitened."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, rows))
    y = rng.poisson(np.exp(1 + np.sin(3 * x))).astype(float)

    def log_likelihood(params: Any, row: Any) -> Any:
        length, size = jnp.exp(params["log_length"]), jnp.exp(params["log_size"])
        kernel = size**2 * jnp.exp(-0.5 * ((x[:, None] - x[None]) / length) ** 2)
        root = jnp.linalg.cholesky(kernel + 1e-4 * jnp.eye(rows))
        at = (params["mean"] + root @ params["z"])[row["index"]]
        return row["y"] * at - jnp.exp(at)

    def log_prior(params: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    init = {"z": np.zeros(rows), "log_length": 0.0, "log_size": 0.0, "mean": 0.0}
    data = {"index": np.arange(rows), "y": y}
    return orn.Posterior(log_likelihood, log_prior, data, init=init)


def horseshoe(columns: int, rows: int) -> orn.Posterior:
    """Coefficients with a scale each, and one of all; scales are half-Cauchy."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(rows, columns))
    y = X[:, 0] * 2.0 - X[:, 1] + rng.normal(size=rows)

    def log_likelihood(params: Any, row: Any) -> Any:
        coef = params["z"] * jnp.exp(params["log_local"] + params["log_tau"])
        return -0.5 * (row["y"] - row["x"] @ coef) ** 2

    def log_prior(params: Any) -> Any:
        scales = jnp.append(params["log_local"], params["log_tau"] - jnp.log(0.1))
        half_cauchy = jnp.sum(scales - jnp.log1p(jnp.exp(2 * scales)))
        return half_cauchy - 0.5 * params["z"] @ params["z"]

    init = {"z": np.full(columns, 0.1), "log_local": np.zeros(columns), "log_tau": -2.0}
    return orn.Posterior(log_likelihood, log_prior, {"x": X, "y": y}, init=init)


def ends_well(post: orn.Posterior, draws: int) -> None:
    """Finite draws with an honest plan, a warning of what is wrong, or a refusal that says why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", orn.DivergenceWarning)
        try:
            result = orn.sample(post, draws=draws)
        except orn.OrnsteinError:
            return
    plan, error = result.plan, result.plan.predicted_error
    assert np.isfinite(result.flat).all()
    if result.flat.shape[1]:
        str(result.diagnose())
    if error is None:
        assert plan.unmeasured
    elif not error.mean < 0.15:
        assert any("pilot" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    "post",
    [
        pytest.param(network(40, 3), marks=pytest.mark.slow),
        horseshoe(4, 30),
        pytest.param(gaussian_process(8), marks=pytest.mark.slow),
    ],
    ids=["net", "horseshoe", "gp"],
)
def test_a_small_model_ends_well(post: orn.Posterior) -> None:
    ends_well(post, 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    "post",
    [network(300, 20), gaussian_process(40), horseshoe(40, 200)],
    ids=["net", "gp", "horseshoe"],
)
def test_a_larger_model_ends_well(post: orn.Posterior) -> None:
    ends_well(post, 200)

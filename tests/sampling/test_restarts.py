"""A chain that becomes non-finite: stopped, or begun again more carefully; never silently."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.sampling.restarts import MOST, easier
from ornstein.sampling.settings import Settings, Status
from support.montecarlo import assert_covariance
from support.problems import regression

Y = np.random.default_rng(0).normal(size=400)
Y = Y - Y.mean()  # the posterior's standard deviation is 0.05


def walled(wall: float) -> orn.Posterior:
    """A loss that is NaN beyond a wall."""

    def log_likelihood(params: jnp.ndarray, row: jnp.ndarray) -> jnp.ndarray:
        return -0.5 * (row - params) ** 2 * jnp.where(jnp.abs(params) < wall, 1.0, jnp.nan)

    return orn.Posterior(log_likelihood, lambda p: -0.5 * p**2, Y, init=np.array(0.0))


def test_a_start_too_far_out_begins_again_nearer(tmp_path: Path) -> None:
    post = walled(0.4)
    options: dict[str, Any] = {"draws": 200, "dispersion": 12.0, "batch_size": 40, "key": 1}
    with pytest.warns(orn.DivergenceWarning, match="became non-finite"):
        stopped = orn.sample(post, **options)
    assert stopped.status.kind == "diverged"
    for folder in (None, tmp_path / "run"):
        with pytest.warns(orn.DivergenceWarning, match="Restarting, 1 of 3.*dispersion=1"):
            found = orn.sample(post, on_divergence="restart", checkpoint=folder, **options)
        assert found.status.ok
        assert found.status.kind == "done"
        assert "after 1 restart: non-finite at step" in found.status.message
        assert found.path["restarts"].tolist() == [float(stopped.status.step or 0)]
        assert found.settings.dispersion == 1.0
        assert np.isfinite(found.flat).all()
        assert found.flat.shape == (4, 200, 1)
        assert_covariance(found.flat, found.plan.center, found.plan.predicted_cov)
    recalled = orn.sample(
        post, on_divergence="restart", checkpoint=tmp_path / "run", **options
    )  # which warns of nothing: it ended well
    assert np.array_equal(recalled.flat, found.flat)
    assert recalled.status == found.status


@pytest.mark.slow
def test_restarts_are_bounded_and_the_last_one_is_told(tmp_path: Path) -> None:
    post = walled(0.17)
    plan = orn.plan(post, batch_size=40)
    options: dict[str, Any] = {"draws": 20_000, "key": 1, "dispersion": 1.0, "thin": 2}
    with pytest.warns(orn.DivergenceWarning) as caught:
        found = orn.sample(
            post, plan, on_divergence="restart", checkpoint=tmp_path / "run", **options
        )
    assert len(caught) == MOST + 1
    assert not found.status.ok
    assert found.status.kind == "diverged"
    assert len(found.path["restarts"]) == MOST
    assert "after 3 restarts" in found.status.message
    assert np.isfinite(found.flat).all()
    assert found.plan.stability_margin > plan.stability_margin
    assert sorted(path.name for path in (tmp_path / "run").glob("run-*")) == [
        f"run-{i}.orn" for i in range(MOST + 1)
    ]
    with pytest.warns(orn.DivergenceWarning, match="after 3 restarts"):
        again = orn.sample(
            post, plan, on_divergence="restart", checkpoint=tmp_path / "run", **options
        )
    assert np.array_equal(again.flat, found.flat)


WAYS: list[tuple[dict[str, Any], str]] = [
    ({}, "angle=0.785"),
    ({"method": "exact"}, "rho=3"),
    ({"method": "sgd", "batch_size": 20}, "batch_size=10"),
]
MORE_WAYS: list[tuple[dict[str, Any], str]] = [
    ({"structure": "diagonal"}, "rho="),
    ({"method": "sgfs", "batch_size": 20, "estimate": "running"}, "more injected noise"),
    ({"method": "sgfs", "batch_size": 20, "extra_noise": 0.5}, "more injected noise"),
    ({"method": "sgld", "structure": "dense", "step_size": 0.1}, "step_size=0.05"),
    ({"method": "sghmc", "batch_size": 20}, "batch_size=10"),
    ({"method": "averaged", "batch_size": 20}, "batch_size=10"),
]


@pytest.mark.parametrize(
    ("options", "how"),
    [*WAYS, *(pytest.param(*way, marks=pytest.mark.slow) for way in MORE_WAYS)],
)
def test_every_method_knows_shorter_steps(options: dict[str, Any], how: str) -> None:
    post = regression(rows=400)
    plan = orn.plan(post, **options)
    settings = Settings(4, 8, plan.thin, plan.warmup, 1.0, "float64", None)
    again = easier(post, plan, settings, Status(False, "", 0, 10**6, "diverged"))
    assert again is not None
    assert how in again.how
    assert again.plan.stability_margin > plan.stability_margin
    assert again.plan.method == plan.method
    assert again.plan.control_variates == plan.control_variates
    np.testing.assert_allclose(again.plan.center, plan.center)


@pytest.mark.slow
def test_a_running_estimate_that_explodes_is_caught_and_begun_again() -> None:
    """SGFS that has not met the one row that matters: its gain grows until that row comes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2)) * [1.0, 0.05]
    X[0, 1] = 30.0
    post = orn.models.poisson(X, rng.poisson(1.0, size=2000))
    plan = orn.plan(post, method="sgfs", estimate="running", extra_noise=1e-9, batch_size=2)
    options: dict[str, Any] = {"draws": 60, "dtype": "float32"}
    with pytest.warns(orn.DivergenceWarning, match="became non-finite"):
        stopped = orn.sample(post, plan, **options)
    assert stopped.status.kind == "diverged"
    assert np.isfinite(stopped.flat).all()
    with pytest.warns(orn.DivergenceWarning) as caught:
        found = orn.sample(post, plan, on_divergence="restart", **options)
    told = [str(warning.message).partition("Restarting, ")[2] for warning in caught]
    assert told[0].startswith("1 of 3 at most: starts nearer the optimum")
    assert told[1].startswith("2 of 3 at most: shorter steps, more injected noise")
    assert found.status.ok
    assert len(found.path["restarts"]) >= 1
    assert found.flat.shape == (4, 60, 2)
    ratio = found.flat.std(axis=(0, 1)) / np.sqrt(np.diag(found.plan.predicted_cov))
    assert np.all((ratio > 0.7) & (ratio < 1.4))

"""What a result says where a run ended before its first draw."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import plots, predictive, report


@pytest.fixture(scope="module")
def sampled() -> orn.Result:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    post = orn.models.logistic(X, rng.random(80) < 0.5)
    return orn.sample(post, draws=10, tolerance=None)


@pytest.fixture(scope="module")
def empty(sampled: orn.Result) -> orn.Result:
    return replace(sampled, flat=sampled.flat[:, :0])


def saved(result: orn.Result, folder: Path) -> None:
    try:
        result.save(folder / "run")
    finally:
        assert not (folder / "run").exists()


USES: dict[str, Callable[[orn.Result, Path], Any]] = {
    "summary": lambda result, _: result.summary(),
    "to_arviz": lambda result, _: result.to_arviz(),
    "diagnose": lambda result, _: result.diagnose(),
    "measured_kl": lambda result, _: result.measured_kl(),
    "save": saved,
    "coefficients": lambda result, _: predictive.Coefficients.of_result(result),
    "report": lambda result, folder: report.write(folder / "report.html", result),
    "intervals": lambda result, _: plots.intervals(result),
    "covariances": lambda result, _: plots.covariances(result),
    "covariance_maps": lambda result, _: plots.covariance_maps(result),
    "spread": lambda result, _: plots.spread(result),
    "traces": lambda result, _: plots.traces(result),
    "projection": lambda result, _: plots.projection(result),
    "projected": lambda result, _: plots.projected(result),
    "projections": lambda result, _: plots.projections([[result]], ["a"], ["b"]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_draws_are_refused_with_a_remedy(
    use: Callable[[orn.Result, Path], Any], empty: orn.Result, tmp_path: Path
) -> None:
    with pytest.raises(orn.InputError, match=r"no draws: the run ended before .* run again with"):
        use(empty, tmp_path)


def test_gradient_noise_of_no_draws(sampled: orn.Result, empty: orn.Result) -> None:
    with pytest.raises(orn.InputError, match="no draws"):
        plots.gradient_noise(empty, sampled.diagnose())


def test_no_draws_can_be_looked_at(empty: orn.Result) -> None:
    assert repr(empty) == "Result(chains=4, draws=0, parameters=2)"
    assert empty.draws["coef"].shape == empty.unconstrained["coef"].shape == (4, 0, 2)


def test_no_draws_are_constrained() -> None:
    post = orn.Posterior(
        lambda params, row: -0.5 * (row - params["level"]) ** 2,
        lambda params: -0.5 * params["level"] ** 2,
        np.linspace(-1, 1, 20),
        init={"level": 0.0},
        constrain=lambda params: {"scale": jnp.exp(params["level"]) * jnp.ones(3)},
    )
    result = orn.sample(post, draws=5, tolerance=None)
    assert replace(result, flat=result.flat[:, :0]).draws["scale"].shape == (4, 0, 3)

"""Draws reported in other terms than they are sampled in."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn

RNG = np.random.default_rng(0)
Y = 2.0 + 0.5 * RNG.normal(size=300)
SHIFT = np.array([1.0, 2.0])


def log_likelihood(params: Any, row: Any) -> Any:
    return -0.5 * ((row - params["mean"]) / jnp.exp(params["log_scale"])) ** 2 - params["log_scale"]


def log_prior(params: Any) -> Any:
    return -0.5 * (params["mean"] ** 2 + params["log_scale"] ** 2)


def natural(params: Any) -> Any:
    scale = jnp.exp(params["log_scale"])
    return {"scale": scale, "ends": params["mean"] + scale * SHIFT}


def posterior(**options: Any) -> orn.Posterior:
    init = {"mean": 0.0, "log_scale": 0.0}
    return orn.Posterior(log_likelihood, log_prior, Y, **{"init": init, **options})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_and_summaries_are_in_the_terms_asked_for(dtype: str) -> None:
    result = orn.sample(posterior(constrain=natural), draws=600, chains=2, dtype=dtype)
    plain = orn.sample(posterior(), draws=600, chains=2, dtype=dtype)
    np.testing.assert_array_equal(result.flat, plain.flat)
    scale = np.exp(plain.draws["log_scale"])
    np.testing.assert_allclose(result.draws["scale"], scale, rtol=1e-12)
    ends = plain.draws["mean"][..., None] + scale[..., None] * SHIFT
    np.testing.assert_allclose(result.draws["ends"], ends, rtol=1e-12)
    assert list(result.summary().index) == ["ends[0]", "ends[1]", "scale"]
    assert set(result.to_arviz()["unconstrained_posterior"].data_vars) == {"mean", "log_scale"}
    assert "unconstrained_posterior" not in plain.to_arviz()
    assert set(result.unconstrained) == {"mean", "log_scale"}


def test_the_map_goes_along(tmp_path: Any) -> None:
    later = posterior(init=None, constrain=natural).at({"mean": 0.0, "log_scale": 0.0})
    assert later.constrain is natural
    assert later.with_rows(np.arange(5)).constrain is natural
    result = orn.sample(later, draws=10)
    assert "scale" in (result.save(tmp_path / "run") / "summary.csv").read_text()


def test_bad_maps() -> None:
    with pytest.raises(orn.InputError, match="constrain must be a function, found str"):
        posterior(constrain="positive")
    with pytest.raises(orn.InputError, match=r"constrain failed.*KeyError: 'sigma'"):
        posterior(constrain=lambda params: params["sigma"])

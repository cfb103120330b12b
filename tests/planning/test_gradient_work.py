"""How long a gradient takes, by its operations."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.api.pilots import piloted
from ornstein.planning import planner
from ornstein.planning.gradient_work import gradient_seconds

ROWS = np.linspace(-1, 1, 40)


def posterior(log_likelihood: Any) -> orn.Posterior:
    return orn.Posterior(log_likelihood, lambda p: -0.5 * p @ p, ROWS, init=np.zeros(3))


def products(times: int) -> orn.Posterior:
    """Every row takes so many products of a large matrix with a vector."""
    matrix = np.random.default_rng(0).normal(size=(300, 300)) / 40

    def log_likelihood(p: Any, row: Any) -> Any:
        start = jnp.full(300, row * p[0])
        end, _ = jax.lax.scan(lambda x, _: (jnp.tanh(matrix @ x), None), start, None, times)
        return -0.5 * (end.sum() - p[1]) ** 2 - p[2] ** 2

    return posterior(log_likelihood)


def factorised(size: int) -> orn.Posterior:
    def log_likelihood(p: Any, row: Any) -> Any:
        matrix = jnp.eye(size) * jnp.exp(p[0]) + 0.1
        return -0.5 * (row - (jnp.linalg.cholesky(matrix) @ jnp.ones(size))[0]) ** 2 - p @ p

    return posterior(log_likelihood)


def test_loops_count_as_often_as_they_run_and_rows_each() -> None:
    once, ten = (gradient_seconds(products(times), 40) for times in (1, 10))
    assert 6 < ten / once < 11
    few = gradient_seconds(products(10), 4)
    assert 5 < ten / few < 11
    assert gradient_seconds(products(10), 40, order=2) > 2 * ten


def test_factorisations_count() -> None:
    small, large = (gradient_seconds(factorised(size), 40) for size in (10, 160))
    assert large > 20 * small


def test_linear_predictors_take_their_products() -> None:
    post = orn.models.logistic(np.ones((50, 4)), np.arange(50) % 2)
    assert gradient_seconds(post, 50) == pytest.approx(2e-6 + 3e-10 * 200)


@pytest.mark.pilot
def test_a_pilot_that_would_take_too_long_is_left_out() -> None:
    post = factorised(60)
    long = replace(planner.plan(post, batch_size=40), draws=2 * 10**6)
    plan = piloted(post, long, 1e-9, {})
    assert plan.predicted_error is None
    assert plan.unmeasured.startswith("a pilot would take too long")
    assert "not measured: a pilot would take too long" in str(plan)

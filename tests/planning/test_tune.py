"""Plans from statistics: what ``plan`` finds, ``tune`` takes, whoever found it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from support.montecarlo import assert_covariance
from support.problems import regression, softmax_table


@pytest.mark.parametrize("method", [name for name in orn.METHODS if name not in ("bbvi", "nuts")])
def test_T2_plan_tunes_to_the_statistics_it_finds(method: str) -> None:
    post = regression(rows=600)
    anchored = None if orn.METHODS[method].control_variates is None else False
    made = orn.plan(post, method, batch_size=40, control_variates=anchored)
    found = orn.tune(made.geometry, method, batch_size=40, batches=made.batches.scheme)
    assert np.array_equal(found.gain.dense(3), made.gain.dense(3))
    assert np.array_equal(found.predicted_cov, made.predicted_cov)
    assert (found.thin, found.warmup, found.predicted_kl) == (
        made.thin,
        made.warmup,
        made.predicted_kl,
    )
    first, second = (orn.sample(post, plan, key=4, draws=20).flat for plan in (made, found))
    assert np.array_equal(first, second)


def test_T2_statistics_found_elsewhere_are_enough_for_a_custom_loop() -> None:
    """A and C of a mean of normals, known by hand; the loop is optax's."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2)) @ np.array([[1.0, 0.4], [0.0, 0.7]])
    geometry = orn.Geometry.of(rows.mean(axis=0), np.eye(2), np.cov(rows.T, bias=True), 400)
    plan = orn.tune(geometry, batch_size=20, batches="independent")
    optimiser, data = orn.as_optax(plan, key=1), jnp.asarray(rows)

    def step(carry: Any, key: jax.Array) -> Any:
        theta, state = carry
        batch = data[jax.random.randint(key, (20,), 0, 400)]
        updates, state = optimiser.update(theta - batch.mean(axis=0), state)
        theta = theta + updates
        return (theta, state), theta

    start = jnp.asarray(geometry.center)
    keys = jax.random.split(jax.random.key(0), 4000 * plan.thin)
    _, path = jax.lax.scan(step, (start, optimiser.init(start)), keys)
    draws = np.asarray(path[:: plan.thin]).reshape(4, -1, 2)
    assert_covariance(draws, plan.center, plan.predicted_cov)
    np.testing.assert_allclose(plan.predicted_cov, np.eye(2) / 400, rtol=1e-9, atol=1e-15)


def test_diagonals_and_approximate_structures_are_tuned_to_as_they_are_held() -> None:
    diagonal = orn.Geometry.of(np.zeros(3), np.ones(3), np.full(3, 0.5), 1000)
    assert orn.tune(diagonal, batch_size=20).structure == "diagonal"
    assert orn.tune(diagonal, "sgd-scalar", batch_size=1).structure == "scalar"
    post = orn.models.softmax(*softmax_table())
    at = post.layout.unravel(orn.plan(post, "laplace").center)
    blocks = orn.geometry(post, at, "per-class")
    plan = orn.tune(blocks, "laplace")
    assert plan.structure == "per-class"
    expected = blocks.covariance.dense(post.dim)
    np.testing.assert_allclose(plan.predicted.dense(post.dim), expected, atol=1e-12)


def test_what_does_not_fit_is_refused_by_name() -> None:
    zeros, eye = np.zeros(2), np.eye(2)
    good = orn.Geometry.of(zeros, eye, eye, 100)
    one_number = orn.geometry(regression(rows=60), {"coef": np.zeros(3)}, structure="scalar")
    for words, build in (
        ("for diagonals. Found center", lambda: orn.Geometry.of(zeros, np.eye(3), eye, 100)),
        ("hessian holds NaN", lambda: orn.Geometry.of(zeros, np.nan * eye, eye, 100)),
        ("noise_cov must be an array", lambda: orn.Geometry.of(zeros, eye, "much", 100)),
        ("num_data", lambda: orn.Geometry.of(zeros, eye, eye, 0)),
        ("for diagonals. Found center", lambda: orn.Geometry.of(zeros, eye, eye, 9, np.ones(2))),
        ("geometry must be", lambda: orn.tune(eye)),  # type: ignore[arg-type]
        ("no option 'roh'", lambda: orn.tune(good, roh=1.0)),
        ("needs more than the geometry holds", lambda: orn.tune(good, structure="kronecker")),
        ("batch_size must be", lambda: orn.tune(good, batch_size=101)),
        ("batches='weighted'", lambda: orn.tune(good, batches="weighted")),
        ("no use for batches='epochs'", lambda: orn.tune(good, "laplace", batches="epochs")),
        ("for control variates, use ornstein.plan", lambda: orn.tune(good, "sgfs-cv")),
        ("which is scalar; use a geometry with structure='dense'", lambda: orn.tune(one_number)),
    ):
        with pytest.raises(orn.InputError, match=words):
            build()
    with pytest.raises(orn.UnstablePlanError, match="not convex"):
        orn.tune(orn.Geometry.of(zeros, -eye, eye, 100), batch_size=10)

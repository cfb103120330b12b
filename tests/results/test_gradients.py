"""X10: gradients at draws over some of the rows, with an exact linear part."""

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.precision import double_precision
from ornstein._base.types import Vector
from ornstein.curvature.row_sums import gradients_at, mean_gradient, mean_hessian, remainders_at
from ornstein.planning import planner
from ornstein.results.gradients import Gradients, known_from

ROWS, DIM = 4000, 3


def rows() -> tuple[Vector, Vector]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, DIM))
    return X, (rng.random(ROWS) < 1 / (1 + np.exp(3 - X[:, 0]))).astype(float)


def heavy_tailed() -> orn.Posterior:
    """A custom model, and a prior that is not Gaussian."""
    X, y = rows()
    return orn.Posterior(
        lambda p, row: -jnp.log1p((row["y"] - row["x"] @ p) ** 2),
        lambda p: -jnp.log1p(p**2).sum(),
        {"x": X, "y": X @ [1.0, 0.0, -1.0] + y},
        init=np.zeros(DIM),
    )


POSTS = {
    "linear": lambda: orn.models.linear(*rows()),
    "logistic": lambda: orn.models.logistic(*rows()),
    "custom": heavy_tailed,
}


def nearby() -> tuple[Vector, Vector]:
    rng = np.random.default_rng(1)
    return np.array([0.5, -0.2, 0.1]), 0.1 * rng.normal(size=(16, DIM))


@pytest.mark.parametrize("name", POSTS)
def test_X10_linear_part_and_remainder_are_the_gradient(name: str) -> None:
    post, (anchor, steps) = POSTS[name](), nearby()
    with double_precision():
        exact = gradients_at(post, anchor + steps, post.data)
        linear = mean_gradient(post, anchor) + steps @ mean_hessian(post, post.data, anchor)
        rest = remainders_at(post, anchor + steps, post.data, anchor)
    np.testing.assert_allclose(ROWS * linear + rest, exact, rtol=1e-9, atol=1e-8)


def some_rows(post: orn.Posterior, work: float) -> Gradients:
    anchor, _ = nearby()
    found = Gradients.within(work, post, anchor, fewest=16, most=16)
    assert found.gradient is not None
    return found


def test_X10_some_rows_of_a_linear_regression_give_the_exact_gradient() -> None:
    post, (anchor, steps) = POSTS["linear"](), nearby()
    found = some_rows(post, work=DIM**2 * ROWS)
    assert found.rows < ROWS
    with double_precision():
        exact = gradients_at(post, anchor + steps, post.data)
    np.testing.assert_allclose(found(anchor + steps, 0), exact, rtol=1e-9, atol=1e-8)


def test_X10_leaves_less_noise_than_X9_for_the_same_work() -> None:
    """X9 where no Hessian is affordable; with as many rows as cost the same, noise is halved."""
    post, (anchor, steps) = POSTS["logistic"](), nearby()
    second = some_rows(post, work=DIM**2 * ROWS)
    assert second.hessian is not None
    assert some_rows(post, work=DIM**2 * ROWS - 1).hessian is None
    first = Gradients(post, 16, 2 * second.rows, anchor, second.gradient)
    with double_precision():
        exact = gradients_at(post, anchor + steps, post.data)
    one, two = (
        np.array([kind(anchor + steps, number) - exact for number in range(40)])
        for kind in (first, second)
    )
    for errors in one, two:  # unbiased: within Monte-Carlo error, Bonferroni over entries
        scores = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))
        assert np.abs(scores).max() < 4.5
    assert np.mean(two**2) < np.mean(one**2) / 4


def test_X10_a_plan_lends_its_hessian_where_another_would_cost_too_much() -> None:
    """Gradients stay unbiased, with less noise than those of first order."""
    post = POSTS["logistic"]()
    plan = planner.plan(post)
    known = known_from(plan)
    assert known is not None
    work = DIM**2 * ROWS - 1
    first = some_rows(post, work)
    lent = Gradients.within(work, post, first.anchor, fewest=16, most=16, known=known)
    np.testing.assert_array_equal(lent.anchor, plan.center)
    root = np.linalg.cholesky(plan.predicted_cov)
    thetas = plan.center + np.random.default_rng(2).normal(size=(16, DIM)) @ root.T
    with double_precision():
        exact = gradients_at(post, thetas, post.data)
    found = np.array([lent(thetas, number) - exact for number in range(40)])
    scores = found.mean(axis=0) / (found.std(axis=0, ddof=1) / np.sqrt(len(found)))
    assert np.abs(scores).max() < 4.5
    centred = Gradients(post, 16, first.rows, plan.center, first.gradient)
    other = np.array([centred(thetas, number) - exact for number in range(40)])
    assert np.var(found, axis=0).mean() < np.var(other, axis=0).mean() / 4


def test_a_plan_without_second_order_lends_nothing() -> None:
    assert known_from(planner.plan(POSTS["logistic"](), control_variates="first")) is None

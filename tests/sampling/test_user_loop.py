"""Kernels in a custom loop."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

import ornstein as orn
from ornstein._base.trees import Layout
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import as_generic, mild_regression, regression, zoo

Floats = npt.NDArray[np.floating]
KERNELS: list[tuple[str, str, dict[str, Any]]] = [
    ("exact", "dense", {"batches": "weighted"}),
    ("exact", "dense", {"batches": "windows"}),
    ("exact", "dense", {"batches": "independent", "control_variates": False}),
    ("sgd", "diagonal", {"batches": "windows"}),
    ("momentum", "dense", {"batches": "independent"}),
    ("averaged", "dense", {"window": 7, "step_size": 0.3}),
    ("sgfs", "dense", {"estimate": "running"}),
    ("sgld", "dense", {"decay": 0.4}),
]
"""Every way to draw rows, and every kernel."""


def own_loop(post: orn.Posterior, plan: orn.Plan, draws: int) -> Floats:
    """Draws of eight chains in one scan, ``plan.thin`` steps apart, (chains, draws, D)."""
    kernel = orn.kernel(post, plan)
    data = jax.tree.map(jnp.asarray, post.data)

    def chain(key: Any) -> Any:
        start = kernel.init(key, plan.layout.unravel(jnp.asarray(plan.center)))

        def step(state: Any, number: Any) -> Any:
            rows_key, step_key = jax.random.split(jax.random.fold_in(key, number))
            index, weights = kernel.rows(rows_key)
            batch = jax.tree.map(lambda leaf: leaf[index], data)
            return kernel.step(step_key, state, batch, weights)

        def draw(state: Any, numbers: Any) -> Any:
            state, _ = jax.lax.scan(step, state, numbers)
            return state, plan.layout.vector(kernel.read(state))

        steps = jnp.arange(plan.warmup + draws * plan.thin).reshape(-1, plan.thin)
        return jax.lax.scan(draw, start, steps)[1][-draws:]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(7), 8)))


@pytest.mark.parametrize(
    ("method", "structure", "options"),
    [*KERNELS[:4], *(pytest.param(*row, marks=pytest.mark.slow) for row in KERNELS[4:])],
)
def test_T2_a_custom_loop_has_the_predicted_covariance(
    method: str, structure: str, options: dict[str, Any]
) -> None:
    post = regression(rows=2000) if structure == "dense" else mild_regression(rows=2000)
    plan = orn.plan(post, method, structure, batch_size=200, **options)
    draws = own_loop(post, plan, draws=800)
    assert_covariance(draws, plan.center, plan.predicted_cov)
    assert rejects_covariance(draws, plan.center, 1.3 * plan.predicted_cov)


@pytest.mark.parametrize("name", ["softmax", "generic"])
def test_X9_anchored_gradients_over_all_rows_are_the_posteriors(name: str) -> None:
    """With every row in the batch, plain and anchored steps have the slope of the mean loss."""
    posts = zoo(intercept=True)
    post = as_generic(posts["logistic"]) if name == "generic" else posts[name]
    N = post.num_data
    away = jax.tree.map(lambda leaf: jnp.asarray(leaf) + 0.1, post.init)
    slope = jax.grad(post.loss)(away, jax.tree.map(jnp.asarray, post.data))
    known = orn.plan(post, "exact", batch_size=N, batches="independent")
    for plan in (known, replace(known, anchor=None)):
        kernel = orn.kernel(post, plan)
        state = kernel.init(jax.random.key(0), away)
        _, info = jax.jit(kernel.step)(jax.random.key(1), state, post.data)
        for leaf, other in zip(jax.tree.leaves(info.gradient), jax.tree.leaves(slope), strict=True):
            np.testing.assert_allclose(leaf, other, rtol=1e-8, atol=1e-10)


def test_states_are_in_the_parameters_own_pytree() -> None:
    post = zoo(intercept=True)["poisson"]
    plan = orn.plan(post, "momentum", batch_size=20, batches="independent")
    kernel = orn.kernel(post, plan)
    position = jax.tree.map(jnp.asarray, post.init)
    state = kernel.init(jax.random.key(0), position)
    assert type(state)._fields == ("position", "velocity")
    batch = jax.tree.map(lambda leaf: leaf[:20], post.data)
    moved, info = kernel.step(jax.random.key(1), state, batch)
    for tree in (state.position, moved.position, moved.velocity, info.gradient, kernel.read(moved)):
        assert Layout.of(tree) == Layout.of(position)
    np.testing.assert_allclose(
        plan.layout.vector(moved.position),
        plan.layout.vector(position)
        - plan.gain.dense(plan.dim) @ plan.layout.vector(info.gradient),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("batches", ["independent", "windows", "weighted"])
def test_rows_come_as_the_plan_draws_them(batches: str) -> None:
    post = regression(rows=50)
    plan = orn.plan(post, batch_size=10, batches=batches)
    rows = orn.kernel(post, plan).rows
    index, weights = jax.vmap(rows)(jax.random.split(jax.random.key(0), 4000))
    counts = np.bincount(np.asarray(index).ravel(), minlength=50) / 4000
    repeated = any(len(set(line)) < 10 for line in np.asarray(index).tolist())
    assert repeated == (batches != "windows")
    if batches == "weighted":
        assert weights is not None
        assert plan.anchor is not None
        assert plan.anchor.multiplicity is not None
        share = plan.anchor.multiplicity / plan.anchor.multiplicity.sum()
        np.testing.assert_allclose(weights, 1 / (50 * share)[np.asarray(index)], rtol=1e-12)
    else:
        assert weights is None
        share = np.full(50, 1 / 50)
    assert np.all(np.abs(counts - 10 * share) < 5 * np.sqrt(10 * share / 4000))


def test_refusals() -> None:
    post = regression()
    plan = orn.plan(post, batch_size=50, batches="windows")
    weighted = orn.plan(post, batch_size=50, batches="weighted")
    epochs = orn.plan(post, batch_size=50, batches="epochs", control_variates=False)
    key, kernel = jax.random.key(0), orn.kernel(post, plan)
    with pytest.raises(orn.InputError, match="plan must be made by"):
        orn.kernel(post, "exact")  # type: ignore[arg-type]
    with pytest.raises(orn.InputError, match="'laplace' makes no steps"):
        orn.kernel(post, orn.plan(post, "laplace"))
    with pytest.raises(orn.InputError, match="Plan again"):
        orn.kernel(regression(rows=500), plan)
    with pytest.raises(orn.InputError, match="position does not fit"):
        kernel.init(key, {"coef": jnp.zeros(2)})
    state = kernel.init(key, {"coef": jnp.zeros(3)})
    batch = jax.tree.map(lambda leaf: leaf[:50], post.data)
    with pytest.raises(orn.InputError, match=r"batch must be rows of the posterior's data"):
        kernel.step(key, state, batch["x"])
    with pytest.raises(orn.InputError, match="batch has 600 rows, and the plan was made for 50"):
        kernel.step(key, state, post.data)
    with pytest.raises(orn.InputError, match=r"has weights.*rows are windows"):
        kernel.step(key, state, batch, jnp.ones(50))
    other = orn.kernel(post, weighted)
    with pytest.raises(orn.InputError, match=r"has no weights.*weighted.*kernel\.rows"):
        other.step(key, state, batch)
    with pytest.raises(orn.InputError, match=r"weights has shape \(49,\)"):
        other.step(key, state, batch, jnp.ones(49))
    with pytest.raises(orn.InputError, match="epoch loader"):
        orn.kernel(post, epochs).rows(key)

"""A plan in a custom training loop, through optax."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
import pytest

import ornstein as orn
from ornstein.planning.methods import METHODS
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import mild_regression, regression, zoo

Floats = npt.NDArray[np.floating]
LOOPS: list[tuple[str, str, dict[str, Any]]] = [
    ("exact", "dense", {"control_variates": False, "rho": 0.0}),
    ("exact", "dense", {"control_variates": False, "rho": 1.0}),
    ("sgd", "scalar", {}),
    ("sgd", "diagonal", {}),
    ("sgld", "dense", {}),
    ("momentum", "dense", {}),
    ("sghmc", "diagonal", {}),
]
"""First order, with injected noise, with momentum, with both."""


def loss(params: Any, x: Any, y: Any, num_data: int) -> Any:
    """What a user would write for a regression of unit noise with a standard normal prior."""
    errors = y - x @ params["coef"]
    return 0.5 * jnp.mean(errors**2) + 0.5 / num_data * params["coef"] @ params["coef"]


def user_loop(post: orn.Posterior, plan: orn.Plan, draws: int, epochs: bool = False) -> Floats:
    """Iterates of eight training loops, ``plan.thin`` steps apart, (chains, draws, D)."""
    data = {name: jnp.asarray(leaf) for name, leaf in post.data.items()}
    N, S = plan.num_data, plan.batch_size

    def chain(key: Any) -> Any:
        noise_key, batch_key = jax.random.split(key)
        optimiser = orn.as_optax(plan, jax.random.fold_in(noise_key, 2**31))
        start = plan.layout.unravel(jnp.asarray(plan.center))

        count = (plan.warmup // plan.thin + draws) * plan.thin
        epochs_keys = jax.random.split(batch_key, count * S // N + 1 if epochs else 1)
        orders = jax.vmap(lambda key: jax.random.permutation(key, N))(epochs_keys).reshape(-1)

        def rows(step: Any) -> Any:
            if epochs:
                return jax.lax.dynamic_slice_in_dim(orders, step * S, S)
            return jax.random.randint(jax.random.fold_in(noise_key, step), (S,), 0, N)

        def step(carry: Any, number: Any) -> Any:
            params, state = carry
            index = rows(number)
            gradient = jax.grad(loss)(params, data["x"][index], data["y"][index], N)
            updates, state = optimiser.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), None

        def draw(carry: Any, numbers: Any) -> Any:
            carry, _ = jax.lax.scan(step, carry, numbers)
            return carry, carry[0]["coef"]

        steps = jnp.arange(count).reshape(-1, plan.thin)
        return jax.lax.scan(draw, (start, optimiser.init(start)), steps)[1][-draws:]

    keys = jax.random.split(jax.random.key(3), 8)
    return np.asarray(jax.jit(jax.vmap(chain))(keys))


@pytest.mark.parametrize(
    ("method", "structure", "options"),
    [*LOOPS[:4], *(pytest.param(*row, marks=pytest.mark.slow) for row in LOOPS[4:])],
)
def test_T2_a_users_loop_has_the_predicted_covariance(
    method: str, structure: str, options: dict[str, Any]
) -> None:
    post = regression(rows=2000) if structure == "dense" else mild_regression(rows=2000)
    plan = orn.plan(post, method, structure, batch_size=200, batches="independent", **options)
    draws = user_loop(post, plan, draws=800)
    assert_covariance(draws, plan.center, plan.predicted_cov)
    assert rejects_covariance(draws, plan.center, 1.3 * plan.predicted_cov)


def test_X7_an_epoch_loader_is_too_narrow_unless_planned_for() -> None:
    post = regression(rows=2000)
    options: dict[str, Any] = {"batch_size": 200, "control_variates": False, "rho": 0.0}
    drawn = orn.plan(post, batches="independent", **options)
    draws = user_loop(post, drawn, draws=800, epochs=True)
    assert rejects_covariance(draws, drawn.center, drawn.predicted_cov)
    assert draws.var() < 0.8 * np.trace(drawn.predicted_cov) / 3 + draws.mean((0, 1)).var()
    planned = orn.plan(post, batches="epochs", **options)
    assert_covariance(
        user_loop(post, planned, draws=800, epochs=True), planned.center, planned.predicted_cov
    )


PLANS = [
    (name, structure)
    for name, method in METHODS.items()
    for structure in method.structures
    if method.engine == "chain" and name not in ("averaged", "rotation")
]


@pytest.mark.parametrize(("method", "structure"), PLANS)
def test_an_update_is_the_gain_times_the_gradient_and_noise(method: str, structure: str) -> None:
    """``update(g) - update(0)`` under the same key is ``-K g``, whatever structure and pytree."""
    posts = zoo(rows=240, intercept=True)
    post = posts["softmax" if structure in ("kronecker", "per-class") else "poisson"]
    anchored = None if METHODS[method].control_variates is None else False
    plan = orn.plan(post, method, structure, batch_size=10, control_variates=anchored)
    optimiser = orn.as_optax(plan, key=4)
    params = plan.layout.unravel(jnp.asarray(plan.center))
    g = np.random.default_rng(0).normal(size=plan.dim)
    state = optimiser.init(params)
    with jax.debug_key_reuse(False):
        moved, _ = optimiser.update(plan.layout.unravel(jnp.asarray(g)), state)
        still, _ = optimiser.update(plan.layout.unravel(jnp.zeros(plan.dim)), state)
    change = plan.layout.ravel(moved) - plan.layout.ravel(still)
    np.testing.assert_allclose(change, -plan.gain.dense(plan.dim) @ g, rtol=1e-9, atol=1e-12)
    assert (np.abs(plan.layout.ravel(still)).max() > 0) == (plan.injected_cov is not None)


def test_injected_noise_has_the_plans_covariance() -> None:
    post = zoo(rows=240, intercept=True)["softmax"]
    plan = orn.plan(post, "exact", "kronecker", batch_size=40, control_variates=False, rho=1.0)
    assert plan.injected_cov is not None
    optimiser = orn.as_optax(plan)
    zeros = plan.layout.unravel(jnp.zeros(plan.dim))

    def step(state: Any, _: Any) -> Any:
        made, state = optimiser.update(zeros, state)
        return state, plan.layout.vector(made)

    _, noise = jax.lax.scan(step, optimiser.init(zeros), length=16000)
    draws = np.asarray(noise).reshape(4, 4000, plan.dim)
    assert_covariance(draws, np.zeros(plan.dim), plan.injected_cov.dense(plan.dim))


def test_X4_momentum_is_remembered() -> None:
    plan = orn.plan(regression(), "momentum", batch_size=50, momentum=0.7)
    optimiser, K = orn.as_optax(plan), plan.gain.dense(3)
    gradients = np.random.default_rng(0).normal(size=(3, 3))
    state, velocity = optimiser.init({"coef": jnp.zeros(3)}), np.zeros(3)
    for g in gradients:
        updates, state = optimiser.update({"coef": jnp.asarray(g)}, state)
        velocity = 0.7 * velocity - K @ g
        np.testing.assert_allclose(updates["coef"], velocity, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_X4_momentum_is_what_optax_means_by_it(momentum: float) -> None:
    """The updates are those of ``optax.sgd`` for the preconditioned gradients."""
    plan = orn.plan(regression(), "momentum", batch_size=50, momentum=momentum)
    ours, theirs = orn.as_optax(plan), optax.sgd(1.0, momentum=momentum)
    zeros, K = {"coef": jnp.zeros(3)}, plan.gain.dense(3)
    state, other = ours.init(zeros), theirs.init(zeros)
    for g in np.random.default_rng(0).normal(size=(20, 3)):
        updates, state = ours.update({"coef": jnp.asarray(g)}, state)
        expected, other = theirs.update({"coef": jnp.asarray(K @ g)}, other)
        np.testing.assert_allclose(updates["coef"], expected["coef"], rtol=1e-12)


def test_the_same_key_gives_the_same_noise_in_the_gradients_precision() -> None:
    plan = orn.plan(regression(), "sgld", batch_size=50)
    zeros = {"coef": jnp.zeros(3, jnp.float32)}
    made = []
    for key in (1, jax.random.key(1), 2):
        optimiser = orn.as_optax(plan, key)
        state = optimiser.init(zeros)
        first, state = optimiser.update(zeros, state)
        second, _ = optimiser.update(zeros, state)
        assert first["coef"].dtype == jnp.float32
        assert not np.array_equal(first["coef"], second["coef"])
        made.append(np.asarray(first["coef"]))
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


def test_a_decreasing_step_is_followed() -> None:
    plan = orn.plan(regression(), "sgld", batch_size=50, decay=0.5, decay_steps=3.0)
    optimiser = orn.as_optax(plan)
    state = optimiser.init({"coef": jnp.zeros(3)})
    g = {"coef": jnp.ones(3)}
    zeros = {"coef": jnp.zeros(3)}
    for step in range(4):
        with jax.debug_key_reuse(False):
            moved, ahead = optimiser.update(g, state)
            still, _ = optimiser.update(zeros, state)
        gain = float(plan.gain.array) * (1 + step / 3.0) ** -0.5
        np.testing.assert_allclose(moved["coef"] - still["coef"], -gain * np.ones(3), rtol=1e-9)
        state = ahead


# What can be checked -----------------------------------------------------------------------------


def plain(post: orn.Posterior, **options: Any) -> orn.Plan:
    return orn.plan(post, batch_size=50, control_variates=False, **options)


def test_the_right_loss_is_accepted() -> None:
    post = regression()
    mine = plain(post)
    assert orn.as_optax(mine, loss=lambda p: loss(p, post.data["x"], post.data["y"], 600))
    for other in (zoo()["softmax"], zoo()["poisson"]):
        data = jax.tree.map(jnp.asarray, other.data)

        def own(params: Any, post: orn.Posterior = other, data: Any = data) -> Any:
            return post.loss(params, data)

        assert orn.as_optax(plain(other), loss=own)


WRONG: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda p, x, y: 600 * loss(p, x, y, 600), r"600 times.*the mean over rows, not the sum"),
    (lambda p, x, y: 0.5 * jnp.mean((y - x @ p["coef"]) ** 2), r"as if without its prior"),
    (lambda p, x, y: 0.5 * loss(p, x, y, 600), r"0\.5 times the curvature.*N = 600"),
    (lambda p, x, y: loss(p, x, y, 600) + p["coef"].sum(), r"standard deviations from the plan's"),
    (lambda p, x, y: loss(p, x, y + 1, 600), r"standard deviations from the plan's"),
]


@pytest.mark.parametrize(("mistaken", "message"), WRONG)
def test_a_wrong_loss_is_found_out(mistaken: Any, message: str) -> None:
    post = regression(prior_precision=30.0) if "prior" in message else regression()
    x, y = post.data["x"], post.data["y"]
    with pytest.raises(orn.InputError, match=message):
        orn.as_optax(plain(post), loss=lambda params: mistaken(params, x, y))


def test_refusals() -> None:
    post = regression()
    cases: list[tuple[Any, str]] = [
        (orn.plan(post), r"control_variates=False"),
        (orn.plan(post, "laplace"), r"'laplace' makes no steps of SGD"),
        (orn.plan(post, "sgfs", estimate="running"), r"rows' own gradients.*ornstein\.kernel"),
        (orn.plan(post, "averaged"), r"means of iterates.*ornstein\.kernel"),
        ("exact", r"plan must be made by ornstein\.plan, found str"),
    ]
    for made, message in cases:
        with pytest.raises(orn.InputError, match=message):
            orn.as_optax(made)
    optimiser = orn.as_optax(plain(post))
    with pytest.raises(orn.InputError, match=r"params does not fit.*\(3,\).*found.*\(2,\)"):
        optimiser.init({"coef": jnp.zeros(2)})
    state = optimiser.init({"coef": jnp.zeros(3)})
    with pytest.raises(orn.InputError, match=r"updates does not fit"):
        optimiser.update(jnp.zeros(3), state)
    with pytest.raises(orn.InputError, match="key must be"):
        orn.as_optax(plain(post), key="a")  # type: ignore[arg-type]

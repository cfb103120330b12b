"""An Equinox network whose training loop becomes a sampler."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ornstein as orn
from ornstein.results.measure import measured_kl

N, NOISE = 4000, 0.1


@pytest.fixture(scope="module")
def trained() -> tuple[orn.Posterior, orn.Plan, Any, Any]:
    """A network of 9 weights at a mode of its posterior, and the plan there."""
    teacher = eqx.nn.MLP(2, "scalar", 2, 1, activation=jnp.tanh, key=jax.random.key(1))
    params, static = eqx.partition(teacher, eqx.is_inexact_array)
    params = jax.tree.map(lambda leaf: 2 * leaf, params)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    y = jax.vmap(eqx.combine(params, static))(jnp.asarray(x)) + NOISE * rng.normal(size=N)

    def log_likelihood(params: Any, row: Any) -> Any:
        return -0.5 * ((row["y"] - eqx.combine(params, static)(row["x"])) / NOISE) ** 2

    def log_prior(params: Any) -> Any:
        return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    data = {"x": x, "y": np.asarray(y)}
    post = orn.Posterior(log_likelihood, log_prior, data, init=params)
    plan = orn.plan(post, batch_size=200, batches="independent", control_variates=False)
    return post, plan, static, jax.tree.map(jnp.asarray, data)


def loss(model: Any, x: Any, y: Any) -> Any:
    """What the training loop of such a network would have, with weight decay."""
    errors = (y - jax.vmap(model)(x)) / NOISE
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    return 0.5 * jnp.mean(errors**2) + 0.5 / N * sum(jnp.sum(leaf**2) for leaf in weights)


gradient_of: Any = eqx.filter_grad(loss)


def test_T2_a_networks_training_loop_becomes_a_sampler(trained: Any) -> None:
    _, plan, static, data = trained
    mode = plan.layout.unravel(jnp.asarray(plan.center))

    def checked(params: Any) -> Any:
        return loss(eqx.combine(params, static), data["x"], data["y"])

    assert orn.as_optax(plan, loss=checked)

    def chain(key: Any) -> Any:
        optimiser = orn.as_optax(plan, key)

        def step(carry: Any, number: Any) -> Any:
            params, state = carry
            index = jax.random.randint(jax.random.fold_in(key, number), (plan.batch_size,), 0, N)
            model = eqx.combine(params, static)
            gradient = gradient_of(model, data["x"][index], data["y"][index])
            updates, state = optimiser.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), None

        def draw(carry: Any, numbers: Any) -> Any:
            carry, _ = jax.lax.scan(step, carry, numbers)
            return carry, plan.layout.vector(carry[0])

        steps = jnp.arange(plan.warmup + 500 * plan.thin).reshape(-1, plan.thin)
        return jax.lax.scan(draw, (mode, optimiser.init(mode)), steps)[1][-500:]

    draws = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 8)))
    found = measured_kl(draws, plan.center, plan.predicted_cov)
    assert found.value < found.floor + 0.1
    assert measured_kl(draws, plan.center, 1.5 * plan.predicted_cov).value > found.value + 0.3


def test_a_networks_parameters_have_names(trained: Any) -> None:
    post, _, _, _ = trained
    assert post.labels[0] == "layers.0.weight[0, 0]"
    assert post.dim == 9

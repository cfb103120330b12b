"""The contract every row of the registry keeps."""

import jax
import numpy as np
import pytest

import ornstein as orn
from montecarlo import assert_covariance, rejects_covariance
from ornstein.kernels import Info, Kernel, first_order, momentum
from ornstein.kernels.contract import State
from ornstein.loop import advance
from ornstein.operators import as_operator
from tables import as_generic, regression

ROWS = [
    (name, structure) for name, method in orn.METHODS.items() for structure in method.structures
]
SCHEMES = ["independent", "windows", "epochs"]


def known_noise(post: orn.Posterior, plan: orn.Plan) -> None:
    """The test bed is near T2's premises: noise constant over the posterior to a few per cent."""
    assert post.num_data > 100 * plan.dim


@pytest.mark.parametrize(("method", "structure"), ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_T2_chains_have_the_predicted_covariance(method: str, structure: str, dtype: str) -> None:
    post = regression(rows=4000)
    plan = orn.plan(post, method, structure, batch_size=200)
    known_noise(post, plan)
    result = orn.sample(post, plan, key=11, draws=3000, dtype=dtype)
    assert result.status.ok
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("generic", [False, True])
def test_T2_X7_every_batch_scheme_has_the_predicted_covariance(scheme: str, generic: bool) -> None:
    post = regression(rows=2000)
    post = as_generic(post) if generic else post
    plan = orn.plan(post, "exact", batch_size=200, batches=scheme, rho=0.1)
    result = orn.sample(post, plan, key=5, draws=4000)
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    if scheme == "epochs":
        posterior = np.linalg.inv(plan.posterior_precision)
        assert rejects_covariance(result.flat, plan.center, posterior)


@pytest.mark.parametrize(("method", "structure"), ROWS)
def test_the_same_key_gives_the_same_draws_whatever_the_chunks(method: str, structure: str) -> None:
    post = regression(rows=500)
    plan = orn.plan(post, method, structure, batch_size=25)
    first = orn.sample(post, plan, key=1, draws=70, chunk=1)
    for chunk in (2, 7, None):
        again = orn.sample(post, plan, key=1, draws=70, chunk=chunk)
        assert np.array_equal(first.flat, again.flat)
    longer = orn.sample(post, plan, key=1, draws=90)
    assert np.array_equal(first.flat, longer.flat[:, :70])
    fewer_chains = orn.sample(post, plan, key=1, chains=2, draws=70)
    assert np.array_equal(first.flat[:2], fewer_chains.flat)
    typed = orn.sample(post, plan, key=jax.random.key(1), draws=70)
    assert np.array_equal(first.flat, typed.flat)
    other = orn.sample(post, plan, key=2, draws=70)
    assert not np.array_equal(first.flat, other.flat)
    assert not np.array_equal(first.flat[0], first.flat[1])


@pytest.mark.parametrize(("method", "structure"), ROWS)
def test_a_second_call_of_equal_shape_compiles_nothing(method: str, structure: str) -> None:
    first = regression(rows=500)
    second = orn.models.linear(first.data["x"], first.data["y"] + 0.01)
    plan = orn.plan(first, method, structure, batch_size=25)
    orn.sample(first, plan, draws=40, thin=5, warmup=5)
    compiled = advance._cache_size()  # type: ignore[attr-defined]
    plan = orn.plan(second, method, structure, batch_size=25)
    orn.sample(second, plan, key=9, draws=40, thin=5, warmup=5)
    assert advance._cache_size() == compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize(("method", "structure"), ROWS)
def test_plans_carry_what_they_promise(method: str, structure: str) -> None:
    post = regression(rows=500)
    plan = orn.plan(post, method, structure, batch_size=25)
    assert plan.method == method
    assert plan.structure == structure
    assert plan.equation
    assert plan.predicted_cov.shape == (3, 3)
    assert np.linalg.eigvalsh(plan.predicted_cov).min() > 0
    assert 0 < plan.stability_margin < 1
    assert plan.relaxation_steps >= 1
    assert np.isfinite(plan.predicted_kl)
    assert plan.gain.dense(3).shape == (3, 3)


def test_kernels_keep_the_fields_convention() -> None:
    """``init(key, position)`` and ``step(key, state, batch)`` inside a user's own scan."""

    def gradient(position: jax.Array, batch: jax.Array) -> jax.Array:
        return position - batch

    gain, factor = as_operator(0.1), as_operator(0.0)
    for kernel in (
        first_order.build(gradient, 2, "float64", gain, factor),
        momentum.build(gradient, 2, "float64", gain, factor, 0.5),
    ):
        key = jax.random.key(0)
        state = kernel.init(key, jax.numpy.array([4.0, -4.0]))
        keys = jax.random.split(key, 200)
        batches = jax.numpy.ones((200, 2))

        def step(
            state: State, random: tuple[jax.Array, jax.Array], kernel: Kernel = kernel
        ) -> tuple[State, Info]:
            return kernel.step(random[0], state, random[1])

        state, infos = jax.lax.scan(step, state, (keys, batches))
        assert np.allclose(state.position, 1.0, atol=1e-6)
        assert infos.gradient.shape == (200, 2)

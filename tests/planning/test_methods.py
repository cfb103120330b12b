"""The contract every row of the registry keeps."""

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein.linalg.operators import as_operator
from ornstein.planning.kernels import (
    Info,
    Kernel,
    averaged,
    decreasing,
    first_order,
    fisher,
    momentum,
)
from ornstein.planning.kernels.contract import State
from ornstein.planning.kernels.fisher import Fisher
from ornstein.sampling.loop import advance
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import as_generic, mild_regression, regression, zoo

CHAINS = {name: method for name, method in orn.METHODS.items() if method.engine == "chain"}
ROWS = [(name, structure) for name, method in CHAINS.items() for structure in method.structures]
EACH = [(name, method.structures[0]) for name, method in CHAINS.items()]
FURTHER: list[tuple[str, str, dict[str, Any]]] = [
    ("sgfs", "dense", {"estimate": "running"}),
    ("sgfs", "diagonal", {"estimate": "running"}),
    ("sgfs", "scalar", {"estimate": "running", "step_size": 0.3}),
    ("sgfs", "diagonal", {"h_max": 0.1}),
    ("sgfs", "dense", {"extra_noise": 0.0}),
    ("sgfs", "scalar", {"extra_noise": [0.01, 0.02, 0.03], "step_size": 0.5}),
    ("sgld", "dense", {"decay": 0.4}),
    ("sgld", "scalar", {"decay": 0.3, "decay_steps": 500.0}),
    ("sghmc", "diagonal", {"corrected": False}),
    ("sghmc", "dense", {"momentum": 0.2, "step_size": 0.005}),
    ("averaged", "dense", {"window": 7, "step_size": 0.3}),
    ("sgld", "dense", {"control_variates": True}),
    ("sgfs", "dense", {"control_variates": True}),
    ("sgfs", "dense", {"control_variates": True, "estimate": "running"}),
    ("sghmc", "scalar", {"control_variates": True}),
]
"""Options whose chain differs from the default's."""
SCHEMES = ["independent", "windows", "epochs"]


def known_noise(post: orn.Posterior, plan: orn.Plan) -> None:
    """The test bed is near T2's premises: noise constant over the posterior to a few per cent."""
    assert post.num_data > 100 * plan.dim


def mild_or_dense(structure: str) -> orn.Posterior:
    """A test bed that a gain of that structure mixes in some hundred steps."""
    return regression(rows=4000) if structure == "dense" else mild_regression(rows=4000)


@pytest.mark.parametrize(
    ("method", "structure", "dtype"),
    [pytest.param(*row, "float64", marks=pytest.mark.slow) for row in ROWS if row[1] != "classes"]
    + [(*row, "float32") for row in EACH],
)
def test_T2_chains_have_the_predicted_covariance(method: str, structure: str, dtype: str) -> None:
    post = mild_or_dense(structure)
    plan = orn.plan(post, method, structure, batch_size=200)
    known_noise(post, plan)
    result = orn.sample(post, plan, key=11, draws=3000, dtype=dtype)
    assert result.status.ok
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)


@pytest.mark.parametrize(("method", "structure", "options"), FURTHER)
def test_T2_options_have_the_predicted_covariance(
    method: str, structure: str, options: dict[str, Any]
) -> None:
    post = mild_or_dense(structure)
    plan = orn.plan(post, method, structure, batch_size=200, **options)
    result = orn.sample(post, plan, key=11, draws=3000, dispersion=1.0)
    predicted = result.plan.predicted_cov
    assert_covariance(result.flat, plan.center, predicted)
    assert rejects_covariance(result.flat, plan.center, 1.3 * predicted)


@pytest.mark.parametrize(
    "name", ["logistic", pytest.param("softmax", marks=pytest.mark.slow), "generic"]
)
def test_R5_a_running_estimate_sees_the_same_noise_whatever_the_model(name: str) -> None:
    """Rows' gradients of every local model: the estimate leads to the plan's own covariance."""
    posts = zoo(rows=2000, intercept=True)
    post = as_generic(posts["linear"]) if name == "generic" else posts[name]
    plan = orn.plan(post, "sgfs", batch_size=100, estimate="running")
    fixed = orn.plan(post, "sgfs", batch_size=100)
    result = orn.sample(post, plan, key=3, draws=2000, dispersion=1.0)
    other = orn.sample(post, fixed, key=3, draws=2000, dispersion=1.0)
    ratio = np.diag(np.cov(result.flat.reshape(-1, plan.dim), rowvar=False))
    ratio = ratio / np.diag(np.cov(other.flat.reshape(-1, plan.dim), rowvar=False))
    # The two share batches and noise: what remains is the estimate's own error.
    assert np.all(np.abs(np.log(ratio)) < 0.1)


def test_R8_the_bias_of_finite_steps_is_predicted_and_grows() -> None:
    post = mild_or_dense("scalar")
    steps = [1e-6, 1e-5, 1e-4]
    predicted = [
        orn.plan(post, "sgld", batch_size=200, step_size=step).predicted_kl for step in steps
    ]
    assert predicted[0] < 1e-3
    assert predicted[0] < predicted[1] < predicted[2]
    chosen = orn.plan(post, "sgld", batch_size=200)
    assert chosen.predicted_kl == pytest.approx(0.3, rel=1e-3)
    shrinking = orn.plan(post, "sgld", batch_size=200, decay=0.55)
    assert shrinking.predicted_kl < chosen.predicted_kl


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_extreme_starts_end_finite_or_with_a_status(method: str, structure: str) -> None:
    post = mild_or_dense(structure)
    plan = orn.plan(post, method, structure, batch_size=200)
    for dispersion in (0.0, 1e6):
        result = orn.sample(post, plan, key=0, draws=50, dispersion=dispersion, dtype="float32")
        assert result.status.ok
        assert np.isfinite(result.flat).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", orn.DivergenceWarning)
        result = orn.sample(post, plan, key=0, draws=50, dispersion=1e38, dtype="float32")
    assert np.isfinite(result.flat).all()
    assert result.status.ok or "non-finite" in result.status.message


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_parameters_may_be_any_pytree(method: str, structure: str) -> None:
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = X @ np.array([1.0, -0.5]) + np.random.default_rng(1).normal(size=400)

    def log_likelihood(params: Any, row: Any) -> Any:
        eta = row["x"] @ params["slope"]["w"] + params["level"][0]
        return -0.5 * (row["y"] - eta) ** 2

    def log_prior(params: Any) -> Any:
        return -0.5 * sum((leaf**2).sum() for leaf in jax.tree.leaves(params))

    init = {"level": (np.zeros(()),), "slope": {"w": np.zeros(2)}}
    post = orn.Posterior(log_likelihood, log_prior, {"x": X, "y": y}, init=init)
    result = orn.sample(post, method=method, structure=structure, batch_size=40, draws=20)
    assert str(jax.tree.structure(result.draws)) == str(jax.tree.structure(init))
    assert result.draws["slope"]["w"].shape == (4, 20, 2)


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


def test_T2_X7_long_tables_have_the_predicted_covariance() -> None:
    """Sixteen rows of them stay together; some are left over; a short run has few orders."""
    post = regression(rows=2**19 + 5)
    plan = orn.plan(post, batch_size=2**14, batches="windows", control_variates=False)
    assert plan.batches.block == 16
    result = orn.sample(post, plan, key=5, draws=600)
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)


@pytest.mark.parametrize(("method", "structure"), EACH)
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


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_a_second_call_of_equal_shape_compiles_nothing(method: str, structure: str) -> None:
    first = regression(rows=500)
    second = orn.models.linear(first.data["x"], first.data["y"] + 0.01)
    plan = orn.plan(first, method, structure, batch_size=25)
    thin = max(5, plan.window)
    orn.sample(first, plan, draws=40, thin=thin, warmup=thin)
    compiled = advance._cache_size()  # type: ignore[attr-defined]
    plan = orn.plan(second, method, structure, batch_size=25)
    orn.sample(second, plan, key=9, draws=40, thin=thin, warmup=thin)
    assert advance._cache_size() == compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize(("method", "structure"), ROWS)
def test_plans_carry_what_they_promise(method: str, structure: str) -> None:
    classes = structure == "classes"
    post = zoo(rows=500)["softmax"] if classes else regression(rows=500)
    plan = orn.plan(post, method, structure, batch_size=25)
    dim = post.dim
    assert plan.method == method
    assert plan.structure == structure
    assert plan.equation
    cov = np.diag(plan.predicted_cov) if classes else plan.predicted_cov
    assert cov.shape == (dim, dim)
    assert np.linalg.eigvalsh(cov).min() > 0
    assert 0 < plan.stability_margin < 1
    assert plan.relaxation_steps >= 1
    assert np.isfinite(plan.predicted_kl)
    assert plan.gain.dense(dim).shape == (dim, dim)


def test_kernels_keep_the_fields_convention() -> None:
    """``init(key, position)`` and ``step(key, state, batch)`` inside a user's own scan."""

    def gradient(position: jax.Array, batch: jax.Array) -> jax.Array:
        return position - batch

    gain, factor = as_operator(0.1), as_operator(0.0)

    def moments(position: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        return gradient(position, batch), jax.numpy.eye(2)

    unit, eye = jax.numpy.ones(()), jax.numpy.eye(2)
    plain = first_order.build(gradient, 2, "float64", gain, factor)
    for kernel in (
        plain,
        momentum.build(gradient, 2, "float64", gain, factor, 0.5),
        averaged.build(plain, 5, 10),
        decreasing.build(gradient, 2, "float64", gain, factor, 0.1, 100.0),
        *(
            fisher.build(
                moments, 2, "float64", form, factor, Fisher(unit, 10 * unit, unit, eye, eye)
            )
            for form in ("dense", "diagonal", "scalar")
        ),
    ):
        key = jax.random.key(0)
        state = kernel.init(key, jax.numpy.array([4.0, -4.0]))
        keys = jax.random.split(key, 200)
        batches = jax.numpy.ones((200, 2))

        def step(
            state: State, random: tuple[jax.Array, jax.Array], kernel: Kernel = kernel
        ) -> tuple[State, Info]:
            return kernel.step(random[0], state, random[1])

        ended, infos = jax.lax.scan(step, state, (keys, batches))
        assert np.allclose(ended.position, 1.0, atol=1e-6)
        assert np.allclose(kernel.read(ended), 1.0, atol=1e-6)
        assert infos.gradient.shape == (200, 2)
        several = jax.tree.map(lambda leaf: jax.numpy.stack([leaf, leaf]), state)
        pair = jax.random.split(jax.random.key(1), 2)
        moved, _ = jax.jit(jax.vmap(kernel.step))(pair, several, batches[:2])
        again = jax.random.split(jax.random.key(1), 2)[1]
        one, _ = kernel.step(again, state, batches[1])
        assert np.allclose(moved.position[1], one.position, rtol=1e-12)

"""The contract every row of the registry keeps."""

from typing import Any

import numpy as np
import pytest

import ornstein as orn
from support import method_contract as contract
from support.method_contract import mild_or_dense
from support.montecarlo import assert_covariance, rejects_covariance
from support.problems import as_generic, regression, zoo

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
    ("sghmc", "dense", {"momentum": 0.8, "step_size": 0.005}),
    ("averaged", "dense", {"window": 7, "step_size": 0.3}),
    ("sgld", "dense", {"control_variates": True}),
    ("sgfs", "dense", {"control_variates": True}),
    ("sgfs", "dense", {"control_variates": True, "estimate": "running"}),
    ("sghmc", "scalar", {"control_variates": True}),
]
"""Options whose chain differs from the default's."""
SCHEMES = ["independent", "windows", "epochs"]


@pytest.mark.parametrize(
    ("method", "structure", "dtype"),
    [pytest.param(*row, "float64", marks=pytest.mark.slow) for row in ROWS if row[1] != "per-class"]
    + [(*row, "float32") for row in EACH],
)
def test_T2_chains_have_the_predicted_covariance(method: str, structure: str, dtype: str) -> None:
    contract.predicted_covariance(method, structure, dtype)


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
    assert any("nats" in text for text in chosen.warnings)
    assert not any("nats" in text for text in shrinking.warnings)


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_extreme_starts_end_finite_or_with_a_status(method: str, structure: str) -> None:
    contract.extreme_starts(method, structure)


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_parameters_may_be_any_pytree(method: str, structure: str) -> None:
    contract.any_pytree(method, structure)


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
    contract.same_key_same_draws(method, structure)


@pytest.mark.parametrize(("method", "structure"), EACH)
def test_a_second_call_of_equal_shape_compiles_nothing(method: str, structure: str) -> None:
    contract.nothing_compiled_twice(method, structure)


@pytest.mark.parametrize(("method", "structure"), ROWS)
def test_plans_carry_what_they_promise(method: str, structure: str) -> None:
    contract.promises_kept(method, structure)

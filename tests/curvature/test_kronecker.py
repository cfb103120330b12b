"""Gains and covariances in Kronecker factors: operators, geometry, plans, chains, MNIST."""

import subprocess
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import theory
from ornstein.curvature import optimum, structures
from ornstein.curvature.estimation import geometry
from ornstein.data.datasets import Dataset
from ornstein.linalg.along import AlongBasis, AlongDual
from ornstein.linalg.bases import KroneckerBasis
from ornstein.linalg.eigen import Spectrum, lanczos
from support.montecarlo import Floats, assert_covariance
from support.problems import softmax_table
from support.sizes import set_limits


def softmax(rows: int = 1500, intercept: bool = True) -> orn.Posterior:
    precision = [1.0, 2.0, 3.0, 0.5, 4.0, 1.5][: 5 + intercept]
    return orn.models.softmax(*softmax_table(rows), prior_precision=precision, intercept=intercept)


def orthogonal(rng: np.random.Generator, size: int) -> Floats:
    return np.asarray(np.linalg.qr(rng.normal(size=(size, size)))[0])


def random_basis(intercept: bool, seed: int = 0) -> KroneckerBasis:
    rng = np.random.default_rng(seed)
    return KroneckerBasis(
        orthogonal(rng, 3), orthogonal(rng, 4), rng.uniform(0.1, 10, 4), features=4 - intercept
    )


def explicit(basis: KroneckerBasis) -> Floats:
    """``V`` as a matrix, by the definition."""
    K, F = basis.shape
    V = np.kron(basis.outer, np.asarray(basis.scale)[:, None] * basis.inner)
    index = np.arange(K * F).reshape(K, F)
    order = np.concatenate([index[:, : basis.features].ravel(), index[:, basis.features :].ravel()])
    return np.asarray(V[order])


@pytest.mark.parametrize("intercept", [True, False])
def test_operator_agrees_with_its_matrix(intercept: bool) -> None:
    basis, rng = random_basis(intercept), np.random.default_rng(1)
    values, V = rng.uniform(0.5, 2, 12), explicit(basis)
    M, operator = (V * values) @ V.T, AlongBasis(basis, values)
    root = operator.sqrt()
    np.testing.assert_allclose(operator.dense(12), M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(root.dense(12) @ root.dense(12).T, M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.variances(len(M)), np.diag(M), rtol=1e-12)
    np.testing.assert_allclose(operator.trace(12), np.trace(M), rtol=1e-12)
    np.testing.assert_allclose(operator.logdet(12), np.linalg.slogdet(M)[1], rtol=1e-12)
    inverse = AlongBasis(basis.dual, 1 / values).dense(12)
    np.testing.assert_allclose(inverse, np.linalg.inv(M), rtol=1e-9, atol=1e-12)
    for v in (rng.normal(size=12), rng.normal(size=(2, 3, 12))):
        np.testing.assert_allclose(operator.matvec(v), v @ M, rtol=1e-10)
        np.testing.assert_allclose(root.matvec(v), v @ root.dense(12).T, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(root.rmatvec(v), v @ root.dense(12), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(root.solve(root.matvec(v)), v, rtol=1e-9)


def test_operator_is_a_pytree_of_any_precision() -> None:
    operator = AlongBasis(random_basis(True), np.linspace(1, 2, 12))
    v = np.linspace(-1, 1, 24).reshape(2, 12)
    product = jax.jit(lambda op, x: op.matvec(x))
    on_device = product(jax.tree.map(jnp.asarray, operator), jnp.asarray(v))
    np.testing.assert_allclose(on_device, operator.matvec(v), rtol=1e-12)
    assert operator.astype(np.float32).matvec(v.astype(np.float32)).dtype == np.float32
    assert operator.structure == "kronecker"


def test_X6_diagonals_are_those_of_the_matrices_in_the_basis() -> None:
    post = softmax()
    at = post.layout.unravel(optimum.find_optimum(post))
    direct, dense = geometry(post, at, "kronecker"), geometry(post, at, "dense")
    assert direct.structure == "kronecker"
    assert direct.missed is not None
    assert isinstance(direct.hessian, AlongDual)
    assert isinstance(direct.hessian.basis, KroneckerBasis)
    V = explicit(direct.hessian.basis)
    for found, matrix in (
        (direct.hessian, dense.hessian),
        (direct.noise_cov, dense.noise_cov),
        (direct.prior_hessian, dense.prior_hessian),
    ):
        expected = np.diag(V.T @ matrix.array @ V)
        np.testing.assert_allclose(found.array, expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(direct.gradient, dense.gradient, atol=1e-12)
    inside = structures.find("kronecker").attach(post, dense).along
    assert inside is not None
    assert inside.missed is not None
    np.testing.assert_allclose(inside.hessian.array, direct.hessian.array, rtol=1e-9)
    approximate, A = direct.hessian.dense(post.dim), dense.hessian.dense(post.dim)
    relative = np.sort(np.linalg.eigvals(np.linalg.solve(approximate, A)).real)
    np.testing.assert_allclose(inside.missed.spectrum.nodes, relative, rtol=1e-8)
    ends = direct.missed.spectrum.nodes
    np.testing.assert_allclose([ends.min(), ends.max()], relative[[0, -1]], rtol=1e-3)


def test_X2_directions_that_only_the_prior_sees_have_its_variance() -> None:
    post = softmax()
    at = post.layout.unravel(optimum.find_optimum(post))
    cov = geometry(post, at, "kronecker").covariance.dense(post.dim)
    empty = post.layout.unravel(np.diag(cov))["coef"][:, 2]
    np.testing.assert_allclose(empty, 1 / 3.0, rtol=1e-9)
    for column, precision in enumerate([1.0, 2.0, 3.0, 0.5, 4.0]):
        together = np.zeros((4, 5))
        together[:, column] = 0.5
        v = post.layout.ravel({"coef": together, "intercept": np.zeros(4)})
        np.testing.assert_allclose(v @ cov @ v, 1 / precision, rtol=1e-9)


def test_X2_is_exact_where_both_matrices_are_diagonal_in_the_basis() -> None:
    rng, basis, N = np.random.default_rng(3), random_basis(True), 50
    a, c = rng.uniform(1, 5, 12), rng.uniform(0, 0.1, 12)
    A, C_S = AlongBasis(basis.dual, a).dense(12), AlongBasis(basis.dual, c).dense(12)
    recipe = theory.exact_at_rate(a, c, N, rate=0.3)
    assert recipe.injected_cov is not None
    K, Q = (AlongBasis(basis, part).dense(12) for part in (recipe.gain, recipe.injected_cov))
    cov = theory.finite_step_covariance(K, A, C_S, Q)
    np.testing.assert_allclose(cov, np.linalg.inv(N * A), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(theory.modes(K, A).rates, 0.3, rtol=1e-9)


def test_X2_cost_of_an_approximate_hessian_follows_from_its_spectrum() -> None:
    rng, basis, N, h = np.random.default_rng(4), random_basis(False), 50, 0.4
    a = rng.uniform(1, 2, 12)
    approximate = AlongBasis(basis.dual, a).dense(12)
    L = np.linalg.cholesky(approximate)
    turned = orthogonal(rng, 12)
    m = rng.uniform(0.2, 3, 12)
    A = L @ (turned * m) @ turned.T @ L.T
    recipe = theory.exact_at_rate(a, np.zeros(12), N, h)
    assert recipe.injected_cov is not None
    K, Q = (AlongBasis(basis, part).dense(12) for part in (recipe.gain, recipe.injected_cov))
    cov = theory.finite_step_covariance(K, A, np.zeros((12, 12)), Q)
    spectrum = Spectrum(m, np.full(12, 1 / 12))
    expected = theory.posterior_kl(cov, A, N)
    np.testing.assert_allclose(theory.structure_kl(spectrum, h, 12), expected, rtol=1e-7)
    itself = theory.posterior_kl(np.linalg.inv(N * approximate), A, N)
    np.testing.assert_allclose(theory.approximation_kl(spectrum, 12), itself, rtol=1e-7)
    assert theory.structure_kl(spectrum, 0.7, 12) == np.inf
    rate = theory.accurate_rate(spectrum, 0.05)
    np.testing.assert_allclose(theory.structure_kl(spectrum, rate, 1), 0.05**2 / 4, rtol=1e-6)


def test_X6_variances_with_an_approximate_hessian() -> None:
    N, h, a = 50, 0.4, 1.7
    for m in (0.2, 1.0, 3.0, 6.0):
        recipe = theory.exact_at_rate(np.array([a]), np.zeros(1), N, h)
        assert recipe.injected_cov is not None
        K, Q = (part.reshape(1, 1) for part in (recipe.gain, recipe.injected_cov))
        cov = theory.finite_step_covariance(K, np.array([[a * m]]), np.zeros((1, 1)), Q)
        ratio = theory.variance_ratios(Spectrum(np.array([m]), np.ones(1)), h)
        expected = cov.item() * N * a * m if m < 5 else np.inf
        np.testing.assert_allclose(ratio, expected, rtol=1e-12)


def test_lanczos_finds_the_moments_of_a_spectrum() -> None:
    rng = np.random.default_rng(5)
    values, turned = rng.uniform(0.1, 4, 30), orthogonal(rng, 30)
    M, start = (turned * values) @ turned.T, rng.normal(size=(2, 30))
    for found, v in zip(lanczos(lambda x: x @ M, start, 12), start, strict=True):
        for power in (1, 2, -1):
            moment = v @ np.linalg.matrix_power(M, power) @ v / (v @ v)
            np.testing.assert_allclose(found.shares @ found.nodes**power, moment, rtol=1e-4)


def test_T2_plan_knows_what_the_structure_costs() -> None:
    post = softmax()
    exact, kronecker, diagonal = (
        orn.plan(post, structure=s) for s in ("dense", "kronecker", "diagonal")
    )
    assert exact.predicted_kl < 1e-8
    assert exact.predicted_kl < kronecker.predicted_kl < 0.1 < diagonal.predicted_kl
    assert kronecker.relaxation_steps < 0.1 * diagonal.relaxation_steps
    slower = orn.plan(post, structure="kronecker", rho=10 * 2 / kronecker.relaxation_steps + 40)
    assert slower.predicted_kl < kronecker.predicted_kl


@pytest.mark.usefixtures("no_matrices")
def test_T2_without_matrices_the_prediction_is_nearly_that_with_them() -> None:
    post = softmax()
    small = orn.plan(post, structure="kronecker")
    assert small.geometry.structure == small.structure == small.gain.structure == "kronecker"
    assert small.control_variates
    assert small.predicted_cov.shape == (post.dim,)
    at = post.layout.unravel(small.center)
    A = geometry(post, at, "dense").hessian.dense(post.dim)
    assert small.injected_cov is not None
    K, Q = small.gain.dense(post.dim), small.injected_cov.dense(post.dim)
    C_S = small.noise_cov.dense(post.dim)
    cov = theory.finite_step_covariance(K, A, C_S * small.batches.noise_factor, Q)
    np.testing.assert_allclose(small.predicted_trace, np.trace(cov), rtol=0.02)
    assert theory.posterior_kl(cov, A, post.num_data) < small.predicted_kl < 0.1
    np.testing.assert_allclose(
        small.relaxation_steps, 1 / theory.modes(K, A).rates.min(), rtol=1e-2
    )
    shown = str(small)
    assert "memory" in shown
    assert "Kronecker factors" in shown
    with pytest.raises(orn.InputError, match="rho"):
        orn.plan(post, structure="kronecker", rho=-1.0)
    with pytest.raises(orn.UnstablePlanError, match="Leave out rho"):
        orn.plan(post, structure="kronecker", rho=0.0, batch_size=1400)


def test_X2_chains_have_the_posteriors_covariance() -> None:
    post = softmax(rows=3000)
    plan = orn.plan(post, structure="kronecker")
    result = orn.sample(post, plan, key=3, chains=4, draws=800, dispersion=1.0)
    assert result.status.ok
    assert_covariance(result.flat, result.flat.mean(axis=(0, 1)), plan.predicted_cov)
    seen = result.draws["coef"][..., 2]
    np.testing.assert_allclose(seen.var(), 1 / 3, rtol=0.1)


@pytest.mark.slow
def test_chains_without_matrices_are_those_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    post = softmax()
    with_matrices = orn.plan(post, structure="kronecker", batch_size=64, batches="independent")
    set_limits(monkeypatch, dense=12)
    without = orn.plan(post, structure="kronecker", batch_size=64, batches="independent")
    first, second = (
        orn.sample(post, plan, draws=400, thin=20, dispersion=1.0)
        for plan in (with_matrices, without)
    )
    ratios = first.flat.var(axis=(0, 1)) / second.flat.var(axis=(0, 1))
    np.testing.assert_allclose(ratios, 1, atol=0.25)
    diagnosis = second.diagnose()
    assert {check.name for check in diagnosis} == {"A4", "model", "stationarity", "covariance"}
    assert diagnosis["covariance"].number < 0.1
    with pytest.raises(orn.InputError, match="structure is kronecker"):
        second.measured_kl()
    with pytest.raises(orn.InputError, match="target_kl_error"):
        orn.sample(post, without, draws="auto", target_kl_error=0.1)


@pytest.mark.slow
def test_a_prior_of_one_precision_per_parameter_is_sampled_too() -> None:
    X, y = softmax_table()
    post = orn.models.softmax(X, y)
    uneven = np.linspace(0.5, 4, post.dim)
    post.hyper = post.hyper | {"prior_precision": uneven}
    plan = orn.plan(post, structure="kronecker")
    result = orn.sample(post, plan, draws=500, dispersion=1.0)
    assert_covariance(result.flat, result.flat.mean(axis=(0, 1)), plan.predicted_cov)


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("far", [0.0, 1e4])
@pytest.mark.parametrize("slack", [1.0, 10.0, 100.0])
def test_optimum_in_kronecker_units(slack: float, far: float) -> None:
    """Rough searches go most of the way in single precision, also where columns lie far from 0."""
    X, y = softmax_table()
    X[:, 4] += far
    post = orn.models.softmax(X, y, intercept=True)
    near = optimum.find_optimum(post, slack)
    with pytest.MonkeyPatch.context() as patch:
        set_limits(patch, dense=2000)
        exact = optimum.find_optimum(post)
        A = geometry(post, post.layout.unravel(exact), "dense").hessian.array
    distance = np.sqrt(post.num_data * (near - exact) @ A @ (near - exact) / post.dim)
    assert distance < min(1e-2 * slack, 0.5)


@pytest.mark.usefixtures("no_matrices")
def test_laplace_draws_in_kronecker_factors() -> None:
    post = softmax()
    plan = orn.plan(post, "laplace", structure="kronecker")
    assert plan.predicted_kl > 0.1
    result = orn.sample(post, plan, draws=3000)
    np.testing.assert_allclose(result.flat.var(axis=(0, 1)), plan.predicted_cov, rtol=0.15)


def test_kronecker_needs_linear_predictors() -> None:
    post = orn.Posterior(
        lambda params, row: -0.5 * (row - params) ** 2,
        lambda params: -0.5 * params**2,
        np.arange(20.0),
        init=0.0,
    )
    with pytest.raises(orn.InputError, match="linear predictors"):
        orn.plan(post, structure="kronecker")


MNIST = """
import resource, time
import numpy as np
import ornstein as orn

data = orn.datasets.load("mnist")
post = orn.models.softmax((data.X / np.float32(255)).astype(np.float32), data.y)
began = time.perf_counter()
plan = orn.plan(post)
planned = time.perf_counter() - began
result = orn.sample(post, plan, chains=2, draws=20, thin=100, warmup=0, dispersion=1.0)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
trace = result.flat.reshape(-1, plan.dim).var(axis=0, ddof=1).sum()
print(plan.structure, planned, peak, plan.predicted_trace, trace, int(result.status.ok))
"""


@pytest.mark.slow
def test_mnist_fits_memory(dataset: Callable[[str], Dataset]) -> None:
    dataset("mnist")
    done = subprocess.run(
        [sys.executable, "-c", MNIST], capture_output=True, text=True, check=True, timeout=3000
    )
    structure, seconds, peak, predicted, measured, ok = done.stdout.split()
    assert structure == "per-class"
    assert ok == "1"
    assert float(peak) < 6, f"peak memory {peak} GiB"
    assert float(seconds) < 900
    np.testing.assert_allclose(float(measured), float(predicted), rtol=0.15)

"""Per-class blocks: basis, curvature, noise, plans and chains (X2, X6, X9)."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import theory
from ornstein.curvature import optimum
from ornstein.curvature.estimation import geometry
from ornstein.curvature.structures import per_class
from ornstein.curvature.structures.dense import DenseDeviations
from ornstein.curvature.structures.per_class import PerClassDeviations
from ornstein.data.batches import weights_of
from ornstein.linalg.along import AlongBasis, AlongDual
from ornstein.linalg.bases import ClassBasis
from ornstein.linalg.operators import Dense
from ornstein.results import plots
from ornstein.sampling import restarts
from ornstein.storage import records
from support.montecarlo import Floats, assert_covariance
from support.problems import softmax_table
from support.sizes import set_limits

CLASSES, WIDTH = 4, 6


def softmax(rows: int = 1500, intercept: bool = True) -> orn.Posterior:
    precision = [1.0, 2.0, 3.0, 0.5, 4.0, 1.5][: 5 + intercept]
    return orn.models.softmax(*softmax_table(rows), prior_precision=precision, intercept=intercept)


def random_basis(intercept: bool) -> ClassBasis:
    rng = np.random.default_rng(0)
    inner = [np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] for _ in range(CLASSES)]
    return ClassBasis(np.stack(inner), rng.uniform(0.1, 10, WIDTH), WIDTH - intercept)


def explicit(basis: ClassBasis) -> Floats:
    """``V`` by its definition."""
    K, F = basis.outputs, basis.width
    scale, away = np.asarray(basis.scale), np.eye(K) - 1 / K
    own = [np.kron(away[:, [k]], scale[:, None] * np.asarray(basis.inner[k])) for k in range(K)]
    V = np.concatenate([*own, np.kron(np.full((K, 1), K**-0.5), np.diag(scale))], axis=1)
    order = np.arange(K * F).reshape(K, F)
    features = basis.features
    return V[np.concatenate([order[:, :features].ravel(), order[:, features:].ravel()])]


@pytest.mark.parametrize("intercept", [True, False])
def test_operator_agrees_with_its_matrix(intercept: bool) -> None:
    basis, rng = random_basis(intercept), np.random.default_rng(1)
    V, dim, size = explicit(basis), CLASSES * WIDTH, (CLASSES + 1) * WIDTH
    values = rng.uniform(0.5, 2, size)
    M, operator = (V * values) @ V.T, AlongBasis(basis, values)
    root = operator.sqrt()
    np.testing.assert_allclose(operator.dense(dim), M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(root.dense(dim), V * np.sqrt(values), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(operator.variances(dim), np.diag(M), rtol=1e-12)
    np.testing.assert_allclose(operator.logdet(dim), np.linalg.slogdet(M)[1], rtol=1e-12)
    assert operator.structure == "per-class"
    for v in (rng.normal(size=dim), rng.normal(size=(2, 3, dim))):
        np.testing.assert_allclose(operator.matvec(v), v @ M, rtol=1e-10)
        np.testing.assert_allclose(root.rmatvec(v), v @ root.dense(dim), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(root.matvec(root.solve(v)), v, rtol=1e-9)
    z = rng.normal(size=(3, size))
    R = np.asarray(root.dense(dim))
    seen = basis.seen(z, np.sqrt(values))
    np.testing.assert_allclose(seen, z @ (np.linalg.pinv(R) @ R), atol=1e-10)
    product = jax.jit(lambda op, x: op.matvec(x))
    on_device = product(jax.tree.map(jnp.asarray, operator), jnp.ones(dim))
    np.testing.assert_allclose(on_device, M.sum(axis=0), rtol=1e-10)


@pytest.mark.parametrize("far", [0.0, 300.0])
def test_X6_curvature_and_noise_are_those_of_the_blocks(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision where single would not tell the prior from columns far from zero."""
    monkeypatch.setattr(per_class, "_NEGLIGIBLE", 0.0)
    X, y = softmax_table()
    X[:, 4] += far
    post = orn.models.softmax(X, y, prior_precision=[1.0, 2.0, 3.0, 0.5, 4.0])
    at = post.layout.unravel(optimum.find_optimum(post))
    direct, dense = geometry(post, at, "per-class"), geometry(post, at, "dense")
    assert direct.structure == "per-class"
    assert direct.missed is not None
    assert isinstance(direct.hessian, AlongDual)
    basis = direct.hessian.basis
    assert isinstance(basis, ClassBasis)
    likelihood = np.asarray(dense.likelihood.array)
    for matrix, found in (
        (likelihood, direct.likelihood.array),
        (np.asarray(dense.noise_cov.array), direct.noise_cov.array),
    ):
        for k in range(CLASSES):
            own = 4 / 3 * matrix[5 * k : 5 * k + 5, 5 * k : 5 * k + 5]  # K / (K - 1)
            V = np.asarray(basis.scale)[:, None] * np.asarray(basis.inner)[k]
            expected = V.T @ own @ V
            part = found[5 * k : 5 * k + 5]
            np.testing.assert_allclose(part, np.diag(expected), rtol=1e-4, atol=1e-9)
            if matrix is likelihood:
                np.testing.assert_allclose(
                    expected, np.diag(part), rtol=0, atol=1e-5 * np.abs(expected).max()
                )
    np.testing.assert_allclose(direct.prior_hessian.array, 1 / post.num_data, rtol=1e-9)
    np.testing.assert_allclose(direct.hessian.array[-5:], 1 / post.num_data, rtol=1e-9)
    R = np.asarray(direct.hessian.inverse().sqrt().dense(post.dim))
    nodes = np.linalg.eigvalsh(R.T @ dense.hessian.array @ R)[
        5:
    ]  # the first ones are of R's kernel
    ends = direct.missed.spectrum.nodes
    np.testing.assert_allclose([ends.min(), ends.max()], [nodes[0], nodes[-1]], rtol=0.02)
    shares = direct.missed.spectrum.shares
    np.testing.assert_allclose(shares @ np.log(ends), np.log(nodes).mean(), atol=0.1)


def true_noise(
    post: orn.Posterior, plan: orn.Plan, cov: Floats | None = None
) -> tuple[Floats, Floats]:
    """A, and the covariance of a row's anchored gradient over the posterior, or a Gaussian."""
    assert plan.anchor is not None
    known = geometry(post, post.layout.unravel(plan.center), "dense")
    cov = known.covariance.dense(post.dim) if cov is None else cov
    deviations, index = DenseDeviations(post, known, Dense(cov), 0), np.arange(post.num_data)
    lists = plan.anchor.multiplicity
    weight = np.ones(post.num_data) if lists is None else weights_of(lists)
    with jax.enable_x64(True):
        second = deviations.sums(index, weight[None])[0]
    return known.hessian.dense(post.dim), second - known.likelihood.congruent(Dense(cov))


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("structure", ["per-class", "kronecker"])
@pytest.mark.parametrize("batch_size", [None, 48])
def test_T3_the_predicted_divergence_is_that_of_all_noise(
    structure: str, batch_size: int | None
) -> None:
    """Also of noise that the basis does not see, which small batches make more of."""
    post = softmax(rows=3000)
    plan = orn.plan(post, structure=structure, batch_size=batch_size)
    assert plan.anchor is not None
    assert plan.geometry.approximate
    assert plan.injected_cov is not None
    A, C = true_noise(post, plan)
    K, Q = plan.gain.dense(post.dim), plan.injected_cov.dense(post.dim)
    cov = theory.finite_step_covariance(K, A, C * plan.batches.noise_factor, Q)
    found = theory.posterior_kl(cov, A, post.num_data)
    assert 0.7 * found < plan.predicted_kl < 2 * found
    assert plan.predicted_kl < 0.05 or batch_size is not None
    np.testing.assert_allclose(plan.predicted_trace, np.trace(cov), rtol=0.05)
    np.testing.assert_allclose(plan.relaxation_steps, 1 / theory.modes(K, A).rates.min(), rtol=0.05)


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("structure", ["per-class", "kronecker"])
def test_X9_noise_beyond_the_basis(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the Gaussian of the basis; 300 random directions are right to some hundredths.

    The rows' mean deviation, which all know, is not taken from the products.
    """
    monkeypatch.setattr("ornstein.curvature.deviations._PROBES", 300)
    post = softmax(rows=3000)
    plan = orn.plan(post, structure=structure)
    hessian, anchor = plan.geometry.hessian, plan.anchor
    assert anchor is not None
    cov = plan.predicted.dense(post.dim)
    A, C = true_noise(post, plan, cov)
    likelihood = A - np.diag(np.asarray(post.hyper["prior_precision"])) / post.num_data
    C = C + likelihood @ cov @ likelihood
    R = np.asarray(hessian.inverse().sqrt().dense(post.dim))
    seen = np.linalg.pinv(R) @ R
    known = seen @ np.diag(post.num_data * anchor.noise_cov.array / hessian.array) @ seen
    off = post.num_data * R.T @ C @ R - known
    misfit = R.T @ A @ R - seen
    np.testing.assert_allclose(anchor.beyond, (off**2).sum() / post.dim, rtol=0.25)
    scale = np.sqrt((off**2).sum() * (misfit**2).sum()) / post.dim
    assert abs(anchor.aligned - (off * misfit).sum() / post.dim) < 0.1 * scale


def test_X9_leverages_are_nearly_those_of_the_matrix() -> None:
    post = softmax(rows=800)
    at = post.layout.unravel(optimum.find_optimum(post))
    known, dense = geometry(post, at, "per-class"), geometry(post, at, "dense")
    cov = Dense(known.covariance.dense(post.dim))
    with jax.enable_x64(True):
        found, _ = PerClassDeviations(post, known, known.covariance, 0).leverages(None)
        wanted, _ = DenseDeviations(post, dense, cov, 0).leverages(None)
    np.testing.assert_allclose(found, wanted, rtol=0.15)


@pytest.mark.usefixtures("no_matrices")
def test_X2_chains_have_the_posteriors_covariance() -> None:
    post = softmax(rows=3000)
    plan = orn.plan(post)
    assert plan.method == "exact"
    assert plan.structure == plan.gain.structure == "per-class"
    assert "a basis" in str(plan)
    A, C = true_noise(post, plan)
    assert plan.injected_cov is not None
    K, Q = plan.gain.dense(post.dim), plan.injected_cov.dense(post.dim)
    cov = theory.finite_step_covariance(K, A, C * plan.batches.noise_factor, Q)
    result = orn.sample(post, plan, key=3, chains=4, draws=1600, dispersion=1.0)
    assert_covariance(result.flat, result.flat.mean(axis=(0, 1)), cov)
    constant = result.draws["coef"][..., 2]
    np.testing.assert_allclose(constant.var(), 1 / 3, rtol=0.1)
    common = result.draws["coef"].mean(axis=2)
    np.testing.assert_allclose(
        common.var(axis=(0, 1)), 1 / (CLASSES * np.array([1, 2, 3, 0.5, 4])), rtol=0.2
    )


@pytest.mark.usefixtures("no_matrices")
def test_a_plan_survives_its_record_and_the_same_key_gives_the_same_draws() -> None:
    post = softmax(rows=400)
    plan = orn.plan(post)
    again = replace(records.unpack(records.pack(plan)), layout=post.layout, model=post.model)
    first, second = (orn.sample(post, p, draws=20, key=5).flat for p in (plan, again))
    np.testing.assert_array_equal(first, second)


@pytest.mark.usefixtures("no_matrices")
def test_laplace_draws_have_the_predicted_variances() -> None:
    post = softmax()
    plan = orn.plan(post, "laplace")
    assert plan.structure == "per-class"
    result = orn.sample(post, plan, draws=3000)
    np.testing.assert_allclose(result.flat.var(axis=(0, 1)), plan.predicted_cov, rtol=0.15)


@pytest.mark.usefixtures("no_matrices")
def test_a_sample_of_rows_has_standard_errors() -> None:
    post = softmax(rows=3000)
    at = post.layout.unravel(optimum.find_optimum(post))
    some, whole = geometry(post, at, "per-class", rows=1024), geometry(post, at, "per-class")
    assert 0 < some.relative_error < 1
    assert whole.relative_error == 0
    np.testing.assert_allclose(some.hessian.array.sum(), whole.hessian.array.sum(), rtol=0.1)


def test_large_structures_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    post = softmax()
    X = np.random.default_rng(0).normal(size=(50, 3))
    logistic = orn.models.logistic(X, X[:, 0] > 0)
    assert orn.plan(post).structure == orn.plan(logistic).structure == "dense"
    set_limits(monkeypatch, dense=2)
    assert orn.plan(post).structure == "per-class"
    assert orn.plan(logistic).structure == "diagonal"
    set_limits(monkeypatch, class_numbers=100)
    assert orn.plan(post).structure == "kronecker"
    set_limits(monkeypatch, width=2)
    assert orn.plan(post).structure == "diagonal"
    with pytest.raises(orn.InputError, match="model of classes"):
        orn.plan(logistic, structure="per-class")


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize("classes", [2, 3])
def test_weighted_rows_count_as_often(classes: int) -> None:
    """Also where there are but two classes, and weights are small."""
    X, y = softmax_table(600, classes, 8)
    often = 1 + np.arange(600) % 3
    whole = orn.models.softmax(np.repeat(X, often, axis=0), np.repeat(y, often), intercept=True)
    post = orn.models.softmax(X, y, intercept=True, sample_weight=often)
    at = post.layout.unravel(optimum.find_optimum(whole))
    weighed, listed = (geometry(each, at, "per-class") for each in (post, whole))
    np.testing.assert_allclose(
        weighed.precision.array, listed.precision.array, rtol=1e-3, atol=1e-6
    )
    plan = orn.plan(post)
    result = orn.sample(post, plan, draws=300, dispersion=1.0)
    variance = result.flat.reshape(-1, post.dim).var(axis=0).sum()
    np.testing.assert_allclose(variance, plan.predicted_trace, rtol=0.1)


@pytest.mark.usefixtures("no_matrices")
def test_what_needs_matrices_refuses() -> None:
    result = orn.sample(softmax(rows=300), draws=20)
    assert result.plan.geometry.approximate
    for look in (plots.projection, plots.covariances):
        with pytest.raises(orn.InputError, match="structure is per-class"):
            look(result)
    with pytest.raises(orn.InputError, match="structure is per-class"):
        result.measured_kl()


@pytest.mark.usefixtures("no_matrices")
def test_steps_are_shortened_after_a_divergence() -> None:
    """From the rate that the plan took, which is far below that of rho = 1."""
    plan = orn.plan(softmax(rows=300))
    name, options = next(iter(restarts._gentler(plan)))
    assert name.startswith("rho=")
    assert 2 / (1 + options["rho"]) == pytest.approx(plan.geometry.rate / 2)


@pytest.mark.usefixtures("no_matrices")
def test_rows_may_stay_on_disk(tmp_path: Path) -> None:
    X, y = softmax_table(4000)
    for name, array in (("X", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", array)
    rows, labels = (orn.open_rows(tmp_path / f"{name}.npy") for name in "Xy")
    stored = orn.models.softmax(rows, labels)
    plans = [orn.plan(post, batch_size=200) for post in (stored, orn.models.softmax(X, y))]
    assert stored.on_disk
    assert plans[0].structure == "per-class"
    np.testing.assert_allclose(plans[0].predicted_trace, plans[1].predicted_trace, rtol=1e-6)
    result = orn.sample(stored, plans[0], draws=200, dispersion=1.0)
    variance = result.flat.reshape(-1, stored.dim).var(axis=0).sum()
    np.testing.assert_allclose(variance, plans[0].predicted_trace, rtol=0.15)

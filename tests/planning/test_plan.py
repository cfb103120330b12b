"""Plans: what they predict, what they refuse, what they say."""

import re
from collections.abc import Callable

import numpy as np
import pytest

import ornstein as orn
from ornstein import theory
from ornstein.data.datasets import Dataset
from support.problems import as_generic, features, regression, zoo
from support.sizes import set_limits

Load = Callable[[str], Dataset]


def scaled(data: Dataset) -> orn.Posterior:
    """Linear regression on columns divided by their largest absolute value."""
    return orn.models.linear(data.X / np.abs(data.X).max(axis=0), data.y)


@pytest.mark.parametrize(
    ("name", "structure", "expected"),
    [
        ("wine", "scalar", 19.40),
        ("wine", "diagonal", 14.79),
        ("wine", "dense", 0.00),
        ("protein", "scalar", 16.40),
        ("protein", "diagonal", 13.76),
        ("protein", "dense", 0.00),
    ],
)
def test_R1_R2_R3_predicted_kl_on_real_data(
    dataset: Load, name: str, structure: str, expected: float
) -> None:
    """The small-step figures (T1), and T2's at a batch so small that it agrees."""
    post = scaled(dataset(name))
    made = orn.plan(post, "sgd", structure, batch_size=100)
    assert abs(made.predicted_kl_ou - expected) < 0.01
    assert made.predicted_kl >= made.predicted_kl_ou - 1e-9
    tiny = orn.plan(post, "sgd", structure, batch_size=1)
    assert abs(tiny.predicted_kl - expected) < 0.05


def test_R1_predicted_kl_on_skin(dataset: Load) -> None:
    data = dataset("skin")
    X = data.X.astype(float)
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    made = orn.plan(orn.models.logistic(standardised, data.y), "sgd", "scalar", batch_size=10_000)
    assert abs(made.predicted_kl_ou - 0.362) < 0.001
    with_intercept = orn.models.logistic(standardised, data.y, intercept=True)
    for structure, expected in (("scalar", 0.945), ("diagonal", 0.900)):
        made = orn.plan(with_intercept, "sgd", structure, batch_size=10_000)
        assert abs(made.predicted_kl_ou - expected) < 0.001


@pytest.mark.parametrize("anchored", [False, True])
def test_a_plan_satisfies_its_own_equation(anchored: bool) -> None:
    """T2 holds for the gain, noise and covariance a plan carries."""
    made = orn.plan(
        regression(), batch_size=40, batches="windows", control_variates=anchored, rho=1.0
    )
    K, Q = made.gain.dense(3), made.injected_cov.dense(3)  # type: ignore[union-attr]
    A, C = made.geometry.hessian.array, made.noise_cov.array
    J = np.eye(3) - K @ A
    C_S = C * (600 - 40) / (40 * 599)
    residual = J @ made.predicted_cov @ J.T + K @ C_S @ K + Q - made.predicted_cov
    assert np.abs(residual).max() < 1e-14
    np.testing.assert_allclose(made.predicted_cov, np.linalg.inv(600 * A), rtol=1e-9)
    rates = np.linalg.eigvals(K @ A).real
    assert np.isclose(made.relaxation_steps, 1 / rates.min())
    assert np.isclose(made.stability_margin, 1 - rates.max() / 2)
    assert made.thin == max(1, round(made.relaxation_steps))
    assert made.warmup >= 5 * made.relaxation_steps


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax", "poisson"])
def test_generic_models_get_the_same_plan(name: str) -> None:
    post = zoo()[name]
    closed, generic = (
        orn.plan(p, batch_size=30, control_variates=False) for p in (post, as_generic(post))
    )
    np.testing.assert_allclose(closed.center, generic.center, atol=1e-9)
    np.testing.assert_allclose(
        closed.gain.dense(post.dim), generic.gain.dense(post.dim), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(closed.predicted_cov, generic.predicted_cov, rtol=1e-7, atol=1e-12)
    assert closed.thin == generic.thin
    assert closed.labels == generic.labels


def test_columns_of_zeros_get_the_priors_variance_or_a_refusal() -> None:
    X = np.insert(features(500, 2), 1, 0.0, axis=1)
    post = orn.models.linear(X, X[:, 0], prior_precision=4.0, feature_names=["a", "void", "b"])
    made = orn.plan(post, "exact", batch_size=50)
    assert np.isclose(made.predicted_cov[1, 1], 0.25, rtol=1e-12)
    assert np.abs(made.predicted_cov[1, [0, 2]]).max() < 1e-15
    assert any("coef[void]" in warning for warning in made.warnings)
    for method, structure in (("sgd", "dense"), ("sgd", "diagonal"), ("momentum", "dense")):
        with pytest.raises(orn.UnstablePlanError, match=r"coef\[void\].*method='exact'"):
            orn.plan(post, method, structure, batch_size=50)
    with pytest.raises(orn.UnstablePlanError, match="rho=1"):
        orn.plan(post, "exact", batch_size=50, rho=0.0, control_variates=False)


def test_a_full_batch_has_no_noise_and_exact_draws_independently() -> None:
    post = regression(rows=100)
    made = orn.plan(post, batch_size=100)
    assert np.isclose(made.relaxation_steps, 1.0)
    assert made.thin == 1
    assert made.predicted_kl < 1e-12
    with pytest.raises(orn.UnstablePlanError):
        orn.plan(post, "sgd", batch_size=100)


def test_X7_an_epoch_loader_is_planned_for_and_warned_of() -> None:
    post = regression()
    loader, windows = (
        orn.plan(post, batch_size=40, batches=s, control_variates=False, rho=1.0)
        for s in ("epochs", "windows")
    )
    K, A = loader.gain.dense(3), loader.geometry.hessian.dense(3)
    C_S = loader.geometry.noise_cov.dense(3) * loader.batches.noise_factor
    Q = loader.injected_cov.dense(3)  # type: ignore[union-attr]
    expected = theory.epoch_covariance(K, A, C_S, 15, Q)
    np.testing.assert_allclose(loader.predicted_cov, expected)
    assert loader.predicted_kl > 0.1 > windows.predicted_kl
    assert any("X7" in warning for warning in loader.warnings)


def test_large_problems_fall_back_to_diagonals(monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, dense=2)
    post = regression()
    made = orn.plan(post, batch_size=40)
    assert made.structure == "diagonal"
    assert made.predicted_cov.shape == (3,)
    assert any("diagonals" in warning for warning in made.warnings)
    A, N = made.geometry.hessian.array, made.num_data
    np.testing.assert_allclose(made.predicted_cov, 1 / (N * A))
    result = orn.sample(post, made, draws=20)
    assert result.flat.shape == (4, 20, 3)


def test_a_point_off_the_optimum_is_pointed_out() -> None:
    post = regression()
    off = {"coef": orn.plan(post, batch_size=40).center + 1.0}
    made = orn.plan(post, at=off, batch_size=40)
    np.testing.assert_allclose(made.center, off["coef"])
    assert any("optimum" in warning for warning in made.warnings)


def test_auto_batches_are_independent_where_a_shuffle_would_not_pay() -> None:
    def scheme(post: orn.Posterior, batch_size: int) -> str:
        return orn.plan(post, batch_size=batch_size, control_variates=False).batches.scheme

    assert scheme(regression(rows=600), 40) == "windows"
    assert scheme(regression(rows=600), 1) == "windows"
    wide = regression(rows=3000, columns=2, prior_precision=1e9)  # known from the prior: fast
    assert scheme(wide, 1) == "independent"


def test_subsampled_geometry_is_close_and_says_how_close() -> None:
    post = regression(rows=5000)
    full, part = orn.plan(post, batch_size=50), orn.plan(post, batch_size=50, geometry_rows=500)
    assert part.geometry.rows_used == 500
    assert 0.02 < part.geometry.relative_error < 0.3
    assert any("geometry_rows" in warning for warning in part.warnings)
    assert full.geometry.relative_error == 0.0
    drift = theory.gaussian_kl(part.predicted_cov, np.linalg.inv(full.predicted_cov))
    assert drift < 0.1


def test_print_shows_what_matters() -> None:
    text = str(orn.plan(regression(), batch_size=40))
    for word in ("rotation", "predicted KL", "relaxation", "warm-up", "thin", "40 rows", "control"):
        assert word in text
    made = orn.plan(regression(), batch_size=40)
    assert repr(made).startswith("Plan(rotation, dense gain, batch_size=40")
    with_momentum = str(orn.plan(regression(), "momentum", batch_size=40, momentum=0.9))
    assert "momentum 0.9 (friction 0.1)" in re.sub(" +", " ", with_momentum)


def test_memory_is_shown_in_a_unit_that_shows_it() -> None:
    small = orn.plan(regression(), batch_size=40)
    assert f"{small.memory / 2**10:.1f} KiB of matrices" in str(small)
    for text in (str(small), str(orn.plan(regression(rows=100, columns=1), batch_size=40))):
        assert " 0.0 " not in text.split("memory")[1].splitlines()[0]
    large = orn.plan(regression(rows=700, columns=300), "laplace")
    assert f"{large.memory / 2**20:.1f} MiB of matrices" in str(large)

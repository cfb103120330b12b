"""Rows in clusters: the cluster-robust sandwich against its closed form, and its coverage."""

import numpy as np
import pytest
from scipy.stats import norm

import ornstein as orn
from ornstein.curvature import row_sums

CLUSTERS, EACH = 40, 10
ROWS = CLUSTERS * EACH
LABELS = np.repeat(np.arange(CLUSTERS), EACH)


def measurements(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A column that varies within clusters, one that does not, and errors that clusters share."""
    X = np.column_stack([rng.normal(size=ROWS), rng.normal(size=CLUSTERS)[LABELS]])
    noise = rng.normal(size=ROWS) + rng.normal(size=CLUSTERS)[LABELS]
    return X, X @ [1.0, -0.5] + noise


def linear(X: np.ndarray, y: np.ndarray) -> orn.Posterior:
    return orn.models.linear(X, y, noise_scale=1.4, prior_precision=1e-6, intercept=True)


def closed_form(Z: np.ndarray, scores: np.ndarray, bread: np.ndarray) -> np.ndarray:
    """``bread (sum over clusters of s s') bread``, with the factor for few clusters."""
    meat = np.zeros((Z.shape[1],) * 2)
    for label in np.unique(LABELS):
        total = (Z * scores[:, None])[label == LABELS].sum(axis=0)
        meat += np.outer(total, total)
    factor = CLUSTERS / (CLUSTERS - 1) * (ROWS - 1) / (ROWS - Z.shape[1])
    return factor * bread @ meat @ bread


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return measurements(np.random.default_rng(0))


def test_X3_of_a_linear_model_has_its_closed_form(
    data: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = data
    Z = np.column_stack([X, np.ones(ROWS)])
    residual = y - Z @ np.linalg.lstsq(Z, y)[0]
    expected = closed_form(Z, residual, np.linalg.inv(Z.T @ Z))
    plan = orn.plan(linear(X, y), clusters=LABELS)
    assert plan.method == "sandwich"
    np.testing.assert_allclose(plan.target_cov, expected, rtol=1e-6)
    np.testing.assert_allclose(plan.predicted_cov, expected, rtol=1e-6)
    plain = orn.plan(linear(X, y), "sandwich")
    assert plan.target_cov[1, 1] > 3 * plain.target_cov[1, 1]
    assert plan.target_cov[0, 0] < 1.5 * plain.target_cov[0, 0]
    # Any labels, in any order of rows, in any blocks.
    order = np.random.default_rng(1).permutation(ROWS)
    monkeypatch.setattr(row_sums, "_BLOCK_NUMBERS", 200)
    named = orn.plan(linear(X[order], y[order]), clusters=LABELS[order].astype(str))
    np.testing.assert_allclose(named.target_cov, expected, rtol=1e-6)


def test_X3_of_a_logistic_model_has_its_closed_form(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    post = orn.models.logistic(X, y > 0, prior_precision=1e-6)
    plan = orn.plan(post, clusters=LABELS)
    p = 1 / (1 + np.exp(-X @ plan.center))
    bread = np.linalg.inv(X.T @ (X * (p * (1 - p))[:, None]))
    np.testing.assert_allclose(plan.target_cov, closed_form(X, (y > 0) - p, bread), rtol=1e-5)


def test_rows_that_are_their_own_clusters(data: tuple[np.ndarray, np.ndarray]) -> None:
    """The plain sandwich, but for the factor."""
    post = linear(*data)
    factor = ROWS / (ROWS - 3)
    plain = orn.plan(post, "sandwich", batch_size=20)
    own = orn.plan(post, "sandwich", batch_size=20, clusters=np.arange(ROWS))
    np.testing.assert_allclose(own.target_cov, factor * plain.target_cov, rtol=1e-6)


def test_draws_have_the_covariance(data: tuple[np.ndarray, np.ndarray]) -> None:
    post = linear(*data)
    result = orn.sample(post, clusters=LABELS, draws=1000, key=0)
    target = result.plan.target_cov
    ratio = np.array([chain.var(axis=0) for chain in result.flat]) / np.diag(target)
    error = ratio.std(axis=0, ddof=1) / 2
    assert (np.abs(ratio.mean(axis=0) - 1) < 6 * np.maximum(error, 0.02)).all()
    assert "sandwich" in result.diagnose().sentence


def test_coverage_of_clustered_rows() -> None:
    """Of 90 % intervals over 200 tables: right with clusters, far too low without."""
    covered, plain, z = np.zeros(2), np.zeros(2), norm.isf(0.05)
    for seed in range(200):
        post = linear(*measurements(np.random.default_rng(1000 + seed)))
        plan = orn.plan(post, "sandwich", clusters=LABELS)
        off = np.abs(plan.center[:2] - [1.0, -0.5])
        covered += off < z * np.sqrt(np.diag(plan.target_cov)[:2])
        plain += off < z * np.sqrt(np.diag(plan.geometry.covariance.array)[:2])
    assert ((covered >= 170) & (covered <= 190)).all()  # binomial 2.4 errors around 180
    assert plain[1] < 120


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"clusters": LABELS[:5]}, "one label for each of the 400 rows"),
        ({"clusters": LABELS // 20}, "2 clusters are too few for 3 parameters"),
        ({"clusters": np.where(LABELS == 3, np.nan, LABELS)}, "lack 10 labels, the first that of"),
        ({"clusters": LABELS, "method": "exact"}, "use method='sandwich', or leave clusters out"),
    ],
)
def test_what_cannot_be_is_refused(
    data: tuple[np.ndarray, np.ndarray], options: dict[str, object], words: str
) -> None:
    with pytest.raises(orn.InputError, match=words):
        orn.plan(linear(*data), **options)  # type: ignore[call-overload]

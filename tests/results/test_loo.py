"""PSIS-LOO against ArviZ and the closed form, and comparisons of models by it."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from arviz_stats.base.array import array_stats

import ornstein as orn
from ornstein.results import loo
from ornstein.results.loo import Loo
from ornstein.results.psis import smoothed_weights


def scored(
    score: np.ndarray, observed: np.ndarray | None = None, target: str = "y", **changes: object
) -> Loo:
    rows = len(score)
    fields = {
        "rows": np.arange(rows),
        "score": score,
        "seen": score + 0.01,
        "pareto_k": np.zeros(rows),
        "observed": np.arange(rows, dtype=float) if observed is None else observed,
        "num_rows": rows,
        "draws": 1000,
        "target": target,
        "classes": (),
        "discrete": False,
    }
    return Loo(**{**fields, **changes})  # type: ignore[arg-type]


def test_weights_and_shapes_are_those_of_arviz() -> None:
    rng = np.random.default_rng(0)
    spread = np.linspace(0.01, 4, 60)
    ratios = spread * (rng.normal(size=(500, 60)) + rng.exponential(size=(500, 60)))
    expected, shapes = array_stats.psislw(-ratios.T)  # type: ignore[no-untyped-call]
    weights, k = smoothed_weights(ratios)
    assert k.min() < 0.2
    assert k.max() > 1
    np.testing.assert_allclose(weights, expected.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(k, shapes, rtol=1e-10, atol=1e-12)


def test_weights_that_do_not_vary_are_equal() -> None:
    weights, k = smoothed_weights(np.full((200, 2), 3.0))
    np.testing.assert_allclose(weights, -np.log(200))
    assert (k == -np.inf).all()


def test_scores_of_a_linear_model_are_those_of_fits_without_the_row() -> None:
    """With known noise and prior, leaving a row out has a closed form."""
    rng = np.random.default_rng(1)
    X, noise, prior = rng.normal(size=(40, 3)), 0.7, 2.0
    y = X @ [1.0, -1.0, 0.5] + noise * rng.normal(size=40)
    exact = []
    for row in range(40):
        others = np.arange(40) != row
        cov = np.linalg.inv(X[others].T @ X[others] / noise**2 + prior * np.eye(3))
        mean = cov @ X[others].T @ y[others] / noise**2
        sd = np.sqrt(noise**2 + X[row] @ cov @ X[row])
        exact.append(scipy.stats.norm.logpdf(y[row], X[row] @ mean, sd))
    cov = np.linalg.inv(X.T @ X / noise**2 + prior * np.eye(3))
    several = []
    for seed in range(8):
        theta = np.random.default_rng(seed).multivariate_normal(
            cov @ X.T @ y / noise**2, cov, size=1000
        )
        density = scipy.stats.norm.logpdf(y, theta @ X.T, noise)
        score, seen, k, draws = loo.leave_one_out([density[:, :15], density[:, 15:]])
        assert (score < seen).all()
        assert k.max() < 0.7
        assert draws == 1000
        several.append(score)
    error = np.std(several, axis=0, ddof=1) / np.sqrt(8)
    off = (np.mean(several, axis=0) - exact) / np.maximum(error, 1e-4)
    assert np.abs(off).max() < 5.4  # t with 7 degrees of freedom, 40 rows


def test_influential_rows_are_named() -> None:
    rng = np.random.default_rng(2)
    theta = rng.normal(scale=0.1, size=(1000, 1))
    y = np.append(rng.normal(size=50), 60.0)
    score, seen, k, draws = loo.leave_one_out([scipy.stats.norm.logpdf(y, theta, 1.0)])
    found = scored(score, y, seen=seen, pareto_k=k, draws=draws)
    assert found.influential.tolist() == [50]
    assert "1 influential row," in str(found)
    assert ": 50 (counted" in str(found)


def test_some_rows_stand_for_all() -> None:
    whole = scored(np.random.default_rng(3).normal(size=2000))
    rows = loo.chosen_rows(2000, 500)
    some = scored(whole.score[rows], num_rows=2000)
    assert abs(some.elpd - whole.elpd) < 4 * some.se
    assert some.se == pytest.approx(2 * whole.se, rel=0.1)
    assert some.to_arviz().elpd_i.sum().item() == pytest.approx(some.elpd)


def test_a_file_holds_the_scores(tmp_path: Path) -> None:
    found = scored(np.arange(5.0), classes=("a", "b"), discrete=True)
    found.save(tmp_path / loo.FILE)
    again = Loo.load(tmp_path / loo.FILE)
    assert (again.score == found.score).all()
    assert again.classes == ("a", "b")
    (tmp_path / loo.FILE).write_bytes((tmp_path / loo.FILE).read_bytes()[:-1])
    with pytest.raises(orn.InputError, match="unreadable"):
        Loo.load(tmp_path / loo.FILE)
    with pytest.raises(orn.InputError, match="Fit again"):
        Loo.load(tmp_path / "other")


def test_differences_and_weights() -> None:
    """The weights make the mixture that scores best, wherever else they could be."""
    rng = np.random.default_rng(4)
    base = rng.normal(-2000, 300, size=400)  # densities that underflow
    parts = [base + rng.normal(scale=1, size=400) - shift for shift in (0.0, 0.2, 3.0)]
    found = orn.compare_models({f"m{i}": scored(part) for i, part in enumerate(parts)})
    assert found.index[0] == "m0"
    assert found["elpd_diff"].iloc[0] == 0
    below = parts[1] - parts[0]
    assert found["elpd_diff"]["m1"] == pytest.approx(below.sum())
    assert found["se_diff"]["m1"] == pytest.approx(below.std(ddof=1) * 20)
    mixed = np.exp(np.stack(parts) - np.max(parts, axis=0))
    weights = found["weight"][["m0", "m1", "m2"]].to_numpy()
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    others = rng.dirichlet(np.ones(3), size=2000)
    best = np.log(others @ mixed).sum(axis=1).max()
    assert np.log(weights @ mixed).sum() > best - 0.05


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_rows": 6}, "has 5 rows, the second 6"),
        ({"discrete": True}, "probabilities"),
        ({"classes": ("a", "b")}, "classes none and 'a', 'b'"),
        ({"observed": np.array([0, 1, 2, 7, 4.0])}, "in 1 of 5 rows, the first being row 3, 3 and"),
        ({"rows": np.arange(5) + 1}, "other rows"),
    ],
)
def test_models_of_other_rows_are_refused(changes: dict[str, object], words: str) -> None:
    one, other = scored(np.zeros(5)), scored(np.ones(5), **changes)  # type: ignore[arg-type]
    with pytest.raises(orn.InputError, match="cannot be compared") as refused:
        orn.compare_models({"a": one, "b": other})
    assert words in str(refused.value)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(orn.InputError, match="two models or more"):
        orn.compare_models({"a": scored(np.zeros(5))})
    with pytest.raises(orn.InputError, match="'b' must be a model"):
        orn.compare_models({"a": scored(np.zeros(5)), "b": 3})

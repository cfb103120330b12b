"""Hyperparameters of models too wide for matrices: learned in Kronecker factors."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature import optimum
from ornstein.hyper import expectation
from ornstein.hyper.ascent import Search
from ornstein.hyper.baselines import log_evidence
from ornstein.hyper.expectation import expect, geometry_at_optimum
from ornstein.hyper.settings import LearningOptions
from ornstein.linalg.along import AlongBasis
from ornstein.linalg.bases import KroneckerBasis
from ornstein.linalg.operators import Dense
from support.montecarlo import Floats
from support.sizes import set_limits


def orthogonal(rng: np.random.Generator, size: int) -> Floats:
    return np.asarray(np.linalg.qr(rng.normal(size=(size, size)))[0])


def softmax(columns: int = 6, classes: int = 4, rows: int = 1500) -> orn.Posterior:
    """Columns of unequal size, of which the third never varies."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns)) * np.linspace(0.3, 1.5, columns)
    X[:, 2] = 0.0
    W = 0.5 * rng.normal(size=(classes, columns))
    return orn.models.softmax(X, np.argmax(X @ W.T + rng.gumbel(size=(rows, classes)), axis=1))


def test_scores_in_kronecker_factors_have_the_moments_of_the_matrix() -> None:
    rng = np.random.default_rng(0)
    basis = KroneckerBasis(orthogonal(rng, 8), orthogonal(rng, 30), np.full(30, 0.7), 30)
    cov = AlongBasis(basis, rng.uniform(0.5, 2.0, 240))
    member = rng.integers(0, 2, size=240)
    diagonal = -2.0 * np.stack([member == 0, member == 1])
    score = expectation.Score(rng.normal(size=2), rng.normal(size=(2, 240)), diagonal)
    matrix = Dense(cov.dense(240))
    np.testing.assert_allclose(score.mean(cov), score.mean(matrix), rtol=1e-12)
    # x'Mx over 64 random signs has a relative standard error of about sqrt(2 / (64 D)) here.
    error = 5 * np.sqrt(2 / (64 * 240))
    np.testing.assert_allclose(score.covariance(cov), score.covariance(matrix), rtol=error, atol=1)


@pytest.mark.usefixtures("no_matrices")
def test_expectations_without_matrices_are_nearly_those_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    post, seen = geometry_at_optimum(softmax())
    assert seen.structure == "per-class"
    found, _ = expect(post, seen, seen.calibrated_covariance)
    set_limits(monkeypatch, dense=2000)
    post, whole = geometry_at_optimum(post)
    assert whole.structure == "dense"
    wanted, _ = expect(post, whole, whole.calibrated_covariance)
    deviation = 1 / np.sqrt(wanted.information[0, 0])
    assert abs(found.score[0] - wanted.score[0]) * deviation < 0.05
    np.testing.assert_allclose(found.information, wanted.information, rtol=0.15)
    assert abs(log_evidence(post, seen) - log_evidence(post, whole)) < 1


@pytest.mark.slow
@pytest.mark.usefixtures("no_matrices")
def test_learned_without_matrices_as_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of starts on both sides; the constant column does not matter."""
    learned = [
        orn.learn(softmax(), start={"prior_precision": start}, draws=100) for start in (1e-3, 1e3)
    ]
    assert all(found.result.plan.geometry.structure == "per-class" for found in learned)
    set_limits(monkeypatch, dense=2000)
    whole = orn.learn(softmax(), draws=100)
    assert whole.result.plan.geometry.structure == "dense"
    for found in learned:
        off = np.log(found.values["prior_precision"] / whole.values["prior_precision"])
        errors = [
            float(one.errors["prior_precision"] / one.values["prior_precision"])
            for one in (found, whole)
        ]
        assert abs(off) < 0.05 * whole.deviations[0] + 4 * np.hypot(errors[0], errors[1])


@pytest.mark.usefixtures("no_matrices")
def test_evidence_without_matrices_as_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = orn.evidence(softmax(), tolerance=1e-4)
    set_limits(monkeypatch, dense=2000)
    whole = orn.evidence(softmax(), tolerance=1e-4)
    np.testing.assert_allclose(
        found.values["prior_precision"], whole.values["prior_precision"], rtol=0.02
    )
    np.testing.assert_allclose(found.well_determined, whole.well_determined, rtol=0.02)


@pytest.mark.usefixtures("no_matrices")
def test_noise_is_not_learned_in_factors() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    post = orn.models.linear(X, X[:, 0] + rng.normal(size=200))
    with pytest.raises(orn.InputError, match="cannot be learned with structure='kronecker'"):
        orn.learn(post, structure="kronecker", draws=10)


@pytest.mark.usefixtures("no_matrices")
@pytest.mark.parametrize(("method", "kept"), [("exact", True), ("laplace", False)])
def test_a_plan_is_kept_while_little_moves(method: str, kept: bool) -> None:
    """A second plan nearby keeps what the first one saw of the rows; Laplace's saw nothing."""
    rng = np.random.default_rng(0)

    def draw(post: orn.Posterior, plan: orn.Plan, number: int, wanted: int, last: object) -> Floats:
        del post, number, wanted, last
        cov = 1.2 * plan.predicted.dense(plan.dim)  # so that a step is left
        return rng.multivariate_normal(plan.center, cov, size=(4, 400))

    post = softmax(rows=300)
    search = Search(
        post,
        {"method": method, "structure": "kronecker"},
        LearningOptions(rounds=4, moments="draws"),
        draw,
        draws=40,
    )
    outcome = search.run(post.learnable.to_real(post.hyperparameters))
    assert [stage for stage, _ in search.trail].count("plan") > 1
    assert search.full_plan is not None
    assert (search.full_plan.plan is not outcome.here.plan) == kept


@pytest.mark.usefixtures("no_matrices")
def test_diagonal_plans_do_not_give_searches_their_units() -> None:
    post, seen = geometry_at_optimum(softmax())
    diagonal = orn.geometry(post, post.layout.unravel(post.start), "diagonal")
    there = {"prior_precision": 2.0}
    assert expectation.foreseen(post, there, diagonal).units is None
    foreseen = expectation.foreseen(post, there, seen)
    assert foreseen.units is not None
    assert foreseen.with_hyper(there).units is None
    assert foreseen.with_rows(np.arange(100)).units is None
    exact = optimum.find_optimum(post.with_hyper(there))
    before, after = (np.linalg.norm(p.start - exact) for p in (post, foreseen))
    assert after < 0.25 * before

"""X12 for more parameters than a matrix is inverted for: a linear regression, known exactly."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.results.accuracy import measure

DIM, ROWS, DRAWS = 520, 1200, 1500


class Known:
    """A regression on correlated columns, its posterior, and draws of it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(ROWS, DIM)) + rng.normal(size=(ROWS, 1))
        y = X @ rng.normal(size=DIM) / np.sqrt(DIM) + rng.normal(size=ROWS)
        self.post = orn.models.linear(X, y)
        self.precision = X.T @ X + np.eye(DIM)
        cov = np.linalg.inv(self.precision)
        self.mean, self.sd = cov @ (X.T @ y), np.sqrt(np.diagonal(cov))
        self.centred = rng.normal(size=(DRAWS, DIM)) @ np.linalg.cholesky(cov).T

    def true_errors(self, draws: Vector) -> tuple[Vector, Vector]:
        return (draws.mean(axis=0) - self.mean) / self.sd, draws.std(axis=0) / self.sd - 1


@pytest.fixture(scope="module")
def known() -> Known:
    return Known()


def test_X12_many_parameters_are_judged_as_they_are(known: Known) -> None:
    """Within Monte-Carlo errors, Bonferroni over parameters; and these are not far too large."""
    draws = known.mean + known.centred
    found = orn.check(known.post, draws)
    assert found.verdict == "ok"
    most = norm.isf(0.001 / (4 * DIM))
    for error, mc, true in zip(
        (found.mean_error, found.sd_error),
        (found.mean_mc_error, found.sd_mc_error),
        known.true_errors(draws),
        strict=True,
    ):
        off = error - true
        assert (np.abs(off) < most * mc).all()
        assert 1 < np.sqrt(np.mean(mc**2) / np.mean(off**2)) < 2


def up(known: Known) -> Vector:
    return 0.5 * known.sd * (np.arange(DIM) == 7)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda k: k.mean + 1.3 * k.centred, "sd"),
        (lambda k: k.mean + 0.75 * k.centred, "sd"),
        (lambda k: k.mean + k.centred + up(k), "mean"),
        (lambda k: k.mean + k.centred * np.where(np.arange(DIM) == 7, 1.5, 1.0), "sd"),
    ],
    ids=["too wide", "too narrow", "one shifted", "one too wide"],
)
def test_X12_wrong_draws_of_many_parameters_fail(
    wrong: Callable[[Known], Vector], name: str, known: Known
) -> None:
    draws = wrong(known)
    found = orn.check(known.post, draws)
    assert found.verdict == "fail"
    true = known.true_errors(draws)[name == "sd"]
    worst = int(np.argmax(np.abs(true)))
    assert getattr(found, f"{name}_error")[worst] == pytest.approx(true[worst], abs=0.15)


def test_X12_a_shift_of_all_parameters_is_seen_by_their_average(known: Known) -> None:
    """It is many standard deviations of their sum, whose chance error hides each one's own."""
    found = orn.check(known.post, known.mean + known.centred + 0.4 * known.sd)
    whole = 0.4 * np.sqrt(known.sd @ known.precision @ known.sd / DIM)
    assert found.average_error[0] == pytest.approx(whole, abs=4 * found.average_mc_error[0])
    assert found.verdict == "fail"


def test_X12_draws_without_correlations_are_seen_to_be_too_narrow(known: Known) -> None:
    """As a mean-field approximation makes them: every conditional deviation is right."""
    rng = np.random.default_rng(1)
    alone = 1 / np.sqrt(np.diagonal(known.precision))
    draws = known.mean + alone * rng.normal(size=(DRAWS, DIM))
    found = orn.check(known.post, draws)
    assert found.verdict == "fail"
    assert np.nanmedian(found.sd_error) < -0.15


def test_X12_some_rows_will_do_for_many_parameters(known: Known) -> None:
    draws = known.mean + known.centred
    found = measure(known.post, draws, work=2e7)
    assert found.rows < ROWS
    true = known.true_errors(draws)
    assert (np.abs(found.mean_error - true[0]) < 5 * found.mean_mc_error).all()
    assert (np.abs(found.sd_error - true[1]) < 5 * found.sd_mc_error).all()
    assert found.verdict != "fail"


@pytest.mark.slow
def test_X12_errors_of_thousands_of_parameters_are_known_to_a_tenth() -> None:
    """Gradients over all rows are worth their time there; right draws may be left in doubt."""
    rng = np.random.default_rng(0)
    dim, rows = 3000, 8000
    X = rng.normal(size=(rows, dim)) + 0.5 * rng.normal(size=(rows, 1))
    y = X @ rng.normal(size=dim) / np.sqrt(dim) + rng.normal(size=rows)
    root = np.linalg.cholesky(X.T @ X + np.eye(dim))
    mean = np.linalg.solve(root.T, np.linalg.solve(root, X.T @ y))
    right = mean + np.linalg.solve(root.T, rng.normal(size=(dim, 4096))).T
    found = orn.check(orn.models.linear(X, y), right)
    assert found.rows == rows
    assert found.verdict != "fail"
    assert max(found.mean_mc_error.max(), found.sd_mc_error.max()) < 0.1

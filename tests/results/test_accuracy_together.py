"""X12: correlations are judged too, whose errors no parameter's own mean and deviation show."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.results.accuracy import judged
from ornstein.results.answers import answers
from ornstein.results.comparison import Comparison, Entry
from ornstein.results.report import words


class Correlated:
    """A linear regression whose posterior has the correlations that are asked for."""

    def __init__(self, correlations: Vector, seed: int = 0) -> None:
        dim, rng = len(correlations), np.random.default_rng(seed)
        self.precision = 100 * np.linalg.inv(correlations)
        # of the prior 1, of the rows the rest
        rows = np.linalg.qr(rng.normal(size=(3 * dim + 50, dim)))[0]
        self.X = rows @ np.linalg.cholesky(self.precision - np.eye(dim)).T
        self.y = rng.normal(size=len(rows))
        self.mean = correlations @ self.X.T @ self.y / 100
        self.root = np.linalg.cholesky(correlations) / 10
        self.labels = tuple(f"x{i}" for i in range(dim))

    @cached_property
    def post(self) -> orn.Posterior:
        return orn.models.linear(self.X, self.y, feature_names=self.labels)

    def draws(self, seed: int, count: int = 2000) -> Vector:
        z = np.random.default_rng(seed).normal(size=(count, len(self.root)))
        return self.mean + z @ self.root.T


def all_alike(dim: int, correlation: float) -> Vector:
    return (1 - correlation) * np.eye(dim) + correlation


def shuffled(draws: Vector) -> Vector:
    return np.random.default_rng(99).permuted(draws, axis=0)


def halved(draws: Vector) -> Vector:
    """Every second draw of every column of another draw: half the correlation is left."""
    return np.where(np.arange(len(draws))[:, None] % 2, shuffled(draws), draws)


@pytest.fixture(scope="module")
def pair() -> Correlated:
    return Correlated(all_alike(2, 0.9))


@pytest.mark.parametrize(("spoil", "left"), [(shuffled, 0.0), (halved, 0.45)])
def test_X12_wrong_correlations_fail_and_are_named(
    spoil: Any, left: float, pair: Correlated
) -> None:
    draws = spoil(pair.draws(1))
    found = orn.check(pair.post, draws)
    assert np.abs(found.mean_error).max() < 0.1
    assert np.abs(found.sd_error).max() < 0.05
    assert found.verdict == "fail"
    assert found.correlation is not None
    assert found.correlation.drawn == pytest.approx(left, abs=0.1)
    assert found.correlation.posterior == pytest.approx(0.9, abs=0.01)
    assert found.sentence.startswith(
        "The draws are not the posterior's: the correlation of coef[x0] and coef[x1] is about "
        f"{found.correlation.drawn:.2f} in the draws, 0.90 in the posterior"
    )
    narrow, wide = found.spreads
    true = np.sqrt([(1 + left) / 1.9, (1 - left) / 0.1]) - 1
    assert narrow.error == pytest.approx(true[0], abs=0.05)
    assert wide.error == pytest.approx(true[1], rel=0.15)
    assert (narrow.along, wide.along) == ("coef[x0] + coef[x1]", "coef[x0] - coef[x1]")


def test_X12_right_correlations_are_right(pair: Correlated) -> None:
    found = orn.check(pair.post, pair.draws(2))
    assert found.verdict == "ok"
    assert "Narrowest direction, " in str(found)
    assert "Correlation" not in found.sentence


def test_X12_a_spread_that_no_pair_shows_is_named_by_its_direction() -> None:
    """Correlations of a tenth among forty: their mean spreads twice as far."""
    many = Correlated(all_alike(40, 0.1))
    found = orn.check(many.post, shuffled(many.draws(3)))
    assert found.verdict == "fail"
    assert found.spreads[0].error == pytest.approx(1 / np.sqrt(4.9) - 1, abs=0.05)
    assert "the draws are not the posterior's: they spread 5" in found.sentence.lower()
    assert "% too little along" in found.sentence


def test_X12_right_draws_of_any_covariance_are_ok() -> None:
    """Sixty posteriors of up to a dozen parameters, none with fewer than 800 draws."""
    rng, verdicts = np.random.default_rng(5), []
    for seed in range(60):
        dim = int(rng.integers(2, 13))
        mixing = rng.normal(size=(dim, dim + 2))
        cov = mixing @ mixing.T
        sd = np.sqrt(np.diagonal(cov))
        correlations = 0.9 * cov / np.outer(sd, sd) + 0.1 * np.eye(dim)
        one = Correlated(correlations, seed)
        draws = one.draws(seed, int(rng.integers(800, 2000)))
        gradients = (draws - one.mean) @ one.precision
        at = np.arange(len(draws))
        verdicts.append(judged(draws, at, gradients, one.labels, 1).verdict)
    assert verdicts.count("ok") >= 57


@pytest.mark.parametrize(("spoil", "size"), [(np.array, 0.0), (shuffled, 1 / 3)])
def test_X12_correlations_of_many_parameters_are_judged_on_average(spoil: Any, size: float) -> None:
    """Pairs, whose wrong correlation makes no parameter seem too narrow."""
    many = Correlated(np.kron(np.eye(251), all_alike(2, 0.5)))
    found = orn.check(many.post, spoil(many.draws(4, 600)))
    (spread,) = found.spreads
    assert spread.error == pytest.approx(size, abs=4 * spread.mc_error)
    assert spread.verdict == ("fail" if size else "ok")
    assert ("correlations are wrong" in found.sentence) == bool(size)


class TestSkewness:
    """Of a Gaussian's draws against a Gamma variable's logarithm, by counts of events."""

    COUNT = 8

    def found(self, draws: Vector) -> orn.Accuracy:
        rows = np.full(self.COUNT, 1.0)
        post = orn.Posterior(
            lambda p, row: row * p[0],
            lambda p: -self.COUNT * np.e ** p[0],
            rows,
            init=np.zeros(1),
        )
        return orn.check(post, draws[:, None])

    def test_X12_its_monte_carlo_error_is_that_of_right_draws(self) -> None:
        made = [
            np.log(np.random.default_rng(seed).gamma(self.COUNT, 1 / self.COUNT, 2000))
            for seed in range(30)
        ]
        found = [self.found(draws) for draws in made]
        errors = np.array([one.skewness_error[0] for one in found])
        mc = np.array([one.skewness_mc_error[0] for one in found])
        assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(30)
        assert 0.6 < np.sqrt(np.mean(mc**2)) / errors.std() < 1.6

    def test_X12_draws_without_it_are_seen_and_it_is_printed(self) -> None:
        rng = np.random.default_rng(1)
        draws = np.log(rng.gamma(self.COUNT, 1 / self.COUNT, 200_000))
        gaussian = rng.normal(draws.mean(), draws.std(), 2000)
        found = self.found(gaussian)
        assert found.skewness_error[0] > 3 * found.skewness_mc_error[0] > 0
        assert f"{found.skewness_error[0]:+.2f} +- {found.skewness_mc_error[0]:.2f}" in str(found)
        assert "It is not judged" in str(found)


class TestDrawsThatCannotBeJudged:
    """The reason is given once, without a table of what is not known."""

    NAN = np.full(2, np.nan)
    UNKNOWN = orn.Accuracy(
        NAN, NAN, NAN, NAN, NAN, NAN, ("a", "b"), draws=256, rows=100, lowest_curvature=(0.1, 0.8)
    )

    def test_the_verdict_is_that(self) -> None:
        assert self.UNKNOWN.verdict == "cannot tell"
        assert "nan" not in str(self.UNKNOWN)
        assert "nan" not in str(replace(self.UNKNOWN, lowest_curvature=(-3.0, 0.1)))

    @staticmethod
    def of_draws(flat: Vector, gradients: Vector) -> orn.Accuracy:
        labels = tuple(f"x[{i}]" for i in range(flat.shape[1]))
        return judged(flat, np.arange(len(flat)), gradients, labels, rows=100)

    @pytest.mark.parametrize("seed", range(3))
    def test_X12_exact_draws_of_many_funnels_do_not_fail(self, seed: int) -> None:
        """The least curvature of all directions is below zero by chance alone."""
        rng = np.random.default_rng(seed)
        log_scale = 2 * rng.normal(size=(2000, 20))
        z = rng.normal(size=log_scale.shape)
        slope = log_scale / 4 - 0.5 * z**2 + 0.5
        flat = np.concatenate([log_scale, z * np.exp(log_scale / 2)], axis=1)
        found = self.of_draws(flat, np.concatenate([slope, z * np.exp(-log_scale / 2)], axis=1))
        assert found.verdict == "cannot tell"

    def test_X12_draws_between_two_modes_fail(self) -> None:
        flat = 0.5 * np.random.default_rng(0).normal(size=(2000, 10))
        gradients = flat.copy()
        gradients[:, 0] = flat[:, 0] ** 3 - 4 * flat[:, 0]
        assert self.of_draws(flat, gradients).verdict == "fail"

    def test_the_answer_says_why_once(self, pair: Correlated) -> None:
        result = orn.sample(pair.post, draws=100)
        diagnosis = replace(result.diagnose(), accuracy=self.UNKNOWN)
        found = answers(result, diagnosis)[2]
        assert found.verdict == "cannot tell"
        assert str(found).count("cannot be judged") == 1
        assert "Nearly" not in str(found)
        assert "nan" not in str(found)
        assert "More draws may tell" in str(found)
        shown = words.figures(result, 100.0, self.UNKNOWN)
        assert not any("nan" in cell for line in shown for cell in line)

    @pytest.mark.parametrize(
        ("verdict", "said"), [("cannot tell", "no draws could be judged"), ("fail", "Take none")]
    )
    def test_a_comparison_of_such_draws_recommends_nothing(self, verdict: str, said: str) -> None:
        entry = Entry("exact", draws=100, verdict=verdict, note=self.UNKNOWN.sentence)
        found = Comparison((entry,), "the Gaussian at the optimum", {})
        assert found.recommendation.method is None
        assert said in found.recommendation.reason
        assert "nan" not in str(found)

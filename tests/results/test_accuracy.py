"""X12: draws are judged by the posterior itself, whatever its shape and whoever made them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy.special import digamma, polygamma

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.results.accuracy import measure
from ornstein.results.noise import spaced

COUNTS = np.array([3, 8, 40])  # events of three groups: their log rates are skewed the less
ROWS = 50


def log_likelihood(p: Any, row: Any) -> Any:
    rate = p["rate"][row["group"]]
    return row["count"] * rate - jnp.exp(rate)


def flat_prior(p: Any) -> Any:
    return 0.0 * p["rate"].sum()


def log_rates(counts: Any = COUNTS) -> orn.Posterior:
    """Poisson counts of groups under flat priors: log rates are logarithms of Gamma variables."""
    group = np.repeat(np.arange(3), ROWS)
    count = np.concatenate([np.bincount(np.arange(k) % ROWS, minlength=ROWS) for k in counts])
    rows = {"group": group, "count": count.astype(float)}
    return orn.Posterior(log_likelihood, flat_prior, rows, init={"rate": np.zeros(3)})


def truth(counts: Any) -> tuple[Vector, Vector]:
    """Means and standard deviations."""
    return digamma(counts) - np.log(ROWS), np.sqrt(polygamma(1, counts))


MEAN, SD = truth(COUNTS)


def exact_draws(seed: int, count: int = 4000, counts: Any = COUNTS) -> Vector:
    return np.log(np.random.default_rng(seed).gamma(counts, 1 / ROWS, size=(count, 3)))


@pytest.fixture(scope="module")
def post() -> orn.Posterior:
    return log_rates()


def test_X12_estimates_are_the_true_errors_of_skewed_draws(post: orn.Posterior) -> None:
    """Those of the draws themselves: chance that moved their mean is part of it."""
    for seed in range(4):
        draws = exact_draws(seed)
        found = orn.check(post, draws)
        assert found.verdict == "ok"
        true_mean, true_sd = (draws.mean(axis=0) - MEAN) / SD, draws.std(axis=0) / SD - 1
        assert (np.abs(found.mean_error - true_mean) < 4 * found.mean_mc_error + 0.01).all()
        assert (np.abs(found.sd_error - true_sd) < 4 * found.sd_mc_error + 0.02).all()


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (lambda u: u + 0.5 * SD, "mean"),
        (lambda u: MEAN + 1.4 * (u - MEAN), "sd"),
        (lambda u: MEAN + 0.7 * (u - MEAN), "sd"),
    ],
    ids=["shifted", "too wide", "too narrow"],
)
def test_X12_wrong_draws_fail(
    wrong: Callable[[Vector], Vector], name: str, post: orn.Posterior
) -> None:
    found = orn.check(post, wrong(exact_draws(9)))
    assert found.verdict == "fail"
    assert "not the posterior's" in str(found)
    worst = np.abs(getattr(found, f"{name}_error")).max()
    assert worst > 0.25


def test_X12_verdicts_are_right_about_draws_of_known_error() -> None:
    """Sixty posteriors, some as skewed as three events make one, with right and wrong draws."""
    rng = np.random.default_rng(12)
    right, missed = [], []
    for seed in range(60):
        counts = rng.integers(3, 60, size=3)
        post, (mean, sd) = log_rates(counts), truth(counts)
        draws = exact_draws(seed, 2000, counts)
        right.append(orn.check(post, draws).verdict)
        factor = np.exp(rng.choice([-1, 1]) * rng.uniform(0, 0.4))
        wrong = mean + factor * (draws - mean) + rng.normal(size=3) * 0.3 * sd
        errors = np.abs(wrong.mean(axis=0) - mean) / sd, np.abs(wrong.std(axis=0) / sd - 1)
        if errors[0].max() > 0.25 or errors[1].max() > 0.15:
            missed.append(orn.check(post, wrong).verdict == "ok")
    assert right.count("ok") >= 57
    assert len(missed) > 30
    assert not any(missed)


def test_X12_laplace_misses_the_mean_and_the_chain_does_not(post: orn.Posterior) -> None:
    gaussian = orn.sample(post, orn.plan(post, "laplace"), draws=1000)
    chain = orn.sample(post, orn.plan(post, batch_size=50), draws=2000)
    mode = (np.log(COUNTS / ROWS) - MEAN) / SD
    missed, made = gaussian.diagnose(), chain.diagnose()
    assert missed.accuracy is not None
    assert missed.accuracy.mean_error[1] == pytest.approx(mode[1], abs=0.1)
    assert missed.verdict == "fail"
    assert str(missed).startswith("fail  The draws are not the posterior's")
    assert made.accuracy is not None
    assert np.abs(made.accuracy.mean_error).max() < np.abs(missed.accuracy.mean_error).max() / 2


def test_assumptions_that_fail_are_notes_where_the_draws_are_right() -> None:
    """As on every skewed posterior: the theory's Gaussian is not it, and need not be."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    y = rng.random(60) < 1 / (1 + np.exp(-4 * X[:, 0]))
    diagnosis = orn.sample(orn.models.logistic(X, y, prior_precision=0.1), draws=2000).diagnose()
    assert diagnosis["A4"].verdict != "ok"
    assert diagnosis.shown(diagnosis["A4"]) == "note"
    assert diagnosis.verdict == "ok"
    text = str(diagnosis)
    assert text.index("About the sampler") < text.index("(A4)") < text.index("About the model")


def test_X12_some_rows_will_do() -> None:
    """Gradients anchored at the draws' mean are unbiased: within their Monte-Carlo error."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 3))
    post = orn.models.logistic(X, rng.random(20_000) < 1 / (1 + np.exp(-X[:, 0])))
    draws = orn.sample(post, orn.plan(post, "laplace"), draws=500).flat
    whole, part = orn.check(post, draws), measure(post, draws, work=2e6)
    assert (whole.rows, part.rows < 20_000) == (20_000, True)
    assert (np.abs(part.mean_error - whole.mean_error) < 5 * part.mean_mc_error + 0.005).all()
    assert (np.abs(part.sd_error - whole.sd_error) < 5 * part.sd_mc_error + 0.005).all()
    assert part.verdict == whole.verdict == "ok"


def test_rows_on_disk_and_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(3000, 2)), rng.normal(size=3000)
    np.save(tmp_path / "X.npy", X)
    in_memory = orn.models.linear(X, y)
    on_disk = orn.models.linear(orn.open_rows(tmp_path / "X.npy"), y)
    draws = orn.sample(in_memory, draws=300).flat
    one, other = orn.check(in_memory, draws), orn.check(on_disk, draws)
    np.testing.assert_allclose(one.mean_error, other.mean_error, atol=1e-8)
    weights = rng.integers(1, 4, size=3000)
    one = orn.check(orn.models.linear(X, y, sample_weight=weights), draws)
    precision = np.linalg.inv((X * weights[:, None]).T @ X + np.eye(2))
    mean = precision @ (X.T @ (weights * y))
    flat = draws.reshape(-1, 2)
    sd = np.sqrt(np.diagonal(precision))
    np.testing.assert_allclose(one.mean_error, (flat.mean(axis=0) - mean) / sd, atol=1e-6)
    np.testing.assert_allclose(one.sd_error, flat.std(axis=0, ddof=1) / sd - 1, atol=1e-6)


def test_draws_may_have_the_parameters_own_structure(post: orn.Posterior) -> None:
    draws = exact_draws(1).reshape(4, 1000, 3)
    found = orn.check(post, {"rate": draws})
    np.testing.assert_array_equal(found.mean_error, orn.check(post, draws).mean_error)
    assert found.labels == ("rate[0]", "rate[1]", "rate[2]")


BAD: list[Any] = [
    (lambda: exact_draws(0)[:, :2], r"found shape \(4000, 2\)"),
    (lambda: exact_draws(0, 20), "at least 64 draws of 3 parameters, found 20"),
    (lambda: exact_draws(0) * [1, 1, 0], r"draws of rate\[2\] never move"),
    (lambda: exact_draws(0)[:, [0, 1, 1]], "fewer dimensions"),
    (lambda: np.where(np.arange(3) == 1, np.nan, exact_draws(0)), "NaN or infinite"),
    (lambda: {"rat": exact_draws(0).reshape(4, 1000, 3)}, "expected.*rate"),
    (lambda: "draws", "draws must hold parameters"),
    (lambda: 1e4 * exact_draws(0), "gradient is not finite at"),
]


def test_a_parameter_that_the_data_do_not_touch_fails() -> None:
    """Its posterior has no peak: nothing can be its draws."""
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=80), "y": rng.normal(size=80)}
    post = orn.Posterior(
        lambda p, row: -0.5 * (row["y"] - p[0] * row["x"]) ** 2,
        lambda p: 0.0 * p.sum(),
        rows,
        init=np.zeros(2),
    )
    for seed in range(6):
        found = orn.check(post, np.random.default_rng(seed).normal(size=(1000, 2)))
        assert found.verdict == "fail"


def test_one_parameter_and_one_chain() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 100))
    post = orn.models.linear(x[:, None], y)
    sd = 1 / np.sqrt(x @ x + 1)
    draws = sd * (rng.normal(size=(2000, 1)) + (x @ y) * sd)
    assert orn.check(post, draws).verdict == "ok"
    assert orn.check(post, draws + 0.4 * sd).mean_error[0] == pytest.approx(0.4, abs=0.1)


def test_too_few_draws_are_called_so() -> None:
    some = accuracy_of(mean=0.02, mc=0.14)
    assert some.verdict == "warn"
    assert "too few of them to be sure" in some.sentence
    assert accuracy_of(mean=0.02, mc=np.nan).verdict == "fail"


def accuracy_of(mean: float, mc: float) -> orn.Accuracy:
    one = np.ones(1)
    return orn.Accuracy(
        mean * one, 0 * one, 0 * one, mc * one, 0 * one, 0 * one, ("a",), draws=500, rows=100
    )


def test_constrained_draws_are_not_taken_for_those_that_were_sampled() -> None:
    post = orn.Posterior(
        lambda p, row: -jnp.exp(p["log_rate"]) * row + p["log_rate"],
        lambda p: -0.5 * p["log_rate"] ** 2,
        np.random.default_rng(0).exponential(size=50),
        init={"log_rate": 0.0},
        constrain=lambda p: {"log_rate": jnp.exp(p["log_rate"])},
    )
    result = orn.sample(post, draws=100)
    with pytest.raises(orn.InputError, match=r"result\.flat"):
        orn.check(post, result.draws)
    assert orn.check(post, result.flat).verdict == "ok"


def test_constrained_draws_are_mapped_back_where_the_posterior_knows_how() -> None:
    """As a mapping or a data set of xarray; an array is of those that were sampled."""
    rows = np.random.default_rng(0).exponential(size=50)

    def made(unconstrain: Any) -> orn.Posterior:
        return orn.Posterior(
            lambda p, row: -jnp.exp(p["log_rate"]) * row + p["log_rate"],
            lambda p: -0.5 * p["log_rate"] ** 2,
            rows,
            init={"log_rate": 0.0},
            constrain=lambda p: {"rate": jnp.exp(p["log_rate"])},
            unconstrain=unconstrain,
        )

    post = made(lambda values: {"log_rate": jnp.log(values["rate"])})
    result = orn.sample(post, draws=100)
    dims = {"rate": (("chain", "draw"), result.draws["rate"])}
    expected = orn.check(post, result.flat).mean_error
    for draws in (result.draws, xarray.Dataset(dims)):
        np.testing.assert_allclose(orn.check(post, draws).mean_error, expected, atol=1e-5)
    with pytest.raises(orn.InputError, match="does not undo constrain"):
        orn.check(made(lambda values: {"log_rate": 2 * jnp.log(values["rate"])}), result.draws)
    with pytest.raises(orn.InputError, match=r"must return params.*log_rate"):
        orn.check(made(lambda values: {"rate": values["rate"]}), result.draws)
    with pytest.raises(orn.InputError, match="without constrain"):
        orn.Posterior(
            post.log_likelihood, post.log_prior, rows, {"log_rate": 0.0}, unconstrain=lambda v: v
        )


def test_beyond_five_thousand_parameters_it_says_so() -> None:
    X = np.random.default_rng(0).normal(size=(10, 5001))
    post = orn.models.linear(X, X[:, 0])
    with pytest.raises(orn.InputError, match="up to 5,000 parameters, found 5,001"):
        orn.check(post, np.zeros((10, 5001)))


@pytest.mark.parametrize(("draws", "message"), BAD)
def test_what_cannot_be_checked_is_refused(
    draws: Callable[[], Any], message: str, post: orn.Posterior
) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.check(post, draws())


def test_where_it_cannot_be_measured_the_reason_is_given() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(100, 2))
    post = orn.models.linear(X, X[:, 0] + rng.normal(size=100))
    sandwich = orn.sample(post, orn.plan(post, "sandwich"), draws=100).diagnose()
    assert "aim at the sandwich covariance" in sandwich.sentence
    few = orn.sample(post, draws=4).diagnose()
    assert "at least 64 draws" in few.sentence
    none = orn.sample(post, draws=8)
    with pytest.raises(orn.InputError, match="no draws: the run ended before"):
        type(none)(**{**vars(none), "flat": none.flat[:, :0]}).diagnose()


def test_X12_of_very_many_draws_some_are_judged(post: orn.Posterior) -> None:
    """So that a long run is diagnosed in no more time."""
    draws = exact_draws(3, 100_000)
    found = orn.check(post, draws)
    expected = orn.check(post, spaced(draws, 2**15))
    np.testing.assert_array_equal(found.mean_error, expected.mean_error)
    np.testing.assert_array_equal(found.sd_mc_error, expected.sd_mc_error)
    assert found.verdict == "ok"

"""Families: losses against scipy's densities, derivatives, predictions, builders, offsets."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import ornstein as orn
from ornstein.models.families import FAMILIES, Family, Ordinal, family_name
from ornstein.models.families.special import log_gamma
from ornstein.models.glm import Glm
from ornstein.results import predictive
from support.problems import whole

Floats = np.ndarray[Any, np.dtype[np.float64]]
Density = Callable[[Floats, Floats, dict[str, float]], Floats]

COUNTS = np.array([0.0, 1.0, 2.0, 0.0, 7.0, 15.0])
TIMES = np.array([0.2, 1.0, -2.5, 0.7, 4.0, -0.1])
SHARES = np.array([0.1, 0.5, 0.99, 0.001, 0.3, 0.7])
ETA = np.array([-1.0, 0.3, 1.2, 0.0, 2.0, -0.5])


def _waiting(frozen: Any, y: Floats) -> Floats:
    return np.where(y > 0, frozen.logpdf(np.abs(y)), frozen.logsf(np.abs(y)))


def _zero_inflated(eta: Floats, y: Floats, share: float) -> Floats:
    p = (1 - share) * scipy.stats.poisson(np.exp(eta)).pmf(y)
    return np.log(p + share * (y == 0))


def _hurdle(eta: Floats, y: Floats, share: float) -> Floats:
    count = scipy.stats.poisson(np.exp(eta))
    some = np.log(1 - share) + count.logpmf(y) - count.logsf(0)
    return np.where(y == 0, np.log(share), some)


def _ordinal(eta: Floats, y: Floats, raw: Floats) -> Floats:
    cuts = np.cumsum([raw[0], *np.exp(raw[1:])])
    below = np.concatenate(
        [np.zeros((len(eta), 1)), scipy.special.expit(cuts - eta[:, None]), np.ones((len(eta), 1))],
        axis=1,
    )
    return np.log(np.take_along_axis(np.diff(below), y.astype(int)[:, None], axis=1)[:, 0])


expit, st = scipy.special.expit, scipy.stats
CASES: dict[str, tuple[Floats, dict[str, Any], Density]] = {
    "negative_binomial": (
        COUNTS,
        {"log_shape": 0.4},
        lambda e, y, h: st.nbinom(
            np.exp(h["log_shape"]), 1 / (1 + np.exp(e - h["log_shape"]))
        ).logpmf(y),
    ),
    "zero_inflated_poisson": (
        COUNTS,
        {"logit_zero_share": -0.7},
        lambda e, y, h: _zero_inflated(e, y, expit(h["logit_zero_share"])),
    ),
    "hurdle_poisson": (
        COUNTS,
        {"logit_zero_share": -0.7},
        lambda e, y, h: _hurdle(e, y, expit(h["logit_zero_share"])),
    ),
    "gamma": (
        np.abs(TIMES),
        {"log_shape": 0.9},
        lambda e, y, h: st.gamma(np.exp(h["log_shape"]), scale=np.exp(e - h["log_shape"])).logpdf(
            y
        ),
    ),
    "exponential": (TIMES, {}, lambda e, y, _: _waiting(st.expon(scale=np.exp(e)), y)),
    "weibull": (
        TIMES,
        {"log_shape": 0.5},
        lambda e, y, h: _waiting(st.weibull_min(np.exp(h["log_shape"]), scale=np.exp(e)), y),
    ),
    "student_t": (
        3 * TIMES,
        {"log_df": 1.2, "log_noise_scale": 0.3},
        lambda e, y, h: st.t(np.exp(h["log_df"]), e, np.exp(h["log_noise_scale"])).logpdf(y),
    ),
    "beta": (
        SHARES,
        {"log_precision": 1.5},
        lambda e, y, h: st.beta(
            np.exp(h["log_precision"]) * expit(e), np.exp(h["log_precision"]) * expit(-e)
        ).logpdf(y),
    ),
    "ordinal": (
        np.array([0.0, 1, 2, 3, 2, 1]),
        {"raw_cutpoints": np.array([-1.0, 0.2, -0.5])},
        lambda e, y, h: _ordinal(e, y, np.asarray(h["raw_cutpoints"])),
    ),
}


def made(name: str) -> Family:
    return Ordinal(classes=4) if name == "ordinal" else FAMILIES[name]()


def target(name: str) -> Any:
    y = CASES[name][0]
    return y.astype(np.int32) if name == "ordinal" else y


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_minus_the_log_density(name: str) -> None:
    y, hyper, density = CASES[name]
    with jax.enable_x64(True):
        numbers = {key: jnp.asarray(value) for key, value in hyper.items()}
        found = made(name).loss(jnp.asarray(ETA), jnp.asarray(target(name)), numbers)
    np.testing.assert_allclose(found, -density(ETA, y, hyper), rtol=1e-9, atol=1e-11)


def test_log_probabilities_of_what_is_certain_are_below_zero() -> None:
    """And right to the last digits: 1 - p of a class that is all but certain is not lost."""
    eta = np.array([[-700.0, -40.0, -1.0, 0.0, 2.0, 40.0, 700.0]])
    for y, sign in ((0, -1.0), (1, 1.0)):
        targets = np.full(eta.shape[1], y)
        found = FAMILIES["logistic"]().log_density(eta, targets, {})
        np.testing.assert_allclose(found, scipy.special.log_expit(sign * eta), rtol=1e-14)
        assert (found < 0).all()
        apart = np.stack([np.zeros_like(eta), eta - 1.0, np.full_like(eta, -1e4)], axis=1) + 3.0
        found = FAMILIES["softmax"].of(3).log_density(apart, targets, {})
        np.testing.assert_allclose(found, scipy.special.log_expit(sign * (eta - 1)), rtol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_scores_agree_with_numerical_derivatives(name: str) -> None:
    """Gradient and Hessian of a whole posterior, by central differences of scipy's density."""
    y, hyper, density = CASES[name]
    family = made(name)
    X = np.random.default_rng(0).normal(size=(6, 2))
    post = BUILDERS[name](X, y, offset=0.1 * ETA, sample_weight=[1, 2, 1, 0.5, 1, 3])
    model, theta = post.model, np.concatenate([[0.3, -0.2], *map(np.ravel, hyper.values())])
    assert isinstance(model, Glm)
    weights = post.data["w"]

    def total(at: Floats) -> float:
        params = post.layout.unravel(at)
        eta = X @ params["coef"] + 0.1 * ETA
        own = {one.name: params[one.name] for one in family.auxiliary}
        return -float(weights @ density(eta, y, own))

    eye, h = np.eye(post.dim), 1e-4
    slope = np.array([(total(theta + h * e) - total(theta - h * e)) / (2 * h) for e in eye])
    with jax.enable_x64(True):
        rows = jax.tree.map(jnp.asarray, dict(post.data))
        at, hyper_now = jnp.asarray(theta), jax.tree.map(jnp.asarray, post.hyper)
        sum_at = whole(model, "gradient_sum")
        found = sum_at(at, rows, hyper_now)
        each = whole(model, "gradients")(at, rows, hyper_now).sum(axis=0)
        ones = jnp.ones(6)
        bent = whole(model, "hessian_sum")(at, rows, hyper_now, ones)
        diagonal = whole(model, "hessian_diagonal_sum")(at, rows, hyper_now, ones)
        slopes = [
            (sum_at(at + h * e, rows, hyper_now) - sum_at(at - h * e, rows, hyper_now)) / (2 * h)
            for e in jnp.asarray(eye)
        ]
    np.testing.assert_allclose(found, slope, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(each, found, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(bent, np.stack(slopes), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(diagonal, np.diag(bent), rtol=1e-10, atol=1e-10)


models = orn.models
BUILDERS: dict[str, Any] = {
    "negative_binomial": models.negative_binomial,
    "zero_inflated_poisson": models.zero_inflated_poisson,
    "hurdle_poisson": models.hurdle_poisson,
    "gamma": models.gamma,
    "exponential": lambda X, y, **more: models.exponential(X, np.abs(y), y > 0, **more),
    "weibull": lambda X, y, **more: models.weibull(X, np.abs(y), y > 0, **more),
    "student_t": models.student_t,
    "beta": models.beta,
    "ordinal": models.ordinal,
}


@pytest.mark.parametrize("name", sorted({*CASES, "binomial"} - {"ordinal"}))
def test_simulated_targets_have_the_moments_that_are_stated(name: str) -> None:
    rng, draws = np.random.default_rng(1), 40_000
    eta = np.broadcast_to(np.array([-0.5, 0.2, 1.0]), (draws, 3))
    numbers: dict[str, Any] = {"trials": np.array([[3.0, 8.0, 20.0]])}
    if name in CASES:
        numbers |= {key: np.full((draws, 1), value) for key, value in CASES[name][1].items()}
    if name == "student_t":
        numbers["log_df"] = np.full((draws, 1), 2.5)
    family = made(name)
    y = family.simulate(eta, numbers, rng)
    mean, variance = family.expectation(eta, numbers)[0], family.variance(eta, numbers)[0]
    error = np.sqrt(variance / draws)
    assert (np.abs(y.mean(axis=0) - mean) < 4.5 * error).all()
    squares = (y - mean) ** 2
    assert (np.abs(squares.mean(axis=0) - variance) < 5 * squares.std(axis=0) / 200).all()
    low, high = family.interval(eta, numbers, 0.9, rng)
    inside = ((low <= y) & (y <= high)).mean(axis=0)
    assert (inside > 0.89).all()
    with pytest.raises(orn.InputError, match="class"):
        family.probabilities(eta, numbers)


def test_ordinal_classes_have_their_probabilities() -> None:
    rng, draws = np.random.default_rng(1), 20_000
    eta = np.broadcast_to(np.array([-0.5, 1.0]), (draws, 2))
    raw = np.array([-1.0, 0.2, -0.5])
    numbers = {"raw_cutpoints": np.broadcast_to(raw, (draws, 1, 3))}
    family = Ordinal(classes=4)
    chances = family.probabilities(eta, numbers)[0]
    expected = np.exp([_ordinal(eta[0], np.full(2, k), raw) for k in range(4)])
    np.testing.assert_allclose(chances, expected, atol=1e-12)
    y = family.simulate(eta, numbers, rng)
    shares = np.stack([(y == k).mean(axis=0) for k in range(4)])
    assert np.abs(shares - chances).max() < 4.5 * 0.5 / np.sqrt(draws)
    score = family.log_score(eta[:5], np.array([2, 0]), {"raw_cutpoints": raw[None, None]})
    np.testing.assert_allclose(score, np.log([expected[2, 0], expected[0, 1]]), rtol=1e-9)
    moved = family.auxiliary_reported({"raw_cutpoints": raw}, shift=0.5)["cutpoints"]
    np.testing.assert_allclose(moved, np.cumsum([-1.0, *np.exp(raw[1:])]) - 0.5)


def test_binomial_rows_count_their_trials() -> None:
    rng = np.random.default_rng(0)
    X, trials = rng.normal(size=(40, 2)), rng.integers(1, 9, 40)
    won = rng.binomial(trials, 0.4)
    post = models.binomial(X, won, trials, sample_weight=np.full(40, 2.0))
    theta = {"coef": np.array([0.3, -0.1])}
    p = expit(X @ theta["coef"])
    rows = range(40)
    with jax.enable_x64(True):
        each = [
            float(post.log_likelihood(theta, {k: v[i] for k, v in post.data.items()})) for i in rows
        ]
    choose = np.log(scipy.special.comb(trials, won))
    np.testing.assert_allclose(each, 2 * (st.binom(trials, p).logpmf(won) - choose), rtol=1e-9)
    draws = predictive.Coefficients.gather("binomial", theta["coef"][None])
    new = predictive.NewRows(X, np.zeros(40), trials.astype(float))
    np.testing.assert_allclose(
        predictive.log_score(draws, new, won), st.binom(trials, p).logpmf(won)
    )
    np.testing.assert_allclose(predictive.expectation(draws, new), trials * p)


def test_an_offset_moves_the_predictor() -> None:
    """With ``log(exposure)`` as offset, the rate is per exposure; with closed forms and without."""
    rng = np.random.default_rng(0)
    X, log_exposure = rng.normal(size=(2000, 1)), rng.normal(size=2000)
    y = rng.poisson(np.exp(0.5 * X[:, 0] + log_exposure))
    post = models.poisson(X, y, offset=log_exposure)
    result = orn.sample(post, draws=200, progress=False)
    assert abs(result.flat.mean() - 0.5) < 0.1
    moved = 2 * X[:, 0] + 10 * log_exposure + rng.normal(size=2000)
    found = orn.sample(
        models.linear(X, moved, offset=10 * log_exposure, learn="noise_scale"),
        draws=200,
        hyper="draw",
        progress=False,
    )
    assert abs(found.flat.mean() - 2) < 0.1
    assert abs(found.hyper_draws["noise_scale"].mean() - 1) < 0.1
    draws = predictive.Coefficients.gather("poisson", [[0.5]])
    rows = predictive.NewRows(X, log_exposure)
    np.testing.assert_allclose(
        predictive.expectation(draws, rows), np.exp(0.5 * X[:, 0] + log_exposure)
    )
    with pytest.raises(orn.InputError, match="one number for each of 2000 rows"):
        models.poisson(X, y, offset=[1.0])


def test_priors_are_set_by_name() -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30)
    priors = {"age": orn.Normal(0.5, 0.1), "shape": orn.Normal(2.0, 0.3)}
    post = models.negative_binomial(
        X, y, feature_names=["age", "size"], intercept=True, priors=priors
    )
    np.testing.assert_allclose(post.hyper["prior_mean"], [0.5, 0, 0, 2.0])
    np.testing.assert_allclose(post.hyper["prior_precision"], [100, 1, 1, 1 / 0.09])
    theta = {"coef": np.array([0.4, 0.2]), "intercept": 0.1, "log_shape": 1.0}
    expected = st.norm([0.5, 0, 0, 2.0], [0.1, 1, 1, 0.3]).logpdf([0.4, 0.2, 0.1, 1.0]).sum()
    with jax.enable_x64(True):
        params = jax.tree.map(jnp.asarray, theta)
        assert float(post.log_prior(params)) == pytest.approx(expected)
    moved = post.with_hyper({"prior_precision": [4.0]})
    np.testing.assert_allclose(moved.hyper["prior_precision"], [100, 4, 1, 1 / 0.09])
    for wrong, match in (
        ({"agee": orn.Normal()}, "age"),
        ({"age": 1.0}, r"ornstein.Normal"),
        ({"age": orn.Normal(0.0, -1.0)}, "sd"),
        (3.0, "mapping"),
    ):
        with pytest.raises(orn.InputError, match=match):
            models.poisson(X, y, feature_names=["age", "size"], priors=wrong)  # type: ignore[arg-type]


X3 = np.arange(3.0)[:, None]
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: models.beta(X3, [0.1, 0.5, 1.0]), "between 0 and 1 .* row 2"),
    (lambda: models.gamma(X3, [0.1, 0.0, 1.0]), "above 0 .* row 1"),
    (lambda: models.weibull(X3, [0.1, -1.0, 1.0]), "above 0, found -1 in row 1"),
    (lambda: models.weibull(X3, [1, 1, 1], [1, 2, 0]), "event must hold 1 .* found 2"),
    (lambda: models.exponential(X3, [1, 1, 1], [0, 0, 0]), "no wait ended"),
    (lambda: models.binomial(X3, [1, 5, 1], [1, 4, 2]), "5 of 4 in row 1"),
    (lambda: models.negative_binomial(X3, [1, 0.5, 2]), "counts"),
    (
        lambda: models.ordinal(X3, [0, 1, 2], intercept=True),
        "an ordinal model has cutpoints for it",
    ),
    (lambda: family_name("gauss"), "gauss"),
]


@pytest.mark.parametrize(("call", "match"), WRONG)
def test_what_does_not_suit_is_refused(call: Callable[[], Any], match: str) -> None:
    with pytest.raises(orn.InputError, match=match):
        call()


def test_log_gamma_and_its_derivatives() -> None:
    x = np.geomspace(1e-3, 1e6, 200)
    with jax.enable_x64(True):
        at = jnp.asarray(x)
        slope = jax.vmap(jax.grad(log_gamma))
        value, first = log_gamma(at), slope(at)
        second = jax.vmap(jax.grad(jax.grad(log_gamma)))(at)
    np.testing.assert_allclose(value, scipy.special.gammaln(x), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(first, scipy.special.digamma(x), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(second, scipy.special.polygamma(1, x), rtol=1e-9)


def test_aliases() -> None:
    assert [family_name(n) for n in ("gaussian", "bernoulli", "categorical", "beta")] == [
        *("linear", "logistic", "softmax", "beta")
    ]


def test_draws_show_auxiliary_parameters_in_their_range() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = rng.poisson(np.exp(0.5 * X[:, 0]) * rng.gamma(2.0, size=300) / 2)
    result = orn.sample(models.negative_binomial(X, y), draws=100, method="laplace")
    assert set(result.draws) == {"coef", "shape"}
    np.testing.assert_allclose(result.draws["shape"], np.exp(result.unconstrained["log_shape"]))
    assert list(result.summary().index) == ["coef[0]", "shape"]
    found = predictive.summarise(predictive.Coefficients.of_result(result), X)
    inside = (found.low <= y) & (y <= found.high)
    assert inside.mean() > 0.87

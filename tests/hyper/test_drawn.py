"""Hyperparameters drawn with the parameters (X13)."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.special
import scipy.stats

import ornstein as orn
from ornstein import tables
from ornstein.estimators import BayesianLinearRegressor, load
from ornstein.models.hyper_targets import hyper_target, known_at
from ornstein.results.measure import min_ess
from ornstein.sampling.hyper_steps import draw_given, slice_sample
from support.problems import Floats, features

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def linear(rows: int = 60, columns: int = 12) -> orn.Posterior:
    rng = np.random.default_rng(1)
    X = features(rows, columns)
    return orn.models.linear(X, X @ rng.normal(size=columns) * 0.5 + 0.7 * rng.normal(size=rows))


def evidence_grid(post: orn.Posterior, prior: Any) -> tuple[Floats, Floats, Floats]:
    """Log noise scale, log precision, and their joint posterior's weights, by quadrature."""
    X, y = post.data["x"], post.data["y"]
    s, p = np.meshgrid(np.linspace(-1.2, 0.6, 121), np.linspace(-3, 5, 121), indexing="ij")
    values, vectors = np.linalg.eigh(X @ X.T)
    along = (vectors.T @ y) ** 2
    spread = np.maximum(values, 0)[:, None, None] * np.exp(-p)[None] + np.exp(2 * s)[None]
    log = -0.5 * (np.log(spread) + along[:, None, None] / spread).sum(axis=0)
    log += np.asarray(prior.log_density(jnp.exp(-p / 2))) - p / 2
    weights = np.exp(log - log.max())
    return s, p, weights / weights.sum()


def ranks_within_error(draws: Floats, values: Floats, weights: Floats) -> None:
    """Shares of draws below the exact quantiles, within four Monte-Carlo errors."""
    marginal = weights.cumsum() - weights / 2
    for share in QUANTILES:
        at = np.interp(share, marginal, values)
        below = (draws < at).astype(float)
        error = np.sqrt(share * (1 - share) / min_ess(below[..., None]))
        assert abs(below.mean() - share) < 4 * error, share


def test_X13_a_linear_regressions_hyperparameters_have_their_exact_posterior() -> None:
    post, prior = linear(), orn.HalfNormal(1.0)
    result = orn.sample(post, hyper="draw", hyper_prior=prior, key=3, draws=2500)
    assert result.status.ok
    s, p, weights = evidence_grid(post, prior)
    drawn = result.hyper_draws
    ranks_within_error(np.log(drawn["noise_scale"]), s[:, 0], weights.sum(axis=1))
    ranks_within_error(np.log(drawn["prior_precision"]), p[0], weights.sum(axis=0))
    # Coefficients: the mean over the hyperparameters of their Gaussians' second moments.
    X, y = post.data["x"], post.data["y"]
    expected, chosen = (
        np.zeros(post.dim),
        np.random.default_rng(0).choice(weights.size, 400, p=weights.ravel()),
    )
    for k in chosen:
        noise, precision = np.exp(-2 * s.ravel()[k]), np.exp(p.ravel()[k])
        cov = np.linalg.inv(noise * X.T @ X + precision * np.eye(post.dim))
        expected += (np.diag(cov) + (noise * cov @ X.T @ y) ** 2) / len(chosen)
    found = (result.flat**2).mean(axis=(0, 1))
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.01)
    judged = result.diagnose()
    assert judged.accuracy is not None
    assert judged.accuracy.verdict == "ok", str(judged.accuracy)
    assert judged.accuracy.labels[-1] == "prior_precision"
    assert "covariance" not in {check.name for check in judged}


def test_X13_draws_are_named_summarised_and_saved(tmp_path: Path) -> None:
    result = orn.sample(linear(), hyper="draw", draws=200)
    summary = result.summary()
    assert list(summary.index[-2:]) == ["noise_scale", "prior_precision"]
    assert {"ess_bulk", "r_hat"} <= set(summary)
    saved = result.save(tmp_path / "run")
    assert (saved / "draws.nc").exists()
    assert result.hyper_draws["noise_scale"].shape == (4, 200)
    assert "noise_scale" in result.to_arviz().posterior
    fixed = orn.sample(linear(), draws=20)
    with pytest.raises(orn.InputError, match="hyper='draw'"):
        _ = fixed.hyper_draws


def test_X13_the_same_key_gives_the_same_draws_and_checkpoints_resume(tmp_path: Path) -> None:
    options: dict[str, Any] = {"hyper": "draw", "key": 4, "draws": 40}
    first = orn.sample(linear(), **options, chunk=1)
    again = orn.sample(linear(), **options, checkpoint=tmp_path / "run")
    ended = orn.sample(linear(), **options, checkpoint=tmp_path / "run")
    for other in (again, ended):
        np.testing.assert_array_equal(first.flat, other.flat)
        assert first.hyper is not None
        assert other.hyper is not None
        np.testing.assert_array_equal(first.hyper, other.hyper)
    with pytest.raises(orn.InputError, match="other arguments"):
        orn.sample(linear(), **options, hyper_prior=orn.HalfNormal(), checkpoint=tmp_path / "run")


@pytest.mark.slow
def test_X13_hyperparameters_of_rows_and_of_the_prior_have_their_exact_posterior() -> None:
    """As the ready-made linear regression's, whose noise scale needs no rows."""
    post, prior = linear(), orn.HalfNormal(1.0)

    def log_likelihood(coef: Any, row: Any, hyper: Any) -> Any:
        residual = (row["y"] - row["x"] @ coef) / hyper["noise"]
        return -0.5 * residual**2 - jnp.log(hyper["noise"])

    def log_prior(coef: Any, hyper: Any) -> Any:
        return 0.5 * (coef.size * jnp.log(hyper["tau"]) - hyper["tau"] * coef @ coef)

    def hyper_prior(hyper: Any) -> Any:
        sd = hyper["tau"] ** -0.5
        return prior.log_density(sd) - 1.5 * jnp.log(hyper["tau"]) - jnp.log(hyper["noise"])

    rows = {"x": post.data["x"], "y": post.data["y"]}
    custom = orn.Posterior(
        log_likelihood, log_prior, rows, np.zeros(post.dim), {"noise": 1.0, "tau": 1.0}
    )
    result = orn.sample(custom, hyper="draw", hyper_prior=hyper_prior, key=3, draws=2500)
    assert result.draws.shape == (4, 2500, post.dim)
    assert {"noise", "tau"} <= set(result.summary().index)
    assert result.diagnose().verdict == "ok"
    s, p, weights = evidence_grid(post, prior)
    ranks_within_error(np.log(result.hyper_draws["noise"]), s[:, 0], weights.sum(axis=1))
    ranks_within_error(np.log(result.hyper_draws["tau"]), p[0], weights.sum(axis=0))


def test_X13_hyperparameters_of_rows_alone_are_drawn() -> None:
    """A normal sample of known mean: the squares' sum over the variance is a chi-squared."""
    y = np.random.default_rng(0).normal(size=40)
    post = orn.Posterior(
        lambda at, row, scale: -0.5 * ((row - at) / scale) ** 2 - jnp.log(scale),
        lambda at, _: -0.5 * at**2,
        y,
        init=np.zeros(()),
        hyper=1.0,
    )
    result = orn.sample(post, hyper="draw", hyper_prior=lambda s: -jnp.log(s), draws=2000)
    squares = ((y - result.draws[..., None]) ** 2).sum(axis=-1) / result.hyper_draws**2
    shares = scipy.stats.chi2(len(y)).cdf(squares)
    error = 1 / np.sqrt(12 * min_ess(squares[..., None]))
    assert abs(shares.mean() - 0.5) < 4 * error
    tree = result.to_arviz()
    assert {"theta"} <= set(tree["posterior"])


def counts(groups: int = 30) -> orn.Posterior:
    """Poisson counts of groups, their log rates normal with a standard deviation to be drawn."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(groups), 5)
    y = rng.poisson(np.exp(0.5 * rng.normal(size=groups)[group] + 1)).astype(float)

    def log_likelihood(params: Any, row: Any, sd: Any) -> Any:
        del sd
        eta = params["rates"][row["group"]] + params["level"]
        return row["y"] * eta - jnp.exp(eta)

    def log_prior(params: Any, sd: Any) -> Any:
        effects = params["rates"]
        own = -0.5 * (effects @ effects) / sd**2 - groups * jnp.log(sd)
        return own - 0.5 * params["level"] ** 2 / 100

    init = {"level": np.zeros(()), "rates": np.zeros(groups)}
    return orn.Posterior(log_likelihood, log_prior, {"group": group, "y": y}, init, hyper=1.0)


@pytest.mark.slow
def test_X13_a_custom_models_standard_deviation_agrees_with_nuts() -> None:
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions
    post = counts()
    result = orn.sample(post, hyper="draw", hyper_prior=lambda sd: -sd, key=1, draws=2500)

    def model() -> None:
        sd = numpyro.sample("sd", dist.Exponential(1.0))
        level = numpyro.sample("level", dist.Normal(0, 10))
        z = numpyro.sample("z", dist.Normal(0, 1).expand([30]))
        rate = jnp.exp(level + sd * z[post.data["group"]])
        numpyro.sample("y", dist.Poisson(rate), obs=post.data["y"])

    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=1000, num_samples=8000, progress_bar=False
    )
    with jax.debug_key_reuse(False), jax.numpy_dtype_promotion("standard"):
        mcmc.run(jax.random.key(0))
    truth = np.asarray(mcmc.get_samples()["sd"])
    for share in QUANTILES:
        gap = np.quantile(result.hyper_draws, share) - np.quantile(truth, share)
        assert abs(gap) < 0.1 * truth.std(), share


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(100, 20), (300, 4)])
def test_X13_mixed_logistic_regression_agrees_with_nuts(groups: int, size: int) -> None:
    """Quantiles within a tenth of a standard deviation, by a quarter of the rows or fewer."""
    pytest.importorskip("numpyro")
    from benchmarks.hierarchies import mixed_rows
    from benchmarks.references import load

    data = mixed_rows(groups, size)
    reference = load()[f"mixed_{groups}x{size}"]
    X = np.column_stack([data.x, np.ones(len(data.y)), np.eye(groups)[data.group]])
    post = orn.models.logistic(
        X,
        data.y,
        prior_precision=[0.01, 0.01] + [1.0] * groups,
        groups=[None, None] + ["effects"] * groups,
    )
    result = orn.sample(post, hyper="draw", hyper_prior=orn.HalfNormal(1.0), key=2, draws=1500)
    sd = result.hyper_draws["prior_precision"][..., 0] ** -0.5
    for name, draws in (("sd", sd), ("slope", result.flat[..., 0])):
        index, estimates = reference.labels.index(name), reference.estimates
        deviation = estimates["sd"].value[index]
        for share, summary in ((0.05, "q05"), (0.95, "q95")):
            value, error = (part[index] / deviation for part in estimates[summary])
            gap = np.quantile(draws, share) / deviation - value
            # Ours has about the Monte-Carlo error of 1,500 effective draws.
            assert abs(gap) < 0.1 + 2 * np.hypot(error, 2.1 / np.sqrt(1500)), (name, share)
    effective = min_ess(np.log(sd)[..., None])
    assert effective > 1000
    rows = result.steps * result.plan.batch_size * result.settings.chains
    assert rows / effective < reference.facts["rows_per_effective"] / 4


def test_slices_have_the_density_they_are_drawn_from() -> None:
    """Gamma variables by their logarithms, all at once, from bad starts and widths."""
    shape = jnp.array([0.7, 3.0, 50.0])

    def log_density(x: Any) -> Any:
        return shape * x - jnp.exp(x)

    def step(x: Any, key: Any) -> Any:
        moved = slice_sample(log_density, x, jnp.array([3.0, 0.2, 1.0]), key)
        return moved, moved

    _, found = jax.lax.scan(step, jnp.zeros(3), jax.random.split(jax.random.key(0), 20_000))
    draws = np.exp(np.asarray(found)[2000:])
    for i, a in enumerate(np.asarray(shape)):
        effective = min_ess(np.log(draws)[None, :, i : i + 1])
        for share in QUANTILES:
            below = (draws[:, i] < scipy.stats.gamma(float(a)).ppf(share)).mean()
            assert abs(below - share) < 4.5 * np.sqrt(share * (1 - share) / effective)


def test_X13_changed_hyperparameters_change_the_gradient_exactly() -> None:
    """The addition to the anchor's gradient is what a posterior at other values has."""
    for post in (linear(), counts()):
        target = hyper_target(post, None if post.learnable.ties else lambda sd: -sd)
        plan = orn.plan(post)
        assert plan.anchor is not None
        precision = plan.geometry.precision.dense(plan.dim)
        known = known_at(post, target, plan.center, plan.anchor.slope, precision)
        eta = known["eta"] + 0.3
        theta = plan.center + 0.1
        other = post.with_hyper(post.learnable.host_values(eta))

        def slope(at: orn.Posterior, theta: Any = theta) -> Any:
            rows = jax.tree.map(jnp.asarray, at.data)
            total = at.model.gradient_sum(jnp.asarray(theta), rows, at.hyper)
            return np.asarray(total + at.model.prior_gradient(jnp.asarray(theta), at.hyper))

        change = target.slope_change(jnp.asarray(eta), jnp.asarray(theta), known)
        np.testing.assert_allclose(change, slope(other) - slope(post), rtol=1e-6, atol=1e-7)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"hyper": "drawn"}, "hyper='drawn'.*Did you mean 'draw'"),
    ({"hyper": "learn", "hyper_prior": orn.HalfNormal()}, "use hyper='draw'"),
    ({"hyper": "fixed", "learn_hyper": True}, "contradicts learn_hyper"),
    ({"hyper": "draw", "hyper_prior": {"sigma": orn.HalfNormal()}}, "hyper_prior.*'sigma'"),
    ({"hyper": "draw", "hyper_prior": {"noise_scale": 3}}, "must be HalfNormal"),
    ({"hyper": "draw", "hyper_prior": orn.HalfNormal(-1.0)}, "scale must be"),
    ({"hyper": "draw", "hyper_prior": 3}, "prior of its standard deviations"),
    ({"hyper": "draw", "method": "sgld"}, "needs rotation steps"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_bad_input_gets_a_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.sample(linear(), **options)


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(orn.InputError, match="needs hyper_prior"):
        orn.sample(counts(), hyper="draw")
    fixed = orn.models.linear(features(50, 2), np.zeros(50), learn=())
    with pytest.raises(orn.InputError, match="has no hyperparameters"):
        orn.sample(fixed, hyper="draw")
    in_likelihood = orn.Posterior(
        lambda at, row, scale: -0.5 * ((row["y"] - at[0]) / scale) ** 2 - jnp.log(scale),
        lambda at, _: -0.5 * at @ at,
        {"y": np.arange(10.0)},
        init=np.zeros(1),
        hyper=1.0,
    )
    with pytest.raises(orn.InputError, match="needs hyper_prior"):
        orn.sample(in_likelihood, hyper="draw")


def test_draws_of_one_hyperparameter_given_the_others_are_its_conditional() -> None:
    """In turn, where they are not independent given the parameters."""
    post = counts(4)
    target = hyper_target(post, lambda sd: -sd)
    known = known_at(post, target, np.zeros(5), np.zeros(5), np.eye(5))
    theta = jnp.array([0.3, 0.5, -0.2, 0.1, 0.4])

    def step(eta: Any, key: Any) -> Any:
        moved = draw_given(target, eta, theta, known, jnp.ones(1), key)
        return moved, moved

    _, found = jax.lax.scan(step, jnp.zeros(1), jax.random.split(jax.random.key(0), 8000))
    grid = jnp.linspace(-4, 2, 601)
    log = jax.vmap(lambda e: target.log_density(e[None], theta, known))(grid)
    weights = np.exp(np.asarray(log) - scipy.special.logsumexp(log))
    ranks_within_error(np.asarray(found)[None, 500:, 0], np.asarray(grid), weights)


def test_X13_predictions_have_the_noise_of_their_own_draw() -> None:
    post = linear()
    result = orn.sample(post, hyper="draw", draws=100)
    drawn = orn.predictive.Coefficients.of_result(result)
    np.testing.assert_array_equal(drawn.noise_scale, result.hyper_draws["noise_scale"].reshape(-1))
    scores = orn.predictive.log_score(drawn, post.data["x"], post.data["y"])
    assert np.isfinite(scores).all()


@pytest.mark.slow
def test_X13_estimators_and_tables_draw_and_keep_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3)) * [1, 10, 0.1]
    y = X @ [1.0, 0.2, 5.0] + 2 * rng.normal(size=80)
    model = BayesianLinearRegressor(prior_precision="draw", draws=200).fit(X, y)
    assert np.shape(model.draws_.noise_scale) == (800,)
    assert 1 < model.noise_scale_ < 3
    again = load(model.save(tmp_path / "estimator"))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.sample_predictive(X, draws=7).shape == (7, 80)
    with pytest.raises(orn.InputError, match="partial_fit has parts"):
        BayesianLinearRegressor(prior_precision="draw").partial_fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    fitted = tables.fit_table(tables.learn(frame, "y"), hyper="draw", draws=200)
    kept = tables.TableModel.load(fitted.save(tmp_path / "table"))
    pd.testing.assert_frame_equal(kept.predict(frame), fitted.predict(frame))
    with pytest.raises(orn.InputError, match="leave one out"):
        tables.fit_table(tables.learn(frame, "y"), hyper="draw", prior_precision=1.0)


def test_a_noise_scale_of_rows_on_disk_is_not_drawn(tmp_path: Path) -> None:
    post = linear()
    np.save(tmp_path / "x.npy", post.data["x"])
    on_disk = orn.models.linear(orn.open_rows(tmp_path / "x.npy"), post.data["y"])
    with pytest.raises(orn.InputError, match="stay on disk"):
        orn.sample(on_disk, hyper="draw")

"""Mixed models: covariances of effects, groupings, and what the builder refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate

import ornstein as orn
from ornstein.models import Effects
from ornstein.models.hyper_priors import HalfNormal
from ornstein.models.random_effects.covariances import Covariance

COV = Covariance((HalfNormal(1.0), HalfNormal(2.0), HalfNormal(0.5)), 1.7)


def test_a_covariance_and_its_inverse_agree_on_host_and_device() -> None:
    lam = np.random.default_rng(0).normal(size=6)
    lower = np.asarray(COV.factor(jnp.asarray(lam)))
    sigma = lower @ lower.T
    np.testing.assert_allclose(COV.host_factor(lam), lower, rtol=1e-12)
    np.testing.assert_allclose(COV.precision(jnp.asarray(lam)), np.linalg.inv(sigma), rtol=1e-9)
    logdet = float(COV.log_determinant(jnp.asarray(lam)))
    assert logdet == pytest.approx(-np.linalg.slogdet(sigma)[1])
    sds, cors = COV.described(lam[None])
    np.testing.assert_allclose(sds[0], np.sqrt(np.diag(sigma)))
    scaled = sigma / np.outer(sds[0], sds[0])
    np.testing.assert_allclose(cors[0], [scaled[1, 0], scaled[2, 0], scaled[2, 1]])


def test_correlations_have_the_LKJ_density() -> None:
    def log_jacobian(x: jax.Array) -> jax.Array:
        def below(x: jax.Array) -> jax.Array:
            full = COV.factor(jnp.concatenate([jnp.zeros(3), x]))
            return jnp.stack([full[1, 0], full[2, 0], full[2, 1]])

        return jnp.linalg.slogdet(jax.jacobian(below)(x))[1]

    at_zero = jnp.zeros(3)
    scales = sum(prior.log_density(1.0) for prior in COV.priors)
    with jax.numpy_dtype_promotion("standard"):
        lkj = dist.LKJCholesky(3, COV.concentration)
    for seed in range(3):
        x = jnp.asarray(np.random.default_rng(seed).normal(size=3))
        lam = jnp.concatenate([at_zero, x])
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            expected = lkj.log_prob(COV.factor(lam)) + log_jacobian(x)
        assert float(COV.log_prior(lam) - scales) == pytest.approx(float(expected), abs=1e-8)


def test_a_standard_deviations_prior_integrates_to_one_on_the_real_line() -> None:
    one = Covariance((HalfNormal(2.0),))
    total, _ = scipy.integrate.quad(
        lambda x: float(jnp.exp(one.log_prior(jnp.asarray([x])))), -15, 5
    )
    assert total == pytest.approx(1.0, abs=1e-6)


def test_names_follow_groups_levels_and_columns() -> None:
    X = np.arange(8.0)[:, None]
    groups = {"school": Effects(list("aabbccdd"), slopes=("x",)), "year": [1, 2] * 4}
    post = orn.models.mixed(X, X[:, 0] % 3, groups, feature_names=["x"])
    assert post.hyper_labels == [
        "sd(school: 1)",
        "sd(school: x)",
        "cor(school: 1, x)",
        "sd(year)",
        "sigma",
    ]
    assert post.labels[:4] == ["x", "intercept", "b[year=1]", "b[year=2]"]
    assert post.labels[4] == "b[school=a: 1]"
    assert post.labels[-1] == "b[school=d: x]"
    assert len(post.labels) == post.dim
    assert "school (4 levels: 1, x), year (2 levels: 1)" in repr(post)


def test_uncorrelated_effects_have_no_correlations() -> None:
    X = np.arange(8.0)[:, None]
    groups = {"g": Effects([0, 1] * 4, slopes=(0,), correlated=False)}
    post = orn.models.mixed(X, X[:, 0] % 3, groups)
    assert post.hyper_labels == ["sd(g: 1)", "sd(g: coef[0])", "sigma"]
    lam = jnp.asarray([0.3, -0.2, 0.0])
    expected = np.diag(np.exp([-0.6, 0.4]))
    np.testing.assert_allclose(post.specification.leaf_precision(lam), expected, rtol=1e-6)


X, Y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 1, 0])
G = [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": {}}, "groups must map names"),
        ({"groups": {"g": [0, 1]}}, r"groups\['g'\] must have one label for each of 6 rows"),
        ({"groups": {"g": [1] * 6}}, r"groups\['g'\] has one level only, 1"),
        ({"groups": {"g": [0, 1, None, 1, 0, 1]}}, r"groups\['g'\] has a missing label in row 2"),
        ({"groups": {"g": [0, 1, np.nan, 1, 0, 1]}}, "missing label in row 2"),
        ({"groups": {"g": Effects(G, slopes=("z",))}}, r"groups\['g'\].slopes"),
        ({"groups": {"g": Effects(G, intercept=False)}}, "has no effects"),
        ({"groups": {"g": Effects(G, slopes="x")}}, "must be a sequence of columns"),
        ({"family": "bernouli"}, "family"),
        ({"family": "softmax", "y": [0, 1, 2, 0, 1, 2]}, "has several predictors"),
        ({"family": "binomial"}, "needs trials"),
        ({"trials": [1] * 6}, "trials is for family='binomial'"),
        ({"event": [1] * 6}, "event is for waiting times"),
        ({"family": "weibull", "y": [1.0] * 6, "event": [2] * 6}, "event must hold 1"),
        ({"family": "weibull"}, "waiting times above 0"),
        ({"family": "gamma"}, "y must be above 0 for a gamma model"),
        ({"priors": {"z": orn.Normal()}}, "priors"),
        ({"y": [2.0] * 6, "family": "gaussian"}, "y has one value only"),
        ({"prior_scale": -1.0}, "prior_scale must be above 0"),
        ({"prior_scale": [1.0, 1.0, 1.0]}, "prior_scale must be one number or 2"),
        ({"X": None, "intercept": False}, "there is no fixed coefficient"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, object], message: str) -> None:
    given = {"X": X, "y": Y, "groups": {"g": G}, "family": "bernoulli"} | change
    with pytest.raises(orn.InputError, match=message):
        orn.models.mixed(**given)  # type: ignore[arg-type]

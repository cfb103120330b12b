"""NumPyro models as posteriors: densities, refusals, draws against NUTS."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import constrain_fn, potential_energy

import ornstein as orn
from support.montecarlo import agree, assert_covariance
from support.numpyro_models import (
    COUNTS,
    EXAMPLES,
    Example,
    N,
    X,
    Y,
    poisson,
    regression,
    softmax,
    substituted,
    whole,
)
from support.problems import features


@pytest.fixture(autouse=True)
def _as_numpyro_wants() -> Iterator[None]:
    """NumPyro itself mixes dtypes and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def made(example: Example, **options: Any) -> orn.Posterior:
    options = {"hierarchical": False, **options}  # see test_hierarchies
    return orn.from_numpyro(example.model, *example.args, **example.kwargs, **options)


def near_start(post: orn.Posterior, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return post.layout.unravel(post.start + 0.3 * rng.normal(size=post.dim))


def same_density(post: orn.Posterior, model: Any, args: Any, kwargs: Any, name: str = "") -> None:
    """Rows and prior, against NumPyro's potential of the whole model on the real line."""

    @jax.jit
    def both(params: Any, data: Any) -> Any:
        rows = jax.vmap(post.log_likelihood, in_axes=(None, 0))(params, data)
        theirs = -potential_energy(model, args, dict(kwargs), params)
        return rows.sum() + post.log_prior(params), theirs

    mine, theirs = both(near_start(post), post.data)
    np.testing.assert_allclose(mine, theirs, rtol=2e-6 if "float32" in name else 1e-11)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_and_prior_add_up_to_numpyros_own_density(name: str) -> None:
    example = EXAMPLES[name]
    post = made(example)
    assert post.num_data == N
    same_density(post, substituted(example), example.args, example.kwargs, name)


@pytest.mark.parametrize("name", ["regression", "mixture", "empirical", "reparametrised"])
def test_draws_come_back_constrained_under_the_sites_names(name: str) -> None:
    example = EXAMPLES[name]
    post = made(example)
    assert post.constrain is not None
    params = near_start(post)
    mine = jax.jit(post.constrain)(params)
    theirs = jax.jit(
        lambda params: constrain_fn(
            example.model, example.args, dict(example.kwargs), params, return_deterministic=True
        )
    )(params)
    shown = {site: value for site, value in theirs.items() if np.shape(value)[:1] != (N,)}
    assert mine.keys() == shown.keys()
    for site, value in shown.items():
        np.testing.assert_allclose(mine[site], value, rtol=1e-12)


def test_results_hold_both_spaces() -> None:
    post = made(EXAMPLES["regression"])
    result = orn.sample(post, draws=30, chains=2, dtype="float32", batch_size=10)
    assert set(result.draws) == {"noise", "scale", "w", "ratio"}
    assert set(result.unconstrained) == {"noise", "scale", "w"}
    assert result.draws["w"].shape == (2, 30, 3)
    np.testing.assert_allclose(result.draws["noise"], np.exp(result.unconstrained["noise"]))
    np.testing.assert_allclose(
        result.draws["ratio"], result.draws["scale"] / result.draws["noise"], rtol=1e-12
    )
    data = result.to_arviz()
    assert set(data["posterior"].data_vars) == set(result.draws)
    assert set(data["unconstrained_posterior"].data_vars) == set(result.unconstrained)
    assert list(result.summary().index) == ["noise", "ratio", "scale", "w[0]", "w[1]", "w[2]"]


def test_a_start_of_ones_own_is_a_value_of_the_site() -> None:
    post = made(EXAMPLES["mixture"], init={"means": [-1.0, 0.0, 2.0], "weights": [0.5, 0.3, 0.2]})
    assert post.constrain is not None
    found = post.constrain(post.init)
    np.testing.assert_allclose(found["means"], [-1.0, 0.0, 2.0], rtol=1e-12)
    np.testing.assert_allclose(found["weights"], [0.5, 0.3, 0.2], rtol=1e-12)


def test_rows_can_be_named_where_lengths_do_not_tell() -> None:
    """A fixed array that happens to be as long as the plate."""

    def model(x: Any, y: Any, units: Any) -> None:
        w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        with numpyro.plate("data", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ (w * units), 1.0), obs=y)

    args = (X[:3], Y[:3], np.array([0.1, 0.2, 0.3]))
    with pytest.raises(orn.InputError, match="rows together have log-likelihood"):
        orn.from_numpyro(model, *args)
    post = orn.from_numpyro(model, *args, rows=["x", "y"])
    assert set(post.data["arguments"]) == {"x", "y"}
    same_density(post, model, args, {})


# What cannot be taken ----------------------------------------------------------------------------


def other_plate(y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("date", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def two_plates(y: Any, z: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    for name, values in (("data", y), ("more", z)):
        with numpyro.plate(name, len(values)):
            numpyro.sample(f"in_{name}", dist.Normal(mean, 1.0), obs=values)


def two_sizes(y: Any, z: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    for name, values in (("y", y), ("z", z)):
        with numpyro.plate("data", len(values)):
            numpyro.sample(name, dist.Normal(mean, 1.0), obs=values)


def discrete(y: Any) -> None:
    kind = numpyro.sample("kind", dist.Bernoulli(0.5))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(kind, 1.0), obs=y)


def local(y: Any) -> None:
    with numpyro.plate("data", len(y)):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def unplated(y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
    numpyro.sample("z", dist.Normal(mean, 1.0), obs=1.0)


def nothing_observed(y: Any) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", len(y)):
        numpyro.deterministic("shift", y - mean)


def nothing_latent(y: Any) -> None:
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)


def fixed_size(y: Any, size: int) -> None:
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    with numpyro.plate("data", size):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def captured_features(y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=y)


def centred_inside(x: Any, y: Any) -> None:
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal((x - x.mean(0)) @ w, 1.0), obs=y)


def with_param(y: Any) -> None:
    mean = numpyro.param("mean", 0.0)
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def on_a_circle(y: Any) -> None:
    angle = numpyro.sample("angle", dist.ProjectedNormal(jnp.ones(2)))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(angle[0], 1.0), obs=y)


def failing(y: Any) -> None:
    numpyro.sample("mean", dist.Normal(0.0, 1.0))
    raise RuntimeError(f"out of luck with {len(y)}")


REFUSED: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (other_plate, (Y,), {}, r"no plate 'data'.*its plates are date.*plate=.*mean 'date'"),
    (other_plate, (Y,), {"plate": "rows"}, r"no plate 'rows'"),
    (two_plates, (Y, Y[:9]), {}, r"'in_more' is outside plate 'data'.*one plate"),
    (two_sizes, (Y, Y[:9]), {}, r"'data' has several sizes, \[9, 40\]"),
    (discrete, (Y,), {}, r"'kind' is discrete.*gradients"),
    (local, (Y,), {}, r"'mean' is in plate 'data' and not observed"),
    (regression, (X, None), {}, r"'y' is in plate 'data' and not observed.*obs="),
    (unplated, (Y,), {}, r"'z' is outside plate 'data'"),
    (nothing_observed, (Y,), {}, r"no site in plate 'data' is observed"),
    (nothing_latent, (Y,), {}, r"no latent sites"),
    (fixed_size, (Y, 99), {}, r"99 rows, but site 'y'.*values of shape \(40,\).*all rows"),
    (captured_features, (Y,), {}, r"'y' still has 40 rows.*among the model's arguments"),
    (centred_inside, (X, Y), {}, r"40 rows together.*one by one.*outside the model"),
    (with_param, (Y,), {}, r"type 'param' \('mean'\).*numpyro.sample"),
    (on_a_circle, (Y,), {}, r"no bijection from the real line.*'angle'"),
    (failing, (Y,), {}, r"failed on all rows: RuntimeError: out of luck"),
    (handlers.scale(whole, scale=0.1), (X, Y), {}, r"site 'w' is scaled.*itself"),
    (regression, (X,), {}, r"does not take these arguments: missing.*'y'"),
    ("model", (Y,), {}, r"model must be a function, found str"),
    (whole, (X, Y), {"rows": ["z"]}, r"rows names 'z', which is not one of x, y"),
    (fixed_size, (Y, N), {"rows": ["size"]}, r"rows names 'size', but size has shape \(\)"),
    (whole, (X, Y), {"init": {"v": 1.0}}, r"init names 'v', which is not one of w"),
    (whole, (X, Y), {"init": {"w": 1.0}}, r"init\['w'\] must have shape \(3,\), found \(\)"),
    (poisson, (COUNTS,), {"init": {"rate": -1.0}}, r"init\['rate'\] is outside"),
]


@pytest.mark.parametrize(("model", "args", "options", "message"), REFUSED)
def test_models_that_can_not_be_taken(
    model: Any, args: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.from_numpyro(model, *args, **options)


def test_tables_are_to_be_arrays() -> None:
    import pandas as pd

    with pytest.raises(orn.InputError, match=r"x is a DataFrame; pass numpy\.asarray"):
        orn.from_numpyro(whole, pd.DataFrame(X), Y)


# Draws -------------------------------------------------------------------------------------------


def test_T2_a_gamma_prior_of_poisson_rates_has_the_conjugate_posterior() -> None:
    rng = np.random.default_rng(3)
    exposure = rng.uniform(0.5, 1.5, size=4000)
    counts = rng.poisson(1.5 * exposure)
    post = orn.from_numpyro(poisson, counts, exposure=exposure)
    result = orn.sample(post, key=2, draws=4000)
    shape, inverse_scale = 2.0 + counts.sum(), 1.0 + exposure.sum()
    # The logarithm of a Gamma variable: a Gaussian but for 1 / (2 shape) of its variance.
    mean = np.log(shape) - np.log(inverse_scale)
    assert abs(scipy.special.digamma(shape) - np.log(shape)) < 0.01 / np.sqrt(shape)
    assert_covariance(result.flat, np.array([mean]), np.array([[1 / shape]]))
    rates = result.draws["rate"]
    assert rates.mean() == pytest.approx(shape / inverse_scale, rel=4 / np.sqrt(16000 * shape))
    assert rates.std() == pytest.approx(np.sqrt(shape) / inverse_scale, rel=0.05)


def nuts(model: Any, *args: Any) -> Any:
    """NumPyro's own draws of the sites, (chains, draws, ...)."""
    runner = MCMC(
        NUTS(model, dense_mass=True), num_warmup=400, num_samples=1000, num_chains=2,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    with jax.debug_key_reuse(False):
        runner.run(jax.random.key(5), *args)
    return runner.get_samples(group_by_chain=True)


@pytest.mark.slow
def test_T2_a_hierarchical_regression_agrees_with_nuts() -> None:
    X = features(2000, 12)
    rng = np.random.default_rng(6)
    y = X @ rng.normal(size=12) + rng.normal(size=2000)
    result = orn.sample(orn.from_numpyro(regression, X, y), key=1, draws=2000)
    theirs = nuts(regression, X, y)
    names = ("noise", "w")
    agree(_joined(result.draws, names), _joined(theirs, names), bias=0.05)
    # Twelve coefficients say little of their scale: the logarithm's posterior is skewed.
    mine, reference = np.log(result.draws["scale"]), np.log(theirs["scale"])
    agree(mine[..., None], np.asarray(reference)[..., None], bias=0.3)


@pytest.mark.slow
def test_T2_a_softmax_agrees_with_nuts() -> None:
    X = features(1500, 2)
    rng = np.random.default_rng(7)
    label = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(1500, 3)), axis=1)
    result = orn.sample(orn.from_numpyro(softmax, X, label), key=1, draws=2000)
    theirs = nuts(softmax, X, label)
    agree(_joined(result.draws, ("w",)), _joined(theirs, ("w",)), bias=0.1)


def _joined(draws: Any, names: tuple[str, ...]) -> Any:
    leaves = [np.asarray(draws[name]) for name in names]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)

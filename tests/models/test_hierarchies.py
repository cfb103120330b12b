"""Scales of effects in NumPyro models: recognised, drawn as hyperparameters, against NUTS."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import potential_energy

import ornstein as orn
from ornstein.models.unconstrained import as_vectors

GROUP = np.repeat(np.arange(6), 10)
Y = np.random.default_rng(0).normal(size=6)[GROUP] + np.random.default_rng(1).normal(size=60)


@pytest.fixture(autouse=True)
def _as_numpyro_wants() -> Iterator[None]:
    """NumPyro itself mixes dtypes and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def observe(eta: Any, y: Any, noise: Any) -> None:
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Normal(eta, noise), obs=y)


def centred(group: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    noise = numpyro.sample("noise", dist.HalfNormal(2.0))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([6]).to_event(1))
    observe(theta[group], y, noise)


def not_centred(group: Any, y: Any) -> None:
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    noise = numpyro.sample("noise", dist.HalfNormal(2.0))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([6]).to_event(1))
    effect = numpyro.deterministic("theta", mu + tau * z)
    observe(effect[group], y, noise)


def by_rate(group: Any, y: Any) -> None:
    """A precision, by whose root effects are divided; one for each."""
    rate = numpyro.sample("rate", dist.Gamma(2.0, 2.0).expand([6]).to_event(1))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([6]).to_event(1))
    observe((z / jnp.sqrt(rate))[group], y, 1.0)


def flat(group: Any, y: Any) -> None:
    """Positive sites that are not scales of effects."""
    level = numpyro.sample("level", dist.HalfNormal(1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    observe(level + slope * jnp.sin(group), y, noise)


@pytest.mark.parametrize(
    ("model", "scales", "powers"),
    [(centred, ["tau"], {}), (not_centred, ["tau"], {"z": 1.0}), (by_rate, ["rate"], {"z": -0.5})],
)
def test_X13_scales_are_recognised_and_the_density_is_the_same(
    model: Callable[..., None], scales: list[str], powers: dict[str, float]
) -> None:
    post = orn.from_numpyro(model, GROUP, Y)
    assert sorted(post.hyperparameters) == scales
    rng = np.random.default_rng(2)
    params = post.layout.unravel(rng.normal(size=post.dim))
    hyper = {name: np.asarray(rng.normal(size=v.shape)) for name, v in post.hyperparameters.items()}
    sites, moved = {**params, **hyper}, 0.0
    for name, power in powers.items():
        log_scale = power * hyper[scales[0]] * np.ones(6)
        sites[name] = params[name] * np.exp(-log_scale)
        moved += log_scale.sum()
    theirs = -float(potential_energy(model, (GROUP, Y), {}, sites)) - moved
    rows = jax.vmap(post.log_likelihood, in_axes=(None, 0, None))(params, post.data, hyper)
    mine = float(rows.sum() + post.log_prior(params, hyper))
    assert mine == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("model", [centred, not_centred, by_rate])
def test_constrained_draws_are_mapped_back(model: Callable[..., None]) -> None:
    """Sites that are not latent are left out; scales are told apart, effects multiplied."""
    post = orn.from_numpyro(model, GROUP, Y)
    rng = np.random.default_rng(3)
    flat = rng.normal(size=(2, 3, post.dim))
    eta = rng.normal(size=(2, 3, post.learnable.layout.dim))
    found = as_vectors(post, post.constrained(flat, eta))
    np.testing.assert_allclose(found.flat, flat.reshape(-1, post.dim), rtol=1e-6, atol=1e-6)
    assert found.eta is not None
    np.testing.assert_allclose(found.eta, eta.reshape(6, -1), rtol=1e-6, atol=1e-6)


def test_draws_without_a_site_are_refused() -> None:
    post = orn.from_numpyro(flat, GROUP, Y)
    draws = {name: np.ones((2, 3)) for name in ("level", "noise")}
    with pytest.raises(orn.InputError, match=r"lack the site 'slope'.*level"):
        orn.check(post, draws)


def test_other_positive_sites_stay_parameters() -> None:
    assert orn.from_numpyro(flat, GROUP, Y).hyper_prior is None
    assert orn.from_numpyro(centred, GROUP, Y, hierarchical=False).dim == 9


@pytest.mark.slow
def test_X13_scales_are_drawn_by_default() -> None:
    post = orn.from_numpyro(not_centred, GROUP, Y)
    result = orn.sample(post, draws=200)
    assert result.draws["tau"].min() > 0
    np.testing.assert_allclose(result.hyper_draws["tau"], result.draws["tau"], rtol=1e-6)
    summary = result.summary()
    assert summary.index.is_unique
    assert {"mu", "tau", "noise", "theta[0]", "z[5]"} <= set(summary.index)
    assert summary["r_hat"].max() < 1.05
    drawn = np.asarray(result.draws["mu"])[..., None] + np.asarray(result.draws["tau"])[
        ..., None
    ] * np.asarray(result.draws["z"])
    np.testing.assert_allclose(result.draws["theta"], drawn, rtol=1e-6)
    measured, accuracy = orn.check(post, result.draws), result.diagnose().accuracy
    assert accuracy is not None
    np.testing.assert_allclose(measured.mean_error, accuracy.mean_error, atol=0.02)
    wider = {**result.draws, "tau": 2.0 * result.draws["tau"]}
    assert orn.check(post, wider).verdict == "fail"
    with pytest.raises(orn.InputError, match="hierarchical=False"):
        orn.sample(post, method="nuts")


@pytest.mark.slow
@pytest.mark.pilot
@pytest.mark.parametrize("name", ["schools", "schools_centred", "mixed_100x20", "tall"])
def test_X13_hierarchies_written_in_numpyro_agree_with_nuts(name: str) -> None:
    from benchmarks.hierarchies import HIERARCHIES
    from benchmarks.references import load

    hierarchy = HIERARCHIES[name]()
    reference = load()[hierarchy.reference]
    post = orn.from_numpyro(hierarchy.model, *hierarchy.args, plate="rows")
    summary = orn.sample(post, key=1, draws=2000).summary()
    for index, label in enumerate(reference.labels):
        mean, sd = (reference.estimates[part].value[index] for part in ("mean", "sd"))
        assert abs(summary["mean"][label] - mean) < 0.15 * sd, label
        assert abs(summary["sd"][label] / sd - 1) < 0.15, label

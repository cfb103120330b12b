"""Fixed factors whose coefficients are looked up: one-hot columns by another way."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.types import Vector
from ornstein.curvature import arrow_sums
from ornstein.models import Effects, FixedEffects
from ornstein.models.random_effects.posterior import MixedPosterior
from support.disk_tables import npy
from support.mixed_models import design, prior_precision
from support.montecarlo import agree

LEVELS = 9


def table(family: str, rows: int = 400, seed: int = 0) -> tuple[Vector, Vector, Any, Any]:
    """Columns, target, levels of a fixed factor (of unlike frequencies) and of a random one."""
    rng = np.random.default_rng(seed)
    X = rng.normal([1.0, -2.0], size=(rows, 2))
    f = rng.choice(LEVELS, rows, p=rng.dirichlet(np.full(LEVELS, 4.0)))
    h = rng.integers(0, 6, rows)
    eta = 0.3 + X @ [0.5, -0.4] + rng.normal(size=LEVELS)[f] + 0.6 * rng.normal(size=6)[h]
    if family == "bernoulli":
        return X, (rng.uniform(size=rows) < 1 / (1 + np.exp(-eta))).astype(float), f, h
    if family == "poisson":
        return X, rng.poisson(np.exp(0.3 * eta)).astype(float), f, h
    return X, 3 * eta + 2 * rng.normal(size=rows), f, h


def both(family: str, **more: Any) -> tuple[MixedPosterior, MixedPosterior]:
    """With levels looked up, and one-hot."""
    X, y, f, h = table(family)
    groups = {"f": FixedEffects(f), "h": h}
    looked_up = orn.models.mixed(X, y, groups, family, feature_names=["a", "b"], **more)
    hot = np.eye(LEVELS)[f][:, 1:]
    names = ["a", "b", *(f"f[T.{level}]" for level in range(1, LEVELS))]
    one_hot = orn.models.mixed(np.hstack([X, hot]), y, {"h": h}, family, feature_names=names)
    return looked_up, one_hot


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_X14_the_posterior_is_that_of_one_hot_columns(family: str) -> None:
    """Rows and prior make the same quadratic form, coefficient by coefficient."""
    looked_up, one_hot = both(family)
    forms = []
    for post in (looked_up, one_hot):
        spec = post.specification
        lam = np.full(spec.count, 0.2)
        D, P = design(post), prior_precision(post, lam)
        # What multiplies draws before they are reported, in the order head, leaves.
        sizes: list[Vector] = [np.ones(spec.fixed)]
        for number in (*range(1, len(spec.groupings)), 0):
            grouping = spec.groupings[number]
            scale = np.broadcast_to(
                post.units.effect_scale(number), (grouping.width, grouping.levels)
            )
            sizes.append(scale.ravel())
        inverse = 1 / np.where(np.concatenate(sizes) > 0, np.concatenate(sizes), 1.0)
        labels = dict(zip([*post.fixed_labels, *_effects(post)], range(spec.dim), strict=True))
        kept = [labels[name] for name in one_hot.labels]
        order = post.rows.in_memory().order
        assert order is not None
        D = D[np.argsort(order)]
        forms.append(((D * inverse)[:, kept], (P * np.outer(inverse, inverse))[np.ix_(kept, kept)]))
    np.testing.assert_allclose(forms[0][0], forms[1][0], atol=1e-12)
    np.testing.assert_allclose(forms[0][1], forms[1][1], atol=1e-9)


def _effects(post: MixedPosterior) -> list[str]:
    """Names in the order head, leaves."""
    return post.labels[len(post.fixed_labels) :]


@pytest.mark.parametrize("family", ["gaussian", pytest.param("bernoulli", marks=pytest.mark.slow)])
def test_draws_agree_with_those_of_one_hot_columns(family: str) -> None:
    """Means and covariances of all coefficients, beside random effects."""
    draws = []
    for post in both(family):
        result = orn.sample(post, draws=800, key=3, progress=False)
        names = ["a", "b", "intercept", *(f"f[T.{i}]" for i in range(1, LEVELS)), "sd(h)"]
        draws.append(np.stack([result[name] for name in names], axis=-1))
    agree(draws[0], draws[1], 0.05)


def test_results_name_contrasts_as_coefficients() -> None:
    X, y, f, _ = table("bernoulli")
    post = orn.models.mixed(X, y, {"f": FixedEffects(f)}, "bernoulli", feature_names=["a", "b"])
    assert post.hyper_labels == []
    result = orn.sample(post, draws=100, progress=False)
    levels = [f"f[T.{level}]" for level in range(1, LEVELS)]
    assert result.names == ["a", "b", "intercept", *levels]
    found = result.summary()
    assert found.index.tolist() == result.names
    assert found.loc["f[T.3]", "mean"] == pytest.approx(result["f[T.3]"].mean())
    assert found["r_hat"].max() < 1.1
    assert result.diagnose().verdict in ("ok", "warn")
    assert (result.effects("f").loc["f[T.0]"] == 0).all()
    assert result.flat.shape == (4, 100, len(result.names))
    assert "coef[f]" in result.to_arviz()["posterior"]
    assert list(result.variance_components().index) == ["noise of a row"]
    new = np.zeros((2, 2))
    found_mean = result.predict(new, {"f": [0, 3]}).mean
    eta = result["intercept"] + result["f[T.3]"]
    expected = [(1 / (1 + np.exp(-own))).mean() for own in (result["intercept"], eta)]
    np.testing.assert_allclose(found_mean, expected, rtol=1e-5)
    with pytest.raises(orn.InputError, match=r"levels that the data have not.*'99'"):
        result.predict(new, {"f": [0, 99]})
    with pytest.raises(orn.InputError, match="groups must have 'f'"):
        result.predict(new, {})
    with pytest.raises(orn.InputError, match="levels, which share one prior"):
        orn.models.mixed(X, y, {"f": FixedEffects(f)}, priors={"f[T.3]": orn.Normal()})


def test_without_an_intercept_every_level_has_a_coefficient() -> None:
    X, y, f, h = table("gaussian")
    groups = {"f": FixedEffects(f), "h": FixedEffects(h)}
    post = orn.models.mixed(X, y, groups, intercept=False)
    result = orn.sample(post, draws=50, progress=False)
    first, second = ([name for name in result.names if name.startswith(g)] for g in ("f", "h"))
    assert first == [f"f[{level}]" for level in range(LEVELS)]
    assert second == [f"h[T.{level}]" for level in range(1, 6)]


def test_one_prior_scale_is_that_of_levels_too() -> None:
    X, y, f, _ = table("gaussian")
    post = orn.models.mixed(X, y, {"f": FixedEffects(f)}, prior_scale=0.7)
    assert float(post.specification.leaf_precision(jnp.zeros(1))[0, 0]) == pytest.approx(0.7**-2)
    assert post.units.effects[0].tolist() == [[np.inf, *[1.0] * (LEVELS - 1)]]


def test_levels_of_rows_on_disk_are_looked_up(tmp_path: Path) -> None:
    X, y, f, _ = table("bernoulli")
    for name, values in {"X": X, "y": y, "f": f}.items():
        npy(tmp_path, values, f"{name}.npy")
    there = [orn.open_rows(tmp_path / f"{name}.npy") for name in ("X", "y", "f")]
    on_disk = orn.models.mixed(there[0], there[1], {"f": FixedEffects(there[2])}, "bernoulli")
    in_memory = orn.models.mixed(X, y, {"f": FixedEffects(f)}, "bernoulli")
    rng = np.random.default_rng(0)
    spec = in_memory.specification
    at = rng.normal(size=spec.head), 0.1 * rng.normal(size=(1, LEVELS)), np.zeros(0)
    found, expected = (arrow_sums.sums(post, *at) for post in (on_disk, in_memory))
    np.testing.assert_allclose(found.slope_b, expected.slope_b, rtol=1e-9)
    assert found.data is not None
    assert expected.data is not None
    np.testing.assert_allclose(found.data.cross, expected.data.cross, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(on_disk.units.effects[0], in_memory.units.effects[0])


@pytest.mark.slow
def test_large_fixed_factors_take_turns() -> None:
    """Two fixed factors and a random one, each with more effects than a head should have."""
    rng = np.random.default_rng(0)
    rows = 20_000
    f, h, g = (rng.integers(0, count, rows) for count in (600, 300, 400))
    truth = [rng.normal(size=count) for count in (600, 300, 400)]
    eta = truth[0][f] + truth[1][h] + 0.5 * truth[2][g]
    y = eta + rng.normal(size=rows)
    groups = {"f": FixedEffects(f), "h": FixedEffects(h), "g": Effects(g)}
    result = orn.sample(orn.models.mixed(None, y, groups), progress=False)
    assert result.plan.steps == "turns"
    assert result.summary()["r_hat"].max() < 1.05
    found, expected = result.effects("f")["mean"].to_numpy(), truth[0] - truth[0][0]
    sds = result.effects("f")["sd"].to_numpy()[1:]
    assert np.abs((found[1:] - expected[1:]) / sds).mean() < 3.0
    assert result["sd(g)"].mean() == pytest.approx(0.5, abs=0.08)

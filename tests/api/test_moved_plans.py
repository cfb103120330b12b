"""Plans around a pilot's draws, where the peak says little of the posterior."""

from typing import Any

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein.planning import planner

pytestmark = pytest.mark.pilot


def skewed() -> orn.Posterior:
    """A Poisson regression of few counts: its mean is 0.3 standard deviations from its peak."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 3)), np.ones(300)])
    return orn.models.poisson(X, rng.poisson(np.exp(X @ [0.5, -0.4, 0.3, -2.5])))


def test_X11_a_plan_around_draws_of_all_rows_samples_the_posterior() -> None:
    """Even if their mean and covariance are off by much."""
    post = skewed()
    plan = planner.plan(post)
    cov = 1.5 * plan.predicted_cov
    center = plan.center + 0.5 * np.sqrt(np.diag(cov))
    moved = planner.moved(post, plan, center, cov, angle=0.4)
    assert moved.batch_size == post.num_data
    assert moved.anchor is None
    assert not any("from the optimum" in warning for warning in moved.warnings)
    result = orn.sample(post, moved, key=1, draws=3000)
    found = orn.check(post, result.flat)
    assert found.verdict == "ok", str(found)


@pytest.mark.parametrize("spoil", ["nan", "still", "flat"])
def test_a_covariance_that_is_not_positive_is_refused(spoil: str) -> None:
    """As of a pilot whose chains hardly moved, or left."""
    post = skewed()
    plan = planner.plan(post)
    cov = plan.predicted_cov.copy()
    if spoil == "nan":
        cov[0, 1] = np.nan
    elif spoil == "still":
        cov[0] = cov[:, 0] = 0.0
    else:
        root = np.linalg.cholesky(cov)[:, :2]
        cov = root @ root.T
    with pytest.raises(orn.UnstablePlanError, match="the draws to plan around"):
        planner.moved(post, plan, plan.center, cov, angle=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["schools", "mixed_100x20"])
def test_X11_hierarchies_written_in_numpyro_agree_with_nuts(name: str) -> None:
    """Not centred, as people write them; their peak is at scales of no use."""
    pytest.importorskip("numpyro")
    from benchmarks.hierarchies import HIERARCHIES
    from benchmarks.references import load

    hierarchy, reference = HIERARCHIES[name](), load()[name]
    with jax.numpy_dtype_promotion("standard"):
        options: dict[str, Any] = {"plate": "rows", "hierarchical": False}
        post = orn.from_numpyro(hierarchy.model, *hierarchy.args, **options)
        result = orn.sample(post, key=1, draws=2000)
    assert result.status.ok
    for label in ("mu", "tau") if name == "schools" else ("sd", "slope", "intercept"):
        index = reference.labels.index(label)
        mean, sd = (reference.estimates[part].value[index] for part in ("mean", "sd"))
        draws = np.asarray(result.draws[label])
        assert abs(draws.mean() - mean) < 0.15 * sd, label
        assert abs(draws.std() / sd - 1) < 0.15, label


@pytest.mark.slow
@pytest.mark.parametrize("name", ["schools", "tall", "horseshoe"])
def test_numpyro_models_far_from_a_gaussian_are_right_by_the_defaults(name: str) -> None:
    """A hundred groups and a horseshoe of forty coefficients among them."""
    pytest.importorskip("numpyro")
    from benchmarks.hierarchies import HIERARCHIES, kept
    from benchmarks.references import load

    hierarchy, reference = HIERARCHIES[name](), load()[name]
    with jax.numpy_dtype_promotion("standard"):
        result = orn.sample(orn.from_numpyro(hierarchy.model, *hierarchy.args, plate="rows"), key=1)
    assert not any("pilot" in warning for warning in result.plan.warnings)
    for site in hierarchy.sites:
        for label, draws in kept(site, np.asarray(result.draws[site])).items():
            index = reference.labels.index(label)
            mean, sd = (reference.estimates[part].value[index] for part in ("mean", "sd"))
            assert abs(draws.mean() - mean) < 0.15 * sd, label
            assert abs(draws.std() / sd - 1) < 0.15, label

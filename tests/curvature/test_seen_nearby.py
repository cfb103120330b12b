"""What was seen of the rows, used again: under another prior, in fewer products, rounded."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature import optimum
from ornstein.curvature.estimation import geometry, quick_geometry, under_prior
from ornstein.curvature.row_sums import mean_gradient
from ornstein.linalg.bases import KroneckerBasis
from ornstein.models.local_glm import rotation
from ornstein.planning import planner
from support.problems import softmax_table


@pytest.mark.parametrize("structure", ["dense", "kronecker", "per-class"])
def test_curvature_under_another_prior(structure: str) -> None:
    post = orn.models.softmax(*softmax_table())
    there = post.with_hyper({"prior_precision": 3.0})
    at = post.layout.unravel(optimum.find_optimum(post))
    known, wanted = geometry(post, at, structure), geometry(there, at, structure)
    found = under_prior(known, there)
    rtol = 1e-6 if structure == "per-class" else 1e-9
    for part in ("covariance", "prior_hessian"):
        one, other = (getattr(known, part).dense(post.dim) for known in (found, wanted))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-9)
    assert (found.missed is None) == (structure == "dense")


@pytest.mark.usefixtures("no_matrices")
def test_a_plan_moved_to_a_prior_nearby_is_that_made_there() -> None:
    post = orn.models.softmax(*softmax_table())
    near, there = orn.plan(post), post.with_hyper({"prior_precision": 1.05})
    found, wanted = planner.replan(there, near), orn.plan(there, batch_size=near.batch_size)
    # Either optimum is found to a hundredth of a posterior standard deviation.
    deviations = np.sqrt(wanted.predicted_cov)
    assert np.abs(found.center - wanted.center).max() < 0.02 * deviations.max()
    np.testing.assert_allclose(found.predicted_cov, wanted.predicted_cov, rtol=0.01)
    np.testing.assert_allclose(found.predicted_trace, wanted.predicted_trace, rtol=0.01)
    assert found.batches == near.batches
    assert found.anchor is not None
    slope = there.num_data * mean_gradient(there, found.center)
    np.testing.assert_allclose(found.anchor.slope, slope, rtol=1e-9)
    assert planner.fitting(there, found) is not None
    with pytest.raises(orn.InputError, match="another prior"):
        planner.fitting(post, found)


def test_a_quick_estimate_has_the_means_of_a_full_one() -> None:
    post = orn.models.softmax(*softmax_table(classes=6, columns=12))
    at = post.layout.unravel(optimum.find_optimum(post))
    few, all_of_them = (
        estimate(post, at, "kronecker", None).missed for estimate in (quick_geometry, geometry)
    )
    assert few is not None
    assert all_of_them is not None
    means = [missed.by_variance.mean(lambda nodes: 1 / nodes) for missed in (few, all_of_them)]
    assert len(few.spectrum.nodes) < len(all_of_them.spectrum.nodes)
    np.testing.assert_allclose(means[0], means[1], rtol=5e-3)


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_rows_are_rotated_in_single_precision_only_where_it_will_do(far: float) -> None:
    X, _ = softmax_table()
    X[:, 3:] += far  # which cancels along the difference of two columns
    values, inner = np.linalg.eigh(X.T @ X)
    basis = KroneckerBasis(np.eye(4), inner, np.ones(5), features=5)
    units = np.tile(1 / np.sqrt(1 + values), 4)
    found = rotation(basis, units, np.float32)(X)
    assert found.dtype == (np.float64 if far else np.float32)
    exact = (X @ inner) * units[:5]
    atol = 2e-4 * np.sqrt(np.mean(exact**2))
    np.testing.assert_allclose(found * units[:5], exact, rtol=0, atol=atol)

"""What was seen of the rows, used again: under another prior, in fewer products, rounded."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature import optimum
from ornstein.curvature.estimation import geometry, glance, mean_gradient, under_prior
from ornstein.linalg.bases import KroneckerBasis
from ornstein.linalg.operators import BasisRoot
from ornstein.models.local_glm import rotation
from ornstein.planning import planner
from support.problems import softmax_table


@pytest.mark.parametrize("structure", ["dense", "kronecker", "classes"])
def test_curvature_under_another_prior(structure: str) -> None:
    post = orn.models.softmax(*softmax_table())
    there = post.with_hyper({"prior_precision": 3.0})
    at = post.layout.unravel(optimum.find_optimum(post))
    known, wanted = geometry(post, at, structure), geometry(there, at, structure)
    found = under_prior(known, there)
    if found.factors is None or wanted.factors is None:
        np.testing.assert_allclose(found.hessian, wanted.hessian, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.prior_hessian, wanted.prior_hessian, rtol=1e-12)
        return
    assert found.factors.hessian is found.hessian
    precisions = [
        factors.operator(1 / (post.num_data * factors.hessian)).dense(post.dim)
        for factors in (found.factors, wanted.factors)
    ]
    np.testing.assert_allclose(precisions[0], precisions[1], rtol=1e-6, atol=1e-9)


@pytest.mark.usefixtures("no_matrices")
def test_a_plan_moved_to_a_prior_nearby_is_that_made_there() -> None:
    post = orn.models.softmax(*softmax_table())
    near, there = orn.plan(post), post.with_hyper({"prior_precision": 1.05})
    found, wanted = planner.moved(there, near), orn.plan(there, batch_size=near.batch_size)
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


def test_a_glance_has_the_means_of_a_look() -> None:
    post = orn.models.softmax(*softmax_table(classes=6, columns=12))
    at = post.layout.unravel(optimum.find_optimum(post))
    few, all_of_them = (look(post, at, "kronecker", None) for look in (glance, geometry))
    assert few.factors is not None
    assert all_of_them.factors is not None
    means = [
        float(f.by_variance.shares @ (1 / f.by_variance.nodes))
        for f in (few.factors, all_of_them.factors)
    ]
    assert len(few.factors.spectrum.nodes) < len(all_of_them.factors.spectrum.nodes)
    np.testing.assert_allclose(means[0], means[1], rtol=5e-3)


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_rows_are_rotated_in_single_precision_only_where_it_will_do(far: float) -> None:
    X, _ = softmax_table()
    X[:, 3:] += far  # which cancels along the difference of two columns
    values, inner = np.linalg.eigh(X.T @ X)
    basis = KroneckerBasis(np.eye(4), inner, np.ones(5), features=5)
    units = np.tile(1 / np.sqrt(1 + values), 4)
    found = rotation(BasisRoot(basis, units), inner, np.float32)(X)
    assert found.dtype == (np.float64 if far else np.float32)
    exact = (X @ inner) * units[:5]
    atol = 2e-4 * np.sqrt(np.mean(exact**2))
    np.testing.assert_allclose(found * units[:5], exact, rtol=0, atol=atol)

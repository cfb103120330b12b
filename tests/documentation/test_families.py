"""The families of the benchmarks, their stored references, and the distance from them."""

import numpy as np
import pytest
from benchmarks.distance import Estimate, Reference, compare_to_reference, effective
from benchmarks.families import FAMILIES, LARGE
from benchmarks.hierarchies import HIERARCHIES
from benchmarks.references import LARGEST_RHAT, load, names

import ornstein as orn

LEAST = 1000  # effective draws of the worst parameter, where a million rows are read


def test_every_family_has_a_reference_that_mixed() -> None:
    references = load()
    assert set(references) == set(names())
    for name, reference in references.items():
        assert reference.facts["max_rhat"] < LARGEST_RHAT, name
        assert reference.facts["effective"] >= LEAST, name
        sd = reference.estimates["sd"].value
        assert (reference.estimates["mean"].mc < sd / np.sqrt(LEAST)).all()
        quantiles = [reference.estimates[part].value for part in ("q05", "q50", "q95")]
        assert (np.diff(quantiles, axis=0) > 0).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_reference_is_that_of_the_family(name: str) -> None:
    """The same parameters, and means near the optimum of the posterior as it is made today.

    No mode is a standard deviation off here; that of other data would be by many.
    """
    post, reference = FAMILIES[name](), load()[name]
    assert list(reference.labels) == list(post.labels)
    centre = orn.plan(post, "laplace").center
    away = (reference.estimates["mean"].value - centre) / reference.estimates["sd"].value
    assert np.abs(away).max() < 1


def test_hierarchies_that_share_a_posterior_share_a_reference() -> None:
    made = {name: make() for name, make in HIERARCHIES.items()}
    assert made["schools_centred"].reference == made["schools"].reference
    assert made["mixed_300x4"].rows == 1200
    assert not set(LARGE) & set(FAMILIES)


def test_distances_of_draws_are_those_that_were_made() -> None:
    """A standard normal's quantiles are known; errors count in posterior standard deviations."""
    rng = np.random.default_rng(0)
    exact = np.ones(2) * 1e-9
    normal = {"mean": 0.0, "sd": 2.0, "q05": -3.28971, "q50": 0.0, "q95": 3.28971}
    known = {name: Estimate(np.full(2, value), exact) for name, value in normal.items()}
    reference = Reference(("a", "b"), known, np.zeros(2), {})
    draws = 2 * rng.normal(size=(4, 5000, 2))
    right = compare_to_reference(draws, reference)
    for part in (right.mean, right.sd, right.q05, right.q95):
        assert part.error < 4 * part.mc
    assert not right.wrong()
    assert effective(draws) > 15_000
    moved = compare_to_reference(draws * [1.0, 1.3] + [1.0, 0.0], reference)
    assert moved.mean.label == "a"
    assert moved.mean.error == pytest.approx(0.5, abs=4 * moved.mean.mc)
    assert moved.sd.label == "b"
    assert moved.sd.error == pytest.approx(0.3, abs=4 * moved.sd.mc)
    assert moved.wrong()


def test_the_error_of_a_standard_deviation_is_not_that_of_alternating_draws() -> None:
    """Draws in pairs of opposite sign: the mean is exact, the standard deviation is not."""
    rng = np.random.default_rng(1)
    reference = Reference(
        ("a",),
        {name: Estimate(np.ones(1), np.zeros(1)) for name in ("mean", "sd", "q05", "q50", "q95")},
        np.zeros(1),
        {},
    )
    half = rng.normal(size=(4, 1000, 1))
    draws = np.stack([half, -half], axis=2).reshape(4, 2000, 1)
    found = compare_to_reference(draws, reference)
    assert found.sd.mc == pytest.approx(1 / np.sqrt(2 * 4000), rel=0.25)  # of 4,000 sizes

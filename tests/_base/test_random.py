"""The inner loop's random numbers: uniform, normal, independent within and between blocks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from ornstein._base import random_numbers


@pytest.mark.parametrize("bound", [1, 3, 1000, 65_537, 2**20 + 7, 2**31 - 1])
def test_scaling_is_the_high_word_of_the_product(bound: int) -> None:
    bits = np.array([0, 1, 2**16 - 1, 2**16, 2**31, 2**32 - 1], np.uint32)
    bits = np.concatenate([bits, np.random.default_rng(0).integers(0, 2**32, 500, np.uint32)])
    expected = [int(b) * bound >> 32 for b in bits]
    assert np.asarray(random_numbers.scale(jnp.asarray(bits), bound)).tolist() == expected


def test_every_bit_is_a_fair_coin_and_independent_of_the_others() -> None:
    """Also of its neighbour in the block, and of the same place in the next block."""
    blocks = [random_numbers.words(jax.random.key(seed), (2**16,)) for seed in (0, 1)]
    places = np.arange(32, dtype=np.uint32)
    bits = [(np.asarray(block)[:, None] >> places & 1) - 0.5 for block in blocks]
    count = len(bits[0])
    for left, right in (
        (bits[0], bits[0]),
        (bits[0][1:], bits[0][:-1]),
        (bits[0][64:], bits[0][:-64]),
        (bits[0], bits[1]),
    ):
        scores = 4 * left.T @ right / np.sqrt(len(left))
        if left is right:
            np.fill_diagonal(scores, 0.0)
        assert np.abs(scores).max() < scipy.stats.norm.isf(1e-4 / 32**2)
    assert np.abs(bits[0].sum(axis=0) * 2 / np.sqrt(count)).max() < scipy.stats.norm.isf(1e-4 / 32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normals_are_normal(dtype: str) -> None:
    draws = np.asarray(random_numbers.normals(jax.random.key(3), (500, 400), dtype))
    assert draws.dtype == dtype
    flat = draws.ravel().astype(float)
    assert scipy.stats.kstest(flat, "norm").pvalue > 1e-3
    n = len(flat)
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(flat**power) - expected) < 4 * np.sqrt(variance / n)
    rows = np.corrcoef(draws.astype(float)[:, :40].T) - np.eye(40)
    assert np.abs(rows).max() * np.sqrt(500) < scipy.stats.norm.isf(1e-4 / 40**2)
    tails = np.sum(np.abs(flat) > 4)
    assert abs(tails - n * 2 * scipy.stats.norm.sf(4)) < 4 * np.sqrt(n * 2 * scipy.stats.norm.sf(4))


@pytest.mark.parametrize(("dtype", "largest"), [("float32", 5.29), ("float64", 6.34)])
def test_normals_are_finite_and_symmetric_at_the_ends(dtype: str, largest: float) -> None:
    """The outermost words, where a rounded uniform would be 1 and its normal infinite."""
    ends = jnp.asarray([0, 2**32 - 1], jnp.uint32)
    low, high = np.asarray(random_numbers.normal_of(ends, dtype))
    assert np.isclose(high, largest, atol=0.01)
    assert np.isclose(low, -high)


def test_numbers_below_a_bound_are_uniform() -> None:
    found = random_numbers.below(jax.random.key(5), (90_000,), 37)
    counts = np.bincount(np.asarray(found), minlength=37)
    assert len(counts) == 37
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_the_same_key_gives_the_same_numbers() -> None:
    first, again, other = (
        np.asarray(random_numbers.words(jax.random.key(seed), (50,))) for seed in (8, 8, 9)
    )
    assert np.array_equal(first, again)
    assert not np.any(first == other)

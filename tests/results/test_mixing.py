"""R-hat of right chains is taken for agreement, however many parameters they have."""

import numpy as np
import pytest
import scipy.signal

from ornstein._base.types import Vector
from ornstein.results.arviz import rhat
from ornstein.results.mixing import largest_rhat, longer

CHAINS, DRAWS = 4, 1000


def chains(seed: int, parameters: int, memory: float) -> Vector:
    """Stationary autoregressions of unit variance, (chains, draws, parameters)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(CHAINS, DRAWS, parameters)) * np.sqrt(1 - memory**2)
    noise[:, 0] /= np.sqrt(1 - memory**2)
    return np.asarray(scipy.signal.lfilter([1.0], [1.0, -memory], noise, axis=1))


def limit(parameters: int) -> float:
    return largest_rhat(parameters, 2 * CHAINS, DRAWS // 2)


def test_right_chains_of_many_parameters_rarely_warn() -> None:
    """Of 1,000 effective draws, for which 1.01 would be too little."""
    runs = [rhat(chains(seed, 60, 0.6)).max() for seed in range(10)]
    assert sum(found > limit(60) for found in runs) <= 1
    assert sum(found > 1.01 for found in runs) >= 5


@pytest.mark.parametrize("parameters", [1, 60])
def test_a_chain_that_is_elsewhere_is_seen(parameters: int) -> None:
    draws = chains(0, parameters, 0.4)
    draws[0, :, 0] += 0.6
    assert rhat(draws).max() > limit(parameters)


def test_short_chains_of_independent_draws_agree() -> None:
    rng = np.random.default_rng(0)
    runs = [rhat(rng.normal(size=(CHAINS, 100, 10))).max() for _ in range(20)]
    assert sum(found > largest_rhat(10, 2 * CHAINS, 50) for found in runs) <= 1


def test_more_draws_are_asked_for_once() -> None:
    assert "draws=4000" in longer(DRAWS, "rotation")
    assert "method='nuts'" in longer(4 * DRAWS, "rotation")
    assert "draws=16000" in longer(4 * DRAWS, "nuts")

"""Statistics beyond chance: as seldom as was asked for, skewed entries included."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from ornstein._base.types import Vector
from ornstein.results.chance import exceeds

LEVEL = 0.002
SIMULATIONS, REPEATS = 100, 4000

ENTRIES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Vector]] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "left": lambda rng, shape: np.log(rng.chisquare(5, size=shape)),  # of a level of five rows
    "right": lambda rng, shape: rng.chisquare(5, size=shape),
}


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("kind", ENTRIES)
def test_chance_alone_seldom_exceeds_itself(kind: str, count: int) -> None:
    """Not oftener than the level makes likely: in 999 of 1,000 such tests, at the level itself."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(REPEATS):
        drawn = ENTRIES[kind](rng, (SIMULATIONS + 1, count))
        alarms += bool(exceeds(drawn[0], drawn[1:], LEVEL).any())
    assert alarms <= stats.binom.ppf(0.999, REPEATS, LEVEL)


def test_the_entry_beyond_chance_is_found_among_others() -> None:
    """Six standard deviations off, to either side and whatever the entries' scales are."""
    rng = np.random.default_rng(0)
    scales = np.geomspace(1e-3, 1e3, 30)
    chance = scales * rng.normal(size=(SIMULATIONS, 30))
    seen = np.zeros(30)
    seen[[4, 20]] = 6 * scales[[4, 20]] * (1, -1)
    assert np.flatnonzero(exceeds(seen, chance, LEVEL)).tolist() == [4, 20]


def test_no_entries_exceed_nothing() -> None:
    assert exceeds(np.zeros(0), np.zeros((SIMULATIONS, 0)), LEVEL).shape == (0,)

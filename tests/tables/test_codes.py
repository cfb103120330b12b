"""Codes of groups that are taken for quantities are named, and quantities are not."""

import re

import numpy as np
import pandas as pd
import pytest

from ornstein import tables


def of_groups(count: int, ordered: bool) -> pd.DataFrame:
    """Rows of schools, whose number says which ones have the same size and fees."""
    rng = np.random.default_rng(0)
    size, fees = rng.integers(100, 130, count), rng.integers(1, 20, count)
    if ordered:
        size, fees = np.sort(size), np.sort(fees)
    school = np.repeat(np.arange(count), 4)
    frame = pd.DataFrame({"school": school + 501, "size": size[school], "fees": fees[school]})
    frame["score"] = rng.normal(size=len(frame))
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize(
    ("count", "way"), [(40, r"categorical=\['school'\]"), (150, r"\(1\|school\)")]
)
def test_codes_of_groups_are_named(count: int, way: str) -> None:
    notes = " ".join(tables.learn(of_groups(count, ordered=False), "score").notes)
    assert "'school' is taken as a quantity, and may be a code" in notes
    assert "'size', 'fees'" in notes
    assert re.search(way, notes)
    kept = tables.learn(of_groups(count, ordered=False), "score", keep=["school"])
    assert "may be a code" not in " ".join(kept.notes)


def test_quantities_that_others_are_made_of_are_not() -> None:
    """Sizes that rise with a number, an age with its square and its group, plain numbers."""
    rng = np.random.default_rng(0)
    frame = of_groups(40, ordered=True)
    frame["age"] = rng.integers(20, 80, len(frame))
    frame["square"], frame["group"] = frame["age"] ** 2, frame["age"] // 10
    frame["whole"] = rng.integers(0, 30, len(frame))
    assert "may be a code" not in " ".join(tables.learn(frame, "score").notes)

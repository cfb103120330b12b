"""What a plan's warnings recommend makes them go away."""

import re
from typing import Any

import numpy as np

import ornstein as orn
from support.problems import features, regression


def warned(plan: orn.Plan, what: str) -> bool:
    return any(what in text for text in plan.warnings)


def test_a_batch_as_large_as_a_row_needs_is_not_warned_of() -> None:
    X = features(2000, 2)
    X[7] *= 20.0
    y = (np.random.default_rng(0).random(2000) < 0.5).astype(float)
    post = orn.models.logistic(X, y)
    options: dict[str, Any] = {"batches": "windows", "control_variates": "first", "tolerance": None}
    small = orn.plan(post, "exact", batch_size=4, **options)
    found = re.search(r"batch_size of ([\d,]+)", " ".join(small.warnings))
    assert found is not None, small.warnings
    size = int(found[1].replace(",", ""))
    assert not warned(orn.plan(post, "exact", batch_size=size, **options), "a few rows dominate")
    X[7] *= 10.0
    worse = orn.models.logistic(X, y)
    assert warned(orn.plan(worse, "exact", batch_size=4, **options), "at any batch_size")


def test_the_optimum_and_other_batches_are_found_by_what_is_said() -> None:
    post = regression(rows=500)
    away = {"coef": np.asarray(orn.plan(post, "exact").center) + 1.0}
    assert warned(orn.plan(post, "exact", at=away), "leave out at=")
    assert not warned(orn.plan(post, "exact"), "leave out at=")
    epochs = orn.plan(post, "exact", batches="epochs", control_variates=False)
    assert warned(epochs, "prefer windows")
    windows = orn.plan(post, "exact", batches="windows", control_variates=False)
    assert not warned(windows, "prefer windows")

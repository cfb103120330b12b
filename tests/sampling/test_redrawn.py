"""Chains that become non-finite once are drawn again from where they were sound."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn

pytestmark = pytest.mark.pilot

ROWS = 50


def cliff(at: float) -> orn.Posterior:
    """Normal, but for a gradient that overflows beyond so many standard deviations."""

    def log_likelihood(params: Any, row: Any) -> Any:
        beyond = jnp.maximum(params[0] * jnp.sqrt(1.0 * ROWS) - at, 0.0)
        return -0.5 * jnp.sum((params - row) ** 2) - jnp.expm1(1e6 * beyond)

    data = np.zeros((ROWS, 1))
    return orn.Posterior(log_likelihood, lambda params: -1e-3 * params @ params, data, np.zeros(1))


POST = cliff(3.5)
PLAN = orn.plan(POST, batch_size=10, tolerance=None)
LONG: dict[str, Any] = {"draws": 1000, "dispersion": 1.0, "key": 5}


def test_a_chain_that_left_is_drawn_again() -> None:
    result = orn.sample(POST, PLAN, **LONG)
    assert result.status.ok
    assert result.status.message.startswith("ok; chain ")
    assert "and was drawn again from there" in result.status.message
    steps = result.path["redrawn"]
    assert len(steps) == 2
    assert result.flat.shape == (4, 1000, 1)
    assert np.isfinite(result.flat).all()
    deviation = result.flat.ravel() / np.sqrt(PLAN.predicted_cov.item())
    assert abs(deviation.std() - 1) < 4 / np.sqrt(2 * 4000)


@pytest.mark.parametrize("chunk", [1, 3])
def test_the_same_draws_whatever_the_chunking(chunk: int) -> None:
    usual, cut = (orn.sample(POST, PLAN, chunk=size, **LONG) for size in (None, chunk))
    np.testing.assert_array_equal(usual.flat, cut.flat)
    np.testing.assert_array_equal(usual.path["redrawn"], cut.path["redrawn"])
    assert usual.status == cut.status


def test_the_same_draws_from_checkpoints(tmp_path: Path) -> None:
    usual = orn.sample(POST, PLAN, **LONG)
    kept = orn.sample(POST, PLAN, chunk=1, checkpoint=tmp_path, checkpoint_every=1e-9, **LONG)
    (tmp_path / "end-0.orn").unlink()
    last = sorted(tmp_path.glob("draws-0-*.orn"))[3:]
    for path in reversed(last):
        path.unlink()
    resumed = orn.sample(POST, PLAN, chunk=1, checkpoint=tmp_path, checkpoint_every=1e-9, **LONG)
    for result in (kept, resumed):
        np.testing.assert_array_equal(usual.flat, result.flat)
        np.testing.assert_array_equal(usual.path["redrawn"], result.path["redrawn"])


def test_a_chain_that_leaves_often_has_diverged() -> None:
    post = cliff(2.0)
    plan = orn.plan(post, batch_size=10, tolerance=None)
    with pytest.warns(orn.DivergenceWarning, match="became non-finite at step"):
        result = orn.sample(post, plan, **LONG)
    assert result.status.kind == "diverged"
    assert np.isfinite(result.flat).all()

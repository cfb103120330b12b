"""How many draws a run that draws hyperparameters makes, and how many kicks its steps take."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.api import pilots
from ornstein.api.drawing import ENOUGH, passes, run_length
from ornstein.planning import planner
from ornstein.planning.plans import Plan
from ornstein.sampling.settings import Run, Status
from support.problems import Floats

_CHAINS = 4


def made(rows: int, kicks: int) -> tuple[orn.Posterior, Plan]:
    """A logistic regression and a plan of tested steps, whose work grows with the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 5))
    post = orn.models.logistic(X, rng.random(rows) < 1 / (1 + np.exp(-X[:, 0])))
    return post, pilots.tested(orn.plan(post, tolerance=None), kicks)


def test_expensive_draws_are_as_many_as_are_enough() -> None:
    post, plan = made(100_000, 16)
    longer, draws = run_length(post, plan, 14.0, _CHAINS, None)
    assert ENOUGH <= _CHAINS * longer * draws / 14 < 1.1 * ENOUGH
    assert draws <= plan.draws


def test_a_short_pilot_leaves_a_margin() -> None:
    post, plan = made(100_000, 16)
    longer, draws = run_length(post, plan, 14.0, _CHAINS, None, effective=40.0)
    assert 2 * ENOUGH <= _CHAINS * longer * draws / 14 < 2.1 * ENOUGH


def test_cheap_draws_are_all_made() -> None:
    post, plan = made(200, 1)
    assert run_length(post, plan, 14.0, _CHAINS, None) == (7, plan.draws)


def test_draws_that_are_given_are_made_with_shorter_strides() -> None:
    post, plan = made(100_000, 16)
    assert run_length(post, plan, 14.0, _CHAINS, 2000) == (2, 2000)
    assert run_length(post, plan, 14.0, _CHAINS, 100) == (7, 100)


def test_draws_that_mix_at_once_are_still_enough_to_be_measured() -> None:
    post, plan = made(100_000, 48)
    longer, draws = run_length(post, plan, 1.0, _CHAINS, None)
    assert (longer, draws) == (1, ENOUGH // _CHAINS)


@pytest.mark.parametrize(("share", "expected"), [(1.0, True), (0.5, False)])
def test_more_kicks_are_of_no_use_where_steps_pass(share: float, expected: bool) -> None:
    _, plan = made(200, 4)
    rng = np.random.default_rng(1)
    independent: Floats = rng.normal(size=(_CHAINS, 200, 5))
    stays = rng.random((_CHAINS, 200)) > share
    for chain, still in zip(independent, stays, strict=True):
        for number in np.flatnonzero(still[1:]) + 1:
            chain[number] = chain[number - 1]
    root = np.linalg.cholesky(plan.predicted_cov)
    done = Run(plan.center + independent @ root.T, Status(True, "ok"), 200, 0.0, {})
    assert passes(plan, done) == expected


def test_a_plan_of_all_rows_is_made_again_without_their_noise() -> None:
    """Where a batch is all rows, a plan under another prior is what it would be if made anew."""
    post, _ = made(300, 1)
    post = post.with_hyper({"prior_precision": 0.5})
    near = planner.plan(post, batch_size=300)
    other = post.with_hyper({"prior_precision": 5.0})
    found, expected = planner.of_all_rows(other, near), planner.plan(other, batch_size=300)
    np.testing.assert_allclose(found.center, expected.center, atol=1e-6)
    np.testing.assert_allclose(found.predicted_cov, expected.predicted_cov, rtol=1e-6)
    assert found.anchor is not None
    assert expected.anchor is not None
    assert found.anchor.seen == expected.anchor.seen
    assert found.batch_size == 300

"""Runs that are refused before they are made, as their draws would not be the posterior's."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein import cli
from ornstein.api.judged import Pilot
from ornstein.api.refusal import RUN_ANYWAY, refuse_wrong
from ornstein.planning import planner

X = np.random.default_rng(0).normal(size=(120, 2))
PLAN = planner.plan(orn.models.logistic(X, X[:, 0] > 0))


def judged(mean: float, mc: float = 0.01, **others: Any) -> orn.Accuracy:
    """An accuracy of two parameters, of which one has that error."""
    error, none, noise = np.array([0.0, mean]), np.zeros(2), np.full(2, mc)
    parts = (error, none, none, noise, noise, noise)
    return orn.Accuracy(*parts, ("a", "b"), draws=500, rows=120, **others)


def undecided() -> orn.Accuracy:
    return judged(np.nan, lowest_curvature=(0.2, 0.6))


def test_wrong_draws_are_refused_with_the_reason_and_the_remedy() -> None:
    with pytest.raises(orn.InaccuratePlanError) as refused:
        refuse_wrong(Pilot(PLAN, judged(0.5)), {"batch_size": 20}, RUN_ANYWAY)
    for said in (str(refused.value), refused.value.reason):
        assert said.startswith("nothing was drawn")
        assert "off by 0.5 posterior standard deviations in b" in said
        assert "use method='nuts', or reparametrise" in said
    assert "orn.plan(post) returns this plan" in str(refused.value)
    assert "orn.plan" not in refused.value.reason


@pytest.mark.parametrize("given", [{"method": "exact"}, {"angle": 0.4}, {"rho": 3.0}])
def test_steps_that_were_chosen_by_hand_are_run(given: dict[str, Any]) -> None:
    refuse_wrong(Pilot(PLAN, judged(0.5)), given, RUN_ANYWAY)


@pytest.mark.parametrize("accuracy", [judged(0.2), judged(0.5, mc=0.2), undecided()])
def test_draws_that_may_be_right_are_not_refused(accuracy: orn.Accuracy) -> None:
    refuse_wrong(Pilot(PLAN, accuracy), {}, RUN_ANYWAY)


def test_chains_that_left_are_refused() -> None:
    left = Pilot(PLAN, None, "a chain of the pilot became non-finite at step 3", left=True)
    with pytest.raises(orn.InaccuratePlanError, match="became non-finite at step 3"):
        refuse_wrong(left, {}, RUN_ANYWAY)


@pytest.mark.pilot
def test_sample_refuses_what_plan_warns_of() -> None:
    """Steps of minibatches that cannot see the edge beyond which there is no density."""

    def log_likelihood(theta: Any, row: Any) -> Any:
        return 3e-4 * jnp.log(1 - theta**2) + 0 * row

    post = orn.Posterior(log_likelihood, lambda theta: 0.0 * theta, np.zeros(30), np.zeros(()))
    with pytest.raises(orn.InaccuratePlanError, match="the pilot's draws are off by"):
        orn.sample(post, batch_size=5)
    plan = orn.plan(post, batch_size=5)
    assert plan.warnings[-1].startswith("the pilot's draws are off by")


def test_the_command_line_says_what_it_has_to_offer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused() -> None:
        raise orn.InaccuratePlanError("nothing was drawn: use method='nuts'.", RUN_ANYWAY)

    monkeypatch.setattr(cli, "app", refused)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "ornstein: nothing was drawn: use --method nuts.\n"

"""Where runs that draw hyperparameters begin: at their pilot's last states (X13)."""

from pathlib import Path

import numpy as np
import pytest

import ornstein as orn
from ornstein.curvature.row_sums import row_losses
from ornstein.results.report.words import figures, plan_in_words
from support.problems import Floats

pytestmark = pytest.mark.pilot


def small() -> orn.Posterior:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    return orn.models.logistic(X, rng.random(100) < 1 / (1 + np.exp(-X[:, 0])))


def of_scikit_learn(name: str) -> orn.Posterior:
    data = getattr(pytest.importorskip("sklearn.datasets"), f"load_{name}")()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    model = orn.models.softmax if name == "iris" else orn.models.logistic
    return model(X, data.target, intercept=True)


def log_likelihoods(result: orn.Result) -> Floats:
    flat = result.flat
    losses = row_losses(result.posterior, flat.reshape(-1, flat.shape[-1]))
    return -losses.reshape(flat.shape[:2])


def first_are_as_the_rest(found: Floats) -> None:
    """No draw is far below where one of a hundred is, and the first fifty lie where others do."""
    median, low = np.quantile(found[:, 50:], [0.5, 0.01])
    assert found.min() > median - 3 * (median - low)
    assert (found[:, :50] < low).mean() < 0.1


def test_X13_draws_begin_where_the_posterior_is() -> None:
    """A class of the iris table is separate; NUTS' lowest of 1,000 draws is -17."""
    result = orn.sample(of_scikit_learn("iris"), hyper="draw", draws=200)
    assert result.status.ok
    found = log_likelihoods(result)
    first_are_as_the_rest(found)
    assert found.min() > -40


@pytest.mark.slow
@pytest.mark.parametrize("key", range(6))
def test_X13_chains_about_a_separate_class_mix(key: int) -> None:
    """Steps of one kick pass their test, and yet stay in a tail for long."""
    summary = orn.sample(of_scikit_learn("iris"), hyper="draw", key=key).summary()
    assert summary["r_hat"].max() < 1.02
    assert summary["ess_bulk"].min() > 400


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lowest"), [("iris", -40.0), ("breast_cancer", -60.0)])
def test_X13_no_draw_of_a_known_table_is_from_a_chains_start(name: str, lowest: float) -> None:
    result = orn.sample(of_scikit_learn(name), hyper="draw")
    found = log_likelihoods(result)
    first_are_as_the_rest(found)
    assert found.min() > lowest
    error = result.plan.predicted_error
    assert error is not None
    assert error.known == "pilot"


def test_X13_a_run_begins_where_its_pilot_ended_on_any_machine(tmp_path: Path) -> None:
    """The record of a run has its starts."""
    post, place = small(), tmp_path / "run"
    first, again = (
        orn.sample(post, hyper="draw", key=2, draws=20, warmup=0, checkpoint=folder)
        for folder in (None, place)
    )
    np.testing.assert_array_equal(first.flat, again.flat)
    ended = orn.sample(post, hyper="draw", key=2, draws=20, warmup=0, checkpoint=place)
    np.testing.assert_array_equal(first.flat, ended.flat)


def test_X13_the_plan_says_how_far_its_pilot_was_off_hyperparameters_included() -> None:
    result = orn.sample(small(), hyper="draw", draws=20)
    error = result.plan.predicted_error
    assert error is not None
    assert error.known == "pilot"
    assert error.mean - 3 * error.mean_mc_error < 0.15
    assert result.plan.thin == result.settings.thin
    words = {name: value for name, value, _ in figures(result, 10.0, None)}
    assert words["predicted error of means"] == f"{error.mean:.2f} sd"


def test_a_plan_without_a_measured_error_shows_no_other_figure_in_its_place() -> None:
    """Of wide starts, which are as wide as asked for, a run has a longer warm-up, too."""
    result = orn.sample(small(), hyper="draw", draws=20, tolerance=None, dispersion=2.0)
    plan = result.plan
    assert plan.predicted_error is None
    assert plan.unmeasured == "tolerance=None"
    shown = next(line for line in figures(result, 10.0, None) if line[0] == "predicted error")
    assert shown == ("predicted error", "not measured", "tolerance=None")
    assert "of the posterior" not in plan_in_words(result, None)[1].split("It aims")[0]
    assert plan.warmup >= 100 * plan.thin
    assert result.settings.dispersion == 2.0

"""Results: summaries, ArviZ, measured divergences and their Monte-Carlo floor."""

import numpy as np
import pytest

import ornstein as orn
from ornstein.results.measure import measured_kl, monte_carlo_floor
from support.problems import features, regression


@pytest.fixture(scope="module")
def result() -> orn.Result:
    X = features(800, 2)
    y = X[:, 0] + np.random.default_rng(0).normal(size=800)
    post = orn.models.linear(X, y, intercept=True, feature_names=["age", "<b>dose</b>"])
    return orn.sample(post, batch_size=80, draws=1500, key=6)


def test_draws_are_named_arrays(result: orn.Result) -> None:
    assert result.draws["coef"].shape == (4, 1500, 2)
    assert result.draws["intercept"].shape == (4, 1500)
    assert isinstance(result.draws["coef"], np.ndarray)


def test_summary_agrees_with_numpy(result: orn.Result) -> None:
    frame = result.summary()
    assert list(frame.index) == ["coef[age]", "coef[<b>dose</b>]", "intercept"]
    flat = result.flat.reshape(-1, 3)
    np.testing.assert_allclose(frame["mean"], flat.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(frame["sd"], flat.std(axis=0, ddof=1), rtol=1e-6)
    assert (frame["r_hat"] < 1.01).all()
    assert (frame["ess_bulk"] > 1500).all()


def test_arviz_keeps_the_column_names(result: orn.Result) -> None:
    data = result.to_arviz()["posterior"]
    assert data["coef"].dims == ("chain", "draw", "coef_column")
    assert data["coef_column"].values.tolist() == ["age", "<b>dose</b>"]
    assert data.attrs["inference_library"] == "ornstein"


def test_measured_kl_is_near_its_floor_for_an_exact_plan(result: orn.Result) -> None:
    value, floor = result.measured_kl()
    assert 0 < floor < 0.01
    assert value < 4 * floor
    np.testing.assert_allclose(result.measured_kl("predicted").value, value, rtol=1e-6)
    wrong = result.measured_kl(2 * np.linalg.inv(result.plan.posterior_precision))
    assert np.isclose(wrong.value, 1.5 * (np.log(2) - 0.5), atol=0.03)


@pytest.mark.parametrize("autocorrelation", [0.0, 0.7])
def test_the_floor_is_the_expected_kl_of_exact_draws(autocorrelation: float) -> None:
    rng = np.random.default_rng(1)
    r = autocorrelation
    values, floors = [], []
    for _ in range(60):
        draws = np.empty((4, 500, 3))
        state = rng.normal(size=(4, 3))
        for t in range(500):
            state = r * state + np.sqrt(1 - r**2) * rng.normal(size=(4, 3))
            draws[:, t] = state
        values.append(measured_kl(draws, np.zeros(3), np.eye(3)).value)
        floors.append(monte_carlo_floor(draws))
    error = np.std(values, ddof=1) / np.sqrt(60)
    assert abs(np.mean(values) - np.mean(floors)) < 4 * error + 0.1 * np.mean(floors)
    if r == 0:
        assert np.isclose(np.mean(floors), (3 * 4 / 4 + 3 / 2) / 2000, rtol=0.1)


def test_a_mean_off_the_target_counts() -> None:
    draws = np.random.default_rng(2).normal(size=(4, 2000, 2)) + np.array([0.5, 0.0])
    assert np.isclose(measured_kl(draws, np.zeros(2), np.eye(2)).value, 0.125, atol=0.02)


def test_a_singular_target_is_infinitely_far() -> None:
    draws = np.random.default_rng(2).normal(size=(2, 50, 2))
    assert measured_kl(draws, np.zeros(2), np.diag([1.0, 0.0])).value == np.inf


def test_wrong_questions_get_clear_answers(result: orn.Result) -> None:
    with pytest.raises(orn.InputError, match="predicted"):
        result.measured_kl("predictd")
    with pytest.raises(orn.InputError, match="3 x 3"):
        result.measured_kl(np.eye(2))
    with pytest.raises(orn.InputError, match="interval"):
        result.summary(interval=1.5)
    few = orn.sample(regression(), batch_size=60, draws=2)
    with pytest.raises(orn.InputError, match="4 draws"):
        few.summary()

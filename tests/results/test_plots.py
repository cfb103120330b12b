"""Pictures show what is there."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein.hyper.learning import interval
from ornstein.results import plots, report
from ornstein.results.noise import simulated
from ornstein.results.plots.agreement import along_modes
from ornstein.results.plots.draws import _clearest
from ornstein.results.plots.style import short
from ornstein.results.report import words
from ornstein.results.report.pictures import SOURCE
from support.problems import as_generic, features, regression
from support.sizes import set_limits


@pytest.fixture(scope="module")
def plain() -> orn.Result:
    """Plain gradients: their noise near the optimum is that at the optimum."""
    return orn.sample(regression(), control_variates=False, batch_size=60, draws=200)


def test_noise_of_simulated_steps_is_the_planned_one(plain: orn.Result) -> None:
    diagnosis = plain.diagnose()
    assert diagnosis.noise is not None
    assert diagnosis.roughest is not None
    planned, drawn, bare = along_modes(plain.plan, diagnosis.noise)
    np.testing.assert_allclose(drawn, planned, rtol=0.05)  # the posterior is narrow
    np.testing.assert_array_equal(drawn, bare)
    flat = plain.flat.reshape(-1, plain.plan.dim)
    with jax.enable_x64(True):
        noise = simulated(plain.posterior, plain.plan, flat, diagnosis.roughest)
        scaled = simulated(plain.posterior, plain.plan, flat, 7 * diagnosis.roughest)
        four = plain.plan.noise_cov.scaled(4)
        louder = replace(plain.plan, geometry=replace(plain.plan.geometry, noise_cov=four))
        quiet = simulated(plain.posterior, louder, flat, diagnosis.roughest)
    error = noise.var() * np.sqrt(2 / len(noise))
    assert abs(noise.var() - 1) < 4 * error + 0.05
    assert abs(noise.mean()) < 4 * noise.std() / np.sqrt(len(noise))
    np.testing.assert_allclose(scaled, noise, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(quiet, noise / 2, rtol=1e-9, atol=1e-12)


def test_noise_is_the_same_for_a_custom_model(plain: orn.Result) -> None:
    own = as_generic(plain.posterior)
    flat = plain.flat.reshape(-1, plain.plan.dim)
    with jax.enable_x64(True):
        one, other = (
            simulated(post, plain.plan, flat, np.ones(plain.plan.dim))
            for post in (plain.posterior, own)
        )
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_draws_that_are_not_iterates_have_no_picture_of_noise() -> None:
    result = orn.sample(regression(), method="laplace", draws=50)
    diagnosis = result.diagnose()
    assert diagnosis.noise is None
    assert plots.gradient_noise(result, diagnosis) == ()


def test_noise_that_second_order_takes_off_whole_has_no_picture() -> None:
    result = orn.sample(regression(), draws=50)
    assert result.plan.anchor is not None
    assert result.plan.anchor.order == 2
    assert plots.gradient_noise(result, result.diagnose()) == ()


def test_spread_is_measured_over_predicted(plain: orn.Result) -> None:
    figure = plots.spread(plain)
    ratio = np.asarray(figure.axes[0].lines[0].get_xdata())
    flat = plain.flat.reshape(-1, plain.plan.dim)
    np.testing.assert_allclose(
        ratio, flat.std(axis=0, ddof=1) / np.sqrt(np.diag(plain.plan.predicted_cov))
    )
    wide = plots.spread(
        replace(plain, flat=plain.plan.center + 2 * (plain.flat - plain.plan.center))
    )
    np.testing.assert_allclose(np.asarray(wide.axes[0].lines[0].get_xdata()), 2 * ratio)


@pytest.mark.parametrize(("columns", "pictures"), [(2, 2), (6, 2)], ids=["apart", "together"])
def test_hyperparameters_end_at_the_learned_values(columns: int, pictures: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, columns))
    y = X @ rng.normal(size=columns) + 0.5 * rng.normal(size=300)
    groups = "columns" if columns > 4 else None
    post = orn.models.linear(X, y, groups=groups)
    learning = orn.sample(post, draws=8, learn_hyper=True).learning
    assert learning is not None
    figures = plots.hyperparameters(learning, post.learnable)
    assert len(figures) == pictures
    low, value, high = interval(learning, post.learnable)
    np.testing.assert_allclose(np.log(value / low), 2 * learning.deviations, rtol=1e-6)
    np.testing.assert_allclose(np.log(high / value), 2 * learning.deviations, rtol=1e-6)
    if columns == 2:
        for figure, label, end in zip(figures, learning.labels, value, strict=True):
            ax = figure.axes[0]
            assert ax.get_title(loc="left") == label
            path = np.asarray(ax.lines[1].get_ydata())
            assert len(path) == len(learning.stages)
            np.testing.assert_allclose(path[-1], end, rtol=0.01)
    else:
        shown = figures[1].axes[0].lines[0].get_xdata()
        np.testing.assert_allclose(np.asarray(shown), value)


def test_many_parameters_show_the_clearest() -> None:
    flat = np.random.default_rng(0).normal(size=(100, 50))
    np.testing.assert_array_equal(_clearest(flat[:, :40]), np.arange(40))
    flat[:, ::2] += 3
    shown = _clearest(flat)
    assert len(shown) == 40
    assert set(range(0, 50, 2)) <= set(shown.tolist())
    assert np.all(np.diff(shown) > 0)


def test_long_names_keep_their_ends() -> None:
    assert short("short") == "short"
    assert short("a" * 50 + "z") == "a" * 14 + "…" + "a" * 12 + "z"
    assert len(short("x" * 99)) == 28


class TestEveryKindOfRun:
    """Pages of runs that miss something; pictures are drawn, not written."""

    @pytest.fixture(autouse=True)
    def _without_svg(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ornstein.results.report.pictures.data_uri", lambda _: f"{SOURCE},")

    def test_laplace(self) -> None:
        page = report.render(orn.sample(regression(), method="laplace", draws=50))
        assert "Method laplace" in page
        assert "Gradient noise" not in page
        assert "Predicted and measured covariance" in page

    def test_kronecker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        set_limits(monkeypatch, dense=8)
        post = orn.models.softmax(features(300, 3), np.arange(300) % 3)
        page = report.render(orn.sample(post, structure="kronecker", draws=50))
        assert "Predicted and measured spread" in page
        assert "error found" not in page

    def test_sandwich(self, plain: orn.Result) -> None:
        other = replace(plain, plan=replace(plain.plan, target="sandwich"))
        assert "aims at the sandwich" in " ".join(words.plan_in_words(other, None))
        assert "aims at the posterior" in " ".join(words.plan_in_words(plain, None))

    def test_too_few_draws_for_covariances(self, plain: orn.Result) -> None:
        page = report.render(replace(plain, flat=plain.flat[:1, :6]), key=3)
        assert "Not measured against the posterior" in page
        assert "Predicted and measured spread" in page
        assert "<dt>key</dt><dd>3</dd>" in page

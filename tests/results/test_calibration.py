"""What ranks say about intervals, in numbers, words and pictures."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

import ornstein as orn
from ornstein._base.types import Vector

RUNS = 200


def of_scores(scores: Vector, failures: tuple[str, ...] = ()) -> orn.Calibration:
    """With truths at these normal scores among the draws."""
    labels = tuple(f"coef[{i}]" for i in range(scores.shape[1]))
    return orn.Calibration(norm.cdf(scores), labels, 500.0, failures)


def scores(seed: int = 0, runs: int = RUNS) -> Vector:
    return np.random.default_rng(seed).normal(size=(runs, 3))


def test_p_values_of_uniform_ranks_are_as_they_should_be() -> None:
    """Of 300 calibrations of right draws: p-values no smaller than uniform, few verdicts wrong."""
    found = [of_scores(scores(seed, 40)) for seed in range(300)]
    assert kstest([c.p_value for c in found], "uniform", alternative="greater").pvalue > 0.01
    wrong = sum(c.verdict != "ok" for c in found)
    assert wrong <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)
    assert sum(c.verdict == "fail" for c in found) <= 6  # 1.5 expected


@pytest.mark.parametrize(
    ("factor", "shift", "words"),
    [
        (1.4, 0.0, "coef[1]: intervals are too narrow, by "),
        (0.7, 0.0, "coef[1]: intervals are too wide, by "),
        (1.0, 0.5, "coef[1]: draws are too low, by 0."),
        (1.0, -0.5, "coef[1]: draws are too high, by 0."),
    ],
)
def test_what_is_wrong_is_said_of_the_right_parameter(
    factor: float, shift: float, words: str
) -> None:
    wrong = scores()
    wrong[:, 1] = factor * wrong[:, 1] + shift
    found = of_scores(wrong)
    assert found.verdict == "fail"
    assert words in found.sentence
    assert "coef[0]" not in found.sentence
    assert found.width[1] == pytest.approx(1 / np.hypot(factor, shift), rel=4 / np.sqrt(2 * RUNS))
    assert found.shift[1] == pytest.approx(-shift, abs=4 * factor / np.sqrt(RUNS))


def test_ranks_of_another_shape_are_seen() -> None:
    """Right in place and width, but never near the middle."""
    wrong = np.sign(scores()) * (0.9 + 0.436 * np.abs(scores(1)) / 2)
    wrong = wrong / np.sqrt((wrong**2).mean(axis=0))
    assert of_scores(wrong).verdict == "fail"


def test_right_ranks_are_called_calibrated() -> None:
    found = of_scores(scores())
    assert found.verdict == "ok"
    assert str(found).startswith("The intervals are calibrated: in 200 simulated data sets")
    assert "would probably have been seen" in str(found)


def test_runs_that_failed_are_told() -> None:
    found = of_scores(scores(), failures=("It diverged.",))
    assert found.verdict == "warn"
    assert found.sentence.endswith("1 of 201 runs failed: It diverged.")


@pytest.mark.parametrize("dim", [1, 4, 12])
def test_the_picture_has_a_histogram_for_each_up_to_nine(dim: int) -> None:
    rng = np.random.default_rng(0)
    figure = of_scores(rng.normal(size=(60, dim))).plot("ranks")
    drawn = [ax for ax in figure.axes if ax.get_visible()]
    assert len(drawn) == min(dim, 9)
    assert drawn[0].patches


@pytest.mark.parametrize("wide", [True, False])
def test_an_error_of_the_resolution_is_seen_four_times_out_of_five(wide: bool) -> None:
    """Or more often: it is the larger of two, and other tests see it, too."""
    runs, repeats = 100, 300
    by = of_scores(scores(runs=runs)).resolution
    seen = 0
    for seed in range(repeats):
        wrong = scores(seed, runs)
        wrong[:, 0] /= 1 + by if wide else 1 - by
        seen += of_scores(wrong).verdict != "ok"
    assert seen / repeats > 0.8 - 3 * np.sqrt(0.8 * 0.2 / repeats)

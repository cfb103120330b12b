"""Simulation-based calibration: right samplers pass, wrong ones do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein._base.types import PyTree, Vector
from ornstein.cli import app

X = np.random.default_rng(0).normal(size=(100, 2))
RUNS = 40


def posts() -> dict[str, orn.Posterior]:
    return {
        "linear": orn.models.linear(X, X[:, 0], noise_scale=0.5, intercept=True),
        "logistic": orn.models.logistic(X, X[:, 0] > 0),
        "softmax": orn.models.softmax(X, np.arange(100) % 3, intercept=True),
        "poisson": orn.models.poisson(X, np.arange(100) % 4, prior_precision=4.0),
    }


@pytest.mark.parametrize("name", posts())
def test_ready_made_models_are_calibrated(name: str) -> None:
    found = orn.calibrate(posts()[name], runs=RUNS, key=3, batch_size=20, progress=False)
    assert found.verdict == "ok", str(found)
    assert found.ranks.shape == (RUNS, posts()[name].dim)
    assert found.draws > 100


def prior(rng: np.random.Generator) -> PyTree:
    return {"mean": rng.normal()}


def simulate(params: PyTree, rng: np.random.Generator) -> orn.Posterior:
    return orn.Posterior(
        lambda p, row: -0.5 * (row - p["mean"]) ** 2,
        lambda p: -0.5 * p["mean"] ** 2,
        params["mean"] + rng.normal(size=20),
        init={"mean": 0.0},
    )


def gaussian(factor: float = 1.0, shift: float = 0.0, alike: int = 1) -> Callable[..., Vector]:
    """Draws of the exact posterior, then not; each repeated ``alike`` times."""

    def draws(post: orn.Posterior, key: int) -> Vector:
        z = np.random.default_rng(key).normal(size=(4, 100, 1))
        sd = 1 / np.sqrt(21)
        return np.repeat(post.data.sum() / 21 + sd * (factor * z + shift), alike, axis=1)

    return draws


def test_any_model_and_any_sampler() -> None:
    found = orn.calibrate((prior, simulate), runs=200, sampler=gaussian())
    assert found.verdict == "ok"
    assert found.labels == ("mean",)


@pytest.mark.parametrize(
    ("factor", "shift", "words"),
    [(1.3, 0.0, "too wide"), (0.75, 0.0, "too narrow"), (1.0, 0.4, "too high")],
)
def test_a_broken_sampler_is_seen(factor: float, shift: float, words: str) -> None:
    found = orn.calibrate((prior, simulate), runs=200, sampler=gaussian(factor, shift))
    assert found.verdict == "fail"
    assert f"mean: {'draws' if shift else 'intervals'} are {words}" in found.sentence


def test_repeated_draws_count_once() -> None:
    """Ranks are among as many draws as these are worth, so they stay uniform."""
    found = orn.calibrate((prior, simulate), runs=200, sampler=gaussian(alike=10))
    assert found.draws < 1000
    assert found.verdict == "ok"


def test_the_same_key_gives_the_same_ranks() -> None:
    runs = [
        orn.calibrate((prior, simulate), runs=20, sampler=gaussian(), key=key) for key in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0].ranks, runs[1].ranks)
    assert (runs[0].ranks != runs[2].ranks).any()


def test_a_run_that_fails_is_counted() -> None:
    draws = gaussian()

    def sometimes(post: orn.Posterior, key: int) -> Vector:
        if key % 4 == 0:
            raise orn.OptimumError("no optimum here.")
        return draws(post, key)

    found = orn.calibrate((prior, simulate), runs=40, sampler=sometimes)
    assert found.runs + len(found.failures) == 40
    assert "runs failed: no optimum here." in found.sentence

    def never(*_: Any) -> Vector:
        raise orn.OptimumError("no optimum here.")

    with pytest.raises(orn.OrnsteinError, match="all 20 runs failed"):
        orn.calibrate((prior, simulate), runs=20, sampler=never)


def weighted() -> orn.Posterior:
    return orn.models.linear(X, X[:, 0], sample_weight=np.full(100, 2.0))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (3, {}, "model must be the posterior of a ready-made model"),
        ((prior,), {}, "model must be"),
        (simulate({"mean": 0.0}, np.random.default_rng(0)), {}, "model is not a ready-made one"),
        (weighted(), {}, "model has row weights"),
        ((prior, simulate), {"runs": 5}, "runs must be"),
        ((prior, simulate), {"sampler": 3}, "sampler must be a function"),
        ((prior, simulate), {"sampler": gaussian(), "draws": 9}, "'draws' is an option of sample"),
        ((prior, simulate), {"sampler": lambda *_: np.zeros(3)}, "sampler must return"),
        ((prior, simulate), {"sampler": lambda *_: np.full((9, 1), np.nan)}, "NaN or infinite"),
        ((prior, simulate), {"checkpoint": "run"}, "checkpoint belongs to one data set"),
        ((prior, lambda *_: 3), {}, "post must be an ornstein Posterior"),
        ((lambda _: {"other": 0.0}, lambda _, rng: simulate({"mean": 0.0}, rng)), {}, "other"),
    ],
)
def test_mistakes_are_named(model: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.calibrate(model, **{"runs": 20, **options})


def test_a_table_is_calibrated_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": rng.normal(size=80), "kind": rng.choice(["a", "b"], size=80)})
    frame["price"] = frame["size"] + rng.normal(size=80)
    frame.to_csv(tmp_path / "houses.csv", index=False)
    place = [str(tmp_path / "houses.csv"), "--target", "price", "--runs", "20", "--quiet"]
    picture = tmp_path / "ranks.png"
    shown = CliRunner().invoke(app, ["calibrate", *place, "-o", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("The intervals are calibrated: in 20 simulated data sets")
    assert picture.stat().st_size > 1000
    wrong = CliRunner().invoke(app, ["calibrate", *place, "-o", str(tmp_path / "ranks.txt")])
    assert isinstance(wrong.exception, orn.InputError)
    assert "--out" in str(wrong.exception)

"""Pilots of rows that stay on disk, and of runs over a mesh."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein.api.pilots import piloted
from ornstein.planning import planner
from ornstein.planning.rules import Rotation
from support.disk_tables import npy

pytestmark = pytest.mark.pilot

PLACES = ("disk", "mesh")


def separable() -> orn.Posterior:
    """Classes that almost never overlap, as in benchmarks/families.py."""
    from benchmarks.families import separable

    return separable()


def placed(place: str, folder: Path) -> tuple[orn.Posterior, dict[str, Any]]:
    """The same posterior with its rows on disk, or for a mesh of one device."""
    post = separable()
    if place == "mesh":
        devices = np.asarray(jax.devices()[:1]).reshape(1, 1)
        return post, {"mesh": jax.sharding.Mesh(devices, ("chains", "rows"))}
    rows = orn.open_rows(npy(folder, np.asarray(post.data["x"])))
    return orn.models.logistic(rows, np.asarray(post.data["y"]), prior_precision=0.1), {}


@pytest.mark.parametrize("place", PLACES)
def test_X12_a_pilot_makes_steps_more_careful_there_too(place: str, tmp_path: Path) -> None:
    post, options = placed(place, tmp_path)
    result = orn.sample(post, draws=20, **options)
    plan, error = result.plan, result.plan.predicted_error
    assert error is not None
    assert error.known == "pilot"
    assert error.mean - 1.5 * error.mean_mc_error < 0.05
    assert error.sd - 1.5 * error.sd_mc_error < 0.05
    assert not any("pilot" in warning for warning in plan.warnings)
    assert plan.batches.scheme == ("blocks" if place == "disk" else "independent")
    assert isinstance(plan.rule, Rotation)
    assert not plan.rule.is_tested


@pytest.mark.parametrize("place", PLACES)
def test_X10_control_variates_are_of_second_order_there_too(place: str, tmp_path: Path) -> None:
    """As in memory; and of first order where that is asked for, or the matrix is not held."""
    post, _ = placed(place, tmp_path)
    given: dict[str, Any] = {} if place == "disk" else {"batches": "independent"}
    plan = planner.plan(post, **given)
    assert plan.anchor is not None
    assert plan.anchor.order == 2
    assert plan.anchored is not None
    assert plan.anchored.hessian is not None
    assert "second order (X10)" in str(plan)
    first = planner.plan(post, control_variates="first", batch_size=plan.batch_size, **given)
    assert first.anchor is not None
    assert first.anchor.order == 1
    ratio = np.trace(plan.noise_cov.dense(10)) / np.trace(first.noise_cov.dense(10))
    assert ratio < 1


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_the_posterior_of_nearly_separate_classes_there_too(place: str, tmp_path: Path) -> None:
    """Against a long NUTS run; without a pilot means were 0.08 off and quantiles 0.2."""
    from benchmarks.references import load

    post, options = placed(place, tmp_path)
    result = orn.sample(post, draws=4000, **options)
    reference = load()["separable"].estimates
    draws = result.flat.reshape(-1, 10)
    mean, sd, low, high = (reference[name].value[:10] for name in ("mean", "sd", "q05", "q95"))
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 0.06
    assert np.abs(draws.std(axis=0) / sd - 1).max() < 0.08
    for share, expected in ((0.05, low), (0.95, high)):
        assert np.abs((np.quantile(draws, share, axis=0) - expected) / sd).max() < 0.13


def test_many_rows_on_disk_have_no_pilot_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ornstein.api.pilots._ALL_ROWS", 1000)
    post, _ = placed("disk", tmp_path)
    plan = piloted(post, planner.plan(post), 0.05, {})
    assert plan.predicted_error is None
    assert plan.unmeasured.startswith("the rows stay on disk, and are many")


def test_batches_of_a_mesh_stay_even() -> None:
    """Devices share every batch evenly: more careful ones are multiples of the plan's."""
    plan = planner.plan(separable(), batches="independent", batch_size=30)
    careful = piloted(separable(), plan, 1e-3, {}, on_mesh=True)
    assert careful.batch_size % 30 == 0

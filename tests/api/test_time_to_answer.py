"""Runs that stop by themselves, and second calls that compile nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein.results.measure import min_ess
from support.problems import SOME_MODELS, regression, zoo


@pytest.mark.parametrize("method", ["exact", "sgd"])
def test_auto_goes_on_until_every_parameter_has_its_sample_size(method: str) -> None:
    post = regression(rows=1000)
    plan = orn.plan(post, method, batch_size=100, control_variates=False)
    result = orn.sample(post, plan, draws="auto", thin=5, target_ess=1500)
    assert min_ess(result.flat) >= 1500
    halved = result.flat[:, : result.flat.shape[1] // 2]
    assert result.flat.shape[1] <= 470 or min_ess(halved) < 1500
    assert result.summary()["ess_bulk"].min() >= 1500


def test_auto_looks_at_the_error_of_a_measured_divergence() -> None:
    post = regression(rows=1000)
    result = orn.sample(post, draws="auto", target_ess=100, target_kl_error=0.002)
    assert result.measured_kl().floor <= 0.002
    loose = orn.sample(post, draws="auto", target_ess=100, target_kl_error=0.02)
    assert loose.flat.shape[1] < result.flat.shape[1]


def test_auto_draws_do_not_depend_on_the_chunks() -> None:
    post = regression(rows=1000)
    plan = orn.plan(post, batch_size=100, control_variates=False)
    runs = [
        orn.sample(post, plan, key=4, draws="auto", target_ess=600, thin=10, chunk=chunk)
        for chunk in (None, 1, 3)
    ]
    assert all(np.array_equal(runs[0].flat, run.flat) for run in runs[1:])


def test_auto_says_when_it_can_not_reach_its_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ornstein.api.request._MOST_NUMBERS", 4 * 3 * 100)
    post = regression(rows=1000)
    with pytest.warns(orn.TargetWarning, match="100 draws a chain did not reach"):
        result = orn.sample(post, draws="auto", target_ess=5000)
    assert result.flat.shape == (4, 100, 3)
    assert result.status.ok


def test_auto_refuses_targets_that_are_none() -> None:
    with pytest.raises(orn.InputError, match="target_ess"):
        orn.sample(regression(), draws="auto", target_ess=0)
    with pytest.raises(orn.InputError, match="target_kl_error"):
        orn.sample(regression(), draws="auto", target_kl_error=-1.0)


def test_draws_are_a_number_or_auto() -> None:
    with pytest.raises(orn.InputError, match="draws"):
        orn.sample(regression(), draws="many")  # type: ignore[call-overload]


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Collects the names of what JAX compiles."""
    seen: list[str] = []

    def listen(event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(f"{event}: {duration_secs} s")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("name", SOME_MODELS)
def test_a_second_call_of_the_same_shape_compiles_nothing(name: str) -> None:
    """Planning, sampling and the summary, on other rows under another key."""
    options = {"batch_size": 40, "draws": 50, "thin": 4}
    with compilations() as first:
        orn.sample(zoo(rows=251)[name], key=1, **options).summary()  # type: ignore[call-overload]
    assert first
    other = zoo(rows=251)[name]
    other.data["x"] = other.data["x"] * 1.1
    with compilations() as second:
        orn.sample(other, key=2, **options).summary()  # type: ignore[call-overload]
    assert second == []

"""Chains: starts, thinning, precision, pytrees, divergence, progress."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein._base.memory import fresh
from ornstein.linalg.operators import Dense
from ornstein.sampling import loop, run, threads
from support.montecarlo import assert_covariance
from support.problems import as_generic, features, regression, zoo


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("name", "anchored"),
    [
        ("linear", True),
        ("softmax", False),
        *(
            pytest.param(n, False, marks=pytest.mark.slow)
            for n in ("linear", "logistic", "poisson")
        ),
    ],
)
def test_generic_models_draw_the_same(name: str, anchored: bool, dtype: str) -> None:
    post = zoo()[name]
    closed, generic = (
        orn.sample(
            p,
            orn.plan(p, batch_size=30, batches="windows", control_variates=anchored),
            key=4,
            draws=60,
            dtype=dtype,
        )
        for p in (post, as_generic(post))
    )
    scale = np.sqrt(np.diag(closed.plan.predicted_cov))
    gap = np.abs(closed.flat - generic.flat) / scale
    assert gap.max() < (1e-6 if dtype == "float64" else 2e-2)


@pytest.mark.parametrize("method", ["exact", "sgd", "momentum", "sgld"])
def test_thinning_keeps_every_nth_iterate(method: str) -> None:
    """The same steps, kept one by one and every fourth: 16 steps a segment in both runs."""
    post = regression(rows=200)
    plan = orn.plan(post, method, batch_size=20, batches="windows")
    every = orn.sample(post, plan, key=3, draws=64, thin=1, warmup=0)
    assert len(np.unique(every.flat[0, :, 0])) == 64
    thinned = orn.sample(post, plan, key=3, draws=16, thin=4, warmup=0)
    assert thinned.flat.shape == (4, 16, 3)
    assert thinned.steps == every.steps == 64
    scale = every.flat.std(axis=(0, 1))
    assert np.abs((thinned.flat - every.flat[:, 3::4]) / scale).max() < 1e-12
    assert np.abs((thinned.flat - every.flat[:, 2::4]) / scale).max() > 1e-3


def test_starts_are_as_dispersed_as_asked() -> None:
    """With a gain of nearly nothing, the first draws are the starts."""
    post = regression(rows=4000, columns=2)
    plan = orn.plan(
        post, batch_size=4, control_variates=False
    )  # a relaxation time of about 500 steps
    for dispersion in (0.0, 1.0, 3.0):
        result = orn.sample(
            post, plan, key=8, chains=600, draws=1, thin=1, warmup=0, dispersion=dispersion
        )
        starts = result.flat[:, 0] - plan.center
        root = np.linalg.cholesky(np.linalg.inv(plan.predicted_cov))
        spread = np.sqrt(np.mean((starts @ root) ** 2))
        assert abs(spread - dispersion) < 0.15


def test_an_overdispersed_start_is_forgotten_after_the_warm_up() -> None:
    post = regression(rows=2000, columns=2)
    plan = orn.plan(post, batch_size=100)
    result = orn.sample(post, plan, key=1, chains=16, draws=400, dispersion=10.0)
    assert_covariance(result.flat, plan.center, plan.predicted_cov)


def test_badly_scaled_columns_in_single_precision() -> None:
    """X8: whitened, centred coordinates make float32 safe at any scale and offset."""
    X = features(1500, 3) * np.array([1e-6, 1.0, 1e6]) + np.array([0.0, 50.0, 0.0])
    y = X @ np.array([1e6, 1.0, 1e-6]) + np.random.default_rng(0).normal(size=1500)
    post = orn.models.linear(X, y, prior_precision=1e-14)
    result = orn.sample(post, key=2, draws=3000, batch_size=100, dtype="float32")
    assert_covariance(
        result.flat, result.plan.center, np.linalg.inv(result.plan.posterior_precision)
    )


def test_random_numbers_in_blocks_serve_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long strides draw their random numbers block by block."""
    monkeypatch.setattr("ornstein.sampling.loop._BULK", 5 * 4)
    post = regression(rows=2000)
    plan = orn.plan(post, batch_size=200)
    result = orn.sample(post, plan, key=3, draws=3000, thin=21)  # in blocks of 3 steps
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    again = orn.sample(post, plan, key=3, draws=3000, thin=21, chunk=3)
    assert np.array_equal(result.flat, again.flat)


def test_of_expensive_draws_few_are_made_beyond_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ornstein.sampling.run._EXPENSIVE", 1.0)
    monkeypatch.setattr("ornstein.sampling.threads._CHUNK_WORK", 1.0)
    post = regression(rows=2000)
    plan = orn.plan(post, batch_size=100, batches="independent")
    result = orn.sample(post, plan, key=4, chains=16, draws=301, warmup=10, thin=3)
    wanted = 12 + 301 * 3  # the warm-up in whole draws
    assert wanted <= result.steps <= wanted + 8 * 3  # 305 draws in 39 chunks of 8
    assert_covariance(result.flat, plan.center, plan.predicted_cov)


def test_parameters_of_any_pytree_come_back_in_shape() -> None:
    X = features(300, 2)
    post = orn.Posterior(
        lambda p, row: -0.5 * (row["y"] - p["layers"][0] @ row["x"] - p["shift"]) ** 2,
        lambda p: -0.5 * (p["layers"][0] @ p["layers"][0] + p["shift"] ** 2),
        {"x": X, "y": X[:, 0]},
        init={"layers": (np.zeros(2),), "shift": 0.0},
    )
    result = orn.sample(post, batch_size=30, draws=30)
    assert result.draws["layers"][0].shape == (4, 30, 2)
    assert result.draws["shift"].shape == (4, 30)
    assert list(result.to_arviz()["posterior"]) == ["layers.0", "shift"]
    assert result.plan.labels == ("layers.0[0]", "layers.0[1]", "shift")


def test_a_diverging_chain_stops_the_run_and_keeps_what_was_good() -> None:
    """A loss that is NaN beyond a wall: a wide start runs into it sooner or later."""

    def wall(params: jnp.ndarray, row: jnp.ndarray) -> jnp.ndarray:
        return -0.5 * (row - params) ** 2 * jnp.where(params < 0.19, 1.0, jnp.nan)

    y = np.random.default_rng(0).normal(size=400)
    y = y - y.mean()  # the posterior's standard deviation is 0.05
    post = orn.Posterior(wall, lambda params: -0.5 * params**2, y, init=np.array(0.0))
    plan = orn.plan(post, batch_size=40)
    with pytest.warns(orn.DivergenceWarning, match="chain"):
        result = orn.sample(post, plan, key=1, draws=60_000, thin=2, dispersion=1.0)
    assert not result.status.ok
    assert np.isfinite(result.flat).all()
    found = re.search(r"chain (\d+) became non-finite at step (\d+)", result.status.message)
    assert found is not None
    assert (result.status.chain, result.status.step) == tuple(map(int, found.groups()))
    # The same run with every iterate kept breaks off at that very step.
    step = result.status.step
    assert step is not None
    steps_kept = result.flat.shape[1] * 2 + _warm_steps(result)
    assert 0 <= step - steps_kept < 2
    assert "stopped" in repr(result)
    assert step < result.steps < 60_000 * 2  # what was made, not what was asked for
    with pytest.warns(orn.DivergenceWarning):
        again = orn.sample(post, plan, key=1, draws=60_000, thin=2, dispersion=1.0, chunk=50)
    assert again.status.step == step
    assert np.array_equal(again.flat, result.flat)


@pytest.mark.parametrize("chunk", [5, None])
def test_a_chain_that_diverges_while_warming_up_is_found_there(chunk: int | None) -> None:
    """No draw is kept, and chain and step are those of the divergence, not of the next chunk."""

    def wall(params: jnp.ndarray, row: jnp.ndarray) -> jnp.ndarray:
        return -0.5 * (row - params) ** 2 * jnp.where(params < 0.19, 1.0, jnp.nan)

    y = np.random.default_rng(0).normal(size=400)
    post = orn.Posterior(wall, lambda params: -0.5 * params**2, y - y.mean(), init=np.array(0.0))
    plan = orn.plan(post, batch_size=40, control_variates=False)
    with pytest.warns(orn.DivergenceWarning):
        kept = orn.sample(post, plan, key=1, draws=40_000, thin=2, warmup=0, dispersion=1.0)
    with pytest.warns(orn.DivergenceWarning):
        warm = orn.sample(
            post, plan, key=1, draws=200, thin=2, warmup=79_600, dispersion=1.0, chunk=chunk
        )
    assert kept.status.step is not None
    assert kept.status.step < 70_000
    assert warm.flat.shape == (4, 0, 1)
    assert (warm.status.chain, warm.status.step) == (kept.status.chain, kept.status.step)


def _warm_steps(result: orn.Result) -> int:
    return -(-result.plan.warmup // 2) * 2


def test_progress_goes_to_standard_error_only_when_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    post = regression(rows=200)
    plan = orn.plan(post, batch_size=50)
    quiet = orn.sample(post, plan, draws=20)
    assert capsys.readouterr().err == ""
    shown = orn.sample(post, plan, draws=20, progress=True)
    captured = capsys.readouterr()
    assert "sampling" in captured.err
    assert captured.out == ""
    assert np.array_equal(quiet.flat, shown.flat)


def test_small_steps_are_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, and the draws are those that many kernels make."""
    programs: list[str] = []
    advance: Any = loop.advance

    def watched(*arguments: Any) -> Any:
        programs.append(advance.lower(*arguments).compile().as_text())
        return advance(*arguments)

    monkeypatch.setattr(threads, "advance", watched)
    post, marked = regression(rows=613), 'inlineable="false",xla_cpu_small_call="true"'
    options: dict[str, Any] = {"batches": "windows", "control_variates": False, "draws": 50}
    one = orn.sample(post, batch_size=40, **options).flat
    assert all(marked in program for program in programs)
    programs.clear()
    orn.sample(post, batch_size=300, **options)
    monkeypatch.setattr(loop, "_SMALL", 0)
    advance.clear_cache()
    many = orn.sample(post, batch_size=40, **options).flat
    assert not any(marked in program for program in programs)
    np.testing.assert_allclose(one, many, rtol=1e-3)
    advance.clear_cache()


def test_pieces_of_chains_become_parameters_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the lengths of pieces and of the products they are mapped in."""
    monkeypatch.setattr(run, "_MAPPED_NUMBERS", 1000)
    rng, root, center = np.random.default_rng(0), np.diag([1.0, 2.0, 3.0]) + 0.5, np.arange(3.0)
    chains = [
        threads.Chain(number, Any, Any, kept=[rng.normal(size=(n, 3)) for n in lengths])  # type: ignore[arg-type]
        for number, lengths in enumerate([(300, 5, 700), (1, 1200)])
    ]
    found, _ = run._gathered(chains, center, Dense(root), 1003)
    for chain, draws in zip(chains, found, strict=True):
        expected = np.concatenate(chain.kept)[:1003] @ root.T + center
        np.testing.assert_allclose(draws, expected, rtol=1e-12)


def test_large_arrays_may_be_written_and_outlive_their_maker() -> None:
    large, small = fresh((3, 2**20), np.int32), fresh((2, 2), np.int32)
    for array in (large, small):
        array[:] = 7
    assert large.shape == (3, 2**20)
    assert large.dtype == small.dtype == np.int32
    assert int(large.sum()) == 7 * 3 * 2**20

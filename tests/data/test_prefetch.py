"""Rows read from disk ahead of the steps: which they are, and what is drawn with them."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import jax
import numpy as np
import pytest
import scipy.stats

import ornstein as orn
from ornstein.curvature import block_noise
from ornstein.data import prefetch
from ornstein.data.batches import Batches
from ornstein.data.on_disk import ahead
from ornstein.data.prefetch import Prefetch
from support.checkpoints_kept import resumed
from support.disk_tables import ROWS, npy, parquet, rows
from support.montecarlo import assert_covariance, rejects_covariance

# Which rows


@pytest.mark.parametrize("scheme", prefetch.SCHEMES)
@pytest.mark.parametrize("shards", [1, 4])
def test_every_row_of_a_shard_is_equally_likely(tmp_path: Path, scheme: str, shards: int) -> None:
    N, steps = 1001, 600
    data = {"x": orn.open_rows(npy(tmp_path, rows(N)))}
    feed = Prefetch(Batches(scheme, N, 32), data, lambda r: r, (1, 2), shards)
    assert prefetch.rows_per_block(data) > 1
    seen = [feed.numbers(c, s, steps, 0) for c in range(2) for s in range(10)]
    assert seen[0].shape == (steps, 32 // shards)
    counts = np.bincount(np.concatenate(seen).ravel(), minlength=N)
    assert not counts[N // shards :].any()
    inside = counts[: N // shards]
    # Rows of a block come together: so many counts are independent.
    free = len(inside) // (prefetch.rows_per_block(data) if scheme == "blocks" else 1)
    assert inside.var() / inside.mean() < scipy.stats.chi2.isf(1e-4, free) / free
    expected = len(seen) * steps * 32 / shards / len(inside)
    assert inside.mean() == pytest.approx(expected)


def test_rows_depend_on_key_chain_segment_and_shard_alone(tmp_path: Path) -> None:
    data = {"x": orn.open_rows(npy(tmp_path, rows()))}
    feed = Prefetch(Batches("blocks", ROWS, 16), data, lambda r: r, (1, 2), 4)
    whole = feed.rows(3, 5, 10)["x"]
    assert whole.shape == (10, 16, 4)
    halves = [feed.rows(3, 5, 10, part)["x"] for part in (range(2), range(2, 4))]
    assert np.array_equal(np.concatenate(halves, axis=1), whole)
    others = [feed.rows(2, 5, 10)["x"], feed.rows(3, 6, 10)["x"]]
    assert not any(np.array_equal(other, whole) for other in others)


def test_blocks_of_rows_in_no_order_are_no_noisier(tmp_path: Path) -> None:
    """X7: the variance of a batch's mean is ``C_S``, and batches of a segment are uncorrelated."""
    array = rows(4000, 1)
    data = {"x": orn.open_rows(npy(tmp_path, array))}
    batches = Batches("blocks", 4000, 20)
    feed = Prefetch(batches, data, lambda r: r, (7,))
    means = np.concatenate([feed.rows(0, s, 50)["x"].mean(axis=(1, 2))[None] for s in range(400)])
    centred = means - array.mean()
    assert centred.var() * 20 / array.var() == pytest.approx(
        20 * batches.noise_factor, abs=4 * np.sqrt(2 / centred.size)
    )
    pooled = centred.mean(axis=1).var() * 20 * 50 / array.var()
    assert pooled == pytest.approx(1, abs=4 * np.sqrt(2 / 400))


def test_the_next_item_is_made_while_one_is_in_use() -> None:
    second = Event()

    def items() -> Any:
        for number in range(4):
            if number == 1:
                second.set()
            yield number
        raise RuntimeError("out of items")

    coming = ahead(items())
    assert next(coming) == 0
    assert second.wait(timeout=60)
    assert [next(coming), next(coming), next(coming)] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="out of items"):
        next(coming)


# Plans and draws


def stored_pair(
    dataset: Callable[[str], Any], folder: Path, kind: str = "npy", name: str = "protein"
) -> tuple[orn.Posterior, orn.Posterior]:
    """A regression in memory and on disk."""
    data = dataset(name)
    X = ((data.X - data.X.mean(axis=0)) / data.X.std(axis=0)).astype(np.float32)
    y = (data.y - data.y.mean()).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    if kind == "npy":
        table = orn.open_rows(npy(folder, X)), orn.open_rows(npy(folder, y, "y.npy"))
    else:
        place = parquet(folder, np.column_stack([X, y]), group=5000)
        names = [f"c{j}" for j in range(X.shape[1])]
        table = orn.open_rows(place, names), orn.open_rows(place, f"c{X.shape[1]}")
    return orn.models.linear(X, y), orn.models.linear(*table)


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_the_plan_is_that_of_rows_in_memory(
    dataset: Callable[[str], Any], tmp_path: Path, kind: str
) -> None:
    memory, disk = stored_pair(dataset, tmp_path, kind)
    assert disk.on_disk
    assert not memory.on_disk
    there = orn.plan(memory, batches="independent")
    here = orn.plan(disk)
    assert here.batches.scheme == "blocks"
    np.testing.assert_allclose(here.center, there.center, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(here.predicted_cov, there.predicted_cov, rtol=1e-7)
    assert not here.warnings
    if kind == "parquet":
        assert disk.labels[0] == "coef[c0]"


@pytest.mark.parametrize("scheme", ["blocks", pytest.param("independent", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["npy", pytest.param("parquet", marks=pytest.mark.slow)])
def test_T2_holds_for_rows_read_from_disk(
    dataset: Callable[[str], Any], tmp_path: Path, kind: str, scheme: str
) -> None:
    _, disk = stored_pair(dataset, tmp_path, kind)
    plan = orn.plan(disk, batches=scheme)
    result = orn.sample(disk, plan, key=3, chains=4, draws=800, dtype="float64")
    assert result.status.ok
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)
    assert all(check.verdict == "ok" for check in result.diagnose().checks if check.name != "model")


@pytest.mark.slow
def test_T2_holds_for_plain_gradients_of_rows_on_disk(
    dataset: Callable[[str], Any], tmp_path: Path
) -> None:
    _, disk = stored_pair(dataset, tmp_path, name="wine")
    plan = orn.plan(disk, method="sgd", batch_size=50)
    result = orn.sample(disk, plan, key=1, chains=4, draws=1200, dtype="float64")
    assert_covariance(result.flat, plan.center, plan.predicted_cov)
    assert rejects_covariance(result.flat, plan.center, 1.3 * plan.predicted_cov)


def test_a_model_of_ones_own_over_rows_on_disk(tmp_path: Path) -> None:
    array = rows(2000, 3)
    y = array @ np.array([1.0, -1.0, 0.5], np.float32)
    data = {"x": orn.open_rows(npy(tmp_path, array)), "y": y.astype(float)}

    def log_likelihood(theta: Any, row: Any) -> Any:
        return -0.5 * (row["y"] - row["x"].astype(theta.dtype) @ theta) ** 2

    post = orn.Posterior(
        log_likelihood, lambda theta: -0.5 * (theta**2).sum(), data, init=np.zeros(3)
    )
    result = orn.sample(post, draws=800, dtype="float64")
    assert post.on_disk
    exact = np.linalg.inv(array.T.astype(float) @ array + np.eye(3))
    np.testing.assert_allclose(np.asarray(result.plan.predicted_cov), exact, rtol=1e-6)
    assert_covariance(result.flat, result.plan.center, result.plan.predicted_cov)


def test_draws_do_not_depend_on_chunks_or_checkpoints(
    dataset: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, disk = stored_pair(dataset, tmp_path)
    del memory
    run: dict[str, Any] = {"batch_size": 32, "draws": 400, "chains": 2, "key": 2}
    whole = orn.sample(disk, **run)
    assert np.array_equal(orn.sample(disk, chunk=1, **run).flat, whole.flat)
    kept = {**run, "checkpoint": tmp_path / "run", "checkpoint_every": 0, "chunk": 1}
    found, times = resumed(monkeypatch, lambda: orn.sample(disk, **kept))
    assert times > 1
    assert np.array_equal(found.flat, whole.flat)
    changed = np.load(tmp_path / "y.npy")
    changed[-1] += 1
    np.save(tmp_path / "y.npy", changed)
    X, y = (orn.open_rows(tmp_path / name) for name in ("rows.npy", "y.npy"))
    with pytest.raises(orn.InputError, match="other data"):
        orn.sample(orn.models.linear(X, y), **kept)


def test_hyperparameters_are_learned_from_disk(
    dataset: Callable[[str], Any], tmp_path: Path
) -> None:
    memory, disk = stored_pair(dataset, tmp_path)
    here, there = (jax.tree.leaves(orn.evidence(post).values) for post in (disk, memory))
    np.testing.assert_allclose(here, there, rtol=1e-4)
    learned = orn.learn(disk, draws=200, chains=2)
    near = jax.tree.leaves(learned.posterior.hyperparameters)
    np.testing.assert_allclose(near, here, rtol=0.2)


def test_neighbours_that_are_alike_are_noticed(tmp_path: Path) -> None:
    """In a table sorted by a column, blocks are far noisier than is planned for."""
    array = rows(20_000, 2)
    array[:, 0] = np.sort(array[:, 0])
    y = array[:, 1] + np.random.default_rng(1).normal(size=len(array)).astype(np.float32)
    post = orn.models.logistic(orn.open_rows(npy(tmp_path, array)), y > 0)
    plan = orn.plan(post)
    assert any("neighbouring rows are alike" in warning for warning in plan.warnings)
    apart = orn.plan(post, batches="independent")
    assert not any("neighbouring" in warning for warning in apart.warnings)
    known = orn.geometry(post, post.layout.unravel(plan.center))
    assert block_noise.noise_ratio(post, known, order=1) > 10
    shuffled = np.random.default_rng(2).permutation(array)
    other = orn.models.logistic(orn.open_rows(npy(tmp_path, shuffled, "b.npy")), y > 0)
    assert block_noise.noise_ratio(other, known, order=1) == pytest.approx(1, abs=0.4)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "windows": ({"batches": "windows"}, "need the rows in memory; from disk, use"),
    "weighted": ({"batches": "weighted"}, "need the rows in memory"),
    "epochs": ({"batches": "epochs"}, "need the rows in memory"),
    "nuts": ({"method": "nuts"}, "needs all rows in memory"),
    "bbvi": ({"method": "bbvi"}, "needs all rows in memory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_memory_is_refused(tmp_path: Path, name: str) -> None:
    options, message = REFUSED[name]
    post = orn.models.linear(orn.open_rows(npy(tmp_path, rows(500))), rows(500)[:, 0])
    with pytest.raises(orn.InputError, match=message):
        orn.plan(post, **options)


def test_other_refusals(tmp_path: Path) -> None:
    X = orn.open_rows(npy(tmp_path, rows(500)))
    with pytest.raises(orn.InputError, match="sample_weight is for rows in memory"):
        orn.models.linear(X, rows(500)[:, 0], sample_weight=np.ones(500))
    with pytest.raises(orn.InputError, match="read from disk"):
        orn.plan(orn.models.linear(rows(500), rows(500)[:, 0]), batches="blocks")
    post = orn.models.linear(X, rows(500)[:, 0])
    with pytest.raises(orn.InputError, match=r"one draw would read .* MiB of rows"):
        orn.sample(post, batch_size=100, thin=200_000, draws=1)
    assert orn.sample(post, method="laplace", draws=50).flat.shape == (4, 50, 4)

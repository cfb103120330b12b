"""Many devices and many processes: the same draws, little traffic, one's own rows only."""

import random
import signal
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ornstein as orn
from ornstein._base import multihost
from ornstein.data import prefetch
from ornstein.data.batches import Batches
from support import mesh_process
from support.montecarlo import Floats, assert_covariance, rejects_covariance
from support.problems import regression, zoo

MESHES = [[1, 1], [1, 2], [1, 4], [2, 2], [4, 1]]
DIM = 3  # of the small regression


def mesh(chains: int = 1, rows: int = 1, names: tuple[str, ...] = ("chains", "rows")) -> Any:
    return jax.sharding.Mesh(np.asarray(jax.devices()).reshape(chains, rows), names)


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Draws over meshes of one to four devices, and what a child said."""
    out = tmp_path_factory.mktemp("mesh") / "draws"
    said = mesh_process.finish(
        [mesh_process.start(devices=4, meshes=MESHES, out=out, traffic=True, misfits=True)]
    )
    return dict(np.load(f"{out}-0.npz")), said[0]


def test_draws_do_not_depend_on_the_number_of_devices(devices: Any) -> None:
    """But for rounding: the same key makes the same batches."""
    draws, said = devices
    assert said["statuses"] == ["ok"] * len(MESHES)
    one = draws["1x1"]
    assert one.shape == (4, 1000, DIM)
    scale = one.std(axis=(0, 1))
    for chains, rows in MESHES[1:]:
        assert np.abs((draws[f"{chains}x{rows}"] - one) / scale).max() < 1e-9


def test_T2_holds_over_a_mesh(devices: Any) -> None:
    draws, _ = devices
    for name in ("1x4", "2x2"):
        assert_covariance(draws[name], draws["center"], draws["cov"])
        assert rejects_covariance(draws[name], draws["center"], 1.2 * draws["cov"])


def test_a_step_exchanges_one_gradient_a_chain(devices: Any) -> None:
    """D numbers for each of a device's chains, once; no rows, and nothing between chains."""
    _, said = devices
    by_mesh = dict(zip(map(tuple, MESHES), _first_of_each(said["traffic"]), strict=True))
    assert by_mesh[1, 2] == by_mesh[1, 4] == [f"f64[4,{DIM}]{{1,0}}"]
    assert by_mesh[2, 2] == [f"f64[2,{DIM}]{{1,0}}"]
    assert all(_elements(shape) == 0 or shape.startswith("f64[1") for shape in by_mesh[4, 1])


def _first_of_each(traffic: list[list[str]]) -> list[list[str]]:
    """One program for each mesh, each of which ran equally many chunks."""
    each = len(traffic) // len(MESHES)
    return traffic[::each]


def _elements(shape: str) -> int:
    return 0 if "[" not in shape else 1


def test_a_mesh_of_one_device_agrees_with_rows_in_memory() -> None:
    """The same plan and starts; other rows, so other draws, of one distribution."""
    post = zoo(rows=4000)["linear"]
    result = orn.sample(post, mesh=mesh(), **mesh_process.RUN)
    assert result.plan.batches.scheme == "independent"
    assert_covariance(result.flat, result.plan.center, np.asarray(result.plan.predicted_cov))
    again = orn.sample(post, result.plan, mesh=mesh(names=("rows", "chains")), **_run())
    assert np.array_equal(again.flat, result.flat)
    short = orn.sample(post, result.plan, mesh=mesh(), chunk=1, **_run())
    assert np.array_equal(short.flat, result.flat)


def _run(**options: Any) -> dict[str, Any]:
    kept = {name: value for name, value in mesh_process.RUN.items() if name != "batch_size"}
    return {**kept, **options}


@pytest.mark.parametrize(
    "method",
    ["sgfs", "sgd", *(pytest.param(m, marks=pytest.mark.slow) for m in ("sghmc", "averaged"))],
)
def test_other_methods_over_a_mesh(method: str) -> None:
    post = zoo(rows=4000)["linear"]
    result = orn.sample(
        post, mesh=mesh(), method=method, batch_size=32, draws=800, key=3, dtype="float64"
    )
    assert result.status.ok
    if method != "sgfs":  # its covariance is only approximately predicted
        assert_covariance(result.flat, result.plan.center, np.asarray(result.plan.predicted_cov))


def test_hyperparameters_are_learned_over_a_mesh() -> None:
    post = regression(rows=400)
    options: dict[str, Any] = {"draws": 100, "chains": 2, "key": 1, "batch_size": 32}
    result = orn.sample(post, learn_hyper=True, mesh=mesh(), **options)
    assert result.learning is not None
    exact = orn.evidence(post).values["noise_scale"]
    assert float(result.learning.values["noise_scale"]) == pytest.approx(float(exact), rel=0.05)


def test_a_checkpoint_over_a_mesh_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.checkpoints_kept import resumed

    post = zoo(rows=4000)["linear"]
    run: dict[str, Any] = {"mesh": mesh(), "batch_size": 32, "draws": 300, "chains": 2}
    kept: dict[str, Any] = {"checkpoint": tmp_path / "run", "checkpoint_every": 0, "chunk": 1}
    found, times = resumed(monkeypatch, lambda: orn.sample(post, **run, **kept))
    assert times > 2
    assert np.array_equal(found.flat, orn.sample(post, **run).flat)
    del run["mesh"]
    with pytest.raises(orn.InputError, match="on_mesh was True, now False"):
        orn.sample(post, **run, **kept)


def test_a_chain_that_diverges_over_a_mesh_is_reported() -> None:
    def log_likelihood(theta: Any, row: Any) -> Any:
        return 1e-3 * jax.numpy.sqrt(3 - theta[0]) - 0.5 * (theta[0] - row) ** 2

    post = orn.Posterior(
        log_likelihood,
        lambda theta: -0.5 * (theta**2).sum(),
        np.random.default_rng(0).normal(size=16),
        init=np.zeros(1),
    )
    with pytest.warns(orn.DivergenceWarning, match="became non-finite at step"):
        result = orn.sample(
            post, mesh=mesh(), batch_size=4, dispersion=100.0, chains=8, draws=400, key=1
        )
    assert result.status.kind == "diverged"
    assert np.isfinite(result.flat).all()
    assert result.status.step is not None
    assert 0 <= result.status.step <= result.steps


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no mesh": (3, {}, "mesh must be a jax.sharding.Mesh, found int"),
    "axis": (("a", "rows"), {}, "has an axis 'a'"),
    "windows": (None, {"batches": "windows"}, "'windows' are not read over a mesh"),
    "nuts": (None, {"method": "nuts"}, "leave mesh out"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_meshes_are_refused(name: str) -> None:
    given, options, message = BAD[name]
    here = mesh() if given is None else mesh(names=given) if isinstance(given, tuple) else given
    with pytest.raises(orn.InputError, match=message):
        orn.sample(regression(rows=240), mesh=here, draws=10, **options)


def test_meshes_that_do_not_fit_are_refused(devices: Any) -> None:
    chains, batch = devices[1]["refusals"]
    assert chains == "InputError: chains=3 must be a multiple of the mesh's 4 chains."
    assert "a batch of 30 of 4000 rows can be cut into 2 parts: use a batch_size" in batch


def test_meshes_of_all_devices() -> None:
    assert orn.distributed.mesh().axis_names == ("chains", "rows")
    with pytest.raises(orn.InputError, match="chains must be a whole number between 1 and 1"):
        orn.distributed.mesh(chains=2)
    with pytest.raises(orn.InputError, match="cannot be joined"):
        orn.distributed.initialize("localhost:1", 2, 1)


@pytest.mark.parametrize(
    ("size", "rows", "shards"),
    [
        (1, 10**6, 1),
        (30, 10**6, 2),
        (48, 10**6, 16),
        (256, 10**6, 64),
        (256, 999, 1),
        (64, 4100, 8),
    ],
)
def test_shards_depend_on_batch_and_table_alone(size: int, rows: int, shards: int) -> None:
    assert prefetch.shards_of(Batches("independent", rows, size)) == shards


def test_one_process_alone_shares_nothing() -> None:
    assert multihost.share(7) == range(7)
    assert multihost.gathered(b"abc") == [b"abc"]
    with multihost.first_alone(orn.InputError) as mine:
        assert mine


# Several processes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table on disk that is longer than what is looked up row by row."""
    folder, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    X = rng.normal(size=(200_000, 3)).astype(np.float32)
    y = rng.uniform(size=len(X)) < 1 / (1 + np.exp(-X @ [0.5, -0.3, 0.2]))
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y.astype(np.int8))
    return {"X": folder / "X.npy", "y": folder / "y.npy"}


@pytest.fixture(scope="module")
def pair(table: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Draws of two processes that nothing interrupts, and what each said."""
    out = table["X"].parent / "pair"
    said = mesh_process.finish(mesh_process.together(out=out, run={"chunk": 1}, **table))
    return [np.load(f"{out}-{i}.npz")["1x-1"] for i in range(2)], said


def test_two_processes_draw_what_one_draws_and_read_their_own_rows(
    tmp_path: Path, table: dict[str, Any], pair: Any
) -> None:
    both, said = pair
    alone = mesh_process.finish([mesh_process.start(devices=2, out=tmp_path / "alone", **table)])
    one = np.load(tmp_path / "alone-0.npz")
    assert np.array_equal(both[0], both[1])
    scale = one["1x-1"].std(axis=(0, 1))
    assert np.abs((both[0] - one["1x-1"]) / scale).max() < 1e-5
    assert_covariance(one["1x-1"], one["center"], one["cov"])
    assert all(each["statuses"] == ["ok"] for each in (*said, *alone))
    half = 100_000
    for process, seen in enumerate(said):
        low, high = process * half, (process + 1) * half
        passes, batches = seen["read"], seen["take"][-40:]  # those of batches come last
        assert len(passes) > 2
        assert low <= min(passes) <= max(passes) < high
        assert low <= min(batches) <= max(batches) < high


def test_two_processes_of_which_one_dies_in_a_write_lose_nothing(
    tmp_path: Path, table: dict[str, Any], pair: Any
) -> None:
    """The first is killed with half of a file written, the other then waits for it in vain."""
    kept = {"chunk": 1, "checkpoint": tmp_path / "run", "checkpoint_every": 0}
    first, other = mesh_process.together(run=kept, die_in_write=4, **table)
    first.communicate(timeout=120)
    assert first.returncode == -signal.SIGKILL
    _kill([other])
    assert len(list((tmp_path / "run").glob(".*.part"))) == 1
    _go_on(tmp_path, kept, table, pair[0][0])


@pytest.mark.slow
def test_two_processes_killed_twenty_times_lose_nothing(
    tmp_path: Path, table: dict[str, Any]
) -> None:
    """Both, at random moments."""
    rng = random.Random(2)
    run = {"draws": 40_000, "chunk": 1}
    kept = {**run, "checkpoint": tmp_path / "run", "checkpoint_every": 0}
    for _ in range(20):
        pair = mesh_process.together(run=kept, announce=True, pause=0.05, **table)
        for child in pair:
            assert child.stdout is not None
            for line in child.stdout:
                if line.strip() == "ready":
                    break
        time.sleep(rng.uniform(0.0, 0.6))
        _kill(rng.sample(pair, 2))
    mesh_process.finish(mesh_process.together(run=run, out=tmp_path / "whole", **table))
    _go_on(tmp_path, kept, table, np.load(tmp_path / "whole-0.npz")["1x-1"])
    assert len(list((tmp_path / "run").glob("draws-*"))) > 20


def _kill(children: list[Any]) -> None:
    for child in children:
        child.kill()
    for child in children:
        child.communicate()
        assert child.returncode < 0  # by us, or by itself once the other has gone


def _go_on(
    tmp_path: Path, kept: dict[str, Any], table: dict[str, Any], uninterrupted: Floats
) -> None:
    """What a pair goes on to is what an uninterrupted one draws, to the last bit."""
    mesh_process.finish(mesh_process.together(run=kept, out=tmp_path / "kept", **table))
    for process in range(2):
        assert np.array_equal(np.load(tmp_path / f"kept-{process}.npz")["1x-1"], uninterrupted)

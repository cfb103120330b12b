"""A run that was stopped goes on, to the very draws of one that was not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import ornstein as orn
from ornstein.api import resuming
from ornstein.linalg.along import AlongBasis, AlongDual
from ornstein.storage import records
from support.checkpoints_kept import contents, resumed
from support.problems import features, regression, zoo

WAYS: dict[str, dict[str, Any]] = {
    "running": {"method": "sgfs", "estimate": "running", "batch_size": 30},
    "auto": {"draws": "auto", "target_ess": 600.0, "chains": 2},
    "learned": {"learn_hyper": True},
    "laplace": {"method": "laplace"},
}
MORE_WAYS: dict[str, dict[str, Any]] = {
    "exact": {},
    "single precision": {"dtype": "float32"},
    "momentum": {"method": "momentum", "batch_size": 10},
    "epochs": {"batches": "epochs", "control_variates": False},
    "diagonal": {"structure": "diagonal"},
    "windows": {"batches": "windows", "control_variates": False},
    "weighted": {"batches": "weighted"},
    "averaged": {"method": "averaged", "batch_size": 60},
    "decreasing": {"method": "sgld", "decay": 0.55, "structure": "diagonal"},
    "hamiltonian": {"method": "sghmc", "batch_size": 30},
    "learned from draws": {"learn_hyper": {"moments": "draws"}},
    "bbvi": {"method": "bbvi"},
}


@pytest.mark.parametrize(
    "way", [*WAYS, *(pytest.param(way, marks=pytest.mark.slow) for way in MORE_WAYS)]
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = regression(rows=240)
    options = {"draws": 96, "chains": 3, "chunk": 1, "key": 5} | {**WAYS, **MORE_WAYS}[way]

    def call() -> orn.Result:
        return orn.sample(post, checkpoint=tmp_path / "run", checkpoint_every=0, **options)

    whole = orn.sample(post, **options)
    found, times = resumed(monkeypatch, call, saves=3)
    assert times > 2 or not whole.plan.is_chain
    assert np.array_equal(found.flat, whole.flat)
    assert (found.steps, found.status) == (whole.steps, whole.status)
    assert str(found.plan) == str(whole.plan)
    if whole.learning is not None:
        assert found.learning is not None
        assert str(found.learning) == str(whole.learning)
        assert str(found.posterior.hyperparameters) == str(whole.posterior.hyperparameters)
    again = call()
    assert np.array_equal(again.flat, whole.flat)
    assert again.seconds == found.seconds
    assert again.path.keys() == whole.path.keys()


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["kronecker", "per-class"])
def test_factors_survive(structure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post = zoo()["softmax"]
    options: dict[str, Any] = {"structure": structure, "draws": 64, "chains": 2, "chunk": 1}
    found, times = resumed(
        monkeypatch,
        lambda: orn.sample(post, checkpoint=tmp_path / "run", checkpoint_every=0, **options),
    )
    assert times > 2
    assert np.array_equal(found.flat, orn.sample(post, **options).flat)
    gain, hessian = found.plan.gain, found.plan.geometry.frame.hessian
    assert isinstance(gain, AlongBasis)
    assert isinstance(hessian, AlongDual)
    assert gain.basis is hessian.basis


def test_a_run_that_has_ended_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = regression(rows=240)
    first = orn.sample(post, draws=40, checkpoint=tmp_path / "run")
    before = contents(tmp_path / "run")
    assert sorted(before) == ["draws-0-00001.orn", "end-0.orn", "run-0.orn"]

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("planned or sampled again")

    monkeypatch.setattr("ornstein.sampling.threads.advance", never)
    monkeypatch.setattr("ornstein.planning.planner.plan", never)
    again = orn.sample(post, draws=40, checkpoint=tmp_path / "run")
    assert np.array_equal(first.flat, again.flat)
    assert contents(tmp_path / "run") == before


def test_a_run_goes_on_with_other_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post = regression(rows=240)
    options: dict[str, Any] = {"draws": 256, "thin": 2, "chains": 3}
    whole, chunks = orn.sample(post, **options), iter([1, 3] * 30)
    found, times = resumed(
        monkeypatch,
        lambda: orn.sample(
            post,
            chunk=next(chunks),
            checkpoint=tmp_path / "run",
            checkpoint_every=0,
            progress=False,
            **options,
        ),
        saves=1,
    )
    assert times > 2
    assert np.array_equal(found.flat, whole.flat)


@pytest.mark.slow
def test_draws_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost is linear: the files together hold every draw once, and little more."""
    sizes = []
    for draws in (512, 1024):
        folder = tmp_path / str(draws)
        resumed(
            monkeypatch,
            lambda draws=draws, folder=folder: orn.sample(  # type: ignore[misc]
                regression(rows=240),
                draws=draws,
                thin=1,
                chunk=1,
                checkpoint=folder,
                checkpoint_every=0,
            ),
            saves=3,
        )
        files = [path for path in folder.iterdir() if path.name.startswith("draws")]
        assert len(files) > 4
        sizes.append(sum(path.stat().st_size for path in files))
        kept = draws * 4 * 3 * 8
        assert kept < sizes[-1] < 1.5 * kept + 2000 * len(files)  # whole chunks are made
    assert sizes[1] < 2.2 * sizes[0]


@pytest.mark.slow
def test_a_divergence_is_recalled(tmp_path: Path) -> None:
    def wall(params: jnp.ndarray, row: jnp.ndarray) -> jnp.ndarray:
        return -0.5 * (row - params) ** 2 * jnp.where(params < 0.19, 1.0, jnp.nan)

    y = np.random.default_rng(0).normal(size=400)
    y = y - y.mean()
    post = orn.Posterior(wall, lambda params: -0.5 * params**2, y, init=np.array(0.0))
    plan = orn.plan(post, batch_size=40)
    found = []
    for folder in (None, tmp_path / "run", tmp_path / "run"):
        with pytest.warns(orn.DivergenceWarning):
            found.append(
                orn.sample(
                    post, plan, key=1, draws=60_000, thin=2, dispersion=1.0, checkpoint=folder
                )
            )
    assert found[0].status.kind == "diverged"
    for one in found[1:]:
        assert one.status == found[0].status
        assert np.array_equal(one.flat, found[0].flat)


# Refused -----------------------------------------------------------------------------------------

X = features(200, 2)
Y = X[:, 0] + np.sin(np.arange(200.0))
GIVEN: dict[str, Any] = {"draws": 24, "chains": 2, "key": 3, "batch_size": 20}

CHANGED: dict[str, dict[str, Any]] = {
    "draws": {"draws": 25},
    "chains": {"chains": 3},
    "key": {"key": 4},
    "thin": {"thin": 3},
    "warmup": {"warmup": 3},
    "dispersion": {"dispersion": 1.0},
    "dtype": {"dtype": "float32"},
    "plan_options.batch_size": {"batch_size": 21},
    "plan_options.rho": {"rho": 2.0},
    "learn_hyper": {"learn_hyper": True},
    "on_divergence": {"on_divergence": "restart"},
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "run"
    orn.sample(orn.models.linear(X, Y), checkpoint=folder, **GIVEN)
    return folder


@pytest.mark.parametrize("name", CHANGED)
def test_other_arguments_are_refused_by_name(ended: Path, name: str) -> None:
    before = contents(ended)
    with pytest.raises(orn.InputError, match=rf"other arguments: .*{name}.* was .*, now "):
        orn.sample(orn.models.linear(X, Y), checkpoint=ended, **{**GIVEN, **CHANGED[name]})
    assert contents(ended) == before


def test_other_data_is_refused_by_its_fingerprint(ended: Path) -> None:
    other = Y.copy()
    other[117] += 1e-9
    for X_now, y_now, named in (
        (X, other, r"data.y.digest was '\w+', now '\w+'"),
        (X[:-1], Y[:-1], r"shape\[0\] was 200, now 199"),
        (X.astype(np.float32), Y, r"dtype was '<f8', now '<f4'"),
    ):
        with pytest.raises(orn.InputError, match=f"other data: .*{named}"):
            orn.sample(orn.models.linear(X_now, y_now), checkpoint=ended, **GIVEN)
    with pytest.raises(orn.InputError, match=r"fixed.prior_precision"):
        orn.sample(orn.models.linear(X, Y, prior_precision=2.0), checkpoint=ended, **GIVEN)


def test_another_model_or_plan_is_refused(tmp_path: Path) -> None:
    def own(power: float) -> orn.Posterior:
        return orn.Posterior(
            lambda p, row: -0.5 * jnp.abs(row["y"] - p @ row["x"]) ** power,
            lambda p: -0.5 * p @ p,
            {"x": X, "y": Y},
            init=np.zeros(2),
        )

    post, folder = own(2.0), tmp_path / "run"
    plan = orn.plan(post, "laplace")
    for _ in range(2):
        orn.sample(post, plan, draws=8, checkpoint=folder)
    with pytest.raises(orn.InputError, match="another model: losses of its first rows were"):
        orn.sample(own(2.1), plan, draws=8, checkpoint=folder)
    other = orn.plan(post, "laplace", "diagonal")
    with pytest.raises(orn.InputError, match=r"another plan: it was Plan\(.*now Plan\("):
        orn.sample(post, other, draws=8, checkpoint=folder)
    with pytest.raises(orn.InputError, match="plan_given was True, now False"):
        orn.sample(post, draws=8, checkpoint=folder)


@pytest.mark.slow
def test_plans_come_back_to_the_last_bit() -> None:
    for name in ("linear", "softmax"):
        post = zoo()[name]
        plan = orn.plan(post, batch_size=30)
        read = records.unpack(records.pack(plan))
        again = replace(read, layout=post.layout, model=post.model)
        assert str(again) == str(plan)
        assert again.to_json() == plan.to_json()
        assert np.array_equal(again.predicted_cov, plan.predicted_cov), name
        assert again.memory == plan.memory


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": 3}, "checkpoint must be the path of a folder"),
        ({"checkpoint_every": 1.0}, "give checkpoint="),
        ({"checkpoint": "x", "checkpoint_every": -1}, "checkpoint_every must be"),
        ({"on_divergence": "retry"}, "Did you mean 'restart'"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.sample(regression(), draws=4, **options)


def test_folders_of_something_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(orn.InputError, match="is a file"):
        orn.sample(regression(), draws=4, checkpoint=tmp_path / "file")
    with pytest.raises(orn.InputError, match=r"holds 'file', which is not part"):
        orn.sample(regression(), draws=4, checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["draws", "jax", "numpy", "machine"])
def test_versions_that_differ_are_told(
    ended: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    here = resuming._versions() | {name: "9"}
    monkeypatch.setattr(resuming, "_versions", lambda: here)
    with pytest.warns(orn.CheckpointWarning, match=f"begun elsewhere: {name} was .* now '9'"):
        orn.sample(orn.models.linear(X, Y), checkpoint=ended, **GIVEN)

"""ArviZ of any version: what it is given, its own measures, and the files it opens."""

from importlib import metadata
from pathlib import Path

import arviz
import numpy as np
import pytest
import xarray

import ornstein as orn
from ornstein.results.arviz import as_installed, ess, rhat, to_tree


@pytest.fixture(scope="module")
def result() -> orn.Result:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    post = orn.models.softmax(X, rng.integers(0, 3, size=60), feature_names=["age", "dose"])
    return orn.sample(post, draws=40, batch_size=10)


def test_draws_come_as_the_installed_version_has_them(result: orn.Result) -> None:
    made = result.to_arviz()
    kind = arviz.InferenceData if metadata.version("arviz")[0] == "0" else xarray.DataTree
    assert type(made) is kind
    coef = made["posterior"]["coef"]
    assert coef.dims == ("chain", "draw", "coef_dim_0", "coef_column")
    assert coef["coef_column"].values.tolist() == ["age", "dose"]
    assert np.array_equal(coef.values, result.draws["coef"])
    assert made["posterior"].attrs["inference_library"] == "ornstein"


@pytest.mark.parametrize("version", [None, "1.3.0"])
def test_without_arviz_or_with_a_new_one_the_tree_itself(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    tree = to_tree({"posterior": {"a": np.zeros((2, 5))}})
    monkeypatch.setattr(metadata, "version", installed)
    assert as_installed(tree) is tree


def test_measures_are_those_of_arviz(result: orn.Result) -> None:
    own = result.summary()
    theirs = arviz.summary(result.to_arviz(), round_to="none")
    assert own.index.tolist() == theirs.index.tolist()
    shared = ["mean", "sd", "mcse_mean", "ess_bulk", "r_hat"]  # tails are 5.5 % in 1.x, 5 % in 0.x
    found = np.asarray(theirs[shared], float)
    np.testing.assert_allclose(own[shared].to_numpy(), found, rtol=1e-12)


def test_draws_that_never_move_have_no_r_hat() -> None:
    still = np.ones((4, 20, 1))
    assert np.isnan(rhat(still)).all()
    assert ess(still).shape == (1,)


def test_files_open_in_arviz_whoever_wrote_them(result: orn.Result, tmp_path: Path) -> None:
    ours = result.save(tmp_path / "run") / "draws.nc"
    theirs = tmp_path / "arviz.nc"
    result.to_arviz().to_netcdf(str(theirs), engine="h5netcdf")
    for path in (ours, theirs):
        opened = arviz.from_netcdf(str(path))["posterior"]
        assert np.array_equal(opened["coef"].values, result.draws["coef"])
        with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as found:
            assert found["coef"].coords["coef_column"].values.tolist() == ["age", "dose"]

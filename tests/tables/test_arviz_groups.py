"""What draws.nc has beside draws: ArviZ scores rows and pictures them by it."""

import warnings
from pathlib import Path
from typing import Any

import arviz
import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray

from ornstein import tables
from ornstein.results import predictive

newest: Any = arviz_stats
installed: Any = arviz


def houses(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size, town = rng.uniform(20, 200, rows), rng.choice(["Bonn", "Köln"], rows)
    sold = rng.uniform(size=rows) < 0.3 + 0.4 * (town == "Köln")
    return pd.DataFrame(
        {
            "size": size,
            "town": town,
            "price $": 1000 + 30 * size + 500 * (town == "Köln") + 200 * rng.normal(size=rows),
            "sold": np.where(sold, "y", "n"),
            "visits": rng.poisson(np.exp(0.5 + 0.01 * size)),
            "kind": np.where(size + 20 * rng.normal(size=rows) > 140, "villa", town),
        }
    )


LOO = [("price $", "linear"), ("sold", None), ("visits", "poisson"), ("kind", None)]


@pytest.mark.parametrize(("target", "family"), LOO)
def test_kept_draws_have_what_arviz_compares_them_with(
    tmp_path: Path, target: str, family: str | None
) -> None:
    """So that az.loo works, and its density is that of targets in their own unit."""
    table = houses(1200).rename(columns={target: f"{target}/a"})
    quick: dict[str, Any] = {"method": "laplace", "hyper": "learn", "draws": 300}
    model = tables.fit_table(tables.learn(table, f"{target}/a", family), **quick)
    kept = arviz.from_netcdf(str(model.save(tmp_path / "run") / "draws.nc"))
    assert kept["log_likelihood"]["target"].shape == (4, 250, 1000)
    assert kept["log_likelihood"].attrs["rows"] == "1,000 of 1,200, evenly spaced"
    rows = kept["observed_data"]["row"].values
    y = model.encoding.encode_target(table)[rows] * model.encoding.target.scale
    np.testing.assert_allclose(kept["observed_data"]["target"], y + model.encoding.target.centre)
    simulated = kept["posterior_predictive"]["target"].values
    observed = kept["observed_data"]["target"].values
    assert abs(simulated.mean() - observed.mean()) < 0.1 * observed.std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that stand out
        found = arviz.loo(kept)
    score = predictive.log_score(
        model.draws, model.encoding.encode(table)[rows], y=y / model.encoding.target.scale
    )
    in_sample = score.sum() - len(rows) * np.log(model.encoding.target.scale)
    elpd = found.elpd if hasattr(found, "elpd") else found.elpd_loo  # of ArviZ 1.x and 0.x
    assert in_sample - 40 < elpd < in_sample


@pytest.mark.parametrize("target", ["sold", "kind"])
def test_rows_that_are_certain_have_scores_in_arviz(tmp_path: Path, target: str) -> None:
    """Of a row far from the border all draws give its class a probability of 1 in 1e16."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300)})
    edges = [0.0] if target == "sold" else [-0.4, 0.4]
    frame[target] = np.array(list("abc"))[
        np.digitize(frame["x"] + 0.1 * rng.normal(size=300), edges)
    ]
    frame.loc[:9, ["x", target]] = [30.0, frame[target].max()]
    quick: dict[str, Any] = {"method": "laplace", "prior_precision": 0.01, "draws": 300}
    model = tables.fit_table(tables.learn(frame, target), **quick)
    certain = model.encoding.encode(frame[:1])
    density = predictive.log_density(model.draws, certain, model.encoding.encode_target(frame[:1]))
    assert density.max() < 0
    assert np.median(density) > -1e-16
    path, ours = model.save(tmp_path / "run") / "draws.nc", model.kept_loo
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rows near the border
        found = arviz.loo(arviz.from_netcdf(str(path)), pointwise=True)
        again = newest.loo(xarray.open_datatree(path), pointwise=True)
    elpd = found.elpd if hasattr(found, "elpd") else found.elpd_loo
    for score, k in ((elpd, found.pareto_k), (again.elpd, again.pareto_k)):
        assert score == pytest.approx(ours.elpd, abs=0.5)
        assert np.max(k.values[:10]) < 0.5
    assert ours.pareto_k[:10].max() < 0.5
    np.testing.assert_allclose(again.pareto_k[10:], ours.pareto_k[10:], atol=0.3)


def test_draws_are_pictured_beside_the_rows_by_arviz(tmp_path: Path) -> None:
    for target, family in (LOO[0], LOO[-1]):
        learned = tables.learn(houses(400)[["size", "town", target]], target, family)
        model = tables.fit_table(learned, method="laplace", hyper="learn", draws=20)
        folder = model.save(tmp_path / target.strip(" $"))
        kept = arviz.from_netcdf(str(folder / "draws.nc"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ArviZ 0.x with the newest matplotlib
            picture = getattr(installed, "plot_ppc", None) or installed.plot_ppc_dist
            assert picture(kept) is not None
    plt.close("all")

"""Effects, checks, scores and R-squared of models of tables, in Python and by command."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.results import plots
from ornstein.tables import TableModel


def flats(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size, town = rng.uniform(20, 120, rows), rng.choice(["Bonn", "Köln", "Ulm"], rows)
    offers = rng.integers(1, 30, rows)
    chance = 1 / (1 + np.exp(-(size - 70) / 30 - 0.8 * (town == "Ulm")))
    return pd.DataFrame(
        {
            "size": size,
            "town": town,
            "price": 10 + 3 * size + 20 * (town == "Köln") + 15 * rng.normal(size=rows),
            "offers": offers,
            "taken": rng.binomial(offers, chance),
        }
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return flats()


@pytest.fixture(scope="module")
def linear(frame: pd.DataFrame) -> TableModel:
    return tables.fit_table(tables.learn(frame[["size", "town", "price"]], "price"), draws=250)


@pytest.fixture(scope="module")
def binomial(frame: pd.DataFrame) -> TableModel:
    formula = "p(taken, offers) ~ poly(size, 2) * town + offset(0.01 * offers)"
    return tables.fit_table(tables.learn_formula(frame, formula), draws=250)


@pytest.fixture(scope="module")
def runs(frame: pd.DataFrame, linear: TableModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of two models of the same prices, and the table."""
    home = tmp_path_factory.mktemp("runs")
    frame.to_csv(home / "flats.csv", index=False)
    linear.save(home / "linear")
    tables.fit_table(tables.learn_formula(frame, "price ~ town"), draws=250).save(home / "town")
    return home


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, orn.OrnsteinError), done.exception
    return done.exit_code, done.stdout, f"{done.stderr}{done.exception or ''}"


def test_effects_of_a_linear_model_are_its_coefficients(
    frame: pd.DataFrame, linear: TableModel
) -> None:
    found, summary = linear.marginal_effects(frame), linear.summary()
    names = [("size", "slope"), ("town", "Köln - Bonn"), ("town", "Ulm - Bonn")]
    assert found.index.tolist() == names
    coefs = summary["mean"][["size", "town=Köln", "town=Ulm"]]
    sds = summary["sd"][["size", "town=Köln", "town=Ulm"]]
    # By 400 of 1,000 draws.
    assert (np.abs(found["mean"].to_numpy() - coefs.to_numpy()) < 0.25 * sds.to_numpy()).all()
    curve = linear.conditional_effects(frame, ["size"])
    slope = np.diff(curve["mean"]) / np.diff(curve["value"].astype(float))
    assert slope.tolist() == pytest.approx([found.loc[names[0], "mean"]] * 49, rel=1e-3)
    at_mean = frame["size"].mean() * coefs["size"] + summary["mean"]["intercept"]
    middle = np.interp(frame["size"].mean(), curve["value"].astype(float), curve["mean"])
    assert middle == pytest.approx(at_mean, rel=0.01)


def test_effects_of_a_formula(frame: pd.DataFrame, binomial: TableModel) -> None:
    """Shares of successes; interacting columns have a picture, those of an offset none."""
    found = binomial.conditional_effects(frame)
    assert found["term"].unique().tolist() == ["size", "town", "size:town"]
    assert found["mean"].between(0, 1).all()
    curve = found[(found["term"] == "size:town") & (found["beside"] == "Ulm")]
    truth = 1 / (1 + np.exp(-(curve["value"].astype(float) - 70) / 30 - 0.8))
    assert np.abs(curve["mean"] - truth).max() < 0.15
    slope = binomial.marginal_effects(frame, ["size"])["mean"].iloc[0]
    eta = (frame["size"] - 70) / 30 + 0.8 * (frame["town"] == "Ulm")
    p = 1 / (1 + np.exp(-eta))
    assert slope == pytest.approx((p * (1 - p) / 30).mean(), rel=0.1)
    assert len(plots.conditional_effects(found, "taken")) == 3
    assert plots.steepest_terms(found, 1) == ["size:town"]
    with pytest.raises(orn.InputError, match="no term 'siz'"):
        binomial.conditional_effects(frame, ["siz"])


def test_rows_of_the_fit_or_of_its_table(
    frame: pd.DataFrame, linear: TableModel, binomial: TableModel, tmp_path: Path
) -> None:
    for model in (linear, binomial):
        pd.testing.assert_frame_equal(model.predictive_checks(), model.predictive_checks(frame))
        pd.testing.assert_series_equal(model.r2(), model.r2(frame))
        assert model.loo().elpd == pytest.approx(model.loo(frame).elpd)
    assert binomial.loo().observed.tolist() == frame["taken"].tolist()
    loaded = TableModel.load(linear.save(tmp_path / "run"))
    assert loaded.loo(frame).elpd == pytest.approx(linear.loo().elpd)
    with pytest.raises(orn.InputError, match="give the table"):
        loaded.loo()


def test_scores_are_in_the_unit_of_the_target(frame: pd.DataFrame, linear: TableModel) -> None:
    """Near the density of residuals of least squares."""
    design = np.column_stack([np.ones(400), frame["size"], pd.get_dummies(frame["town"])])
    residual = frame["price"] - design @ np.linalg.lstsq(design.astype(float), frame["price"])[0]
    expected = scipy.stats.norm.logpdf(residual, scale=residual.std()).sum() - 5
    found = linear.loo()
    assert found.elpd == pytest.approx(expected, abs=3)
    assert 4 < found.p_loo < 7
    assert found.observed.tolist() == pytest.approx(frame["price"].tolist())
    r2 = 1 - residual.var() / frame["price"].var()
    assert linear.r2()["mean"] == pytest.approx(r2, abs=0.01)


def test_censored_rows_are_not_checked(frame: pd.DataFrame) -> None:
    waits = frame.assign(time=frame["price"], event=(frame["offers"] > 5).astype(int))
    model = tables.fit_table(tables.learn_formula(waits, "Surv(time, event) ~ size"), draws=50)
    with pytest.raises(orn.InputError, match="censored"):
        model.predictive_checks()
    assert model.loo().num_rows == 400


def test_commands(runs: Path, frame: pd.DataFrame, linear: TableModel) -> None:
    marginal, curves, plot = (runs / name for name in ("m.csv", "c.csv", "e.png"))
    code, out, err = run(
        *("effects", runs / "linear", runs / "flats.csv", "--out", marginal),
        *("--conditional", curves, "--plot", plot),
    )
    assert code == 0, err
    assert "Köln - Bonn" in out
    found = pd.read_csv(marginal, index_col=["term", "contrast"])
    pd.testing.assert_frame_equal(found, linear.marginal_effects(frame))
    assert pd.read_csv(curves)["term"].unique().tolist() == ["size", "town"]
    assert (runs / "e-1.png").stat().st_size > 1000
    assert (runs / "e-2.png").exists()
    code, out, err = run("compare-models", runs / "linear", runs / "town", "--json")
    assert code == 0, err
    lines = json.loads(out)
    assert list(lines) == ["linear", "town"]
    assert lines["town"]["elpd_diff"] < -100
    assert lines["linear"]["weight"] > 0.95
    code, out, _ = run("compare-models", runs / "town", runs / "linear")
    assert code == 0
    assert out.index("linear") < out.index("town")


def test_clusters_by_a_column(tmp_path: Path) -> None:
    """Rows that lack values count for none; the column predicts nothing by itself."""
    rng = np.random.default_rng(1)
    town = np.repeat(np.arange(50), 8)
    table = pd.DataFrame({"x": rng.normal(size=50)[town], "town": [f"t{i}" for i in town]})
    table["y"] = table["x"] + rng.normal(size=50)[town] + rng.normal(size=400)
    table.loc[[3, 77], "x"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    sds = {}
    for name, given in {"with": ["--clusters", "town"], "without": ["--drop", "town"]}.items():
        given += ["--target", "y", "--missing", "drop", "--out", str(tmp_path / name)]
        code, out, err = run("fit", tmp_path / "t.csv", "--json", "--hyper", "learn", *given)
        assert code == 0, err
        assert list(json.loads(out)) == ["x", "intercept"]
        sds[name] = json.loads(out)["x"]["sd"]
    assert sds["with"] > 1.5 * sds["without"]
    assert not (tmp_path / "with" / "loo.record").exists()
    assert "50 clusters taken as dependent" in (tmp_path / "with" / "report.html").read_text()
    encoded = tables.learn(table, "y", drop=["town"], missing="drop")
    clusters = tables.row_clusters(encoded.encoding, table, "town")
    assert len(clusters) == 398
    fitted = tables.fit_table(encoded, clusters=clusters, draws=100, hyper="learn")
    assert fitted.summary()["sd"]["x"] == pytest.approx(sds["with"], rel=0.15)
    with pytest.raises(orn.InputError, match="need draws of the posterior"):
        fitted.loo()
    with pytest.raises(orn.InputError, match="lacks the cluster of 7 rows"):
        tables.row_clusters(
            encoded.encoding, table.assign(town=table["town"].mask(town < 1)), "town"
        )


def test_commands_refuse(runs: Path, frame: pd.DataFrame) -> None:
    assert "given twice" in run("compare-models", runs / "town", runs / "town")[2]
    assert "Fit again" in run("compare-models", runs / "town", runs / "nowhere")[2]
    assert "no term" in run("effects", runs / "town", runs / "flats.csv", "--term", "size")[2]
    other = tables.fit_table(tables.learn_formula(frame[:300], "price ~ size"), draws=50)
    other.save(runs / "fewer", overwrite=True)
    assert "has 400 rows, the second 300" in run("compare-models", runs / "town", runs / "fewer")[2]

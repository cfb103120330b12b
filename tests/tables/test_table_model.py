"""From a table to a folder to predictions, in Python and on the command line."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.data.datasets import Dataset
from ornstein.estimators import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BayesianPoissonRegressor,
)
from ornstein.results import predictive
from ornstein.results.answers import QUESTIONS
from ornstein.results.predictive import Coefficients
from ornstein.storage.folders import write_folder
from ornstein.tables import TableModel, fit_tables
from ornstein.tables.model import FILES

Load = Callable[[str], Dataset]


def houses(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, town = rng.uniform(20, 200, rows), rng.choice(["Bonn", "Köln"], rows)
    price = 1000 + 30 * size + 500 * (town == "Köln") + 200 * rng.normal(size=rows)
    sold = rng.uniform(size=rows) < 0.3 + 0.4 * (town == "Köln")
    return pd.DataFrame(
        {
            "size <b>": size,
            "town": town,
            "price $": price,
            "sold": np.where(sold, "y", "n"),
            "visits": rng.poisson(np.exp(0.5 + 0.01 * size)),
            "kind": np.where(size + 20 * rng.normal(size=rows) > 140, "villa", town),
        }
    )


def run(*arguments: str) -> tuple[int, str, str]:
    """The command, which keeps no rows aside: that has tests of its own."""
    beside = ("--holdout", "0") if arguments[0] == "fit" else ()
    done = CliRunner().invoke(app, [*arguments, *beside])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        assert isinstance(done.exception, orn.OrnsteinError | OSError), done.exception
    return done.exit_code, done.stdout, f"{done.stderr}{done.exception or ''}"


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("price $", "linear"),
        ("sold", "logistic"),
        pytest.param("visits", "poisson", marks=pytest.mark.slow),
        pytest.param("kind", "softmax", marks=pytest.mark.slow),
    ],
)
def test_fit_and_predict_from_the_command_line(tmp_path: Path, target: str, model: str) -> None:
    houses().to_csv(tmp_path / "table.csv", index=False)
    houses(50, seed=1).drop(columns=[target]).to_csv(tmp_path / "new.csv", index=False)
    folder = tmp_path / "run"
    counts = ("--model", "poisson") if target == "visits" else ()
    code, _, said = run(
        *("fit", f"{tmp_path}/table.csv", "-t", target, "-o", str(folder), "--draws", "200"),
        *("--predict", f"{tmp_path}/new.csv", "--interval", "0.8", *counts),
    )
    assert code == 0, said
    assert f"50 rows predicted: {folder}/predictions.csv" in said
    assert (f"Fitting a {model} model" in said) == (not counts)
    assert "Drawn with the coefficients (median, 90% interval): prior precision" in said
    assert ("noise scale" in said) == (model == "linear")
    kept = json.loads((folder / "table.json").read_text())["hyperparameters"]
    assert kept["prior_precision"]["learned"]
    assert sorted(os.listdir(folder)) == sorted({*FILES} - {"plan.txt"})
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "run", "table.csv"]
    assert "coef" in arviz.from_netcdf(str(folder / "draws.nc"))["posterior"]
    assert json.loads((folder / "plan.json").read_text())["method"] == "rotation"
    summary = pd.read_csv(folder / "summary.csv")
    assert len(summary) >= 3
    assert {"low 80%", "high 80%"} <= set(summary)
    code, shown, _ = run("predict", str(folder), f"{tmp_path}/new.csv")
    assert code == 0
    assert len(shown.strip().splitlines()) == 51
    code, _, _ = run(
        *("predict", str(folder), f"{tmp_path}/new.csv", "-o", f"{tmp_path}/out.csv"),
        *("--interval", "0.8"),
    )
    found = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(found, pd.read_csv(folder / "predictions.csv"))
    if model in ("logistic", "softmax"):
        assert np.allclose(found.filter(like="p(").sum(axis=1), 1.0)
        assert set(found["predicted"]) <= set(houses()[target])
    else:
        assert (found["low 80%"] <= found["mean"]).all()
        assert (found["mean"] <= found["high 80%"]).all()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda new: new.drop(columns="town"), (), r"new.csv: .*'town'"),
        (lambda new: new.assign(town="Ulm"), (), r"new.csv: .*'Ulm'"),
        (lambda new: new.assign(**{"size <b>": "big"}), (), r"new.csv: .*'size <b>'"),
        (lambda new: new, ("--interval", "1.5"), r"interval must lie between 0 and 1"),
    ],
)
def test_rows_to_predict_are_looked_at_before_sampling(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    options: tuple[str, ...],
    message: str,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fit_tables, "fit_table", never)
    table = houses()[["size <b>", "town", "price $"]]
    table.to_csv(tmp_path / "table.csv", index=False)
    change(table.head(5)).to_csv(tmp_path / "new.csv", index=False)
    code, _, said = run(
        *("fit", f"{tmp_path}/table.csv", "-t", "price $", "-o", f"{tmp_path}/run"),
        *("--predict", f"{tmp_path}/new.csv", *options),
    )
    assert code == 1
    assert re.search(message, said)
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "table.csv"]


def test_a_run_with_predictions_may_be_replaced_by_one_without(tmp_path: Path) -> None:
    model = tables.fit_table(tables.learn(houses(), "price $"), draws=20)
    predictions = model.predict(houses(5))
    extra = {"predictions.csv": predictions.to_csv}
    model.save(tmp_path / "run", extra)
    model.save(tmp_path / "run", overwrite=True)
    assert not (tmp_path / "run" / "predictions.csv").exists()


def test_hyperparameters_are_drawn_by_default() -> None:
    frame = houses()[["size <b>", "town", "price $"]]
    model = tables.fit_table(tables.learn(frame, "price $"), draws=100)
    noise = model.hyperparameters()["noise_scale"]
    low, high = noise["interval"]
    assert low < noise["value"] < high
    assert abs((high - low) / 3.29 - 200 / np.sqrt(2 * 400)) < 0.3 * 200 / np.sqrt(2 * 400)
    stated = f"{noise['value']:.4g}, {low:.4g} to {high:.4g}"
    expected = f"noise scale {stated} (how far 'price $' scatters, in its unit)"
    assert any(expected in said for said in model.remarks)
    assert model.about()["noise scale"] == f"{stated}, drawn"
    assert np.ptp(model.draws.noise_scale) > 0


def test_hyperparameters_are_learned_on_request() -> None:
    frame = houses()[["size <b>", "town", "price $"]]
    model = tables.fit_table(tables.learn(frame, "price $"), draws=20, hyper="learn")
    found = model.hyperparameters()
    noise = found["noise_scale"]["value"]
    assert abs(noise - 200) < 4 * 200 / np.sqrt(2 * 400)
    assert found["noise_scale"]["learned"]
    expected = f"noise scale {noise:.4g} (how far 'price $' scatters, in its unit)"
    assert any(expected in said for said in model.remarks)
    assert model.about()["noise scale"] == f"{noise:.4g}, learned"
    given = {"prior_precision": 2.0, "noise_scale": 150.0}
    model = tables.fit_table(
        tables.learn(frame, "price $"), prior_precision=2.0, noise_scale=150.0, draws=20
    )
    found = model.hyperparameters()
    assert {name: entry["value"] for name, entry in found.items()} == pytest.approx(given)
    assert not any(entry["learned"] for entry in found.values())
    assert model.result.learning is None
    assert not any("Learned" in said for said in model.remarks)
    assert model.about()["prior precision"] == "2, given"


def test_columns_that_determine_the_target_are_fitted_with_a_remark(tmp_path: Path) -> None:
    table = houses()[["size <b>", "town"]].assign(tax=lambda t: 3 * t["size <b>"] - 7)
    table.to_csv(tmp_path / "table.csv", index=False)
    folder = tmp_path / "run"
    code, _, said = run(
        *("fit", f"{tmp_path}/table.csv", "-t", "tax", "-o", str(folder), "--draws", "50"),
        *("--holdout", "0"),
    )
    assert code == 0, said
    assert "The columns determine the target exactly" in said
    found = TableModel.load(folder).predict(table)
    np.testing.assert_allclose(found["mean"], table["tax"], rtol=1e-3)
    ordinary = tables.fit_table(tables.learn(houses()[["size <b>", "price $"]], "price $"), draws=8)
    assert not any("exactly" in remark for remark in ordinary.remarks)


ESTIMATORS: dict[str, Any] = {
    "price $": BayesianLinearRegressor,
    "visits": BayesianPoissonRegressor,
    "sold": BayesianLogisticClassifier,
    "kind": BayesianLogisticClassifier,
}


@pytest.mark.parametrize("target", list(ESTIMATORS))
def test_a_table_is_fitted_as_by_an_estimator(target: str) -> None:
    """Of numeric columns, which both standardise alike: the same rows, options and draws."""
    frame = houses()[["size <b>", target]].assign(age=np.random.default_rng(3).normal(9, 4, 400))
    known = "poisson" if target == "visits" else None
    # Learned: steps that are tested differ wholly where roundings do.
    model = tables.fit_table(tables.learn(frame, target, known), key=5, draws=60, hyper="learn")
    labels = model.encoding.target.classes
    y = frame[target] if labels is None else model.encoding.encode_target(frame)
    estimator = ESTIMATORS[target]("learn", draws=60, random_state=5)
    estimator.fit(frame[["size <b>", "age"]], y)
    own = tables.unstandardise(model.encoding, model.result.draws)
    coef = own["coef"].reshape(estimator.draws_.coef.shape)
    scale = np.abs(coef).max()
    np.testing.assert_allclose(coef, estimator.draws_.coef, rtol=1e-4, atol=1e-4 * scale)
    found = model.hyperparameters()
    assert found["prior_precision"]["value"] == pytest.approx(estimator.prior_precision_, rel=1e-4)
    if target == "price $":
        assert found["noise_scale"]["value"] == pytest.approx(estimator.noise_scale_, rel=1e-4)


def test_summaries_have_the_same_columns_and_central_intervals(tmp_path: Path) -> None:
    model = tables.fit_table(tables.learn(houses()[["size <b>", "price $"]], "price $"), draws=200)
    own, standardised = model.summary(0.8), model.result.summary(0.8)
    assert list(own.columns) == list(standardised.columns)
    assert {"low 80%", "high 80%", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"} <= set(own)
    ends = np.quantile(model.result.flat.reshape(-1, 2), [0.1, 0.9], axis=0)
    np.testing.assert_allclose(standardised[["low 80%", "high 80%"]].to_numpy()[:2].T, ends)
    np.testing.assert_allclose(standardised["mean"].iloc[:2], model.result.flat.mean(axis=(0, 1)))
    assert list(standardised.index[2:]) == ["noise_scale", "prior_precision"]
    natural = tables.unstandardise(model.encoding, model.result.draws)
    ends = np.quantile(natural["intercept"], [0.1, 0.9])
    np.testing.assert_allclose(own.loc["intercept", ["low 80%", "high 80%"]].to_numpy(float), ends)
    saved = pd.read_csv(model.save(tmp_path / "run") / "summary.csv", index_col=0)
    pd.testing.assert_frame_equal(saved, model.summary())


def test_without_out_the_folder_is_named_after_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    houses()[["size <b>", "sold"]].to_csv(tmp_path / "data" / "My.houses.CSV.gz", index=False)
    monkeypatch.chdir(tmp_path)
    words = ("fit", "data/My.houses.CSV.gz", "-t", "sold", "--draws", "8", "--method", "laplace")
    code, _, said = run(*words)
    assert code == 0, said
    assert sorted(os.listdir(tmp_path)) == ["My.houses", "data"]
    before = (tmp_path / "My.houses" / "table.json").read_bytes()
    code, _, said = run(*words, "--seed", "1")
    assert code == 1
    assert re.search(r"My\.houses is not empty.*--out FOLDER, or --overwrite", said)
    assert (tmp_path / "My.houses" / "table.json").read_bytes() == before
    code, _, said = run(*words, "--overwrite")
    assert code == 0, said


@pytest.mark.slow
def test_a_fit_is_diagnosed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[orn.Result] = []
    diagnose = orn.Result.diagnose

    def counted(result: orn.Result) -> orn.Diagnosis:
        calls.append(result)
        return diagnose(result)

    monkeypatch.setattr(orn.Result, "diagnose", counted)
    houses()[["size <b>", "sold"]].to_csv(tmp_path / "t.csv", index=False)
    code, _, said = run(
        *("fit", f"{tmp_path}/t.csv", "-t", "sold", "-o", f"{tmp_path}/run", "--draws", "20")
    )
    assert code == 0, said
    assert len(calls) == 1
    questions = list(QUESTIONS.values())
    at = [said.index(question) for question in questions]
    assert at == sorted(at), "in the order in which a person asks"
    assert "stationarity" not in said, "which is a detail"


def test_a_loaded_model_has_no_run(tmp_path: Path) -> None:
    model = tables.fit_table(tables.learn(houses()[["size <b>", "sold"]], "sold"), draws=8)
    again = TableModel.load(model.save(tmp_path / "run"))
    with pytest.raises(orn.InputError, match="fit again"):
        again.summary()


def test_odds_and_rate_ratios_are_exponentials(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"method": "laplace", "hyper": "learn", "draws": 100}
    for target, family, name in (("sold", None, "odds"), ("visits", "poisson", "rate")):
        model = tables.fit_table(
            tables.learn(houses()[["size <b>", "town", target]], target, family), **quick
        )
        found = model.summary(0.8)
        columns = [f"{name} ratio", "ratio low 80%", "ratio high 80%", "per"]
        assert list(found.columns[-4:]) == columns
        per = found["per"][:-1]
        assert per["size <b>"] == pytest.approx(houses()["size <b>"].std(ddof=0))
        assert (per.drop("size <b>") == 1.0).all(), "of levels"
        for ratio, own in (("ratio low 80%", "low 80%"), ("ratio high 80%", "high 80%")):
            np.testing.assert_allclose(found[ratio][:-1], np.exp(per * found[own][:-1]))
        assert found.iloc[-1, -4:].isna().all(), "of an intercept there is none"
    houses()[["size <b>", "town", "sold"]].to_csv(tmp_path / "t.csv", index=False)
    words = ("fit", f"{tmp_path}/t.csv", "-t", "sold", "-o", f"{tmp_path}/run", "--draws", "20")
    code, shown, said = run(*words, "--method", "laplace", "-q")
    assert code == 0, said
    assert "odds" in shown
    assert "per" in shown
    assert "nan" not in shown


def test_strict_ends_with_2_where_a_check_fails(tmp_path: Path) -> None:
    """Three rows far off take the slope with them, which the answer on the rows fails."""
    good = houses()[["size <b>", "price $"]]
    bad = good.copy()
    bad.loc[[11, 87, 300], "price $"] += [5e5, -7e5, 6e5]
    for table, options, expected in (
        (good, ("--strict",), 0),
        (bad, (), 0),
        (bad, ("--strict",), 2),
    ):
        table.to_csv(tmp_path / "t.csv", index=False)
        words = ("fit", f"{tmp_path}/t.csv", "-t", "price $", "--draws", "250", *options)
        code, _, said = run(*words, "--method", "laplace", "-o", f"{tmp_path}/run", "--overwrite")
        assert code == expected, said
        assert (tmp_path / "run" / "report.html").is_file()
        assert ("fail  Does the model fit its rows?" in said) == (table is bad)


def test_coefficients_are_in_the_tables_own_units() -> None:
    frame = houses(4000)[["size <b>", "town", "price $"]]
    model = tables.fit_table(tables.learn(frame, "price $"), draws=500)
    found = model.summary()
    assert list(found.index) == ["size <b>", "town=Köln", "intercept"]
    off = np.abs(found["mean"].to_numpy() - [30.0, 500.0, 1000.0])
    assert np.all(off < 5 * found["sd"].to_numpy())
    assert (found["r_hat"] < 1.05).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wine", "protein"])
def test_intervals_cover_what_they_say(dataset: Load, name: str) -> None:
    data = dataset(name)
    order = np.random.default_rng(0).permutation(len(data.X))
    frame = pd.DataFrame(data.X.astype(float), columns=list(data.feature_names))
    frame["target"] = data.y.astype(float)
    half = len(order) // 2
    learned = tables.learn(frame.iloc[order[:half]], "target", "linear")
    model = tables.fit_table(learned, draws=250)
    held_out = frame.iloc[order[half:]][:8000]
    found = model.predict(held_out)
    truth = held_out["target"].to_numpy()
    inside = (found["low 90%"].to_numpy() <= truth) & (truth <= found["high 90%"].to_numpy())
    assert 0.88 <= inside.mean() <= 0.92


def test_pictures_cost_the_same_whatever_the_number_of_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    rows = predictive.predictors

    def counted(draws: Coefficients, X: Any) -> Any:
        seen.append(len(draws.coef))
        return rows(draws, X)

    monkeypatch.setattr(predictive, "predictors", counted)
    encoded = tables.learn(houses()[["size <b>", "price $"]], "price $")
    model = tables.fit_table(encoded, draws=1500, method="laplace", noise_scale=200.0)
    for given in (houses(), encoded):
        model.fit_picture(given)
    assert max(seen) == 200
    seen.clear()
    model.predict(houses(5))
    assert seen == [4000]


def test_a_kept_model_predicts_as_it_did(tmp_path: Path) -> None:
    model = tables.fit_table(tables.learn(houses(), "kind"), draws=50)
    model.save(tmp_path / "run")
    again = TableModel.load(tmp_path / "run")
    new = houses(30, seed=2)
    pd.testing.assert_frame_equal(model.predict(new), again.predict(new))


@pytest.mark.parametrize("name", ["table.json", "draws.nc"])
def test_damaged_runs_are_refused(tmp_path: Path, name: str) -> None:
    model = tables.fit_table(tables.learn(houses(), "price $"), draws=20)
    path = model.save(tmp_path / "run") / name
    whole = path.read_bytes()
    for damage in (b"", whole[: len(whole) // 2], b"{}", bytes(64)):
        path.write_bytes(damage)
        with pytest.raises(orn.InputError, match="fit again"):
            TableModel.load(tmp_path / "run")
    path.unlink()
    with pytest.raises(orn.InputError, match=f"has no {name}"):
        TableModel.load(tmp_path / "run")


def test_a_run_of_another_table_is_refused(tmp_path: Path) -> None:
    for target, columns in (("price $", ["size <b>"]), ("visits", ["size <b>", "town"])):
        learned = tables.learn(houses()[[*columns, target]], target, "linear")
        model = tables.fit_table(learned, draws=20)
        model.save(tmp_path / target)
    (tmp_path / "visits" / "draws.nc").replace(tmp_path / "price $" / "draws.nc")
    with pytest.raises(orn.InputError, match="does not belong"):
        TableModel.load(tmp_path / "price $")


def test_folders_are_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "run", {"a": lambda path: path.write_text("a"), "b": fail})
    assert os.listdir(tmp_path) == []
    write_folder(tmp_path / "run", {"a": lambda path: path.write_text("old")})
    with pytest.raises(orn.InputError, match="not empty"):
        write_folder(tmp_path / "run", {"a": lambda path: path.write_text("new")})
    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "run", {"a": fail}, overwrite=True)
    assert (tmp_path / "run" / "a").read_text() == "old"
    write_folder(tmp_path / "run", {"a": lambda path: path.write_text("new")}, overwrite=True)
    assert (tmp_path / "run" / "a").read_text() == "new"
    (tmp_path / "run" / "thesis.doc").write_text("precious")
    with pytest.raises(orn.InputError, match=r"thesis\.doc"):
        write_folder(tmp_path / "run", {"a": lambda path: path.write_text("x")}, overwrite=True)
    assert os.listdir(tmp_path) == ["run"]
    (tmp_path / "file").write_text("")
    with pytest.raises(orn.InputError, match="is a file"):
        write_folder(tmp_path / "file", {"a": lambda path: path.write_text("x")})


def test_an_occupied_folder_is_seen_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "draws.nc").write_text("old")
    (tmp_path / "table.csv").write_text("x,y\n")  # with no rows, which reading it would tell
    code, _, said = run("fit", f"{tmp_path}/table.csv", "-t", "y", "-o", f"{tmp_path}/run")
    assert code == 1
    assert "not empty" in said


def test_saved_results_open_in_arviz(tmp_path: Path) -> None:
    post = orn.models.linear(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0))
    result = orn.sample(post, draws=20)
    folder = result.save(tmp_path / "run")
    opened = arviz.from_netcdf(str(folder / "draws.nc"))
    assert np.array_equal(opened.posterior["coef"].values, result.draws["coef"])
    plan = json.loads((folder / "plan.json").read_text())
    assert [entry["name"] for entry in plan["parameters"]] == list(result.plan.labels)


def test_predictive_probabilities_average_over_draws() -> None:
    coef = np.array([[4.0], [-4.0]])
    X = np.array([[1.0], [0.0]])
    found = predictive.probabilities(Coefficients.gather("logistic", coef), X)
    np.testing.assert_allclose(found, 0.5)
    several = Coefficients.gather("softmax", np.zeros((3, 4, 1)), np.log([[1.0, 2, 3, 4]] * 3))
    np.testing.assert_allclose(predictive.probabilities(several, X)[0], [0.1, 0.2, 0.3, 0.4])


def test_log_scores_are_those_of_the_averaged_densities() -> None:
    X, y = np.array([[1.0], [-2.0]]), np.array([0.5, 1.5])
    coef, noise = np.array([[0.3], [0.9]]), np.array([1.0, 2.0])
    linear = Coefficients.gather("linear", coef, noise_scale=noise)
    density = scipy.stats.norm(coef @ X.T, noise[:, None]).pdf(y).mean(axis=0)
    np.testing.assert_allclose(predictive.log_score(linear, X, y), np.log(density), rtol=1e-12)
    counts = Coefficients.gather("poisson", coef)
    mass = scipy.stats.poisson(np.exp(coef @ X.T)).pmf([2, 0]).mean(axis=0)
    np.testing.assert_allclose(predictive.log_score(counts, X, [2, 0]), np.log(mass), rtol=1e-12)
    several = Coefficients.gather("softmax", np.stack([coef, -coef, 0 * coef], axis=1))
    chances = predictive.probabilities(several, X)
    expected = np.log(chances[[0, 1], [2, 0]])
    np.testing.assert_allclose(predictive.log_score(several, X, [2, 0]), expected, rtol=1e-12)
    with pytest.raises(orn.InputError, match="one value for each of 2 rows"):
        predictive.log_score(linear, X, [1.0])


def test_simulated_targets_have_the_models_moments() -> None:
    rng, many = np.random.default_rng(0), 40_000
    X = np.array([[0.5]])
    ones = np.ones((many, 1))
    linear = predictive.simulate(Coefficients.gather("linear", ones, noise_scale=2.0), X, rng)
    assert abs(linear.std() - 2.0) < 5 * 2.0 / np.sqrt(2 * many)
    counts = predictive.simulate(Coefficients.gather("poisson", ones), X, rng)
    assert abs(counts.mean() - np.exp(0.5)) < 5 * np.sqrt(np.exp(0.5) / many)
    assert abs(counts.var() / np.exp(0.5) - 1) < 0.05
    shift = np.log([[0.2, 0.3, 0.5]] * many)
    draws = Coefficients.gather("softmax", np.zeros((many, 3, 1)), shift)
    classes = predictive.simulate(draws, X, rng)
    shares = np.bincount(classes[:, 0].astype(int), minlength=3) / many
    assert np.abs(shares - [0.2, 0.3, 0.5]).max() < 5 * 0.5 / np.sqrt(many)

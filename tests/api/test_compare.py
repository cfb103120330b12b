"""Methods side by side, on one posterior, on a table, on the paper's data."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

import ornstein as orn
from ornstein.api.comparison import DEFAULT, affordable
from ornstein.cli import app
from ornstein.data.datasets import Dataset
from ornstein.experiments.divergence import METHODS, PAPER, PROBLEMS, figure1, figure2, table1
from ornstein.planning.methods import find
from ornstein.results import plots
from ornstein.results.comparison import Comparison, Entry
from ornstein.results.measure import kl_error, measured_kl
from support.problems import mild_regression, regression

Load = Callable[[str], Dataset]
KEYS = {
    "dataset",
    "method",
    "predicted_kl",
    "measured_kl",
    "mc_error",
    "draws",
    "seconds",
    "ess_per_second",
    "paper_kl",
}


def test_what_is_measured_is_what_was_predicted() -> None:
    post = mild_regression(rows=4000)
    names = [
        "sgd-scalar",
        "exact",
        "exact-plain",
        "averaged",
        "sgld",
        "sgfs-dense",
        "bbvi",
        "laplace",
    ]
    found = orn.compare(post, names, batch_size=200, draws=2000)
    assert [entry.method for entry in found.entries] == names
    assert found.reference == "the exact posterior"
    for entry in found.entries:
        assert entry.predicted_kl is not None
        assert entry.measured_kl is not None
        assert entry.mc_error is not None
        assert abs(entry.measured_kl - entry.predicted_kl) < 4 * entry.mc_error + 0.02
        assert entry.draws == 8000
        assert entry.seconds > entry.planning_seconds > 0
        assert entry.ess_per_second is not None
        assert entry.ess_per_second > 0
    assert found["exact"].gradient_evaluations > 0
    assert found["laplace"].gradient_evaluations == 0
    judged = {entry.method: entry.verdict for entry in found.entries}
    assert judged["sgld"] == judged["sgd-scalar"] == "fail"
    assert judged["exact"] == judged["laplace"] == "ok"
    assert found.recommendation.method in [name for name in names if judged[name] == "ok"]
    assert str(found).endswith(found.recommendation.reason)
    assert len(plots.comparison(found, "all").axes) == 1


def test_laplace_is_judged_by_the_posterior_and_not_by_itself() -> None:
    """A skewed posterior: few events, and a Gaussian that is far off."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 1.2).astype(float)
    post = orn.models.logistic(X, y, prior_precision=0.05, intercept=True)
    found = orn.compare(post, ["laplace", "rotation"], options={"rotation": {"batch_size": 60}})
    assert found["laplace"].measured_kl is not None
    assert found["laplace"].measured_kl < 0.1
    assert found["laplace"].verdict == "fail"
    assert found["rotation"].mean_error is not None
    assert found["laplace"].mean_error is not None
    assert found["rotation"].mean_error < 0.5 * found["laplace"].mean_error


def entry(
    method: str, rate: float, error: float, verdict: str = "ok", planning: float = 0.0
) -> Entry:
    return Entry(
        method,
        draws=4000,
        ess_per_second=rate,
        planning_seconds=planning,
        mean_error=error,
        sd_error=0.01,
        verdict=verdict,
    )


@pytest.mark.parametrize(
    ("entries", "method", "said"),
    [
        # the default, though another saves a second
        ([entry("rotation", 1e3, 0.02), entry("laplace", 1e6, 0.12)], "rotation", "saves little"),
        # another where it saves minutes
        ([entry("rotation", 10.0, 0.02), entry("exact", 1e3, 0.05)], "exact", "quickest of 2"),
        # the only right one, however slow
        ([entry("rotation", 10.0, 0.02), entry("sgld", 1e6, 0.5, "fail")], "rotation", "no other"),
        ([entry("sgld", 1e3, 0.5, "fail"), Entry("sgd", note="why")], None, "Take none of these"),
        ([entry("exact", 1e3, 0.16, "warn")], None, "more draws may show"),
        ([Entry("sgd", note="why"), Entry("sgld", note="why")], None, "No method could be run"),
    ],
)
def test_what_is_recommended_and_why(entries: list[Entry], method: str | None, said: str) -> None:
    found = Comparison(tuple(entries), "NUTS", {}).recommendation
    assert found.method == method
    assert said in found.reason


def test_fit_accepts_every_name_that_is_compared() -> None:
    assert all(find(name).method.name in orn.METHODS for name in DEFAULT)


@pytest.mark.slow
def test_nuts_as_the_reference() -> None:
    post = regression(rows=400)
    found = orn.compare(post, "laplace", reference="nuts", draws=2000)
    entry = found["laplace"]
    assert found.reference == "NUTS"
    assert entry.measured_kl is not None
    assert entry.measured_kl < 0.02


def test_a_method_that_diverges_is_a_note_not_an_end() -> None:
    X = np.column_stack([np.zeros(500), np.random.default_rng(0).normal(size=500)])
    post = orn.models.linear(X, X[:, 1])
    found = orn.compare(post, ["sgd-dense", "laplace"], batch_size=50, draws=20)
    assert found["sgd-dense"].measured_kl is None
    assert "would diverge" in found["sgd-dense"].note
    assert found["laplace"].measured_kl is not None
    assert "would diverge" in str(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": []}, "methods is empty"),
        ({"methods": ["sgd", "sgd"]}, "twice"),
        ({"methods": ["sdg"]}, "Did you mean 'sgd'"),
        ({"methods": ["sgd"], "options": {"exact": {}}}, "options"),
        ({"reference": "truth"}, "reference"),
        ({"draws": 2}, "draws"),
    ],
)
def test_mistakes(options: dict[str, object], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.compare(regression(rows=50), **options)  # type: ignore[arg-type]


def test_every_method_and_structure_has_a_name() -> None:
    for method in orn.METHODS.values():
        for structure in method.structures:
            variant = orn.VARIANTS[f"{method.name}-{structure}"]
            assert (variant.method, variant.structure) == (method, structure)
    assert set(DEFAULT) <= set(orn.VARIANTS)
    post = regression(rows=100)
    assert orn.plan(post, "sgd-diagonal", batch_size=10).structure == "diagonal"
    assert orn.plan(post, "exact", batch_size=10).control_variates
    assert not orn.plan(post, "exact-plain", batch_size=10).control_variates
    with pytest.raises(orn.InputError, match=r"contradicts structure='dense'.*method='sgd'"):
        orn.plan(post, "sgd-diagonal", "dense")
    with pytest.raises(orn.InputError, match="contradicts control_variates=True"):
        orn.plan(post, "exact-plain", control_variates=True)
    with pytest.raises(orn.InputError, match="Did you mean 'sgd-diagonal'"):
        orn.plan(post, "sgd-diagonals")
    with pytest.raises(orn.InputError, match=r"method=\[\] is not known"):
        orn.plan(post, [])  # type: ignore[call-overload]


def test_a_run_that_would_never_end_starts_in_stationarity() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) * np.array([1.0, 1e-4, 1e-2])
    noise = rng.normal(size=5000)
    post = orn.models.linear(X, X[:, 0] + noise, prior_precision=1e-6)
    plan = orn.plan(post, "sgd", "scalar", batch_size=50)
    settings, note = affordable(plan, 1000, 4)
    assert settings["chains"] == 2000
    assert settings["dispersion"] == 1.0
    assert settings["warmup"] == 0
    assert "of 3 directions forget their start" in note
    quick = orn.plan(post, batch_size=50, control_variates=False)
    assert affordable(quick, 1000, 4) == ({"draws": 1000, "chains": 4}, "")


def test_the_error_of_a_measured_divergence() -> None:
    """Over repeated runs of exact draws, the error covers what measured values scatter."""
    rng = np.random.default_rng(1)
    cov = np.diag([4.0, 0.25, 1.0])
    runs = rng.normal(size=(40, 4, 500, 3)) * np.sqrt(np.diag(cov))
    center, target = np.zeros(3), np.eye(3)
    values = np.array([measured_kl(run, center, target).value for run in runs])
    errors = np.array([kl_error(run, center, target) for run in runs])
    assert 0.7 < errors.mean() / values.std(ddof=1) < 1.4
    short = rng.normal(size=(1000, 1, 3))
    assert 0.5 < kl_error(short, center, target) / (3 * 6 / 4000) < 2.0


def test_compare_a_table_from_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "<b>": rng.choice(["x", "y"], 400)})
    frame["price $"] = 2 * frame["a"] + (frame["<b>"] == "x") + rng.normal(size=400)
    frame.to_csv(tmp_path / "table.csv", index=False)
    arguments = ["compare", str(tmp_path / "table.csv"), "--target", "price $", "--draws", "200"]
    arguments += ["--method", "exact", "--method", "laplace", "--batch-size", "50"]
    arguments += ["--json", str(tmp_path / "out.json"), "--plot", str(tmp_path / "out.png")]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith(("Take exact", "Take laplace"))
    saved = json.loads((tmp_path / "out.json").read_text())
    assert [entry["method"] for entry in saved["methods"]] == ["exact", "laplace"]
    assert saved["methods"][0]["measured_kl"] < 0.1
    assert (tmp_path / "out.png").stat().st_size > 1000
    failed = CliRunner().invoke(app, [*arguments[:6], "--method", "exact-per-class"])
    assert failed.exit_code == 1
    assert "exact-per-class not run: " in failed.stderr
    assert "No method could be run" in failed.stdout
    with pytest.raises(orn.InputError, match=r"--plot='.foo' is not known"):
        CliRunner().invoke(app, [*arguments, "--plot", "a.foo"], catch_exceptions=False)


def test_table1_of_a_quick_method(dataset: Load, tmp_path: Path) -> None:
    dataset("wine")
    methods = ("sgd-dense", "sgfs-dense", "laplace")
    records = table1(tmp_path, Console(quiet=True), 2500, methods, ("wine",), progress=False)
    saved = json.loads((tmp_path / "table1.json").read_text())
    assert saved == json.loads(json.dumps(records))
    assert all(set(record) >= KEYS for record in saved)
    for record in saved:
        assert record["measured_kl"] <= 0.03
    assert [record["paper_kl"] for record in saved] == [0.7, 0.8, None]


def test_bbvi_reaches_the_mean_field_optimum_on_wine(dataset: Load, tmp_path: Path) -> None:
    dataset("wine")
    methods = ("bbvi", "bbvi-dense")
    mean_field, full = table1(tmp_path, Console(quiet=True), 2500, methods, ("wine",), False)
    assert mean_field["predicted_kl"] == pytest.approx(14.82, abs=0.01)
    error = 3 * mean_field["mc_error"]
    assert abs(mean_field["measured_kl"] - mean_field["predicted_kl"]) < 0.1 + error
    assert full["measured_kl"] <= 0.1


def test_figures_1_and_2(dataset: Load, tmp_path: Path) -> None:
    dataset("wine")
    records = figure1(
        tmp_path, Console(quiet=True), 500, False, methods=("sgd-dense", "bbvi"), data=("wine",)
    )
    assert [record["method"] for record in records] == ["sgd-dense", "bbvi"]
    ratio = np.array(records[0]["measured_cov"]) / np.array(records[0]["posterior_cov"])
    assert np.all(np.abs(np.diag(ratio) - 1) < 0.3)
    squeezed = np.array(records[1]["measured_cov"]) / np.array(records[1]["posterior_cov"])
    assert squeezed[1, 1] < 0.5  # a product of Gaussians is too narrow along the widest direction
    record = figure2(tmp_path, Console(quiet=True), draws=100, progress=False)
    assert record["divergence_from_prediction"] < 3 * record["mc_error"]
    for name in ("figure1", "figure2"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
        json.loads((tmp_path / f"{name}.json").read_text())


def test_reproduce_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    for arguments in (["figure9"], ["table1", "--method", "magic"], ["figure2", "--data", "wine"]):
        done = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path / "x")])
        assert done.exit_code == 1
        assert isinstance(done.exception, orn.InputError)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("data", list(PROBLEMS))
def test_table1_keeps_its_promises(dataset: Load, tmp_path: Path, data: str) -> None:
    dataset(data)
    records = table1(tmp_path, Console(quiet=True), 2500, METHODS, (data,), progress=False)
    found = {record["method"]: record for record in records}
    bound = {"wine": 0.03, "skin": 0.005, "protein": 0.03}[data]
    for method in ("sgd-dense", "exact-plain", "sgfs-dense"):
        assert found[method]["measured_kl"] <= bound
    for method in ("sgd-scalar", "sgd-diagonal", "sgfs-diagonal", "sgld", "sgld-paper"):
        record = found[method]
        assert record["divergence_from_prediction"] < 3 * record["prediction_floor"] + 0.002
        if data == "protein" and method != "sgld-paper":
            assert record["measured_kl"] <= record["paper_kl"]
    assert found["sgld"]["measured_kl"] < PAPER["sgld"][data]
    mean_field = found["bbvi"]
    allowed = 0.1 + 3 * mean_field["mc_error"]
    assert abs(mean_field["measured_kl"] - mean_field["predicted_kl"]) < allowed
    assert found["bbvi-dense"]["measured_kl"] <= 0.1

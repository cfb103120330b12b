"""Formulas with bars: fitted, summarised, diagnosed, kept and asked about new levels."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.tables.formulas import FormulaEncoding
from ornstein.tables.mixed import MixedTableModel


def frame(rows: int = 300, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group, district = rng.integers(0, 20, rows), rng.integers(0, 4, rows)
    effect, slope = rng.normal(0, 0.8, 20), rng.normal(0, 0.3, 20)
    x = 5 + 10 * rng.normal(size=rows)
    eta = 0.02 * x + effect[group]
    y = 200 + 30 * (eta + slope[group] * x / 10 + rng.normal(0, 0.5, rows))
    n = rng.integers(5, 20, rows)
    return pd.DataFrame(
        {
            "y": y,
            "x": x,
            "one/two": rng.normal(size=rows),
            "kind": rng.choice(["a", "b"], rows),
            "g": [f"level {i}" for i in group],
            "h": district,
            "n": n,
            "won": rng.binomial(n, 1 / (1 + np.exp(-eta))),
            "count": rng.poisson(np.exp(0.5 * eta)),
            "wait": np.exp(eta) * rng.exponential(size=rows),
            "ended": (rng.uniform(size=rows) < 0.8).astype(int),
            "grade": np.array(["low", "mid", "top"])[
                np.digitize(eta + rng.logistic(size=rows), [-1.0, 1.0])
            ],
        }
    )


BARS = [
    ("(1|g)", ["sd(g)"]),
    ("(x|g)", ["sd(g: 1)", "sd(g: x)", "cor(g: 1, x)"]),
    ("(1 + x || g)", ["sd(g: 1)", "sd(g: x)"]),
    ("(0 + x|g)", ["sd(g: x)"]),
    ("(1|g) + (0 + x|g)", ["sd(g: 1)", "sd(g: x)"]),
    ("(1|h/kind)", ["sd(h:kind)", "sd(h)"]),
    ("(1|g) + (1|h)", ["sd(g)", "sd(h)"]),
    ("(1|g:h)", ["sd(g:h)"]),
    ("(kind|g)", ["sd(g: 1)", "sd(g: kind[T.b])", "cor(g: 1, kind[T.b])"]),
    ("(0 + kind|g)", ["sd(g: kind[a])", "sd(g: kind[b])", "cor(g: kind[a], kind[b])"]),
    ("(0 + `one/two` + I(x / 2)|g)", ["sd(g: one/two)", "sd(g: I(x / 2))"]),
    ("(poly(x, 2)||g)", ["sd(g: 1)", "sd(g: poly(x, 2)[1])", "sd(g: poly(x, 2)[2])"]),
]


@pytest.mark.parametrize(("bar", "expected"), BARS)
def test_every_bar_of_lme4_becomes_effects(bar: str, expected: list[str]) -> None:
    post = orn.from_formula(f"y ~ bs(x, df=4) + {bar}", frame())
    assert isinstance(post, orn.MixedPosterior)
    assert post.hyper_labels[: len(expected)] == expected
    assert post.hyper_labels[-1] == "sigma"
    assert post.fixed_labels[-1] == "intercept"


def test_priors_count_in_standard_deviations() -> None:
    """Whatever the units of target and columns, rows and priors of the sampler are the same."""
    some = frame()
    other = some.assign(y=1000 * some["y"] - 5, x=some["x"] / 7)
    first, second = (orn.from_formula("y ~ x + (x|g)", one) for one in (some, other))
    assert isinstance(first, orn.MixedPosterior)
    assert isinstance(second, orn.MixedPosterior)
    np.testing.assert_allclose(first.rows.x, second.rows.x, atol=1e-9)
    np.testing.assert_allclose(first.rows.y, second.rows.y, atol=1e-9)
    assert first.specification == second.specification
    np.testing.assert_allclose(first.prior_precision, [0.16, 0.01])
    named = orn.from_formula("y ~ x + (1|g)", some, priors={"x": orn.Normal(0.5, 0.1)})
    assert isinstance(named, orn.MixedPosterior)
    np.testing.assert_allclose((named.prior_mean[0], named.prior_precision[0]), (0.5, 100.0))


@pytest.fixture(scope="module")
def model() -> MixedTableModel:
    table = tables.learn_formula(frame(), "y ~ x + (1 + x|g)")
    found = tables.fit_table(table, draws=300, progress=False, holdout=0.2)
    assert isinstance(found, MixedTableModel)
    return found


def test_draws_are_in_the_units_of_the_table(model: MixedTableModel) -> None:
    found: Any = model.summary()
    truth = {"x": 0.6, "sd(g: 1)": 24.0, "sigma": 15.0, "sd(g: x)": 0.9}
    for name, value in truth.items():
        assert abs(found.loc[name, "mean"] - value) < 4 * found.loc[name, "sd"], name
    same = model.result.posterior
    own = orn.sample(orn.from_formula("y ~ x + (1 + x|g)", frame()), draws=300, progress=False)
    assert isinstance(own, orn.MixedResult)
    assert own.posterior.labels == same.labels
    np.testing.assert_allclose(own["sigma"].mean(), found.loc["sigma", "mean"], rtol=0.05)


def test_predictions_know_levels_and_draw_new_ones(model: MixedTableModel, tmp_path: Path) -> None:
    new = pd.DataFrame({"x": [5.0] * 3, "g": ["level 3", "other", "another"]})
    found = model.predict(new)
    result = model.result
    known = result["intercept"] + result["b[g=level 3: 1]"]
    known = known + 5 * (result["x"] + result["b[g=level 3: x]"])
    assert found["mean"][0] == pytest.approx(known.mean(), rel=1e-6)
    expected = np.sqrt(known.var() + np.mean(result["sigma"] ** 2))
    assert found["sd"][0] == pytest.approx(expected, rel=1e-3)
    assert (found["sd"][1:] > 1.3 * found["sd"][0]).all()
    model.save(tmp_path / "run")
    loaded = tables.TableModel.load(tmp_path / "run")
    assert isinstance(loaded, MixedTableModel)
    pd.testing.assert_frame_equal(loaded.predict(new), found)
    eta = model.new_rows(pd.concat([new, new[1:]])).offset
    assert eta is not None
    np.testing.assert_array_equal(eta[..., slice(1, 3)], eta[..., slice(3, 5)])


def test_rows_that_are_kept_aside_have_their_groups_effects(model: MixedTableModel) -> None:
    assert model.scores is not None
    assert model.scores.values["R^2"] > 0.3
    first, again = model.loo(), model.loo(frame())
    np.testing.assert_array_equal(first.rows, again.rows)
    np.testing.assert_allclose(first.observed, frame()["y"])
    np.testing.assert_allclose(first.score, again.score, atol=1e-6)


def test_typical_rows_have_no_effects(model: MixedTableModel) -> None:
    found = model.conditional_effects(frame(), ["x"])
    slope = np.polyfit(found["value"].astype(float), found["mean"], 1)[0]
    assert slope == pytest.approx(model.result["x"].mean(), rel=0.05)


def test_draws_are_judged_by_chains_and_by_the_posterior(model: MixedTableModel) -> None:
    found = model.result.diagnose()
    assert {check.name for check in found} >= {"stationarity", "effective", "acceptance"}
    assert found.accuracy is not None
    assert found.accuracy.labels == tuple(model.result.posterior.hyper_labels)
    assert found["stationarity"].number < 1.05


def test_draws_that_are_wrong_are_seen() -> None:
    """Stein's identities of head and hyperparameters, the leaves following (X12)."""
    some = frame(400)
    post = orn.from_formula("p(won, n) ~ x + (1|g)", some)
    result = orn.sample(post, draws=400, progress=False)
    assert isinstance(result, orn.MixedResult)
    right = result.diagnose().accuracy
    assert right is not None
    assert right.labels == ("x", "intercept", "sd(g)")
    assert right.verdict != "fail"
    assert np.abs(right.mean_error).max() < 0.25
    sd = result.phi[..., 0].std()
    wrong = result.phi.copy()
    wrong[..., 0] += sd
    moved = orn.MixedResult(
        wrong,
        result.b,
        result.lam,
        result.posterior,
        result.plan,
        result.anchor,
        result.rates,
        result.seconds,
    ).diagnose()
    assert moved.accuracy is not None
    assert moved.accuracy.mean_error[0] == pytest.approx(1.0, abs=0.3)
    assert moved.verdict == "fail"


def test_variance_components_add_up(model: MixedTableModel) -> None:
    found: Any = model.result.variance_components()
    assert found.index.tolist() == ["g", "noise of a row"]
    assert found["share"].sum() == pytest.approx(1.0)
    result = model.result
    x = frame()["x"].to_numpy()
    sds, cor = (result["sd(g: 1)"], result["sd(g: x)"]), result["cor(g: 1, x)"]
    cross = 2 * x.mean() * sds[0] * sds[1] * cor
    expected = sds[0] ** 2 + sds[1] ** 2 * np.mean(x**2) + cross
    assert found.loc["g", "variance"] == pytest.approx(expected.mean(), rel=1e-3)


FAMILIES = [
    ("p(won, n) ~ x + (1|g)", None),
    ("count ~ (1|g) + offset(log(n))", "negative_binomial"),
    ("Surv(wait, ended) ~ x + (1|g)", None),
    ("grade ~ x + (1|g)", "ordinal"),
    ("y ~ x + (1|g)", "student_t"),
]


@pytest.mark.parametrize(
    ("formula", "family"),
    [FAMILIES[0], *(pytest.param(*other, marks=pytest.mark.slow) for other in FAMILIES[1:])],
)
def test_a_mixed_model_of_every_kind_is_kept_and_asked(
    formula: str, family: str | None, tmp_path: Path
) -> None:
    made = tables.learn_formula(frame(), formula, family)
    fitted = tables.fit_table(made, draws=50, progress=False)
    new = frame(5, seed=3).assign(g=["level 1", "new", "new", "level 2", "other"])
    found = fitted.predict(new)
    fitted.save(tmp_path / "run")
    loaded = tables.TableModel.load(tmp_path / "run")
    assert isinstance(loaded.encoding, FormulaEncoding)
    pd.testing.assert_frame_equal(loaded.predict(new), found)
    assert len(fitted.fit_picture(frame())) == 3


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=True)


def test_one_command_fits_a_mixed_model(tmp_path: Path) -> None:
    frame().assign(g=lambda f: f["g"].str.replace("level 1", "<b>1</b>")).to_csv(
        tmp_path / "t.csv", index=False
    )
    done = invoke(
        *("fit", tmp_path / "t.csv", "--formula", "won ~ 1 + x + (1|g) + offset(log(n))"),
        *("--family", "poisson", "-o", tmp_path / "run", "--draws", 50),
        *("--predict", tmp_path / "t.csv"),
    )
    assert done.exit_code == 0, done.output
    assert "sd(g)" in done.output
    page = (tmp_path / "run" / "report.html").read_text()
    for heading in ("Effects of g", "Variance components", "Traces and ranks"):
        assert f"{heading}</h3>" in page, heading
    assert "<b>1</b>" not in page
    again = invoke("predict", tmp_path / "run", tmp_path / "t.csv")
    assert again.exit_code == 0
    assert again.stdout == (tmp_path / "run" / "predictions.csv").read_text()


def bad() -> pd.DataFrame:
    some = frame(40)
    return some.assign(
        twin=2 * some["x"],
        flat="same",
        all_apart=[f"row {i}" for i in range(40)],
        sure=(some["kind"] == "a").astype(int),
        event=np.where(some["ended"], "yes", "no"),
    )


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("y ~ x + (1|zz)", {}, "no column 'zz'"),
    ("y ~ x + (zz|g)", {}, "no column 'zz'"),
    ("y ~ x + (1|flat)", {}, "'flat' has one level only"),
    ("y ~ x + (flat|g)", {}, "'flat' has one level only"),
    ("Surv(wait, event) ~ x + (1|g)", {}, "'event' has labels; Surv needs"),
    ("Surv(wait, n) ~ x + (1|g)", {}, r"in Surv\(wait, n\), event must hold 1"),
    ("Surv(x, ended) ~ (1|g)", {}, r"in Surv\(x, ended\), y must hold waiting times"),
    ("p(n, won) ~ x + (1|g)", {}, r"in p\(n, won\), y must count successes"),
    ("y ~ log(x) + (1|g)", {}, r"'log\(x\)' is not a finite number in \d+ rows, the first"),
    ("y ~ (sqrt(x)|g)", {}, r"'sqrt\(x\)' is not a finite number"),
    ("y ~ x + (y|g)", {}, "the target 'y' is among the terms"),
    ("count ~ x + count", {}, "the target 'count' is among the terms"),
    ("grade ~ x + (1|g)", {"family": "softmax"}, "has several predictors"),
    ("y ~ x + (1|g)", {"method": "exact"}, "whose fit has steps of its own"),
    ("y ~ x + (1|g)", {"hyper": "learn"}, "draws standard deviations"),
    ("y ~ x + (1|g)", {"noise_scale": 2.0}, "whose fit draws it"),
    ("y ~ x + (1|g)", {"checkpoint": "somewhere"}, "cannot be checkpointed"),
    ("y ~ x + (1|g)", {"clusters": np.arange(40)}, "leave them out, and give"),
    ("y ~ x + (1|g)", {"priors": {"zz": orn.Normal()}}, "priors"),
]


@pytest.mark.parametrize(("formula", "options", "match"), REFUSED)
def test_what_does_not_suit_is_refused_by_name(
    formula: str, options: dict[str, Any], match: str
) -> None:
    rest = dict(options)
    with pytest.raises(orn.InputError, match=match):
        tables.fit_table(tables.learn_formula(bad(), formula, rest.pop("family", None)), **rest)


@pytest.mark.parametrize(
    ("formula", "family", "note"),
    [
        ("y ~ x + twin + (1|g)", None, "'twin' follows from the others"),
        ("y ~ x + (1|all_apart)", None, ""),
        ("sure ~ kind + (1|g)", "bernoulli", ""),
        ("y ~ 0 + x + (1|g)", None, ""),
        ("y ~ (1|g)", None, ""),
    ],
)
def test_hard_tables_are_fitted(formula: str, family: str | None, note: str) -> None:
    """Dependent columns, groups of one row, a separated target, no intercept, no columns."""
    made = tables.learn_formula(bad(), formula, family)
    assert note in " ".join(made.notes)
    found = tables.fit_table(made, draws=100, progress=False).summary()
    assert np.isfinite(found["mean"]).all()
    assert (found["sd"] > 0).all()


def test_a_thousand_levels_and_more_are_effects() -> None:
    rng = np.random.default_rng(0)
    group = rng.permutation(np.arange(6000) % 3000)
    y = rng.normal(size=3000)[group] + 0.5 * rng.normal(size=6000)
    some = pd.DataFrame({"y": y, "g": group})
    made = tables.fit_table(tables.learn_formula(some, "y ~ (1|g)"), draws=50, progress=False)
    assert isinstance(made, MixedTableModel)
    found: Any = made.summary()
    assert found.loc["sd(g)", "mean"] == pytest.approx(1.0, abs=0.1)
    assert len(made.result.effects("g")) == 3000

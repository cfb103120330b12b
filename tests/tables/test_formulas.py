"""Formulas: read, checked, made into columns, kept without pickles, applied to new rows."""

import json
from pathlib import Path
from typing import Any

import formulaic
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import ornstein as orn
from ornstein import tables
from ornstein.cli import app
from ornstein.storage import codec
from ornstein.tables.arrow import arrow_table
from ornstein.tables.formulas import FormulaEncoding, parse_formula
from ornstein.tables.formulas.design import Design, plan_design


def frame(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "x": rng.normal(5.0, 2.0, rows),
            "odd name": rng.normal(size=rows),
            "g": np.resize(list("abcd"), rows),
            "h": np.resize(["u", "v", "v"], rows),
            "year": np.resize([2001, 2002, 2004], rows),
            "n": rng.integers(2, 20, rows),
        }
    )
    effect = made["g"].map({"a": -0.8, "b": 0.4, "c": 0.9, "d": -0.3})
    eta = 0.3 * (made["x"] - 5) + effect
    made["y"] = 10 + 3 * (eta + rng.normal(size=rows))
    made["won"] = rng.binomial(made["n"], 1 / (1 + np.exp(-eta)))
    made["count"] = rng.poisson(made["n"] * np.exp(0.5 * eta))
    made["wait"] = np.exp(eta) * rng.exponential(size=rows)
    made["ended"] = rng.uniform(size=rows) < 0.8
    grades = np.digitize(eta + rng.logistic(size=rows), [-0.5, 0.8])
    made["grade"] = np.array(["low", "mid", "high"])[grades]
    made["grade"] = made["grade"].astype(pd.CategoricalDtype(["low", "mid", "high"]))
    return made


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bar", "expected"),
    [
        ("(1|g)", [("g", ("1",), False)]),
        ("(x|g)", [("g", ("1", "x"), True)]),
        ("(0 + x | g)", [("g", ("x",), True)]),
        ("(x - 1 | g)", [("g", ("x",), True)]),
        ("(1 + x || g)", [("g", ("1", "x"), False)]),
        ("(1|g/h)", [("g", ("1",), False), ("g:h", ("1",), False)]),
        ("(1|g:h)", [("g:h", ("1",), False)]),
        ("(1|g) + (1|h)", [("g", ("1",), False), ("h", ("1",), False)]),
        ("(log(x) + I(x**2) || `odd name`)", [("odd name", ("1", "log(x)", "I(x**2)"), False)]),
    ],
)
def test_bars_are_read(bar: str, expected: list[Any]) -> None:
    found = parse_formula(f"y ~ x + {bar} + offset(log(n)) - 1")
    assert found.fixed == "x - 1"
    assert found.offsets == ("log(n)",)
    assert [(t.name, t.effects, t.correlated) for t in found.random] == expected
    assert parse_formula(f"y ~ {bar}").fixed == "1"


@pytest.mark.parametrize(
    ("formula", "kind", "response"),
    [
        ("log(y) ~ x", "", ("log(y)",)),
        ("cbind(won, n - won) ~ x", "cbind", ("won", "n - won")),
        ("p(won, n) ~ x", "p", ("won", "n")),
        ("Surv(wait, ended) ~ x", "Surv", ("wait", "ended")),
        ("censored(wait, ended) ~ x", "Surv", ("wait", "ended")),
    ],
)
def test_targets_are_read(formula: str, kind: str, response: tuple[str, ...]) -> None:
    found = parse_formula(formula)
    assert (found.kind, found.response) == (kind, response)


WRONG = [
    ("y", "a target, a ~"),
    ("y ~ ", "a target, a ~"),
    ("y ~ x ~ g", "a target, a ~"),
    ("y ~ x + (1|g", "never closed"),
    ("y ~ x)", "closes nothing"),
    ("y ~ x + 1|g", "belongs in parentheses"),
    ("y ~ x + (1|g|h)", "one bar"),
    ("y ~ x + (|g)", "effects before the bar"),
    ("y ~ x - (1|g)", "cannot be subtracted"),
    ("y ~ x + (1|log(g))", "must be columns"),
    ("y ~ (1|g) + (1|g)", "same effects"),
    ("y ~ (0|g)", "no effects"),
    ("y ~ x * offset(n)", "a term of its own"),
    ("cbind(won) ~ x", "two columns"),
    ("y ~ zz", r"no column 'zz'"),
    ("y ~ x + (1|zz)", r"no column 'zz'"),
    ("zz ~ x", r"no column 'zz'"),
    ("y ~ x + offset(zz)", r"no column 'zz'"),
    ("y ~ (x + g + h)**9", "at most 5"),
    ("y ~ x + (zz|g)", r"no column 'zz'"),
    ("y ~ x + (1 + log(x - 100) | g)", "null|finite"),
    ("y ~ x + offset(g)", "a number is needed"),
    ("y ~ log(x - 100)", "null|finite"),
    ("y ~ x + offset(log(x - 100))", "not a finite number in 120 rows"),
    ("y ~ poly(x, 2", "never closed"),
    ("y ~ bs(x, nope=3)", "cannot be evaluated"),
]


@pytest.mark.parametrize(("formula", "match"), WRONG)
def test_what_cannot_be_read_is_refused(formula: str, match: str) -> None:
    with pytest.raises(orn.InputError, match=match) as caught:
        tables.learn_formula(frame(), formula)
    assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, KeyError)


def test_the_place_is_marked() -> None:
    with pytest.raises(orn.InputError) as caught:
        tables.learn_formula(frame(), "y ~ x + zz + g")
    _, formula, mark = str(caught.value).splitlines()
    assert formula[mark.index("^") : mark.rindex("^") + 1] == "zz"


ATTACKS = [
    "__import__('os').system('touch owned')",
    "I(__import__('os').system('touch owned'))",
    "{__import__('os').system('touch owned')}",
    "x.__class__.__mro__",
    "I(x.__class__)",
    "np.log(x)",
    "eval('1')",
    "exec('1')",
    "open('owned', 'w')",
    "(lambda: 1)()",
    "I((lambda: 1)())",
    "I([c for c in x])",
    "I(x['a'])",
    "I(f'{x}')",
    "I((z := 1))",
    "C(g, levels=[open('owned', 'w')])",
    "log(x, **{})",
    "log(*[x])",
    "I(9**9**9**9)",
    "I(x**9**9)",
    "I('a' * 999999999)",
    "bs(x, df=999999999)",
    "Q('x')",
    "hashed(x)",
    "contr.treatment",
    "globals()",
    "`x`.__class__",
    "I(`__import__('os').system('touch owned')`)",
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("place", ["y ~ {}", "y ~ x + ({} | g)", "y ~ offset({})", "{} ~ x"])
def test_nothing_in_a_formula_is_executed(
    attack: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(orn.InputError, match="formula"):
        tables.learn_formula(frame(12), place.format(attack), "linear")
    assert not list(tmp_path.iterdir())


# Columns ----------------------------------------------------------------------------------------

TERMS = (
    "x*C(g, Treatment('b')) + bs(x, df=5) + poly(x, 2) + h:g + scale(x) + center(`odd name`) + "
    "log(abs(x) + 1) + cr(x, df=4) + I(x**2) + sqrt(abs(`odd name`)) + C(year) + C(h, Sum)"
)


def test_columns_are_those_of_formulaic_also_after_a_round_trip() -> None:
    table = arrow_table(frame())
    made = plan_design(TERMS, f"y ~ {TERMS}", table).learned(table)
    text = codec.to_json(made, 1)
    json.loads(text)
    kept = codec.from_json(text, Design, 1, "the design")
    assert kept == made
    context = {"sqrt": np.sqrt, "abs": np.abs}
    expected = formulaic.model_matrix(TERMS, frame(), context=context)
    found, names = kept.matrix(table)
    assert names == tuple(expected.columns)
    np.testing.assert_allclose(found, np.asarray(expected, float), atol=1e-12)
    one, _ = kept.matrix(table.slice(7, 1))
    np.testing.assert_allclose(one, found[7:8], atol=1e-12)


def test_levels_that_were_not_learned_are_refused_by_name() -> None:
    made = tables.learn_formula(frame(), "y ~ g + C(year) + bs(x, df=4)").encoding
    for change, match in (
        ({"g": "zz"}, r"'g' has levels that were not learned: 'zz'. Known are 'a', 'b', 'c', 'd'"),
        ({"year": 2003}, r"'year' has levels that were not learned: '2003'"),
        ({"x": 1e9}, "cannot be evaluated"),
        ({"g": None}, "Missing values in 'g'"),
    ):
        with pytest.raises(orn.InputError, match=match):
            made.encode(frame(8).assign(**change))


def test_a_dot_stands_for_all_other_columns() -> None:
    some = frame()[["y", "x", "odd name", "g"]]
    found = tables.learn_formula(some, "y ~ .").encoding.features
    assert found == ("x", "odd name", "g[T.b]", "g[T.c]", "g[T.d]")


def test_columns_may_have_dots_in_their_names() -> None:
    dotted = frame().rename(columns={"y": "log.y", "x": "log.x", "g": "my.g"})
    found = tables.learn_formula(dotted, "log.y ~ log.x + (1 | my.g)").encoding
    assert found.features == ("log.x",)
    assert found.random[0].levels == ("a", "b", "c", "d")
    assert found.target.name == "log.y"
    with pytest.raises(orn.InputError):
        tables.learn_formula(dotted, "log.y ~ I(log.x)")


def test_problems_of_tables_are_named() -> None:
    twin = frame().assign(twin=lambda f: 2 * f["x"], one="same", flat=3.0)
    notes = " ".join(tables.learn_formula(twin, "y ~ x + twin").notes)
    assert "linearly dependent ('twin' follows" in notes
    cases: list[tuple[str, str]] = [
        ("y ~ x + one", "'one' has one level only"),
        ("y ~ x + flat", "'flat' has one value throughout"),
        ("y ~ (1|one)", "one level only"),
        ("y ~ (1 + flat || g)", "'flat' does not vary"),
        ("Surv(wait, g) ~ x", "'g' has labels; Surv needs"),
        ("Surv(wait, n) ~ x", "event must hold 1"),
        ("Surv(y - 100, ended) ~ x", "above 0"),
        ("p(n, won) ~ x", "of at least 1 trial|successes"),
    ]
    for formula, match in cases:
        with pytest.raises(orn.InputError, match=match):
            tables.learn_formula(twin, formula)
    with pytest.raises(orn.InputError, match="target of binomial"):
        tables.learn_formula(twin, "p(won, n) ~ x", "poisson")
    with pytest.raises(orn.InputError, match="binomial needs"):
        tables.learn_formula(twin, "won ~ x", "binomial")
    many = pd.DataFrame({"y": np.arange(3000.0), "g": [f"l{i % 1500}" for i in range(3000)]})
    assert len(tables.learn_formula(many, "y ~ (1|g)").encoding.random[0].levels) == 1500
    with pytest.raises(orn.InputError, match="Make it a random effect"):
        tables.learn_formula(many.assign(x=many["y"] % 7), "y ~ x:g")
    assert tables.learn_formula(many, "y ~ g").encoding.many[0].name == "g"
    lacking = frame()
    lacking.loc[3, "x"] = np.nan
    with pytest.raises(orn.InputError, match="Missing values in 'x'"):
        tables.learn_formula(lacking, "y ~ x")
    assert len(tables.learn_formula(lacking, "y ~ x", missing="drop").y) == 119


# Fits -------------------------------------------------------------------------------------------

FITS = [
    ("y ~ x*h + poly(x, 2)", "student_t", ["df", "noise_scale"]),
    ("count ~ x + g + offset(log(n))", "negative_binomial", ["shape"]),
    ("p(won, n) ~ x + g", None, []),
    ("Surv(wait, ended) ~ x + g", None, ["shape"]),
    ("grade ~ x + g", "ordinal", ["cutpoints[0]", "cutpoints[1]"]),
    ("y ~ 0 + g", "gaussian", ["noise_scale"]),
]


@pytest.mark.parametrize(("formula", "family", "own"), FITS)
def test_a_model_is_fitted_kept_and_asked(
    formula: str, family: str | None, own: list[str], tmp_path: Path
) -> None:
    table = tables.learn_formula(frame(), formula, family)
    run: dict[str, Any] = {"method": "laplace"} if family != "gaussian" else {}
    model = tables.fit_table(table, draws=100, progress=False, **run)
    labels = list(model.summary().index)
    assert labels[-len(own) :] == own or not own
    assert ("intercept" in labels) == (family not in ("ordinal", "gaussian"))
    found = model.predict(frame(7, seed=3))
    model.save(tmp_path / "run")
    loaded = tables.TableModel.load(tmp_path / "run")
    assert isinstance(loaded.encoding, FormulaEncoding)
    pd.testing.assert_frame_equal(loaded.predict(frame(7, seed=3)), found)
    assert len(model.fit_picture(frame())) == 3


def test_coefficients_are_in_the_units_of_the_table() -> None:
    """Of least squares, which the weak prior leaves nearly as it is."""
    some = frame(600)
    made = tables.learn_formula(some, "y ~ x + g")
    model = tables.fit_table(made, noise_scale=3.0, draws=500, progress=False)
    X = np.asarray(formulaic.model_matrix("x + g", some), float)
    coef = np.linalg.lstsq(X, some["y"].to_numpy())[0]
    found = model.summary()
    order = ["intercept", "x", "g[T.b]", "g[T.c]", "g[T.d]"]
    assert (np.abs(found.loc[order, "mean"] - coef) < 0.2 * found.loc[order, "sd"]).all()
    post = orn.from_formula("y ~ x + g", some)
    assert isinstance(post, orn.Posterior)
    draws = orn.sample(post, draws=500, hyper="draw", progress=False).draws
    np.testing.assert_allclose(draws["coef"].mean(axis=(0, 1)), coef[1:], atol=0.15)
    np.testing.assert_allclose(draws["intercept"].mean(), coef[0], atol=0.2)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=True)


def test_the_command_line_takes_a_formula(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    done = invoke(
        *("fit", tmp_path / "t.csv", "--formula", "count ~ bs(x, df=4) + offset(log(n))"),
        *("--holdout", "0"),
        *("--family", "poisson", "-o", tmp_path / "run", "--draws", 50, "--method", "laplace"),
        *("--predict", tmp_path / "t.csv"),
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "report.html").is_file()
    again = invoke("predict", tmp_path / "run", tmp_path / "t.csv")
    assert again.exit_code == 0
    assert again.stdout == (tmp_path / "run" / "predictions.csv").read_text()


REFUSED: list[tuple[list[str], str]] = [
    (["--formula", "y ~ zz"], "no column 'zz'"),
    (["--formula", "y ~ x", "--target", "y"], "either --target"),
    ([], "either --target"),
    (["--formula", "y ~ __import__('os').system('x')"], "formula"),
]


@pytest.mark.parametrize(("options", "match"), REFUSED)
def test_mistakes_end_with_a_sentence(options: list[str], match: str, tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    done = invoke("fit", tmp_path / "t.csv", *options, "-o", tmp_path / "run", "--holdout", "0")
    assert done.exit_code != 0
    assert not (tmp_path / "run").exists()
    assert match in str(done.exception) + done.output


@pytest.mark.parametrize(
    ("target", "family"), [("count", "negative_binomial"), ("grade", "ordinal")]
)
def test_families_fit_tables_without_a_formula(target: str, family: str, tmp_path: Path) -> None:
    some = frame()[["x", "g", target]]
    notes = " ".join(tables.learn(some, target, family).notes)
    assert ("'low' < 'mid' < 'high'" in notes) == (family == "ordinal")
    model = tables.fit_table(
        tables.learn(some, target, family), prior_precision=0.16, draws=50, method="laplace"
    )
    found = model.predict(some)
    model.save(tmp_path / "run")
    pd.testing.assert_frame_equal(tables.TableModel.load(tmp_path / "run").predict(some), found)


def test_the_estimator(tmp_path: Path) -> None:
    made = orn.estimators.BayesianFormulaRegressor(
        "p(won, n) ~ x + g", draws=100, method="laplace", random_state=3
    )
    with pytest.raises(Exception, match="not fitted"):
        made.predict(frame())
    made.fit(frame())
    assert made.get_params()["formula"] == "p(won, n) ~ x + g"
    low, high = made.predict_interval(frame())
    won = frame()["won"].to_numpy()
    assert ((low <= won) & (won <= high)).mean() > 0.85
    assert np.corrcoef(made.predict(frame()), won)[0, 1] > 0.8
    made.save(tmp_path / "run")
    again = tables.TableModel.load(tmp_path / "run").predict(frame())
    np.testing.assert_array_equal(again["mean"], made.predict(frame()))
    grades = orn.estimators.BayesianFormulaRegressor(
        "grade ~ x + g", family="ordinal", draws=50, method="laplace"
    ).fit(frame())
    chances = grades.predict_proba(frame())
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert set(grades.predict(frame())) <= {"low", "mid", "high"}


@pytest.mark.parametrize(
    ("formula", "fixed"),
    [
        ("y ~ I(x^2) + bs(x^2, df=4)", "I(x**2) + bs(x**2, df=4)"),
        ("y ~ (x + z)^2", "(x + z)^2"),
        ("y ~ I((x + z)^2) + (x + z)^2", "I((x + z)**2) + (x + z)^2"),
        ("y ~ log(`a^b`)", "log(`a^b`)"),
    ],
)
def test_a_power_inside_a_call_is_written_as_in_r(formula: str, fixed: str) -> None:
    assert parse_formula(formula).fixed == fixed


def test_all_problems_of_a_table_are_told_at_once() -> None:
    """As without a formula; columns that the formula does not name are no problem."""
    rows = 60
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y"),
            "cost": ["1,5", "2,25"] * (rows // 2),
            "name": [f"n{i}" for i in range(rows)],
            "hole": [None, *rng.normal(size=rows - 1)],
            "x": rng.normal(size=rows),
            "y": np.resize([1, 2, 3], rows),
        }
    )
    with pytest.raises(orn.InputError, match="The table has 5 problems") as found:
        tables.learn_formula(frame, "y ~ .")
    said = str(found.value)
    for part in ("'hole'", "contains dates", "numbers with commas", "in every row", "model="):
        assert part in said
    assert tables.learn_formula(frame, "y ~ x", "softmax").encoding.features == ("x",)

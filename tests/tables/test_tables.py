"""A user's table becomes a posterior, and bad tables a clear error."""

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import ornstein as orn
from ornstein import tables
from ornstein.tables import CategoricalColumn, Encoding, NumericColumn
from support.data_frames import N, frame, holed, learn, target_of

Floats = npt.NDArray[np.float64]

# Guessing ---------------------------------------------------------------------------------------

GUESSES: list[tuple[Any, str, str]] = [
    ([0, 1], "logistic", "two distinct values: '0', '1'"),
    ([2.5, -1.0], "logistic", "two distinct values: '-1', '2.5'"),
    (["no", "yes"], "logistic", "two distinct values: 'no', 'yes'"),
    ([True, False], "logistic", "two distinct values: 'False', 'True'"),
    ([True, None, False], "logistic", "two distinct values"),
    (["a", "b", "c", None] * 2, "softmax", "3 classes: 'a', 'b', 'c'"),
    (pd.Categorical([3, 1, 2] * 2), "softmax", "3 classes: '1', '2', '3'"),
    ([0, 1, 2], "poisson", "whole numbers from 0 to 2, taken for counts.*softmax.*linear"),
    ([0.0, 1000.0, None, 2.0], "poisson", "whole numbers from 0 to 1000"),
    ([0, 1, 1001], "linear", "whole numbers from 0 to 1001, taken for measurements"),
    ([3, 4, 9], "linear", "whole numbers from 3 to 9, taken for measurements.*softmax.*poisson"),
    ([-1, 0, 1], "linear", "whole numbers from -1 to 1"),
    ([0.5, 1.0, 2.0], "linear", "numbers from 0.5 to 2"),
]


@pytest.mark.parametrize(("values", "model", "reason"), GUESSES)
def test_guesses(values: Any, model: str, reason: str) -> None:
    found, why = tables.guess_model(pd.DataFrame({"t": values}), "t")
    assert found == model
    assert re.search(reason, why)
    assert why.startswith("'t' ")
    assert why.endswith(".")


# What learning refuses --------------------------------------------------------------------------

Build = Callable[[], object]


WORDS = [f"w{i}" for i in range(N)]
BAD_LEARNING: list[tuple[Build, str]] = [
    (lambda: tables.learn(frame(), "Y", "linear"), r"no column 'Y'.*It has 'a'.*mean 'y'"),
    (lambda: tables.learn(frame(), "y", "liner"), r"model='liner'.*Did you mean 'linear'"),
    (lambda: tables.learn(frame(), "y", "linear", "skip"), r"missing='skip'.*refuse, drop, impute"),
    (lambda: tables.learn([[1]], "y", "linear"), r"such as a pandas DataFrame, found list"),
    (lambda: tables.learn(frame()[["y"]], "y", "linear"), r"no column to predict from"),
    (lambda: tables.learn(frame()[:0], "y", "linear"), r"'y' has no values"),
    (lambda: tables.learn(frame()[["a", "a", "y"]], "y", "linear"), r"same name: 'a' \(2\)"),
    (lambda: tables.learn(frame(b=1)[["b", "y"]], "y", "linear"), r"from: Left out.*constant: 'b'"),
    (lambda: learn(b=holed(range(N), 1, 2), a=np.nan), r"in 'a' \(40\), 'b' \(2\).*drop.*impute"),
    (lambda: learn(y=holed(range(N), 1)), r"Missing values in 'y' \(1\)"),
    (lambda: learn(y=None, missing="drop"), r"'y' has no values"),
    (
        lambda: learn(a=holed(WORDS, *range(20)), b=holed(WORDS, *range(20, 40)), missing="drop"),
        r"Every row has missing values: 'a' \(20\), 'b' \(20\)",
    ),
    (lambda: learn(b=np.append(np.arange(39.0), np.inf)), r"'b' has 1 infinite values"),
    (lambda: learn(y=np.append(np.arange(39.0), -np.inf)), r"'y' has 1 infinite values"),
    (lambda: learn(b=pd.Timestamp("2020")), r"'b' contains dates or times.*days since"),
    (lambda: learn(b=datetime.date(2020, 1, 1)), r"'b' contains dates or times"),
    (
        lambda: learn(b=["2020-01-01", "2021-12-31T10:00"] * 20),
        r"'b' contains dates, such as '2020",
    ),
    (lambda: learn(b=["1.2.2020", "03/04/21"] * 20), r"'b' contains dates"),
    (lambda: learn(b=["1,5", "2"] * 20), r"'b' contains numbers with commas, such as '1,5'.*point"),
    (lambda: learn(b=["1", 2] * 20), r"'b' contains str \(such as '1'\) and int \(such as 2\)"),
    (lambda: learn(b=[b"x"] * N), r"'b' contains bytes"),
    (lambda: learn(b=[[1]] * N), r"'b' contains list \(such as \[1\]\)"),
    (lambda: learn(b=np.arange(N) * 1j), r"'b' contains complex numbers"),
    (lambda: learn(b=pd.Series([10**400, 1] * 20, dtype=object)), r"'b' cannot be read as numbers"),
    (lambda: learn(b=WORDS), r"'b' has 40 levels, a different one in every row.*leave it out"),
    (lambda: learn(b=np.arange(N) * 1e200), r"'b' varies from 0.0 to 3\.9e\+201.*Change its unit"),
    (lambda: learn(b=np.arange(N) * 1e-200), r"'b' varies.*Change its unit"),
    (lambda: learn(b=1e15 + np.arange(N) % 2), r"'b' varies.*another origin"),
    (lambda: learn(y=3), r"'y' has one value only, '3'"),
    (lambda: learn(y=WORDS), r"'y' has labels, such as 'w0', and a linear.*softmax"),
    (lambda: learn("poisson", y=[True, False] * 20), r"'y' has labels.*poisson"),
    (lambda: learn("poisson", y=[1, -2] * 20), r"counts.*20 values are not.*-2"),
    (lambda: learn("poisson", y=[1.5, 0] * 20), r"counts.*1\.5.*linear"),
    (lambda: learn("logistic", y="one"), r"one value only, 'one'"),
    (
        lambda: learn("logistic", y=[1, 2, 3, 4] * 10),
        r"4 classes, such as '1'.*logistic model takes at most 2.*softmax",
    ),
    (lambda: learn("softmax", y=0), r"one value only, '0'"),
    (lambda: tables.guess_model(frame(y="one"), "y"), r"one value only"),
    (lambda: tables.guess_model(frame(y=None), "y"), r"no values"),
    (lambda: tables.guess_model(frame(y=pd.Timestamp("2020")), "y"), r"dates"),
    (lambda: tables.guess_model(frame(), "z"), r"no column 'z'"),
]


@pytest.mark.parametrize(("build", "message"), BAD_LEARNING)
def test_bad_learning(build: Build, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        build()


def many(count: int, word: str = "w{}") -> pd.DataFrame:
    """A column of that many levels, each in three rows."""
    levels = [word.format(i) for i in range(count)] * 3
    return pd.DataFrame({"b": levels, "y": np.arange(len(levels)) ** 0.5})


def test_many_levels_and_classes() -> None:
    assert tables.learn(many(100), "y", "linear").X.shape == (300, 99)
    assert tables.guess_model(many(100), "b")[0] == "softmax"
    with pytest.raises(
        orn.InputError, match=r"'b' has 101 levels.*at most 100.*so few rows.*free text"
    ):
        tables.learn(many(101), "y", "linear")
    typo = many(101, "{}.5").replace({"b": {"7.5": "7.S"}})
    with pytest.raises(orn.InputError, match=r"Most of them are numbers, but not '7\.S'; correct"):
        tables.learn(typo, "y", "linear")
    for build in (
        lambda: tables.guess_model(many(101), "b"),
        lambda: tables.learn(many(101), "b", "softmax"),
    ):
        with pytest.raises(orn.InputError, match=r"'b' has 101 classes.*at most 100.*Group"):
            build()


# What learning does -----------------------------------------------------------------------------


def test_columns_are_standardised() -> None:
    encoding, X, y, notes = learn()
    assert encoding.features == ("a", "size", "kind=elm", "kind=oak")
    assert encoding.text_columns == ("kind",)
    assert notes == ("Levels are compared: those of 'kind' with 'ash'.",)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(X[:, :2].std(axis=0), 1)
    np.testing.assert_allclose(np.ptp(X[:, 2:], axis=0), 1)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-14)


def test_units_of_the_table_do_not_matter() -> None:
    table = frame()
    moved = table.assign(a=1e6 + 1e-3 * table["a"], y=-40 + 1e5 * table["y"])
    one, other = (tables.learn(t, "y", "linear") for t in (table, moved))
    np.testing.assert_allclose(one.X, other.X, atol=1e-7)
    np.testing.assert_allclose(one.y, other.y, atol=1e-9)


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        (["b", "a"], ("a", "b")),
        ([True, False], ("False", "True")),
        (pd.Categorical(["b", "a"] * 20, ["b", "c", "a"]), ("b", "a")),
        (pd.Categorical([10, 9] * 20), ("9", "10")),
        (pd.Categorical([1.5, 2.0] * 20), ("1.5", "2")),
        (pd.array([True, False] * 20, "boolean"), ("False", "True")),
        (pd.array(["x", "é"] * 20, "string"), ("x", "é")),
    ],
)
def test_levels_and_their_order(labels: Any, levels: tuple[str, ...]) -> None:
    labels = labels if len(labels) == N else labels * (N // 2)
    encoding, X, *_ = learn(kind=labels)
    assert encoding.columns[2] == CategoricalColumn("kind", levels, (0.5,))
    np.testing.assert_array_equal(np.abs(X[:, 2]), 0.5)
    _, _, y, _ = learn("logistic", y=labels)
    np.testing.assert_array_equal(y, X[:, 2] > 0)


@pytest.mark.parametrize("model", ["logistic", "softmax", "poisson"])
def test_targets(model: str) -> None:
    encoding, X, y, _ = learn(model, y=target_of(model))
    classes = encoding.target.classes
    if classes is None:
        np.testing.assert_array_equal(y, target_of(model))
    else:
        assert list(classes) == sorted(set(target_of(model)))
        np.testing.assert_array_equal(np.array(classes)[y], target_of(model))
    assert (encoding.target.centre, encoding.target.scale) == (0.0, 1.0)
    assert tables.posterior(X, y, encoding).num_data == N


def test_columns_that_say_nothing_are_left_out() -> None:
    table = frame(one=1, text="x")
    table["a2"], table["code"] = table["a"], table["kind"].map({"oak": "3", "ash": "1", "elm": "2"})
    encoding, *_, notes = tables.learn(table, "y", "linear")
    assert [column.name for column in encoding.columns] == ["a", "size", "kind"]
    assert notes[:3] == (
        "Left out, being constant: 'one', 'text'.",
        "Left out, redundant with 'a': 'a2'.",
        "Left out, redundant with 'kind': 'code'.",
    )


def test_labels_that_look_like_numbers_are_noted() -> None:
    notes = learn(b=np.resize(["0", "1", "2", "3+"], N)).notes
    assert "'b' is taken as categorical: 3 of its 4 levels are numbers, but not '3+'." in notes


HOLED: dict[str, Any] = {"a": holed(np.arange(N) * 1.5, 0, 1), "kind": holed(["u", "v"] * 20, 1, 2)}


def test_rows_with_missing_values_are_dropped_on_request() -> None:
    encoding, X, y, notes = learn(
        missing="drop", **HOLED, y=holed(np.arange(N) ** 0.5, 39), void=np.nan
    )
    assert notes[:2] == (
        "Left out, having no values: 'void'.",
        "Dropped 4 of 40 rows for missing values: 'y' (1), 'a' (2), 'kind' (2).",
    )
    assert X.shape == (36, 3)
    assert len(y) == 36
    with pytest.raises(orn.InputError, match=r"Missing values in 'a' \(2\), 'kind' \(2\)\. Leave"):
        encoding.encode(frame(**HOLED))
    complete = encoding.complete(frame(**HOLED))
    assert list(np.flatnonzero(~complete)) == [0, 1, 2]
    assert len(encoding.encode(frame(**HOLED)[complete])) == 37


def test_missing_values_are_filled_in_on_request() -> None:
    encoding, X, _, notes = learn(missing="impute", **HOLED, y=holed(np.arange(N) ** 0.5, 39))
    assert notes[:3] == (
        "Dropped 1 of 40 rows for missing values: 'y' (1).",
        "Filled in by the column's mean: 'a' (2).",
        "Missing values made a level of their own: 'kind' (2).",
    )
    assert encoding.features == ("a", "size", "kind=v", "kind=(missing)")
    np.testing.assert_array_equal(X[:2, 0], 0)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_array_equal(X[:, 3] > 0, np.isin(np.arange(39), [1, 2]))
    unseen = learn(missing="impute", y=target_of("linear")).encoding
    later = unseen.encode(frame(**HOLED, size=1e4).assign(kind=None))
    np.testing.assert_array_equal(later[:, 2:], 0)
    assert unseen.complete(frame(**HOLED)).all()


def test_a_column_without_values_beside_known_targets_is_left_out() -> None:
    y, b = holed(np.arange(N) ** 0.5, 0), holed(np.ones(N), *range(1, N))
    encoding, *_, notes = learn(missing="impute", y=y, b=b)
    assert "Left out, having no values: 'b'." in notes
    assert "b" not in encoding.features


# Units ------------------------------------------------------------------------------------------


def raw_design(encoding: Encoding, table: pd.DataFrame) -> Floats:
    """The columns of X as a person would write them down, in the table's units."""
    parts: list[Any] = []
    for column in encoding.columns:
        if isinstance(column, NumericColumn):
            parts.append(table[column.name])
        elif isinstance(column, CategoricalColumn):
            parts += [table[column.name] == level for level in column.levels[1:]]
    return np.column_stack(parts).astype(float)


@pytest.mark.parametrize("model", ["linear", "logistic", "softmax", "poisson"])
def test_predictions_agree_in_both_units(model: str) -> None:
    table = frame(y=target_of(model))
    encoding, X, y, _ = tables.learn(table, "y", model)
    post = tables.posterior(X, y, encoding)
    draws = post.layout.unravel(np.random.default_rng(1).normal(size=(2, 5, post.dim)))
    original = tables.unstandardise(encoding, draws)

    def predictor(coefs: dict[str, Any], design: Floats) -> Floats:
        return np.einsum("cd...f,nf->ncd...", coefs["coef"], design) + coefs["intercept"]

    target = encoding.target
    expected = target.centre + target.scale * predictor(draws, X)
    found = predictor(original, raw_design(encoding, table))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())
    assert {name: leaf.shape for name, leaf in original.items()} == {
        name: leaf.shape for name, leaf in draws.items()
    }


def test_coefficients_in_original_units_are_those_of_least_squares() -> None:
    table = frame()
    encoding, X, y, _ = tables.learn(table, "y", "linear")
    fit = np.linalg.lstsq(np.column_stack([X, np.ones(N)]), y)[0]
    found = tables.unstandardise(encoding, {"coef": fit[:-1], "intercept": fit[-1]})
    design = np.column_stack([raw_design(encoding, table), np.ones(N)])
    direct = np.linalg.lstsq(design, table["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(found["coef"], direct[:-1], rtol=1e-8)
    np.testing.assert_allclose(found["intercept"], direct[-1], rtol=1e-8)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"coef": np.zeros((2, 3, 4))}, "must contain coef and intercept, found"),
        (
            {"coef": np.zeros((2, 3, 5)), "intercept": np.zeros((2, 3))},
            r"4 columns; found \(2, 3, 5",
        ),
        ({"coef": np.zeros((2, 3, 4)), "intercept": np.zeros(3)}, r"intercept'\], \(3,\)"),
        ({"coef": 0.0, "intercept": 0.0}, r"found \(\)"),
    ],
)
def test_bad_draws(draws: dict[str, Any], message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        tables.unstandardise(learn().encoding, draws)


# The posterior ----------------------------------------------------------------------------------


def test_noise_is_estimated_or_given_in_the_targets_unit() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"a": rng.normal(size=4000), "b": rng.normal(size=4000)})
    table["y"] = 300 + 70 * table["a"] + 25 * rng.normal(size=4000)
    encoding, X, y, _ = tables.learn(table, "y", "linear")
    noise = tables.estimate_noise(X, y) * encoding.target.scale
    assert abs(noise - 25) < 4 * 25 / np.sqrt(2 * 4000)
    design = np.column_stack([table[["a", "b"]], np.ones(4000)])
    residuals = table["y"] - design @ np.linalg.lstsq(design, table["y"], rcond=None)[0]
    np.testing.assert_allclose(noise, np.sqrt((residuals**2).sum() / 3997))
    for post, scale in (
        (tables.posterior(X, y, encoding), noise),
        (tables.posterior(X, y, encoding, noise_scale=10.0), 10.0),
    ):
        np.testing.assert_allclose(post.hyper["noise_scale"] * encoding.target.scale, scale)


def test_columns_that_determine_the_target_leave_the_least_noise() -> None:
    encoding, X, y, _ = learn()
    exact = X[:, 0] - 2 * X[:, 1]
    least = tables.LEAST_NOISE * np.std(exact)
    assert tables.posterior(X, exact, encoding).hyper["noise_scale"] == least
    few = tables.posterior(X[:4], y[:4], encoding)
    assert few.hyper["noise_scale"] == tables.LEAST_NOISE * np.std(y[:4])


def test_prior_precisions() -> None:
    encoding, X, y, _ = learn()
    for given_precision, expected in (
        (4.0, [4.0, 4.0, 4.0, 4.0, 0.01]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0, 0.01]),
    ):
        post = tables.posterior(X, y, encoding, given_precision)
        np.testing.assert_array_equal(post.hyper["prior_precision"], expected)


def test_bad_options_of_the_posterior() -> None:
    encoding, X, y, _ = learn()
    for options, message in (
        ({"prior_precision": -1}, "prior_precision must be a finite number above 0, found -1"),
        ({"prior_precision": "a"}, "prior_precision='a' is not known; choose one of auto"),
        (
            {"prior_precision": [1.0]},
            r"4 columns \(and the intercept, last\); found 1",
        ),
        ({"noise_scale": 0}, "noise_scale must be a finite number above 0"),
    ):
        with pytest.raises(orn.InputError, match=message):
            tables.posterior(X, y, encoding, **options)
    counts, X, y, _ = learn("poisson", y=target_of("poisson"))
    with pytest.raises(orn.InputError, match=r"noise_scale=1\.0 is for linear models; a poisson"):
        tables.posterior(X, y, counts, noise_scale=1.0)


def test_from_a_file_to_draws_in_its_units(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"dose": rng.normal(50, 20, 3000), "drug": rng.choice(["A", "B"], 3000)})
    table["y"] = 120 + 0.5 * table["dose"] - 8 * (table["drug"] == "B") + rng.normal(0, 4, 3000)
    path = tmp_path / "trial.csv.gz"
    table.to_csv(path, index=False)
    found = tables.read(path)
    model, _ = tables.guess_model(found, "y")
    encoding, X, y, _ = tables.learn(found, "y", model)
    result = orn.sample(tables.posterior(X, y, encoding), key=0, draws=200)
    draws = tables.unstandardise(Encoding.from_json(encoding.to_json()), result.draws)
    truth = {"coef": [0.5, -8.0], "intercept": 120.0}
    for name, value in truth.items():
        mean, sd = draws[name].mean(axis=(0, 1)), draws[name].std(axis=(0, 1))
        assert np.all(np.abs(mean - value) < 4 * sd), name

"""Estimators take data frames of every kind, and give frames where scikit-learn's settings ask."""

import copy
import textwrap
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ornstein as orn
from ornstein.estimators import BayesianLinearRegressor, BayesianLogisticClassifier
from support.frame_kinds import KINDS, NUMERIC, ODD, categories

N = 60
QUICK: dict[str, Any] = {"draws": 50, "method": "laplace", "prior_precision": 1.0}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"a": RNG.normal(size=N), "n": np.arange(N) % 5, "t": RNG.uniform(size=N) < 0.5}
)
Y = FRAME["a"] + 0.1 * FRAME["n"] + RNG.normal(size=N)
TARGETS = FRAME.assign(
    y=Y, w=np.arange(N) % 3, label=np.where(Y > 0, "yes", "no"), known=np.asarray(Y > 0)
)


@pytest.fixture(scope="module")
def model() -> BayesianLinearRegressor:
    return BayesianLinearRegressor(noise_scale=1.0, **QUICK).fit(FRAME, Y)


@pytest.fixture(scope="module")
def weighted() -> BayesianLinearRegressor:
    given = BayesianLinearRegressor(noise_scale=1.0, **QUICK)
    return given.fit(FRAME, Y, sample_weight=TARGETS["w"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_is_fitted_alike(kind: str, weighted: BayesianLinearRegressor) -> None:
    given, targets = (KINDS[kind].of_pandas(table) for table in (FRAME, TARGETS))
    found = clone(weighted).fit(given, targets["y"], sample_weight=targets["w"])
    assert found.feature_names_in_.tolist() == ["a", "n", "t"]
    np.testing.assert_array_equal(found.coef_, weighted.coef_)
    np.testing.assert_array_equal(found.predict(given), weighted.predict(FRAME))
    np.testing.assert_array_equal(found.predict(FRAME), weighted.predict(FRAME))
    other = KINDS[kind].of_pandas(FRAME.rename(columns={"n": "m"}))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(other)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_every_kind(kind: str) -> None:
    given, targets = (KINDS[kind].of_pandas(table) for table in (FRAME, TARGETS))
    for name, classes in (("label", ["no", "yes"]), ("known", [False, True]), ("w", [0, 1, 2])):
        found = BayesianLogisticClassifier(**QUICK).fit(given, targets[name])
        assert found.classes_.tolist() == classes
        assert found.score(given, np.asarray(TARGETS[name])) > 1 / 3
    grades = categories(kind, ["v", "u"] * (N // 2), ["v", "u"])
    found = BayesianLogisticClassifier(**QUICK).fit(given, grades["b"])
    assert found.classes_.tolist() == ["u", "v"]
    holed = KINDS[kind].of_columns(b=[*(["v", "u"] * (N // 2))[1:], None])
    with pytest.raises(orn.InputError, match="y has no label in 1 rows, the first being row 59"):
        BayesianLogisticClassifier(**QUICK).fit(given, holed["b"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NUMERIC)
def test_columns_of_numbers(kind: str, name: str) -> None:
    values = NUMERIC[name] * 5
    plain = BayesianLinearRegressor(noise_scale=1.0, **QUICK).fit(
        np.array(values, float)[:, None], Y
    )
    given = KINDS[kind].of_columns(b=values)
    np.testing.assert_array_equal(clone(plain).fit(given, Y).coef_, plain.coef_)
    assert isinstance(clone(plain).fit(FRAME, given["b"]).coef_, np.ndarray)
    holed = KINDS[kind].of_columns(b=[None, *values[1:]])
    with pytest.raises(orn.InputError, match=r"X has NaN.*in b \(1\)"):
        clone(plain).fit(holed, Y)
    with pytest.raises(orn.InputError, match=r"y has NaN.*row 0"):
        clone(plain).fit(FRAME, holed["b"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ODD)
def test_other_columns_are_refused_by_name(kind: str, name: str) -> None:
    values, remedy = ODD[name]
    given = KINDS[kind].of_columns(b=values * (N // len(values)))
    with pytest.raises(orn.InputError, match=rf"X\['b'\] must be numeric.*{remedy}"):
        BayesianLinearRegressor(**QUICK).fit(given, Y)
    with pytest.raises(orn.InputError, match=rf"y must be numeric.*{remedy}"):
        BayesianLinearRegressor(**QUICK).fit(FRAME, given["b"])


def test_lazy_frames_are_refused(model: BayesianLinearRegressor) -> None:
    with pytest.raises(orn.InputError, match=r"X is a lazy frame.*collect"):
        model.predict(pl.from_pandas(FRAME).lazy())  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_remedy_for_text_is_one(kind: str) -> None:
    table = TARGETS[["a", "label"]]
    one_hot = OneHotEncoder(drop="first", sparse_output=False), ["label"]
    encode = make_column_transformer(one_hot, remainder="passthrough")
    chain = make_pipeline(encode, BayesianLinearRegressor(noise_scale=1.0, **QUICK))
    found = chain.fit(KINDS[kind].of_pandas(table), Y).predict(KINDS[kind].of_pandas(table))
    np.testing.assert_allclose(found, chain.fit(table, Y).predict(table))


@pytest.mark.parametrize("gaps", [False, True])
def test_the_pipeline_in_the_message_works(gaps: bool) -> None:
    table = TARGETS[["a", "label"]].assign(b=np.sin(np.arange(N)))
    if gaps:
        table.loc[3, "a"] = None
    with pytest.raises(ValueError, match=r"'label'\] must be numeric") as found:
        BayesianLinearRegressor(**QUICK).fit(table, Y)
    code = textwrap.dedent(str(found.value).split("\n\n")[1])
    assert ("SimpleImputer" in code) == gaps
    space: dict[str, Any] = {}
    exec(code, space)
    model = space["model"].set_params(
        **{f"bayesianlinearregressor__{name}": value for name, value in QUICK.items()}
    )
    assert np.isfinite(model.fit(table, Y).predict(table)).all()


def test_gaps_alone_call_for_an_imputer() -> None:
    table = FRAME[["a"]].assign(b=np.sin(np.arange(N)))
    table.loc[0, "b"] = None
    with pytest.raises(ValueError, match=r"in b \(1\)") as found:
        BayesianLinearRegressor(**QUICK).fit(table, Y)
    assert "make_pipeline(SimpleImputer(), BayesianLinearRegressor())" in str(found.value)


# Containers -------------------------------------------------------------------------------------


def with_output(model: BayesianLinearRegressor, container: str | None) -> BayesianLinearRegressor:
    """The same fit with a setting of its own."""
    return copy.copy(model).set_output(transform=container)


def test_intervals_come_in_the_container_that_is_set(model: BayesianLinearRegressor) -> None:
    ends = model.predict_interval(FRAME, 0.8)
    assert isinstance(ends, tuple)
    expected = np.column_stack(ends)
    with_index = FRAME.set_axis(pd.Index(range(100, 100 + N), name="row"))
    for container, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        chosen = with_output(model, container)
        for given in (FRAME, with_index, nw.from_native(with_index), pl.from_pandas(FRAME)):
            found = chosen.predict_interval(given, 0.8)
            assert isinstance(found, kind)
            assert list(found.columns) == ["low 80%", "high 80%"]
            np.testing.assert_array_equal(found.to_numpy(), expected)
        assert isinstance(chosen.predict(FRAME), np.ndarray)
    framed = with_output(model, "pandas")
    for given in (with_index, nw.from_native(with_index)):
        pd.testing.assert_index_equal(framed.predict_interval(given).index, with_index.index)


def test_the_container_is_a_setting_of_the_estimator(model: BayesianLinearRegressor) -> None:
    """Which clones keep; the global setting is for transformers."""
    with sklearn.config_context(transform_output="polars"):
        assert isinstance(model.predict_interval(FRAME), tuple)
        assert isinstance(with_output(model, None).predict_interval(FRAME), tuple)
        assert isinstance(with_output(model, "pandas").predict_interval(FRAME), pd.DataFrame)
        assert isinstance(with_output(model, "default").predict_interval(FRAME), tuple)
    array = FRAME.to_numpy(float)
    cloned = clone(with_output(model, "pandas")).fit(array, Y)
    found = cloned.predict_interval(array)
    assert isinstance(found, pd.DataFrame)
    assert isinstance(found.index, pd.RangeIndex)
    chain = make_pipeline(StandardScaler(), clone(model)).set_output(transform="pandas")
    assert chain.fit(FRAME, Y)[-1].feature_names_in_.tolist() == ["a", "n", "t"]
    with pytest.raises(orn.InputError, match=r"transform='Pandas'.*Did you mean 'pandas'"):
        model.set_output(transform="Pandas")

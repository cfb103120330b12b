"""Tables of every library are learned, fitted and predicted alike."""

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ornstein as orn
from ornstein import tables
from ornstein.tables import CategoricalColumn, TableModel
from support.data_frames import N, frame, holed, target_of
from support.frame_kinds import KINDS, NUMERIC, ODD, categories

GRADES = ["low", "mid", "high"]
TABLE = frame(
    count=np.arange(N) % 7,
    old=np.arange(N) % 4 == 0,
    grade=pd.Categorical(np.resize(["low", "high", "mid", "low"], N), GRADES),
)
CLASSES = TABLE.assign(y=target_of("softmax"))
Models = tuple[TableModel, TableModel]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [TABLE, CLASSES], ids=["numbers", "classes"])
def test_every_kind_of_frame_is_learned_alike(kind: str, table: pd.DataFrame) -> None:
    given = KINDS[kind].of_pandas(table)
    assert tables.guess_model(given, "y") == tables.guess_model(table, "y")
    found, expected = tables.learn(given, "y"), tables.learn(table, "y")
    assert (found.encoding, found.notes) == (expected.encoding, expected.notes)
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_found_in_every_kind(kind: str) -> None:
    grade = pd.Categorical(holed(TABLE["grade"], 5, 6), GRADES)
    gaps = {name: holed(TABLE[name], row) for row, name in enumerate(("a", "kind", "count", "old"))}
    table = TABLE.assign(**gaps, grade=grade)
    given = KINDS[kind].of_pandas(table)
    with pytest.raises(orn.InputError, match=r"'kind' \(1\), 'count' \(1\), 'old' \(1\), 'grade'"):
        tables.learn(given, "y")
    for missing in ("drop", "impute"):
        found, expected = (tables.learn(one, "y", None, missing) for one in (given, table))
        assert (found.encoding, found.notes) == (expected.encoding, expected.notes)
        np.testing.assert_array_equal(found.X, expected.X)
        complete = found.encoding.complete(given)
        np.testing.assert_array_equal(complete, expected.encoding.complete(table))


@pytest.fixture(scope="module")
def models() -> Models:
    """Of numbers, and of classes."""
    quick: dict[str, Any] = {"method": "laplace", "draws": 50, "prior_precision": 1.0}
    return (
        tables.fit_table(tables.learn(TABLE, "y", "linear"), noise_scale=1.0, **quick),
        tables.fit_table(tables.learn(CLASSES, "y", "softmax"), **quick),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_of_the_kind_given(kind: str, models: Models) -> None:
    for model in models:
        given = KINDS[kind].of_pandas(TABLE.drop(columns="y"))
        found, expected = model.predict(given), model.predict(TABLE)
        assert type(found) is type(given)
        names = nw.from_native(found).columns
        assert names == list(expected.columns)
        for name in names:
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(expected[name]))


def test_predictions_keep_the_index_of_a_pandas_table(models: Models) -> None:
    for index in (pd.RangeIndex(7, 7 + N), pd.MultiIndex.from_product([range(2), range(N // 2)])):
        for model in models:
            pd.testing.assert_index_equal(model.predict(TABLE.set_axis(index)).index, index)


def test_columns_that_were_not_learned_may_be_anything(models: Models) -> None:
    later = TABLE.assign(day=pd.Timestamp("2020"), mixed=[1, "a"] * (N // 2))
    pd.testing.assert_frame_equal(models[0].predict(later), models[0].predict(TABLE))


def test_pictures_take_every_kind(models: Models) -> None:
    heading, _, figures = models[0].fit_picture(KINDS["polars"].of_pandas(TABLE))
    assert heading == "Residuals and coverage"
    assert figures


# Columns of every type ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NUMERIC)
def test_columns_of_numbers(kind: str, name: str) -> None:
    values = NUMERIC[name]
    y = [i**0.5 for i in range(len(values))]
    encoding = tables.learn(KINDS[kind].of_columns(b=values, y=y), "y").encoding
    (column,) = encoding.columns
    if name == "truth":  # which are labels
        assert column == CategoricalColumn("b", ("False", "True"), (np.mean(values),))
    else:
        np.testing.assert_allclose(column.centres, [np.mean(np.array(values, float))])
    with pytest.raises(orn.InputError, match=r"Missing values in 'b' \(1\)"):
        encoding.encode(KINDS[kind].of_columns(b=[None, *values[1:]], y=y))


REFUSED = {
    "date": "'b' contains dates or times.*days since",
    "datetime": "'b' contains dates or times.*days since",
    "time": "'b' contains dates or times.*days since",
    "duration": "'b' contains durations.*such as seconds",
    "written numbers": "'b' contains numbers with commas, such as '1,234'.*thousands",
    "list": r"'b' contains list \(such as \[1, 2\]\).*leave it out",
    "struct": "'b' contains dict .*leave it out",
    "binary": "'b' contains bytes .*leave it out",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_other_columns_are_refused_by_name(kind: str, name: str) -> None:
    values = ODD[name][0]
    values = values * (N // len(values))
    given = KINDS[kind].of_columns(b=values, y=[i**0.5 for i in range(N)])
    with pytest.raises(orn.InputError, match=REFUSED[name]):
        tables.learn(given, "y")


@pytest.mark.parametrize("kind", KINDS)
def test_categories_keep_their_order(kind: str) -> None:
    y = np.arange(N) ** 0.5
    given = categories(kind, ["v", "u"] * (N // 2), ["v", "w", "u"], y=y)
    (column,) = tables.learn(given, "y").encoding.columns
    assert column == CategoricalColumn("b", ("v", "u"), (0.5,))


def test_categories_of_polars_are_ordered_by_alphabet_and_those_of_an_enum_by_itself() -> None:
    values, y = ["v", "u", None, "v"] * 3, pl.Series("y", np.arange(12) ** 0.5)
    for kind, levels in (
        (pl.Categorical(), ("u", "v", None)),
        (pl.Enum(["v", "w", "u"]), ("v", "u", None)),
    ):
        table = pl.DataFrame({"b": pl.Series(values, dtype=kind), "y": y})
        (column,) = tables.learn(table, "y", missing="impute").encoding.columns
        assert isinstance(column, CategoricalColumn)
        assert column.levels == levels


def test_dictionaries_in_chunks_and_with_gaps_in_them() -> None:
    parts = [
        pa.DictionaryArray.from_arrays([0, 1, 0], ["v", "u"]),
        pa.DictionaryArray.from_arrays([1, 2, 0, None], ["u", None, "v"]),
    ]
    table = pa.table({"b": pa.chunked_array(parts), "y": np.arange(7) ** 0.5})
    (column,) = tables.learn(table, "y", missing="impute").encoding.columns
    assert isinstance(column, CategoricalColumn)
    assert column.levels == ("v", "u", None)
    assert column.centres == (2 / 7, 2 / 7)


def test_intervals_are_labels() -> None:
    """The bins that pandas.cut makes, which Arrow has no type for."""
    bins = pd.cut(TABLE["a"], [-30, 0, 10, 200])
    (column,) = tables.learn(pd.DataFrame({"b": bins, "y": TABLE["y"]}), "y").encoding.columns
    assert isinstance(column, CategoricalColumn)
    assert column.levels == ("(-30, 0]", "(0, 10]", "(10, 200]")


def test_what_is_no_table_or_text_is_refused() -> None:
    with pytest.raises(orn.InputError, match=r"frame is a lazy frame.*collect"):
        tables.learn(pl.LazyFrame({"a": [1.0]}), "a")
    with pytest.raises(orn.InputError, match="found Series"):
        tables.learn(pl.Series([1.0]), "a")
    odd = pd.DataFrame({"b": ["a", "\ud800"] * 6, "y": np.arange(12) ** 0.5}, dtype=object)
    with pytest.raises(orn.InputError, match=r"'b' contains text that is not Unicode.*ud800"):
        tables.learn(odd.astype({"y": float}), "y")

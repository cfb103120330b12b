"""Data frames of every kind become the same numbers, or are refused by their column's name."""

from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ornstein as orn
from ornstein import models
from ornstein.data import frames, inputs
from support.frame_kinds import KINDS, NUMERIC, ODD, categories

N = 12
Y = np.linspace(-1.0, 1.0, N)
FRAME = pd.DataFrame(
    {"a": np.arange(N) ** 1.5, "n": np.arange(N) % 5, "t": np.arange(N) % 2 == 0, "y": Y}
)
X = FRAME[["a", "n", "t"]].to_numpy(float)


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_every_kind_of_frame_are_the_same(kind: str) -> None:
    frame = KINDS[kind].of_pandas(FRAME)
    table = KINDS[kind].of_pandas(FRAME[["a", "n", "t"]])
    post = models.linear(table, frame["y"], sample_weight=frame["a"])
    assert post.labels == ["coef[a]", "coef[n]", "coef[t]"]
    np.testing.assert_array_equal(post.data["x"], X[1:])
    np.testing.assert_array_equal(post.data["y"], Y[1:])
    np.testing.assert_array_equal(post.data["w"], X[1:, 0])
    named = models.linear(table, KINDS[kind].of_pandas(FRAME[["y"]]), feature_names=["u", "v", "w"])
    assert named.labels == ["coef[u]", "coef[v]", "coef[w]"]
    np.testing.assert_array_equal(models.logistic(table, frame["t"]).data["y"], X[:, 2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NUMERIC)
def test_columns_of_numbers_are_read_and_gaps_in_them_refused(kind: str, name: str) -> None:
    values = NUMERIC[name]
    found, names = inputs.table(KINDS[kind].of_columns(b=values))
    np.testing.assert_array_equal(found[:, 0], np.array(values, float))
    assert names == ("b",)
    holed = KINDS[kind].of_columns(b=[None, *values[1:]])
    with pytest.raises(orn.InputError, match=r"X has NaN.*in b \(1\)"):
        inputs.table(holed)
    with pytest.raises(orn.InputError, match=r"y has NaN.*row 0"):
        inputs.target(holed["b"], len(values))
    with pytest.raises(orn.InputError, match=r"X has NaN.*in b \(1\)"):
        inputs.table(orn.open_rows(holed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ODD)
def test_other_columns_are_refused_by_name_with_a_remedy(kind: str, name: str) -> None:
    values, remedy = ODD[name]
    frame = KINDS[kind].of_columns(b=values * N)
    with pytest.raises(orn.InputError, match=rf"X\['b'\] must be numeric.*{remedy}"):
        inputs.table(frame)
    with pytest.raises(orn.InputError, match=rf"y must be numeric.*{remedy}"):
        inputs.target(frame["b"], len(values) * N)
    with pytest.raises(orn.InputError, match=rf"column 'b' must be numeric.*{remedy}"):
        orn.open_rows(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_categories_are_refused_by_name(kind: str) -> None:
    with pytest.raises(orn.InputError, match=r"X\['b'\].*categories.*e\.g\. 'v'.*OneHotEncoder"):
        inputs.table(categories(kind, ["v", "u"] * 6, ["v", "u"]))


def test_rarer_types() -> None:
    for column, expected in (
        (pl.Series("b", [1, 2], dtype=getattr(pl, "Int128", pl.Int64)), [1, 2]),
        (pd.Series(pd.arrays.SparseArray([0.0, 3.0]), name="b"), [0, 3]),
        (pd.Series([np.longdouble(2), 3], name="b", dtype=np.longdouble), [2, 3]),
        (pd.Series([2**70, 1], name="b", dtype=object), [2.0**70, 1]),
        (pa.chunked_array([pa.array([1.0, 2.0]).cast(pa.float16())]), [1, 2]),
    ):
        np.testing.assert_array_equal(inputs.target(column, 2), np.array(expected, float))
    for column, found in (
        (pd.Series(pd.period_range("2020", periods=2, freq="M")), "dates"),
        (pd.Series([1j, 2j]), "complex"),
        (pd.Series([1, "a"], dtype=object), "other values.*object"),
        (pd.Series([True, 1], dtype=object), "other values"),
        (pd.Series(pd.interval_range(0, 2)), "other values"),
        (pl.Series([object(), object()], dtype=pl.Object), "other values"),
        (pl.Series(["u", "v"], dtype=pl.Categorical), "categories"),
        (pl.Series(["u", "v"], dtype=pl.Enum(["v", "u"])), "categories"),
    ):
        with pytest.raises(orn.InputError, match=found):
            inputs.target(column, 2)
    for nothing in (
        pl.Series([None, None]),
        pa.chunked_array([pa.nulls(2)]),
        pd.Series([None] * 2),
    ):
        with pytest.raises(orn.InputError, match="y has NaN or infinite values in 2 rows"):
            inputs.target(nothing, 2)
    with pytest.raises(orn.InputError, match="cannot be read as numbers"):
        inputs.target(pd.Series([10**400, 1], dtype=object), 2)


def test_pandas_names_may_repeat_or_be_numbers() -> None:
    frame = pd.DataFrame(X).astype({2: "Int64"})
    assert inputs.table(frame)[1] == ("0", "1", "2")
    assert inputs.table(frame.set_axis(["a", "a", "b"], axis=1))[1] == ("a", "a.1", "b")


def test_lazy_frames_are_refused() -> None:
    lazy = pl.LazyFrame({"a": [1.0]})
    with pytest.raises(orn.InputError, match=r"X is a lazy frame \(polars.*collect\(\).*open_rows"):
        models.linear(lazy, Y)  # type: ignore[arg-type]
    with pytest.raises(orn.InputError, match=r"source is a lazy frame"):
        orn.open_rows(nw.from_native(lazy))


# No copies


def test_columns_share_their_memory() -> None:
    array = np.asfortranarray(np.random.default_rng(0).normal(size=(N, 3)))
    frame = pd.DataFrame(array, copy=False)
    assert np.shares_memory(inputs.table(frame)[0], array)
    for column in (pl.Series(array[:, 0]), pa.chunked_array([array[:, 0]]), frame[0]):
        own = frames.series_of(column).to_numpy()
        assert np.shares_memory(inputs.target(column, N), own)
    for one in (pl.DataFrame({"a": array[:, 0]}), pa.table({"a": array[:, 0]}), frame[[0]]):
        opened = frames.opened("X", one)
        assert isinstance(opened, frames.Frame)
        assert np.shares_memory(inputs.table(one)[0], opened.columns[0].to_numpy())


# Rows by blocks


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_frames_are_read_as_they_are_asked_for(kind: str) -> None:
    rows = orn.open_rows(KINDS[kind].of_pandas(FRAME), columns=["a", "n", "t"])
    assert (rows.shape, rows.dtype) == ((N, 3), np.dtype(float))
    odd = np.random.default_rng(1).integers(0, N, (5, 7))
    for wanted in (slice(None), slice(3, 9), slice(5, 5), slice(None, None, 5), odd, 4):
        np.testing.assert_array_equal(rows[wanted], X[wanted])
    target = orn.open_rows(KINDS[kind].of_pandas(FRAME), columns="t")
    assert (target.shape, target.dtype) == ((N,), np.dtype(np.int8))
    post = models.logistic(rows, target)
    assert post.on_disk
    assert post.labels == ["coef[a]", "coef[n]", "coef[t]"]
    with pytest.raises(TypeError, match="stays where it is"):
        np.asarray(rows)


def test_rows_of_mapped_arrow_files(tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(1000, 2))
    table = pa.table({"a": array[:, 0], "b": array[:, 1], "day": pa.array([0] * 1000, pa.date32())})
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as to,
    ):
        to.write_table(table, max_chunksize=300)
    mapped = pa.ipc.open_file(pa.memory_map(str(tmp_path / "t.arrow"))).read_all()
    before = pa.total_allocated_bytes()
    rows = orn.open_rows(mapped, columns=["a", "b"])
    some = np.array([999, 0, 299, 300, 301, 650, 0])
    np.testing.assert_array_equal(rows[some], array[some])
    np.testing.assert_array_equal(rows[250:950], array[250:950])
    first = orn.open_rows(mapped, columns="a")[10:20]
    assert np.shares_memory(first, mapped["a"].chunk(0).to_numpy())
    assert pa.total_allocated_bytes() == before


def test_a_posterior_of_frame_rows_is_that_of_the_array() -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3000, 2))
    y = array @ [1.0, -1.0] + rng.normal(size=3000)
    frame = pl.DataFrame({"a": array[:, 0], "b": array[:, 1], "y": y})
    by_blocks = models.linear(orn.open_rows(frame, ["a", "b"]), orn.open_rows(frame, "y"))
    centre = orn.plan(by_blocks, batch_size=20).center
    np.testing.assert_allclose(centre, orn.plan(models.linear(array, y)).center, rtol=1e-5)


BAD_SOURCES: list[tuple[Any, Any, str]] = [
    (X, None, "source must be a path or a data frame, found ndarray"),
    (pl.Series([1.0]), None, "found Series"),
    (FRAME, "z", "the pandas DataFrame has no column 'z'"),
    (FRAME, [0], "go by name"),
    (FRAME, [], "columns is empty"),
    (pd.DataFrame(X), None, "go by name"),
    (FRAME[["a", "a"]], None, "columns of the same name"),
]


@pytest.mark.parametrize(("source", "columns", "message"), BAD_SOURCES)
def test_bad_sources(source: Any, columns: Any, message: str) -> None:
    with pytest.raises(orn.InputError, match=message):
        orn.open_rows(source, columns)

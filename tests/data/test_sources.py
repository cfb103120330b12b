"""Tables that stay on disk: opened and checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ornstein as orn
from ornstein.data.derived import Derived, held
from ornstein.data.on_disk import map_as_rows
from ornstein.data.passes import mean_and_sd
from support.disk_tables import ROWS, npy, opened, parquet, rows
from support.montecarlo import Floats

# Opening


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_rows_come_as_they_are_asked_for(tmp_path: Path, kind: str) -> None:
    array = rows()
    found = opened(tmp_path, array, kind)
    assert (found.shape, found.dtype.name, found.ndim, len(found)) == (
        (ROWS, 4),
        "float32",
        2,
        ROWS,
    )
    odd = np.random.default_rng(1).integers(0, ROWS, (5, 70))
    for wanted in (slice(None), slice(900, 2100), slice(7, 8), slice(5, 5), slice(None, None, 97)):
        assert np.array_equal(found[wanted], array[wanted])
    assert np.array_equal(found[odd], array[odd])
    assert np.array_equal(found[12], array[12])
    assert np.array_equal(found[array[:, 0] > 1], array[array[:, 0] > 1])
    assert found.astype(float)[:3].dtype == float
    with pytest.raises(IndexError, match="rows 0 to 2999"):
        found[[ROWS]]
    with pytest.raises(TypeError, match="stays where it is"):
        np.asarray(found)


def test_some_columns_of_a_file(tmp_path: Path) -> None:
    array = rows()
    path, folder = npy(tmp_path, array), parquet(tmp_path, array)
    assert np.array_equal(orn.open_rows(path, columns=[3, 1])[10:20], array[10:20, [3, 1]])
    assert np.array_equal(orn.open_rows(path, columns=2)[[5, 3]], array[[5, 3], 2])
    assert np.array_equal(orn.open_rows(folder, columns=["c3", "c1"])[:], array[:, [3, 1]])
    assert np.array_equal(orn.open_rows(folder, columns="c2")[990:1010], array[990:1010, 2])
    assert orn.open_rows(folder / "part-0.parquet").shape == (1000, 4)


def test_memory_maps_stay_on_disk_and_views_of_them_are_arrays(tmp_path: Path) -> None:
    array = rows()
    mapped = np.load(npy(tmp_path, array), mmap_mode="r")
    assert isinstance(map_as_rows(mapped), orn.RowsOnDisk)
    assert np.array_equal(map_as_rows(mapped)[5:9], array[5:9])
    assert not isinstance(map_as_rows(mapped[10:]), orn.RowsOnDisk)
    assert not isinstance(map_as_rows(mapped.T), orn.RowsOnDisk)
    post = orn.models.linear(mapped, array[:, 0])
    assert post.on_disk
    assert not orn.models.linear(mapped[:, :2], array[:, 0]).on_disk


def test_rows_are_derived_from_others_as_they_are_read(tmp_path: Path) -> None:
    array, there = rows(), orn.open_rows(npy(tmp_path, rows()))
    sizes: list[int] = []

    def product(table: Floats, factor: Floats) -> Floats:
        sizes.append(len(table))
        return table[:, :2] * factor[:, None]

    found, expected = Derived(product, there, array[:, 3]), array[:, :2] * array[:, 3:]
    assert (found.shape, found.dtype.name, found.block) == ((ROWS, 2), "float64", there.block)
    assert np.array_equal(found[900:2100], expected[900:2100])
    assert np.array_equal(found[[7, 3, 7]], expected[[7, 3, 7]])
    assert sizes == [0, 1200, 3]
    assert found.astype(np.float32)[:2].dtype == np.float32
    assert found.scan.high == pytest.approx(expected.max(axis=0))
    assert held(there) is there
    assert np.array_equal(held(array)[5:9], array[5:9])


def test_moments_over_blocks_are_those_of_all_rows() -> None:
    """Of numbers far from zero, whose squares would cancel."""
    array = 1e6 + np.random.default_rng(0).normal(size=(600_000, 2)) * [1.0, 5.0]
    for found, expected in zip(mean_and_sd(held(array)), mean_and_sd(array), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(mean_and_sd(held(array[:, 0]))[1], np.std(array[:, 0]))


BAD_FILES: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "nowhere": (lambda p: p / "gone.npy", {}, "does not exist"),
    "text": (lambda p: _text(p / "rows.csv"), {}, "neither a .npy file nor Parquet"),
    "no npy": (lambda p: _text(p / "rows.npy"), {}, "cannot be opened"),
    "truncated": (lambda p: _cut(npy(p, rows())), {}, "cannot be opened"),
    "objects": (lambda p: npy(p, np.array([{}, {}])), {}, "cannot be opened"),
    "words": (lambda p: npy(p, np.array(["a", "b"])), {}, "must hold numbers"),
    "by columns": (lambda p: npy(p, np.asfortranarray(rows())), {}, "by columns"),
    "three axes": (lambda p: npy(p, np.zeros((2, 2, 2))), {}, "one or two axes"),
    "no columns": (lambda p: npy(p, np.zeros(9)), {"columns": 0}, "has one axis"),
    "far column": (lambda p: npy(p, rows()), {"columns": [0, 4]}, "from 0 to 3"),
    "named column": (lambda p: npy(p, rows()), {"columns": "a"}, "columns must be numbers"),
    "empty folder": (lambda p: p, {}, "has no .parquet files"),
    "no parquet": (lambda p: _text(p / "rows.parquet"), {}, "cannot be read as Parquet"),
    "misspelt": (lambda p: parquet(p, rows()), {"columns": ["c00"]}, "no column 'c00'.*c0"),
    "numbered": (lambda p: parquet(p, rows()), {"columns": [1]}, "go by name"),
    "nothing": (lambda p: parquet(p, rows()), {"columns": []}, "columns is empty"),
    "strings": (lambda p: _strings(p), {}, "column 'name' must hold numbers, found string"),
    "strange file": (lambda p: _strange(p), {}, "has other columns than"),
}


def _text(path: Path) -> Path:
    path.write_text("a,b\n1,2\n")
    return path


def _cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-100])
    return path


def _strings(folder: Path) -> Path:
    pq.write_table(pa.table({"x": [1.0], "name": ["a"]}), folder / "t.parquet")
    return folder / "t.parquet"


def _strange(folder: Path) -> Path:
    place = parquet(folder, rows())
    pq.write_table(pa.table({"x": [1.0]}), place / "z.parquet")
    return place


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_can_not_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    make, options, message = BAD_FILES[name]
    with pytest.raises(orn.InputError, match=message):
        orn.open_rows(make(tmp_path), **options)


def test_a_file_that_shrinks_is_not_read_as_if_it_had_not(tmp_path: Path) -> None:
    path = npy(tmp_path, rows())
    found = orn.open_rows(path)
    _cut(path)
    with pytest.raises(OSError, match="shorter than it was"):
        found[:]


# Checks


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_numbers_that_are_none_are_counted_by_column(tmp_path: Path, kind: str) -> None:
    array = rows()
    array[[3, 2500], 1], array[7, 2] = np.nan, np.inf
    X = opened(tmp_path, array, kind)
    names = ("c1", "c2") if kind == "parquet" else ("column 1", "column 2")
    with pytest.raises(orn.InputError, match=rf"{names[0]} \(2\), {names[1]} \(1\)"):
        orn.models.linear(X, rows()[:, 0])
    with pytest.raises(orn.InputError, match=r"'x'.*3 NaN or infinite"):
        orn.Posterior(lambda t, r: -(t**2) * r["x"].sum(), lambda t: -(t**2), {"x": X}, 0.0)
    bad = orn.open_rows(npy(tmp_path, array[:, 1], "y.npy"))
    with pytest.raises(orn.InputError, match=r"y has NaN.* in 2 rows, the first being row 3"):
        orn.models.linear(rows(), bad)


def test_missing_values_of_whole_numbers_are_refused(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1, None, 3], pa.int32()), "y": [0.0, 1.0, 2.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    X = orn.open_rows(tmp_path / "t.parquet", columns=["x"])
    with pytest.raises(orn.InputError, match=r"x \(1\)"):
        orn.models.linear(X, [0.0, 1.0, 2.0])


BAD_TARGETS: dict[str, tuple[str, Any, str]] = {
    "fractions": ("logistic", [0.5, 1.0], "not all of them whole"),
    "below 0": ("softmax", [-1, 1], "found numbers from -1 to 1"),
    "one class": ("softmax", [1, 1], "one class only"),
    "three": ("logistic", [0, 2], "y has 3 classes"),
    "counts": ("poisson", [-1.0, 2.0], "must hold counts"),
    "parts": ("poisson", [0.5, 2.0], "must hold counts"),
}


@pytest.mark.parametrize("name", BAD_TARGETS)
def test_targets_on_disk_are_checked(tmp_path: Path, name: str) -> None:
    model, pair, message = BAD_TARGETS[name]
    y = orn.open_rows(npy(tmp_path, np.tile(pair, 20)))
    with pytest.raises(orn.InputError, match=message):
        getattr(orn.models, model)(rows(40), y)


def test_more_labels_than_classes(tmp_path: Path) -> None:
    y = orn.open_rows(npy(tmp_path, np.arange(40) % 5))
    with pytest.raises(orn.InputError, match=r"outside 0 .. 2; raise num_classes"):
        orn.models.softmax(rows(40), y, num_classes=3)
    assert orn.models.softmax(rows(40), y).dim == 20
    with pytest.raises(orn.InputError, match=r"one-dimensional.*columns= one column"):
        orn.models.softmax(rows(40), orn.open_rows(npy(tmp_path, rows(40))))

"""Data sets: stored files, originals from a local server, and every way they can go wrong."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import os
import pickle
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pytest

from ornstein.data import datasets
from ornstein.data.datasets import Dataset, DatasetError, fetching
from ornstein.data.datasets.catalogue import SPECS
from support.publisher import (
    HTML,
    NAMES,
    Server,
    Small,
    originals,
    same,
    shrink,
    small_arrays,
    stored,
)


@pytest.fixture
def small(
    request: pytest.FixtureRequest,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Small:
    name: str = getattr(request, "param", "wine")
    arrays = small_arrays(SPECS[name])
    spec = shrink(SPECS[name], arrays, server.url)
    server.files = originals(spec, arrays)
    monkeypatch.setitem(SPECS, name, spec)
    return Small(spec, arrays, tmp_path, server)


every_format = pytest.mark.parametrize("small", NAMES, indirect=True)


# The published data, where this machine has them.


@pytest.fixture(params=NAMES)
def published(request: pytest.FixtureRequest, dataset: Callable[[str], Dataset]) -> str:
    name: str = request.param
    dataset(name)
    return name


def test_published_data_load_and_match_the_originals_layout(published: str, tmp_path: Path) -> None:
    data, spec = datasets.load(published), datasets.info(published)
    assert published in datasets.available()
    assert data.X.shape == (spec.train.rows, spec.columns)
    assert data.feature_names == spec.feature_names
    assert (data.X_test is None) == (data.y_test is None) == (published != "mnist")

    rows = {"": 50, "_train": 50, "_test": 20}
    whole = stored(datasets.folder() / spec.filename)
    head = {key: value[: rows[key[1:]]] for key, value in whole.items() if key[0] in "Xy"}
    np.testing.assert_array_equal(data.X[:50], head.get("X", head.get("X_train")))
    names = {key: value for key, value in whole.items() if key.endswith("name") or "names" in key}
    for file, content in originals(spec, head).items():
        (tmp_path / file).write_bytes(content)
    same(fetching.parse([tmp_path / file for file in spec.files], spec), head | names)


# Downloads that succeed.


@every_format
def test_download_parses_checks_and_stores(small: Small) -> None:
    assert datasets.available(small.home) == ()
    path = datasets.download(small.spec.name, small.home)
    assert path == small.path
    assert os.listdir(small.home) == [small.spec.filename]
    assert datasets.available(small.home) == (small.spec.name,)
    same(stored(path), small.arrays)


@every_format
def test_load_downloads_once(small: Small) -> None:
    first = datasets.load(small.spec.name, small.home)
    asked = list(small.server.asked)
    second = datasets.load(small.spec.name, small.home)
    assert small.server.asked == asked == list(small.spec.files)
    for data in (first, second):
        suffix = "" if data.X_test is None else "_train"
        np.testing.assert_array_equal(data.X, small.arrays[f"X{suffix}"])
        np.testing.assert_array_equal(data.y, small.arrays[f"y{suffix}"])
        assert data.X.dtype == small.spec.x_dtype
        assert (data.target_name, data.licence) == (small.spec.target_name, small.spec.licence)
        assert small.spec.name in repr(data)
        assert len(repr(data)) < 200


@pytest.mark.parametrize("small", ["mnist"], indirect=True)
def test_mnist_has_a_test_part(small: Small) -> None:
    data = datasets.load("mnist", small.home)
    assert data.X_test is not None
    assert data.y_test is not None
    np.testing.assert_array_equal(data.X_test, small.arrays["X_test"])
    np.testing.assert_array_equal(data.y_test, small.arrays["y_test"])
    assert data.feature_names[::783] == ("pixel0", "pixel783")


@pytest.mark.parametrize("small", ["mnist", "covertype"], indirect=True)
def test_files_that_the_server_has_unpacked_are_read(small: Small) -> None:
    small.server.files = {k: gzip.decompress(v) for k, v in small.server.files.items()}
    same(stored(datasets.download(small.spec.name, small.home)), small.arrays)


def test_a_mirror_takes_the_publishers_place(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = dataclasses.replace(small.spec, base_url="http://127.0.0.1:9/gone")
    monkeypatch.setitem(SPECS, "wine", elsewhere)
    datasets.download("wine", small.home, base_url=small.server.url + "/")
    assert small.path.is_file()


@pytest.mark.parametrize(("progress", "shown"), [(None, False), (False, False), (True, True)])
def test_progress_goes_to_standard_error(
    small: Small, progress: bool | None, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets.download("wine", small.home, progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert (small.spec.files[0] in err) == shown


def test_download_replaces_a_damaged_file(small: Small) -> None:
    small.path.write_bytes(b"damaged")
    with pytest.raises(DatasetError, match=r"download\('wine'\)"):
        datasets.load("wine", small.home)
    datasets.download("wine", small.home)
    assert len(datasets.load("wine", small.home).X) == 12


# Downloads that fail.


@every_format
@pytest.mark.parametrize("announce", [True, False])
def test_half_a_download_is_refused(small: Small, announce: bool) -> None:
    last = small.spec.files[-1]
    small.server.cut, small.server.announce = {last}, announce
    message = small.refused()
    assert f"{small.server.url}/{last}" in message
    assert "run the download again" in message
    assert not announce or "bytes read" in message


@every_format
@pytest.mark.parametrize(
    "content",
    [HTML, b"", gzip.compress(b"", mtime=0), b"\x1f\x8b\x08"],
    ids=["html", "empty", "empty-gzip", "half-gzip"],
)
def test_a_wrong_file_is_refused(small: Small, content: bytes) -> None:
    last = small.spec.files[-1]
    small.server.files[last] = content
    message = small.refused()
    assert f"{small.server.url}/{last}" in message
    assert f"{last} ({len(content)} bytes, beginning with {content[:60]!r})" in message


@pytest.mark.parametrize("small", ["wine", "protein", "skin", "covertype"], indirect=True)
def test_a_wrong_number_of_rows_is_refused(small: Small) -> None:
    (file,) = small.spec.files
    text = small.server.files[file]
    plain = gzip.decompress(text) if file.endswith(".gz") else text
    small.server.files[file] = b"\n".join(plain.splitlines()[:-1])
    assert f"X has shape (11, {small.spec.columns}), expected (12, " in small.refused()


def test_wrong_label_counts_are_refused(small: Small) -> None:
    (file,) = small.spec.files
    *lines, last = small.server.files[file].splitlines()
    small.server.files[file] = b"\n".join([*lines, last[:-1] + b"9"])
    assert "label counts" in small.refused()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"alcohol", b"spirit", "does not name the columns"),
        (b";3\n", b";3.5\n", "does not fit the type int8"),
        (b";3\n", b";nan\n", "cannot be read"),
    ],
)
def test_other_content_is_refused(small: Small, old: bytes, new: bytes, found: str) -> None:
    (file,) = small.spec.files
    small.server.files[file] = small.server.files[file].replace(old, new, 1)
    assert found in small.refused()


@pytest.mark.parametrize("small", ["skin"], indirect=True)
def test_an_unknown_skin_label_is_refused(small: Small) -> None:
    (file,) = small.spec.files
    small.server.files[file] = small.server.files[file].replace(b"\t2\n", b"\t3\n", 1)
    assert "its target holds 3, expected one of [1, 2]" in small.refused()


@pytest.mark.parametrize("small", ["mnist"], indirect=True)
def test_an_idx_file_must_hold_what_it_announces(small: Small) -> None:
    labels = small.spec.files[1]
    small.server.files[labels] = struct.pack(">2I", 0x801, 12) + bytes(11)
    assert "it holds 11 values, its header announces 12" in small.refused()
    small.server.files[labels] = struct.pack(">1I", 0x801)
    assert "its IDX header is cut short" in small.refused()


def test_a_missing_page_is_reported(small: Small) -> None:
    small.server.files = {}
    message = small.refused()
    assert f"{small.server.url}/winequality-white.csv" in message
    assert "404" in message
    assert "mirror" in message


def test_no_network_is_reported_and_the_stored_file_kept(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets.download("wine", small.home)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    dead = dataclasses.replace(small.spec, base_url=f"http://127.0.0.1:{port}")
    monkeypatch.setitem(SPECS, "wine", dead)
    message = small.refused()
    assert f"http://127.0.0.1:{port}/winequality-white.csv" in message
    assert "Check the network connection" in message


# Folders that fail.


def test_a_folder_that_cannot_be_made_is_reported_before_any_download(small: Small) -> None:
    (small.home / "file").write_text("not a folder")
    below = small.home / "file" / "data"
    with pytest.raises(DatasetError, match=r"cannot store .*wine\.npz.*data_home"):
        datasets.load("wine", below)
    assert small.server.asked == []
    assert datasets.available(below) == ()


@pytest.mark.parametrize("call", ["numpy.savez_compressed", "os.fsync", "os.replace"])
def test_a_full_disk_is_reported_and_leaves_nothing(
    small: Small, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small.path.write_bytes(b"an older file")
    monkeypatch.setattr(call, full)
    message = small.refused()
    assert str(small.path) in message
    assert "No space left on device" in message
    assert "free space" in message


def test_an_interrupt_leaves_nothing(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        datasets.download("wine", small.home)
    assert os.listdir(small.home) == []


# Stored files that fail.


def refusal(path: Path) -> str:
    """Load in vain; return the message, which names the file and the way out."""
    with pytest.raises(DatasetError) as caught:
        datasets.load(path.stem, path.parent)
    message = str(caught.value)
    assert str(path) in message
    assert "Delete the file, or replace it with ornstein.datasets.download(" in message
    return message


@every_format
def test_a_truncated_file_is_refused(small: Small) -> None:
    whole = datasets.download(small.spec.name, small.home).read_bytes()
    small.path.write_bytes(whole[: len(whole) // 2])
    assert "not a complete .npz archive" in refusal(small.path)


def test_flipped_bytes_are_refused(small: Small) -> None:
    content = bytearray(datasets.download("wine", small.home).read_bytes())
    content[100:120] = bytes(20)
    small.path.write_bytes(content)
    refusal(small.path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"X": np.zeros((11, 11))}, "X has shape (11, 11), expected (12, 11)"),
        ({"X": np.zeros((12, 11), "f4")}, "X has type float32, expected float64"),
        ({"X": np.full((12, 11), np.nan)}, "X holds values that are not finite"),
        ({"y": np.full(12, 5, "i1")}, "y has label counts {5: 12}, expected {3: 2"),
        ({"y": None}, "it lacks y"),
        ({"feature_names": np.array(["acidity"])}, "feature_names is not fixed acidity, "),
        ({"target_name": np.array("price")}, "target_name is not quality"),
    ],
)
def test_a_file_with_other_content_is_refused(
    small: Small, change: dict[str, npt.NDArray[Any] | None], found: str
) -> None:
    arrays = {k: v for k, v in (small.arrays | change).items() if v is not None}
    np.savez(small.path, **arrays)  # type: ignore[arg-type]
    assert found in refusal(small.path)


def test_pickles_are_refused(small: Small) -> None:
    objects = np.empty(12, dtype=object)
    np.savez(small.path, X=small.arrays["X"], y=objects)
    assert "allow_pickle=False" in refusal(small.path)
    small.path.write_bytes(pickle.dumps(small.arrays["X"]))
    assert "not a complete .npz archive" in refusal(small.path)


def test_a_folder_in_the_files_place_is_refused(small: Small) -> None:
    small.path.mkdir()
    refusal(small.path)


# Names and folders.


def test_names() -> None:
    assert datasets.names() == NAMES
    assert all(datasets.info(name).name == name for name in NAMES)


@pytest.mark.parametrize(("name", "close"), [("covtype", "covertype"), ("MNIST", "mnist")])
def test_an_unknown_name_gets_a_suggestion(name: str, close: str, tmp_path: Path) -> None:
    for call in (datasets.load, datasets.download):
        with pytest.raises(ValueError, match=f"one of wine, protein.* Did you mean '{close}'"):
            call(name, tmp_path)


def test_a_far_off_name_gets_the_list_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^name='zzz' is not known; .* covertype\.$"):
        datasets.load("zzz", tmp_path)


def test_label_counts_add_up() -> None:
    for spec in SPECS.values():
        for _, split in spec.splits():
            assert not split.labels or sum(count for _, count in split.labels) == split.rows


def test_the_folder_is_argument_then_environment_then_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ORNSTEIN_DATA", "~/tables")
    assert datasets.folder(tmp_path) == tmp_path
    assert datasets.folder() == Path("~/tables").expanduser()
    monkeypatch.setenv("ORNSTEIN_DATA", "")
    assert datasets.folder().is_absolute()
    assert "ornstein" in str(datasets.folder())

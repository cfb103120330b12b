"""Tables with groups: stored files, originals from a local server, and what is refused."""

import dataclasses
import errno
import gzip
import os
from pathlib import Path
from typing import NoReturn

import pytest

from ornstein.data import datasets
from ornstein.data.datasets import DatasetError
from ornstein.data.datasets.grouped import TABLES, GroupedTable
from support.field_tables import require
from support.publisher import HTML, Server

TEXT = b"rownames,y,g\n1,0.5,a\n2,1.5,b\n3,2.5,a\n"


def small(
    server: Server, monkeypatch: pytest.MonkeyPatch, packed: bool = False, **other: int
) -> GroupedTable:
    """A small table in the place of a known one, at a publisher on this machine."""
    groups = (("g", other.get("levels", 2)),)
    table = GroupedTable(
        "cbpp", "Small", "lme4", other.get("rows", 3), ("y", "g"), groups, server.url, packed
    )
    server.files = {"lme4/cbpp.csv": TEXT}
    monkeypatch.setitem(TABLES, "cbpp", table)
    return table


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_published_tables_are_what_is_expected(table: GroupedTable) -> None:
    require(table.name)
    frame = datasets.load_table(table.name)
    assert len(frame) == table.rows
    assert "rownames" not in frame.columns
    assert table.name in datasets.available()


@pytest.mark.parametrize("packed", [False, True])
def test_load_downloads_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    table = small(server, monkeypatch, packed)
    frame = datasets.load_table("cbpp", tmp_path)
    assert frame.y.tolist() == [0.5, 1.5, 2.5]
    assert server.asked == ["lme4/cbpp.csv"]
    datasets.load_table("cbpp", tmp_path)
    assert server.asked == ["lme4/cbpp.csv"]
    kept = (tmp_path / table.filename).read_bytes()
    assert (gzip.decompress(kept) if packed else kept) == TEXT
    assert os.listdir(tmp_path / "mixed") == [Path(table.filename).name]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (HTML, "its columns are not y, g"),
        (TEXT[:-8], "it has 2 rows, expected 3"),
        (TEXT.replace(b"b", b"a"), "g has 1 levels, expected 2"),
        (b"", "it cannot be read|No columns"),
        (b"\xff\xfe\x00", "it cannot be read|its columns are not"),
    ],
    ids=["a page", "cut short", "other levels", "empty", "bytes"],
)
def test_another_file_is_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, says: str
) -> None:
    table = small(server, monkeypatch)
    server.files = {"lme4/cbpp.csv": content}
    with pytest.raises(DatasetError, match=says):
        datasets.download("cbpp", tmp_path)
    assert os.listdir(tmp_path / "mixed") == []
    (tmp_path / table.filename).write_bytes(content)
    with pytest.raises(DatasetError, match=r"Delete the file, or replace it with"):
        datasets.load_table("cbpp", tmp_path)


def test_a_missing_page_is_reported(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(server, monkeypatch)
    server.files = {}
    with pytest.raises(DatasetError, match=r"404.*mirror"):
        datasets.load_table("cbpp", tmp_path)


def test_a_mirror_takes_the_publishers_place(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(server, monkeypatch)
    monkeypatch.setitem(TABLES, "cbpp", dataclasses.replace(table, base_url="http://127.0.0.1:9"))
    datasets.download("cbpp", tmp_path, base_url=f"{server.url}/")
    assert server.asked == ["lme4/cbpp.csv"]


def test_a_full_disk_is_reported(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    small(server, monkeypatch)
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(DatasetError, match=r"No space left on device.*free space"):
        datasets.download("cbpp", tmp_path)
    assert os.listdir(tmp_path / "mixed") == []


def test_an_unknown_table_gets_a_suggestion(tmp_path: Path) -> None:
    for call in (datasets.load_table, datasets.download):
        with pytest.raises(ValueError, match="Did you mean 'sleepstudy'"):
            call("sleepstudi", tmp_path)

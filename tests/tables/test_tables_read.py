"""Files become tables, and bad files a clear error."""

import decimal
import gzip
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ornstein as orn
from ornstein import tables
from ornstein.tables import CategoricalColumn
from support.data_frames import ODD_NAMES, N, frame, holed
from support.strategies import theory_settings


def save(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"])
def test_what_was_written_is_read(tmp_path: Path, suffix: str) -> None:
    written = frame(**{name: np.arange(N) + i for i, name in enumerate(ODD_NAMES)})
    path = tmp_path / f"table{suffix}"
    if suffix == ".parquet":
        written.to_parquet(path)
    else:
        text = written.to_csv(index=False, sep="\t" if "tsv" in suffix else ",").encode()
        path.write_bytes(gzip.compress(text, mtime=0) if suffix.endswith(".gz") else text)
    trimmed = written.rename(columns=str.strip)
    pd.testing.assert_frame_equal(tables.read(str(path)), trimmed, check_exact=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
        ("\ufeffa,b\r\n1,x\r\n", {"a": [1], "b": ["x"]}),
        ("\n\na;b\n1,5;2.5\n", {"a": ["1,5"], "b": [2.5]}),
        ("a\tb\n1\t2\n", {"a": [1], "b": [2]}),
        ('"a;x",b\n" 1 ", +2e1\n', {"a;x": [1], "b": [20]}),
        ('a,b\n"two\nlines","a ""quote"""\n', {"a": ["two\nlines"], "b": ['a "quote"']}),
        ("a,b\n1,TRUE\n2,false\n", {"a": [1, 2], "b": ["TRUE", "false"]}),
        ("a\nNA\n1\n", {"a": [None, 1.0]}),
        ("a,b\n, NULL\n#N/A,x", {"a": [None, None], "b": [None, "x"]}),
        ("a\nNone\nNA \n?\n", {"a": ["None", None, "?"]}),
        ("a\n1_000\n", {"a": ["1_000"]}),
        ("a\n0x10\n", {"a": ["0x10"]}),
        ("a\n-inf\n1e999\n", {"a": [-np.inf, np.inf]}),
        ("a\n12345678901234567890\n1\n", {"a": [12345678901234567890.0, 1.0]}),
    ],
)
def test_text_is_read_as_documented(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    found = tables.read(save(tmp_path, "table.csv", text))
    wanted = pd.DataFrame(expected)
    for name in wanted.columns[wanted.isna().all()]:
        wanted[name] = np.nan
    pd.testing.assert_frame_equal(found, wanted)


def test_columns_are_kept_as_text_on_request(tmp_path: Path) -> None:
    path = save(tmp_path, "table.csv", "code,n\n01,01\n02,02\n")
    assert tables.read(path, text=["code"]).to_dict("list") == {"code": ["01", "02"], "n": [1, 2]}


def test_parquet_types(tmp_path: Path) -> None:
    values = frame(
        price=[decimal.Decimal(i) / 4 for i in range(N)],
        flag=holed([True, False] * (N // 2), 3),
        count=pd.array(holed(range(N), 5), "Int64"),
        kind=pd.Categorical(["b", "a"] * (N // 2), ["b", "a"]),
    ).set_axis(np.arange(N) * 2)
    values.to_parquet(tmp_path / "table.parquet")
    found = tables.read(tmp_path / "table.parquet")
    assert list(found.columns) == list(values.columns)
    assert list(found["price"][:2]) == [0.0, 0.25]
    encoding = tables.learn(found, "y", "linear", missing="impute").encoding
    levels = {c.name: c.levels for c in encoding.columns if isinstance(c, CategoricalColumn)}
    assert levels == {"kind": ("b", "a"), "flag": ("False", "True", None)}


BAD_FILES: list[tuple[str, bytes | str, str]] = [
    ("t.xlsx", "a\n1\n", r"suffix does not say.*\.csv.*\.parquet"),
    ("t.pkl", pickle.dumps([1]), r"suffix does not say"),
    ("csv", "a\n1\n", r"suffix does not say"),
    ("t.csv", "", r"t\.csv is empty"),
    ("t.csv", "\n\n\n", r"is empty"),
    ("t.csv.gz", gzip.compress(b"", mtime=0), r"is empty"),
    ("t.csv", "a,b\n", r"no rows: it names 2 columns"),
    ("t.csv", "a,b\n1,2\n1,2,3\n", r"row 3 .*has 3 fields and the first row 2: '1,2,3'"),
    ("t.csv", "a,b\n1,2\n\n1\n", r"row 3 .*has 1 fields and the first row 2: '1'"),
    ("t.csv", 'a,b\n1,2\n1,"2\n1,2\n', r"quotation mark opened in row 3 .*never closed"),
    ("t.csv", 'a,b\n1,2\n"1,2\n1,2\n', r"row 3 .*has 1 fields"),
    ("t.csv", "a,b,a\n1,2,3\n", r"columns of the same name: 'a' \(2\).*Rename.*first row"),
    ("t.csv", "a,,b, \n1,2,3,4\n", r"columns without a name.*by number: 2, 4"),
    ("t.csv", b"a,b\n1,x\n1,caf\xe9\n", r"line 3 is not text in UTF-8.*caf.*Save it"),
    ("t.csv", b"caf\xe9,b\n1,x\n", r"line 1 is not text in UTF-8"),
    ("t.csv", "a,b\n1,2\n".encode("utf-16"), r"not text in UTF-8"),
    ("t.csv", pickle.dumps({"a": [1]}), r"not text in UTF-8"),
    ("t.csv", gzip.compress(b"a\n1\n", mtime=0), r"not text in UTF-8"),
    ("t.csv.gz", "a,b\n1,2\n", r"t\.csv\.gz cannot be read: Not a gzip"),
    (
        "t.csv.gz",
        gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9],
        r"cannot be read: Compressed file ended",
    ),
    ("t.parquet", "", r"is empty"),
    ("t.parquet", "a,b\n1,2\n", r"is not a Parquet file"),
    ("t.parquet", pickle.dumps(frame()), r"is not a Parquet file"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_files(tmp_path: Path, name: str, content: bytes | str, message: str) -> None:
    path = save(tmp_path, name, content)
    with pytest.raises(orn.InputError, match=message) as caught:
        tables.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "message"), [(["a", "a"], r"same name: 'a' \(2\)"), (["a", ""], r"without a name")]
)
def test_bad_names_in_parquet(tmp_path: Path, names: list[str], message: str) -> None:
    pq.write_table(pa.table([[1], [2]], names=names), tmp_path / "t.parquet")
    with pytest.raises(orn.InputError, match=message):
        tables.read(tmp_path / "t.parquet")


def test_damaged_parquet_is_an_error(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    damaged = whole[:4] + b"\xff" * (len(whole) // 3) + whole[4 + len(whole) // 3 :]
    for content in (whole[:-30], damaged):
        with pytest.raises(orn.InputError, match=r"t\.parquet"):
            tables.read(save(tmp_path, "t.parquet", content))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(orn.InputError, match=r"none\.csv: there is no such file"):
        tables.read(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(orn.InputError, match=r"folder\.csv is a folder"):
        tables.read(tmp_path / "folder.csv")
    with pytest.raises(orn.InputError, match="there is no such file"):
        tables.read(tmp_path / "\0.csv")


@theory_settings
@given(
    content=st.one_of(st.binary(max_size=60), st.text('a1,;"\n\r\t é\0', max_size=40)),
    suffix=st.sampled_from([".csv", ".tsv", ".parquet"]),
)
def test_any_bytes_are_a_table_or_an_input_error(content: bytes | str, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), f"t{suffix}", content)
        try:
            found = tables.read(path)
        except orn.InputError:
            return
    assert len(found) > 0
    assert found.columns.is_unique

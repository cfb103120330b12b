"""A publisher on this machine: an HTTP server, and small files in the originals' formats."""

from __future__ import annotations

import dataclasses
import gzip
import os
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ornstein.data import datasets
from ornstein.data.datasets import DatasetError, Spec
from ornstein.data.datasets.catalogue import Delimited, Split

Arrays = dict[str, npt.NDArray[Any]]
NAMES = ("wine", "protein", "skin", "mnist", "covertype")
HTML = b"<!DOCTYPE html>\n<html><head><title>Moved</title></head></html>\n"


class Server(ThreadingHTTPServer):
    """Serves `files`; one named in `cut` loses its second half, with or without its length."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.announce = True
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        body = self.server.files[name]
        self.send_response(200)
        if self.server.announce:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if name in self.server.cut else body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def split_of(y: npt.NDArray[Any]) -> Split:
    if y.dtype.kind == "f":
        return Split(len(y))
    labels, counts = np.unique(y, return_counts=True)
    return Split(len(y), tuple(zip(labels.tolist(), counts.tolist(), strict=True)))


def shrink(spec: Spec, arrays: Arrays, base_url: str = "http://127.0.0.1:9") -> Spec:
    """Expect what is in `arrays`, from `base_url`."""
    splits = [split_of(arrays[f"y{suffix}"]) for suffix, _ in spec.splits()]
    test = splits[1] if len(splits) > 1 else None
    return dataclasses.replace(spec, train=splits[0], test=test, base_url=base_url)


def small_arrays(spec: Spec) -> Arrays:
    """Make up a small data set in the stored form."""
    rng = np.random.default_rng(0)
    arrays: Arrays = {}
    for rows, (suffix, split) in zip((12, 7), spec.splits(), strict=False):
        X = rng.integers(0, 200, (rows, spec.columns)) * (0.25 if spec.x_dtype[0] == "f" else 1)
        labels = [label for label, _ in split.labels]
        y = np.resize(labels, rows) if labels else rng.normal(size=rows)
        arrays[f"X{suffix}"], arrays[f"y{suffix}"] = X.astype(spec.x_dtype), y.astype(spec.y_dtype)
    return arrays | name_arrays(spec)


def name_arrays(spec: Spec) -> Arrays:
    if not isinstance(spec.layout, Delimited):
        return {}
    names = np.array(spec.feature_names)
    return {"feature_names": names, "target_name": np.array(spec.target_name)}


def idx(array: npt.NDArray[Any]) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    return gzip.compress(header + array.tobytes(), compresslevel=1)


def originals(spec: Spec, arrays: Arrays) -> dict[str, bytes]:
    """Write `arrays` the way the publisher does."""
    layout = spec.layout
    if not isinstance(layout, Delimited):
        images = {s: arrays[f"X_{s}"].reshape(-1, 28, 28) for s in ("train", "test")}
        parts = (images["train"], arrays["y_train"], images["test"], arrays["y_test"])
        return dict(zip(spec.files, map(idx, parts), strict=True))
    back = {new: old for old, new in layout.recode}
    pairs = zip(arrays["X"].tolist(), arrays["y"].tolist(), strict=True)
    rows = [[*x, back.get(y, y)] for x, y in pairs]
    names = [*spec.feature_names, spec.target_name]
    quote = '"' if spec.name == "wine" else ""
    lines = [[f"{quote}{name}{quote}" for name in names]] if layout.header else []
    lines += [[repr(value) for value in row] for row in rows]
    if layout.target == 0:
        lines = [line[-1:] + line[:-1] for line in lines]
    text = "".join(layout.delimiter.join(line) + "\n" for line in lines).encode()
    (file,) = spec.files
    return {file: gzip.compress(text) if file.endswith(".gz") else text}


@dataclasses.dataclass(frozen=True)
class Small:
    """A small data set that the catalogue takes for the real one."""

    spec: Spec
    arrays: Arrays
    home: Path
    server: Server

    @property
    def path(self) -> Path:
        return self.home / self.spec.filename

    def refused(self) -> str:
        """Download in vain; return the message."""
        before = self.path.read_bytes() if self.path.exists() else None
        with pytest.raises(DatasetError) as caught:
            datasets.download(self.spec.name, self.home)
        after = self.path.read_bytes() if self.path.exists() else None
        assert after == before
        assert os.listdir(self.home) == ([] if before is None else [self.spec.filename])
        return str(caught.value)


def same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for key, array in expected.items():
        assert found[key].dtype == array.dtype, key
        assert found[key].flags.c_contiguous, key
        np.testing.assert_array_equal(found[key], array, err_msg=key)


def stored(path: Path) -> Arrays:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)

"""From the publishers' files to the arrays that are stored.

Every function takes a path and returns arrays; whatever is wrong with a file is a `ValueError`
that names the file and shows how it begins.
"""

from __future__ import annotations

import gzip
import math
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from ornstein.data.datasets.catalogue import Delimited, Spec

Array = npt.NDArray[Any]
Arrays = dict[str, Array]

GZIP_MAGIC = b"\x1f\x8b"
IDX_UINT8 = 0x08
PREVIEW_BYTES = 60


def parse(paths: Sequence[Path], spec: Spec) -> Arrays:
    """Read the original files of a data set, given in the order of `spec.files`."""
    if isinstance(spec.layout, Delimited):
        X, y = read_table(paths[0], spec, spec.layout)
        names = np.array(spec.feature_names)
        return {"X": X, "y": y, "feature_names": names, "target_name": np.array(spec.target_name)}
    X_train, y_train, X_test, y_test = map(read_idx, paths)
    return {
        "X_train": X_train.reshape(len(X_train), -1),
        "y_train": y_train,
        "X_test": X_test.reshape(len(X_test), -1),
        "y_test": y_test,
    }


def read_table(path: Path, spec: Spec, layout: Delimited) -> tuple[Array, Array]:
    """Read a delimited text table, plain or gzipped, into features and target."""
    with _describing(path), _open(path) as binary:
        lines = (line.decode() for line in binary)
        if layout.header:
            _check_header(next(lines, ""), spec, layout)
        table = np.loadtxt(
            lines, dtype=spec.x_dtype, delimiter=layout.delimiter, comments=None, ndmin=2
        )
        X = np.delete(table, layout.target, axis=1)
        y = _recode(table[:, layout.target], layout.recode)
        target = y.astype(spec.y_dtype)
        if not np.array_equal(target, y):
            raise ValueError(f"its target does not fit the type {spec.y_dtype}")
        return X, target


def read_idx(path: Path) -> Array:
    """Read one IDX file of unsigned bytes, plain or gzipped."""
    with _describing(path), _open(path) as stream:
        content = stream.read()
        if len(content) < 4 or content[:3] != bytes((0, 0, IDX_UINT8)):
            raise ValueError("it is not an IDX file of unsigned bytes")
        rank = content[3]
        start = 4 + 4 * rank
        if len(content) < start:
            raise ValueError("its IDX header is cut short")
        shape = struct.unpack(f">{rank}I", content[4:start])
        found, expected = len(content) - start, math.prod(shape)
        if found != expected:
            raise ValueError(f"it holds {found} values, its header announces {expected}")
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()


def _check_header(line: str, spec: Spec, layout: Delimited) -> None:
    found = [name.strip().strip('"') for name in line.strip().split(layout.delimiter)]
    expected = list(spec.feature_names)
    expected.insert(layout.target % (spec.columns + 1), spec.target_name)
    if found != expected:
        raise ValueError(f"its first line does not name the columns {', '.join(expected)}")


def _recode(labels: Array, pairs: Sequence[tuple[int, int]]) -> Array:
    """Replace every label by its partner; one without a partner is an error."""
    if not pairs:
        return labels
    known = [old for old, _ in pairs]
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        raise ValueError(f"its target holds {unknown[0]}, expected one of {known}")
    return np.select([labels == old for old in known], [new for _, new in pairs])


def _open(path: Path) -> IO[bytes]:
    """Open a file by its first bytes, as a server may have unpacked what is named `.gz`."""
    with path.open("rb") as stream:
        packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")


@contextmanager
def _describing(path: Path) -> Iterator[None]:
    """Turn every way a file can disappoint, warnings included, into one `ValueError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    except (ValueError, IndexError, EOFError, OSError, zlib.error, Warning) as error:
        with path.open("rb") as stream:
            start = stream.read(PREVIEW_BYTES)
        size = path.stat().st_size
        raise ValueError(
            f"{path.name} ({size} bytes, beginning with {start!r}) cannot be read: {error}"
        ) from error

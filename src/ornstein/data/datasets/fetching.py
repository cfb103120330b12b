"""From the publisher's files to the stored one, completely or not at all.

Whatever is wrong with the content of a file is a `ValueError` that names the file and shows how it
begins.
"""

import gzip
import math
import struct
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import requests
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from ornstein._base.errors import DatasetError
from ornstein._base.progress import display
from ornstein.data.datasets.catalogue import Delimited, Spec
from ornstein.data.datasets.store import Array, Arrays, check, write

_CHUNK_BYTES = 1 << 16
_TIMEOUT_SECONDS = 30
_GZIP_MAGIC = b"\x1f\x8b"
_IDX_UINT8 = 0x08
_PREVIEW_BYTES = 60


def fetch(spec: Spec, folder: Path, progress: bool | None, base_url: str | None) -> Path:
    """Download, parse, check and store a data set, replacing a stored one.

    The originals are kept in a temporary folder inside `folder`, gone when this returns or raises.
    """
    target = folder / spec.filename
    urls = spec.urls(base_url)
    with storing(target), TemporaryDirectory(prefix=f".{spec.name}-", dir=folder) as scratch:
        paths = [Path(scratch, file) for file in spec.files]
        retrieve(zip(urls, paths, strict=True), progress)
        try:
            arrays = parse(paths, spec)
            check(arrays, spec)
        except ValueError as error:
            raise DatasetError(
                f"what was downloaded from {', '.join(urls)} is not the {spec.name} data set: "
                f"{error}. Open the address in a browser to see what it serves, run the "
                f"download again, or give the address of a mirror as base_url."
            ) from error
        write(target, arrays)
    return target


@contextmanager
def storing(target: Path) -> Iterator[None]:
    """Make the folder of a file that is written inside, and say what to do where that fails."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DatasetError(
            f"cannot store {target}: {error}. Make the folder writable and check its free space, "
            f"or choose another with data_home or the environment variable ORNSTEIN_DATA."
        ) from error


def retrieve(files: Iterable[tuple[str, Path]], progress: bool | None) -> None:
    """Download addresses to files, with a progress bar."""
    columns = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with display(progress, *columns) as shown:
        for url, path in files:
            _retrieve(url, path, shown)


def _retrieve(url: str, path: Path, shown: Progress) -> None:
    whole = {"Accept-Encoding": "identity"}  # so that Content-Length counts the file's bytes
    try:
        with (
            requests.get(url, headers=whole, stream=True, timeout=_TIMEOUT_SECONDS) as response,
            path.open("wb") as file,
        ):
            response.raise_for_status()
            size = int(response.headers.get("Content-Length", 0))
            task = shown.add_task(path.name, total=size or None)
            for chunk in response.iter_content(_CHUNK_BYTES):
                shown.advance(task, file.write(chunk))
    except requests.HTTPError as error:
        raise DatasetError(
            f"cannot download {url}: the server answered {error}. The file may have moved: "
            f"try later, or give the address of a mirror as base_url."
        ) from error
    except requests.RequestException as error:
        raise DatasetError(
            f"cannot download {url}: {error}. Check the network connection and run the download "
            f"again; nothing incomplete was kept."
        ) from error


def parse(paths: Sequence[Path], spec: Spec) -> Arrays:
    """Read the original files of a data set, given in the order of `spec.files`."""
    if spec.layout is not None:
        X, y = _read_table(paths[0], spec, spec.layout)
        names = np.array(spec.feature_names)
        return {"X": X, "y": y, "feature_names": names, "target_name": np.array(spec.target_name)}
    X_train, y_train, X_test, y_test = map(_read_idx, paths)
    return {
        "X_train": X_train.reshape(len(X_train), -1),
        "y_train": y_train,
        "X_test": X_test.reshape(len(X_test), -1),
        "y_test": y_test,
    }


def _read_table(path: Path, spec: Spec, layout: Delimited) -> tuple[Array, Array]:
    """Read a delimited text table, plain or gzipped, into features and target."""
    with _opened(path) as binary:
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


def _read_idx(path: Path) -> Array:
    """Read one IDX file of unsigned bytes, plain or gzipped."""
    with _opened(path) as stream:
        content = stream.read()
        if len(content) < 4 or content[:3] != bytes((0, 0, _IDX_UINT8)):
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


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file by its first bytes, as a server may have unpacked what is named `.gz`.

    Every way it can disappoint, warnings included, is one `ValueError`.
    """
    with path.open("rb") as file:
        start = file.read(_PREVIEW_BYTES)
    try:
        with (
            gzip.GzipFile(path) if start.startswith(_GZIP_MAGIC) else path.open("rb") as stream,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            yield stream
    except (ValueError, IndexError, EOFError, OSError, zlib.error, Warning) as error:
        raise ValueError(
            f"{path.name} ({path.stat().st_size} bytes, beginning with {start!r}) cannot be read: "
            f"{error}"
        ) from error

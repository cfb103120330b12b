"""The stored form: one `.npz` file per data set, checked when written and when read."""

import zipfile
import zlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ornstein._base.errors import DatasetError
from ornstein.data.datasets.catalogue import Spec
from ornstein.storage.folders import write_file

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

# What NumPy and zipfile raise for a damaged archive, an encrypted one, or one with pickles in it.
_UNREADABLE = (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set in memory: features `X` of shape (rows, columns) and a target `y`.

    They are the training part where the publisher gives a test part too, `X_test` and `y_test`.
    `licence`, `source` and `citation` are the terms of use, the publisher's page, and whom to cite.
    """

    name: str
    X: Array
    y: Array
    feature_names: tuple[str, ...]
    target_name: str
    licence: str
    source: str
    citation: str
    X_test: Array | None = None
    y_test: Array | None = None

    def __repr__(self) -> str:
        """Show names, shapes and types rather than numbers."""
        test = "" if self.X_test is None else f", X_test={self.X_test.dtype}{self.X_test.shape}"
        return (
            f"Dataset({self.name!r}, X={self.X.dtype}{self.X.shape}{test}, "
            f"target={self.target_name!r}, licence={self.licence!r})"
        )


def read(path: Path, spec: Spec) -> Dataset:
    """Load and check a stored data set; anything unexpected is a `DatasetError`."""
    try:
        arrays = _read_arrays(path)
        check(arrays, spec)
    except _UNREADABLE as error:
        raise DatasetError(
            f"{path} is not the {spec.name} data set: {error}. Delete the file, or replace it "
            f"with ornstein.datasets.download({spec.name!r})."
        ) from error
    suffix, _ = spec.splits()[0]
    return Dataset(
        name=spec.name,
        X=arrays[f"X{suffix}"],
        y=arrays[f"y{suffix}"],
        X_test=arrays.get("X_test"),
        y_test=arrays.get("y_test"),
        feature_names=spec.feature_names,
        target_name=spec.target_name,
        licence=spec.licence,
        source=spec.source,
        citation=spec.citation,
    )


def write(path: Path, arrays: Arrays) -> None:
    """Store arrays at `path` in one step."""
    content = BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    with content.getbuffer() as view:
        write_file(path, [view])


def check(arrays: Arrays, spec: Spec) -> None:
    """Raise `ValueError` unless the arrays are those of the published data set."""
    for suffix, split in spec.splits():
        _check_array(f"X{suffix}", arrays, (split.rows, spec.columns), spec.x_dtype)
        _check_array(f"y{suffix}", arrays, (split.rows,), spec.y_dtype)
        labels, counts = np.unique(arrays[f"y{suffix}"], return_counts=True)
        found = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        if split.labels and found != dict(split.labels):
            raise ValueError(f"y{suffix} has label counts {found}, expected {dict(split.labels)}")
    expected = {"feature_names": spec.feature_names, "target_name": (spec.target_name,)}
    for key, names in expected.items():
        if key in arrays and tuple(arrays[key].ravel().tolist()) != names:
            raise ValueError(f"{key} is not {', '.join(names)}")


def _check_array(key: str, arrays: Arrays, shape: tuple[int, ...], dtype: str) -> None:
    if key not in arrays:
        raise ValueError(f"it lacks {key}")
    array = arrays[key]
    if array.shape != shape:
        raise ValueError(f"{key} has shape {array.shape}, expected {shape}")
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"{key} has type {array.dtype}, expected {dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{key} holds values that are not finite")


def _read_arrays(path: Path) -> Arrays:
    with path.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError(f"it is not a complete .npz archive ({path.stat().st_size} bytes)")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            return dict(archive)

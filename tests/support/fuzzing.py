"""Spoiled bytes, spoiled JSON, odd tables and arrays, and a watch over every case."""

import copy
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

Change: TypeAlias = tuple[str, float, int]
"""What to do, where (as a share of the length), and with what."""

_SECONDS = 60


def fuzz(check: Callable[[Any], None], cases: st.SearchStrategy[Any], examples: int) -> int:
    """Run a check on so many cases, the same in every run; returns how many there were."""
    count = 0

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def every(case: Any) -> None:
        nonlocal count
        count += 1
        with _watched():
            check(case)

    every()
    return count


@contextmanager
def _watched() -> Iterator[None]:
    """A case that hangs fails."""

    def hung(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer within {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hung)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# Bytes -------------------------------------------------------------------------------------------

_DONE_TO_BYTES = ("flip", "flip", "cut", "drop", "insert", "repeat", "zero")
changes: st.SearchStrategy[list[Change]] = st.lists(
    st.tuples(
        st.sampled_from(_DONE_TO_BYTES), st.floats(0, 1, exclude_max=True), st.integers(1, 255)
    ),
    min_size=1,
    max_size=4,
)


def spoiled(content: bytes, todo: list[Change]) -> bytes:
    """The content after these changes."""
    data = bytearray(content)
    for what, share, value in todo:
        place = int(share * len(data))
        if what == "flip" and data:
            data[place] ^= value
        elif what == "cut":
            del data[place:]
        elif what == "drop":
            del data[place : place + value]
        elif what == "insert":
            data[place:place] = bytes([value]) * (1 + value % 9)
        elif what == "repeat":
            data[place:place] = data[place : place + value]
        elif what == "zero":
            data[place : place + value] = bytes(len(data[place : place + value]))
    return bytes(data)


# JSON --------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    words,
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner)),
    max_leaves=5,
)
surgeries = st.lists(
    st.tuples(st.lists(st.floats(0, 1, exclude_max=True), max_size=6), st.booleans(), values),
    min_size=1,
    max_size=3,
)
"""Ways into a tree, whether to remove what is there, and what to put there instead."""


def operated(tree: Any, todo: list[tuple[list[float], bool, Any]]) -> Any:
    """The tree with parts replaced or removed."""
    tree = copy.deepcopy(tree)
    for way, remove, value in todo:
        at, parent, name = tree, None, None
        for share in way:
            names = (
                list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else []
            )
            if not names:
                break
            parent, name = at, names[int(share * len(names))]
            at = parent[name]
        if parent is None:
            tree = value
        elif remove:
            del parent[name]
        else:
            parent[name] = value
    return tree


# Tables ------------------------------------------------------------------------------------------

fields = st.one_of(
    st.sampled_from(
        ["", "1", "-2.5", "1e400", "NaN", "NA", "inf", "yes", "no", "0x1", "1,5", "2020-01-01"]
    ),
    st.floats().map(str),
    st.integers(-(10**20), 10**20).map(str),
    st.text(max_size=6),
)
texts = st.builds(
    lambda names, rows, mark, end: end.join(mark.join(row) for row in [names, *rows]),
    st.lists(st.one_of(st.sampled_from(["a", "b", "y", ""]), st.text(max_size=4)), max_size=4),
    st.lists(st.lists(fields, max_size=4), max_size=6),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)

_ROWS = (1, 2, 7, 12)
_COLUMNS: tuple[Callable[[int, int], Any], ...] = (
    lambda n, seed: np.random.default_rng(seed).normal(size=n),
    lambda n, seed: np.full(n, float(seed)),
    lambda n, seed: np.random.default_rng(seed).integers(-3, 9, n),
    lambda n, seed: np.random.default_rng(seed).choice(["a", "b", "<b>"], n),
    lambda n, seed: np.arange(n) % 2 == seed % 2,
    lambda n, seed: [None if i % 3 == seed % 3 else float(i) for i in range(n)],
    lambda n, seed: [None if i % 3 == seed % 3 else "x" for i in range(n)],
    lambda n, seed: pd.date_range("2020", periods=n) + pd.Timedelta(seed % 9, "D"),
    lambda n, seed: np.random.default_rng(seed).normal(size=n) * 10.0 ** (seed % 600 - 300),
    lambda n, seed: [np.inf if i == seed % n else i for i in range(n)],
    lambda n, seed: [complex(i, seed) for i in range(n)],
    lambda n, seed: [[i, seed] for i in range(n)],
    lambda n, seed: pd.Categorical([str(i % (1 + seed % 3)) for i in range(n)]),
    lambda n, seed: pd.array([i + seed for i in range(n)], dtype="Int64"),
    lambda n, seed: [f"{seed}-{i}" for i in range(n)],
)


_LIBRARIES: tuple[Callable[[Any], Any], ...] = (
    lambda frame: frame,
    np.errstate(invalid="ignore")(  # of pandas 2, which tries whether numbers are whole
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow")
    ),
    pl.from_pandas,
    lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
)


def _converted(frame: pd.DataFrame, library: Callable[[Any], Any]) -> Any:
    """The table as another library has it; as it is if that cannot hold it."""
    try:
        return library(frame)
    except (
        TypeError,
        ValueError,
        NotImplementedError,
        pa.ArrowException,
        pl.exceptions.PolarsError,
    ):
        return frame


@st.composite
def frames(draw: st.DrawFn) -> Any:
    """Tables of a few rows and columns of every kind, one of them named ``y``, of any library."""
    rows = draw(st.sampled_from(_ROWS))
    made = draw(
        st.lists(
            st.tuples(st.sampled_from(_COLUMNS), st.integers(0, 10**6)), min_size=0, max_size=4
        )
    )
    columns = [pd.Series(build(rows, seed)) for build, seed in made]
    names = [*draw(st.lists(words, min_size=4, max_size=4, unique=True)), "y"][-len(columns) :]
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(rows))
    frame.columns = pd.Index(names[: len(columns)])
    return _converted(frame, draw(st.sampled_from(_LIBRARIES)))


# Arrays ------------------------------------------------------------------------------------------

_DTYPES = ("f8", "f4", "f2", "i8", "i4", "i1", "u8", "u1", "?", "c16", "U3", "O", "M8[D]", "g")
_SHAPES = ((), (0,), (1,), (6,), (0, 2), (6, 0), (1, 1), (6, 1), (6, 2), (2, 6), (6, 2, 1))


def _as_polars(frame: Any) -> Any:
    return _converted(frame, pl.from_pandas)


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of many shapes and dtypes, some spoiled, some as lists or frames."""
    shape, dtype = draw(st.sampled_from(_SHAPES)), np.dtype(draw(st.sampled_from(_DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    plain = rng.integers(0, 3, shape) if draw(st.booleans()) else rng.normal(size=shape) * 3
    with np.errstate(invalid="ignore", over="ignore"):
        array = np.asarray(plain).astype("i8" if dtype.kind == "M" else dtype).astype(dtype)
    if array.size and dtype.kind == "f" and draw(st.integers(0, 3)) == 0:
        odd = draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -0.0]))
        with np.errstate(over="ignore"):
            array.reshape(-1)[0] = odd
    form = draw(st.sampled_from(["array", "array", "list", "frame", "masked"]))
    if form == "list":
        return array.tolist()
    if form == "frame" and array.ndim in (1, 2):
        frame = pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)
        return draw(st.sampled_from([frame, frame, _as_polars(frame)]))
    return np.ma.masked_equal(array, 1) if form == "masked" and dtype.kind in "fi" else array

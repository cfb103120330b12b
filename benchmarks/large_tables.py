"""Tables of the shapes that took longest to fit, made anew from a seed.

``mushroom``, ``letter`` and ``penbased`` are UCI's; these stand for them with as many rows,
columns, levels and classes. ``bike`` is UCI's own where it is at hand.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

_LEVELS = (6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 5, 4, 4, 9, 9, 1, 4, 3, 5, 9, 6, 7)
"""Of mushroom's columns."""

_KINDS = 23  # of mushrooms, each edible or not


class LargeTable(NamedTuple):
    """What makes a table, how it is fitted, and at most how long that should take.

    Attributes
    ----------
    make
        Makes the table.
    options
        Of ``ornstein fit``.
    seconds, bytes
        Limits of time and of memory; None where there is none.
    """

    make: Callable[[], pa.Table]
    options: tuple[str, ...]
    seconds: float
    bytes: float | None = None


def write(table: LargeTable, path: Path) -> None:
    """As a CSV file."""
    csv.write_csv(table.make(), path)


def mushroom() -> pa.Table:
    """Labels alone: 117 levels in 22 columns, of which some tell the two classes apart."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, _KINDS, 8124)
    columns = {}
    for number, levels in enumerate(_LEVELS):
        shares = rng.dirichlet(np.full(levels, 0.1), _KINDS)
        above = rng.random(len(kind))[:, None] > shares.cumsum(axis=1)[kind]
        codes = above.sum(axis=1).clip(max=levels - 1)
        codes[:levels] = np.arange(levels)
        columns[f"c{number}"] = np.array(list("abcdefghijkl"))[codes]
    return pa.table({"outcome": np.where(kind % 2, "edible", "poisonous"), **columns})


def _classes(rows: int, classes: int, most: int, apart: float) -> pa.Table:
    """Whole numbers in 16 columns, around a centre of each class."""
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(classes, 16)) * apart
    mixing = np.eye(16) + 0.3 * rng.normal(size=(16, 16))
    own = rng.integers(0, classes, rows)
    X = centre[own] + rng.normal(size=(rows, 16)) @ mixing
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    numbers = np.rint(most * X).astype(int)
    names = np.array([chr(ord("A") + number) for number in range(classes)])
    return pa.table({"outcome": names[own], **{f"x{i}": x for i, x in enumerate(numbers.T)}})


def letter() -> pa.Table:
    """20,000 rows, 26 classes."""
    return _classes(20_000, 26, 15, 0.65)


def penbased() -> pa.Table:
    """10,992 rows, 10 classes."""
    return _classes(10_992, 10, 100, 0.9)


def million() -> pa.Table:
    """A million rows of 20 columns of numbers, and a target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000_000, 20)).round(5)
    y = X @ rng.normal(size=20) + rng.normal(size=len(X))
    return pa.table({"outcome": y.round(5), **{f"x{i}": x for i, x in enumerate(X.T)}})


def _bike(path: Path) -> pa.Table:
    with np.load(path) as found:
        columns = {f"x{i}": x for i, x in enumerate(found["X"].T)}
        return pa.table({"outcome": found["y"], **columns})


def large_tables() -> dict[str, LargeTable]:
    """By name; bike only if it is in ``$ORNSTEIN_DATA``."""
    found = {
        "mushroom": LargeTable(mushroom, (), 20),
        "letter": LargeTable(letter, (), 20),
        "penbased": LargeTable(penbased, (), 20),
        "million": LargeTable(million, (), 40, 1.5e9),
    }
    path = Path(os.environ.get("ORNSTEIN_DATA", ".")) / "uci" / "bike.npz"
    if path.exists():
        options = ("--model", "linear", "--draws", "30000")
        found["bike"] = LargeTable(lambda: _bike(path), options, 20)
    return found

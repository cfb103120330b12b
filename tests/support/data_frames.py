"""A small table with columns of every kind, and what is learned from it."""

from typing import Any

import numpy as np
import pandas as pd

from ornstein import tables

N = 40
ODD_NAMES = ("größe", "<b>x</b>", "[red]", "n" * 300, "7", "a\nb", "😀", " spaced ", "=1+1", "{x}")


def frame(**columns: Any) -> pd.DataFrame:
    """Two columns of numbers, one of labels, and targets of every kind; more or others as given."""
    a = np.linspace(-3.0, 5.0, N) ** 3
    size = 1e4 + 2.5 * np.random.default_rng(0).permutation(N)
    kind = np.resize(["oak", "ash", "elm"], N)
    y = 2 * a - 0.01 * size + np.sin(np.arange(N)) + 7 * (kind == "elm")
    given = {"a": a, "size": size, "kind": kind, "y": y, **columns}
    return pd.DataFrame(given)


def target_of(model: str) -> Any:
    """A target that suits a model, whatever the columns."""
    numbers = np.arange(N)
    return {
        "linear": 1e3 + 50 * np.cos(numbers),
        "logistic": np.where(numbers % 3 == 0, "yes", "no"),
        "softmax": np.resize(["red", "green", "blue"], N),
        "poisson": numbers % 7,
    }[model]


def holed(values: Any, *rows: int) -> list[Any]:
    """The values with some of them missing."""
    return [None if i in rows else value for i, value in enumerate(values)]


def learn(model: str = "linear", missing: str = "refuse", **columns: Any) -> tables.EncodedTable:
    """What is learned from :func:`frame` with these columns."""
    return tables.learn(frame(**columns), "y", model, missing)

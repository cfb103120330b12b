"""What every contestant runs: the same rows, batches, chains and stride of kept iterates."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import ornstein as orn
from ornstein.data import datasets

Table = npt.NDArray[np.float32]

THIN = 10
"""Every tenth iterate is kept."""

NAMES = ("W1", "W2", "W3", "W4")


@dataclass(frozen=True, eq=False)
class Workload:
    """A posterior over real rows, all its precisions 1, without intercept.

    Attributes
    ----------
    family
        ``linear``, ``logistic`` or ``softmax``; also the name of its function in ``ornstein``.
    X, y
        Features in single precision; target as numbers, or as labels from 0.
    outputs
        Linear predictors per row: the number of classes for ``softmax``, else 1.
    step_size
        Of plain SGD on the mean loss of a row; a rate that every contestant stays finite at.
    """

    name: str
    family: str
    X: Table
    y: npt.NDArray[Any]
    batch_size: int
    step_size: float
    outputs: int = 1
    chains: int = 1

    @property
    def posterior(self) -> orn.Posterior:
        """The posterior as ornstein sees it."""
        build = getattr(orn.models, self.family)
        return build(self.X, self.y, prior_precision=1.0)


def load(name: str) -> Workload:
    """One of W1 to W4."""
    if name == "W2":
        skin = datasets.load("skin")
        X = (skin.X - skin.X.mean(axis=0)) / skin.X.std(axis=0)
        return Workload(name, "logistic", _single(X), skin.y, batch_size=10_000, step_size=0.1)
    if name == "W3":
        mnist = datasets.load("mnist")
        X = _single(mnist.X / 255)
        return Workload(name, "softmax", X, mnist.y, batch_size=100, step_size=0.01, outputs=10)
    wine = datasets.load("wine")
    X = _single(wine.X / np.abs(wine.X).max(axis=0))
    chains = 64 if name == "W4" else 1
    y = _single(wine.y)
    return Workload(name, "linear", X, y, batch_size=100, step_size=0.05, chains=chains)


def _single(table: npt.NDArray[Any]) -> Table:
    return np.ascontiguousarray(table, np.float32)

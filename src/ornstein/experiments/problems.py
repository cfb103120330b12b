"""The paper's three posteriors, and what its Table 1 prints."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

import ornstein as orn


@dataclass(frozen=True)
class Problem:
    """A data set with the paper's model and batch size.

    Attributes
    ----------
    name, batch_size
        The data set and S.
    logistic
        Whether the model is logistic; otherwise linear with unit noise. Prior precision 1, no
        intercept.
    sgld_step
        The paper's step size of SGLD.
    """

    name: str
    batch_size: int
    sgld_step: float
    logistic: bool = False

    def posterior(self, unit_length: bool = False) -> orn.Posterior:
        """Columns divided by their largest absolute value (regression) or standardised.

        With ``unit_length``, divided by their Euclidean norms instead.
        """
        data = orn.datasets.load(self.name)
        X, names = data.X.astype(float), data.feature_names
        if unit_length:
            X = X / np.linalg.norm(X, axis=0)
        elif self.logistic:
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        else:
            X = X / np.abs(X).max(axis=0)
        if self.logistic:
            return orn.models.logistic(X, data.y, feature_names=names)
        return orn.models.linear(X, data.y, feature_names=names)


PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {
        problem.name: problem
        for problem in (
            Problem("wine", 100, 1e-3),
            Problem("skin", 10_000, 1e-5, logistic=True),
            Problem("protein", 100, 1e-6),
        )
    }
)

PAPER: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "sgd-scalar": {"wine": 18.7, "skin": 0.471, "protein": 1000.9},
        "sgd-diagonal": {"wine": 14.0, "skin": 0.921, "protein": 678.4},
        "sgd-dense": {"wine": 0.7, "skin": 0.005, "protein": 1.8},
        "sgld": {"wine": 2.9, "skin": 0.905, "protein": 4.5},
        "sgfs-diagonal": {"wine": 12.8, "skin": 0.864, "protein": 597.4},
        "sgfs-dense": {"wine": 0.8, "skin": 0.005, "protein": 1.3},
        "bbvi": {"wine": 44.7, "skin": 5.74, "protein": 478.1},
    }
)
"""Table 1 of Mandt, Hoffman and Blei (2016): KL to the posterior, in nats."""

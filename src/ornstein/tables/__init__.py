"""From a user's table to a posterior, and its coefficients back to the user's units.

``read`` a CSV or Parquet file, ``learn`` how its columns become numbers, make the ``posterior``,
sample it, and ``unstandardise`` the draws. The ``Encoding`` that was learned is what a run keeps:
it turns a later table into the same columns.

>>> import pandas as pd
>>> frame = pd.DataFrame({"size": [1, 2, 3, 4], "kind": list("abab"), "sold": list("nyyn")})
>>> guess_model(frame, "sold")
('logistic', "'sold' has two distinct values: 'n', 'y'.")
>>> encoding, X, y, notes = learn(frame, "sold", "logistic")
>>> posterior(X, y, encoding)
Posterior(rows=4, parameters=3: coef[size], coef[kind=b], intercept)
"""

from ornstein.tables._encoding import Categorical, Encoding, Numeric, Target, require_columns
from ornstein.tables._learn import Learned, learn
from ornstein.tables._read import read
from ornstein.tables._target import guess_model
from ornstein.tables._units import (
    INTERCEPT_PRECISION,
    estimate_noise,
    in_own_units,
    posterior,
    unstandardise,
)

__all__ = [
    "INTERCEPT_PRECISION",
    "Categorical",
    "Encoding",
    "Learned",
    "Numeric",
    "Target",
    "estimate_noise",
    "guess_model",
    "in_own_units",
    "learn",
    "posterior",
    "read",
    "require_columns",
    "unstandardise",
]

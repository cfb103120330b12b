"""From a user's table to a posterior, and its coefficients back to the user's units.

``read`` a CSV or Parquet file, or take a data frame of any library; ``learn`` how its columns
become numbers, and ``fit_table``: the model predicts later tables, and can be saved and loaded. Or
make the ``posterior``, sample it, and ``unstandardise`` the draws. Read ``model`` first, then
``encoding``; ``arrow`` is the door for frames, and ``fitting`` is what estimators use too.

>>> import pandas as pd
>>> columns = {"size": [1, 2, 3, 4] * 2, "kind": list("abab") * 2, "sold": list("nyynynny")}
>>> frame = pd.DataFrame(columns)
>>> guess_model(frame, "sold")
('logistic', "'sold' has two distinct values: 'n', 'y'.")
>>> encoding, X, y, notes = learn(frame, "sold", "logistic")
>>> posterior(X, y, encoding)
Posterior(rows=8, parameters=3: coef[size], coef[kind=b], intercept)
"""

from ornstein._base import extras

extras.require("tables", "ornstein.tables")

from ornstein.tables.arrow import require_columns
from ornstein.tables.encoding import (
    CategoricalColumn,
    Encoding,
    NumericColumn,
    Target,
    Units,
)
from ornstein.tables.fit_tables import fit_table
from ornstein.tables.fitting import (
    INTERCEPT_PRECISION,
    LEAST_NOISE,
    estimate_noise,
    posterior,
    unstandardise,
)
from ornstein.tables.formulas import FormulaEncoding, FormulaTable, learn_formula, parse_formula
from ornstein.tables.learning import EncodedTable, guess_model, learn
from ornstein.tables.model import TableModel
from ornstein.tables.reading import read
from ornstein.tables.toolbox import row_clusters

__all__ = ["EncodedTable", "TableModel", "fit_table", "guess_model", "learn", "posterior", "read"]
__all__ += ["CategoricalColumn", "Encoding", "NumericColumn", "Target", "Units"]
__all__ += ["INTERCEPT_PRECISION", "LEAST_NOISE", "estimate_noise", "require_columns"]
__all__ += ["FormulaEncoding", "FormulaTable", "learn_formula", "parse_formula", "row_clusters"]
__all__ += ["unstandardise"]

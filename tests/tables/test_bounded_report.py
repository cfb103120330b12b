"""What a report computes costs the same however many rows, levels and classes there are."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from ornstein.tables import fit_tables, learn
from ornstein.tables.regression_report import _average_effects
from ornstein.tables.toolbox import Toolbox


def test_rows_of_many_classes_are_fewer() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=6000), "kind": rng.choice(list("abcdef"), 6000)})
    model = fit_tables.fit_table(learn(frame, "kind"), method="laplace", hyper="learn", draws=50)
    assert len(model.kept_loo.rows) == 2000  # 10,000 over the five that may differ
    assert len(model.replications().observed) == 4000


@pytest.mark.parametrize(("rows", "most"), [(40, 40), (5000, 500), (5001, 500)])
def test_effects_are_averaged_over_few_rows(rows: int, most: int) -> None:
    asked = list[int]()

    def effects(some: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        asked.append(len(some))
        return pd.DataFrame({"term": columns, "contrast": "slope", "mean": [1.0]})

    model = cast(Any, SimpleNamespace(marginal_effects=effects))
    _average_effects(cast(Toolbox, model), pd.DataFrame({"a": np.arange(rows)}), ["a"])
    assert most - 50 < asked[0] <= most

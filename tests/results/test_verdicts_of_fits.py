"""Verdicts of a whole fit, by its defaults: quiet on tables that the model itself has made."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from ornstein import tables
from ornstein.results import predictive
from ornstein.results.answers import answers
from ornstein.tables import TableModel

TABLES, ROWS = 20, 300
MOST = 3
"""Tables that may warn: of 20, a rate of one in twenty has more in 16 of 1,000 such tests."""


@cache
def fitted(family: str) -> tuple[pd.DataFrame, TableModel]:
    """A table, and the model whose targets stand in for it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    frame["town"] = rng.choice(["Bonn", "Ulm", "Jena"], ROWS, p=[0.6, 0.37, 0.03])
    eta = 0.5 * frame["a"] - 0.3 * frame["b"] + 0.4 * (frame["town"] == "Ulm")
    if family == "linear":
        frame["y"] = eta + rng.normal(size=ROWS)
    elif family == "poisson":
        frame["y"] = rng.poisson(np.exp(eta))
    else:
        kinds = 2 if family == "logistic" else 3
        along = eta.to_numpy()[:, None] * np.arange(kinds) + rng.gumbel(size=(ROWS, kinds))
        frame["y"] = np.array(list("uvw"))[along.argmax(axis=1)]
    return frame, tables.fit_table(tables.learn(frame, "y", family), draws=250)


def warned(family: str, seed: int) -> list[str]:
    """The questions whose answers warn, of targets that one draw of the model makes."""
    frame, model = fitted(family)
    rng = np.random.default_rng(seed)
    draw = model.draws.at(np.array([rng.integers(len(model.draws.coef))]))
    target = model.encoding.target
    y = predictive.simulate(draw, model.encoding.encode(frame), rng)[0]
    made = target.centre + target.scale * y if target.classes is None else y
    names = np.array(target.classes)[y.astype(int)] if target.classes else made
    table = tables.learn(frame.assign(y=names), "y", family)
    result = tables.fit_table(table, key=seed).result
    found = answers(result, result.diagnose())
    return [f"{seed}: {one.name}: {one}" for one in found if one.verdict in ("warn", "fail")]


@pytest.mark.slow
@pytest.mark.pilot
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "softmax"])
def test_few_of_twenty_fits_to_their_own_targets_warn(family: str) -> None:
    found = [said for seed in range(TABLES) if (said := warned(family, seed))]
    assert len(found) <= MOST, found

"""Tables without any numbers have no curves to look for."""

import numpy as np
import pandas as pd

from ornstein.tables import fit_tables, learn


def test_a_table_of_labels_alone_is_examined() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(list("xyz"), 300), "b": rng.choice(list("uv"), 300)})
    frame["won"] = rng.random(300) < np.where(frame["a"] == "x", 0.7, 0.3)
    model = fit_tables.fit_table(learn(frame, "won"), method="laplace", hyper="learn", draws=100)
    assert model.result.diagnose()["model"].verdict == "ok"

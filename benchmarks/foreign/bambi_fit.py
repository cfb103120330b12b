"""bambi: NUTS by PyMC, of the whole posterior."""

from typing import Any

import arviz
import bambi
import numpy as np
import pandas as pd

from benchmarks.foreign.mixed_task import MixedTask, main


def fit(task: MixedTask) -> dict[str, Any]:
    """By the package's defaults, two chains."""
    columns = [f"x{j}" for j in range(task.X.shape[1])]
    frame = pd.DataFrame(task.X, columns=columns).assign(y=task.y, g=task.g)
    formula = f"y ~ {' + '.join(columns)} + (1 | g)"
    model = bambi.Model(formula, frame, family=task.family)
    draws = model.fit(chains=2, progressbar=False, random_seed=0)
    posterior = draws["posterior"]
    sd = np.asarray(posterior["1|g_sigma"], float)
    names = ["Intercept", *columns, "1|g_sigma"]
    ess = min(float(arviz.ess(np.asarray(posterior[name], float))) for name in names)
    return {"sd": float(sd.mean()), "sd_error": float(sd.std()), "ess": ess}


if __name__ == "__main__":
    main(fit)

"""Metropolis-Hastings with scalable subsampling (Prado, Nemeth, Sherlock 2024), by ``PyMHSS``.

Called with a folder: ``rows.npz`` has X, y, the optimum, the covariance there, the number of draws
and a seed; ``draws.npy`` is written. The package knows no prior.
"""

import json
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from PyMHSS.algorithms import MH_SS


def main() -> None:
    """Draw by second-order control variates and the package's own settings."""
    folder = Path(sys.argv[1])
    with np.load(folder / "rows.npz") as rows:
        X, y, optimum, cov = (rows[name] for name in ("X", "y", "optimum", "cov"))
        draws, seed = int(rows["draws"]), int(rows["seed"])
    np.random.seed(seed)  # noqa: NPY002 - what the package draws from
    began = perf_counter()
    found = MH_SS(
        y,
        X,
        cov,
        optimum,
        nburn=draws // 10,
        npost=draws,
        model="logistic",
        implementation="vectorised",
        taylor_order=2,
        kappa=2.4,
    )
    seconds = perf_counter() - began
    np.save(folder / "draws.npy", found["parameters"])
    share = draws / (draws + draws // 10)
    kept = share * float(found["cpu_time"])
    rows_read = float(found["BoverN"].sum()) * len(y)
    print(json.dumps({"seconds": kept, "setup": seconds - kept, "rows": rows_read}))


if __name__ == "__main__":
    main()
